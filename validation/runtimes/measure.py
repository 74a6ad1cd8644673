#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure the Go and the Java server of this folder at four limits and four numbers of processors.

    measure.py base NAME --work DIR      one run without a limit: what the model's constants are made of
    measure.py grid NAME --work DIR      what repeat 0, 1, ... (--repeat) lacks of every limit and number of processors

NAME is `go` or `java`. Runs are appended to results/NAME.json. For root, on cgroup v1; two CPUs. The client's schedule
depends on the repeat and the limit alone, so the settings of one limit have the same arrivals. A run is disturbed if
client and other programs used more than 15 % of one CPU, as in ../services/bench.py; it is kept, does not count, and is
repeated at the next call.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "services"))
from bench import OTHERS_SHARE_MAX, Group, machine  # noqa: E402

PORT = 18801
OBJECTS = {"go": 6000, "java": 10000}  # of a request
# Limit in millicores and requests a second. Fixed before anything was measured; no cell is near
# the rate that one processor can just serve.
RATES = {500: 55, 1000: 110, 1500: 135, 2000: 235}
PROCESSORS = (1, 2, 4, 8)
SECONDS = 12
WARM = {"go": (1.5, 150), "java": (5, 150)}  # seconds, requests a second
BASE = {"rate": 110, "seconds": 30, "seed": 100}
JAVA = ["-Xms1g", "-Xmx1g", "-Xmn32m", "-Dsun.net.httpserver.nodelay=true"]
PERCENTILES = (50, 90, 95, 99)


def command(name, processors, work):
    """Words and environment of a server; None = its own choice."""
    if name == "go":
        own = {"GODEBUG": "gctrace=1"}
        if processors:
            own["GOMAXPROCS"] = str(processors)
        return [str(work / "server-go"), str(PORT)], own
    words = ["java", *JAVA, f"-Xlog:gc*,safepoint:file={work / 'gc.log'}:uptime"]
    if processors:
        words.append(f"-XX:ActiveProcessorCount={processors}")
    return [*words, "-cp", str(work), "Server", str(PORT)], {}


def load(work, name, rate, seconds, seed):
    """The latencies of one load in ms, sorted."""
    words = [str(work / "client"), "proto=http", f"port={PORT}", f"out={work / 'log.csv'}", f"rate={rate}",
             f"seconds={seconds}", f"seed={seed}", "connections=64", "sigma=0", "drain=20",
             f"request=1:/w?n={OBJECTS[name]}"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    with open(work / "log.csv.unfinished") as file:
        assert len(file.readlines()) == 1, "requests without a reply"
    with open(work / "log.csv") as file:
        return sorted((int(row["replied_us"]) - int(row["scheduled_us"])) / 1000 for row in csv.DictReader(file))


def log_of(name, work):
    return work / ("gc.log" if name == "java" else "server.log")


def run(work, name, group, limit, processors, rate, seconds, seed):
    mark = log_of(name, work).stat().st_size
    group.limit(None if limit is None else limit * 100)
    before, busy, begin = group.state(), machine(), time.monotonic()
    latencies = load(work, name, rate, seconds, seed)
    after, busy_after, length = group.state(), machine(), time.monotonic() - begin
    group.limit(None)
    row = {"limit": limit, "processors": processors, "rate": rate, "seed": seed, "length_s": round(length, 3)}
    row |= {key: round(after[key] - before[key], 3) for key in after}
    row["steal_s"] = round(busy_after[1] - busy[1], 3)
    row["machine_s"] = round(busy_after[0] - busy[0], 3)
    row["requests"] = len(latencies)
    for one in PERCENTILES:
        row[f"p{one}"] = latencies[max(0, -(-len(latencies) * one // 100) - 1)]
    row["mean"] = round(sum(latencies) / len(latencies), 3)
    with open(log_of(name, work)) as file:
        file.seek(mark)
        lines = file.read().splitlines()
    row["gc"] = [line for line in lines if line.startswith("gc ") or "Pause" in line and "ms" in line]
    print({key: value for key, value in row.items() if key != "gc"}, "collections", len(row["gc"]), flush=True)
    return row


def served(work, name, processors, loads):
    """The runs of one server process."""
    group = Group(f"runtime-{name}")
    group.limit(None)
    words, own = command(name, processors, work)
    with open(work / "server.log", "w") as log:
        server = subprocess.Popen(words, env=os.environ | own, stdout=log, stderr=log, preexec_fn=group.enter)
    try:
        time.sleep(1.5)
        warm, rate = WARM[name]
        load(work, name, rate, warm, 99)
        return [run(work, name, group, limit, processors, *one) for limit, *one in loads]
    finally:
        group.limit(None)
        group.remove()
        server.wait()


def is_disturbed(row):
    return row["machine_s"] - row["usage_ms"] / 1e3 > OTHERS_SHARE_MAX * row["length_s"]


def build(work):
    environment = dict(os.environ, CGO_ENABLED="0")
    for words in (["go", "build", "-o", work / "server-go", "server.go"], ["javac", "-d", work, "Server.java"],
                  ["cc", "-O2", "-o", work / "client", "../services/client.c", "-lm"]):
        subprocess.run(words, cwd=HERE, env=environment, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("base", "grid"))
    parser.add_argument("name", choices=tuple(OBJECTS))
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--processors", type=int, help="of the base run")
    parser.add_argument("--repeat", type=int, default=0)
    options = parser.parse_args()
    work, name = options.work.resolve(), options.name
    build(work)
    file = HERE / "results" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    results = json.loads(file.read_text()) if file.exists() else {"base": [], "grid": []}
    if options.what == "base":
        loads = [(None, BASE["rate"], BASE["seconds"], BASE["seed"])]
        results["base"] += served(work, name, options.processors, loads)
    else:
        done = {(row["seed"], row["processors"]) for row in results["grid"] if not is_disturbed(row)}
        for processors in PROCESSORS:
            loads = [(limit, rate, SECONDS, 1000 * options.repeat + limit) for limit, rate in RATES.items()]
            loads = [load for load in loads if (load[3], processors) not in done]
            if loads:
                results["grid"] += served(work, name, processors, loads)
    print(sum(is_disturbed(row) for row in results["grid"]), "disturbed runs so far")
    rows = {key: ",\n".join(json.dumps(row) for row in results[key]) for key in ("base", "grid")}
    file.write_text('{"base": [\n%s\n], "grid": [\n%s\n]}\n' % (rows["base"], rows["grid"]))


if __name__ == "__main__":
    main()
