#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Hold forecasts of `go-server` and `java-server` against what measure.py measured.

    score.py base            forecasts of the base runs, which the constants are made of
    score.py grid            all cells: p50 within 10 %, throttled periods within 25 % or 3, order of settings by p95

The constants below were written down from the base runs before any cell of the grid was looked at.
"""

import argparse
import csv
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

from measure import is_disturbed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MACHINE = ROOT / "docs/validation/zen4-machine.toml"
SECONDS = {"base": 30, "grid": 12}
# `work` is chosen so that the base run's CPU time comes out (two processors, no limit); all others
# are means of the base run's log. `collect-serial` is the mean pause of the base run with one
# processor.
FLAGS = {
    "go": "--work 5212 --alloc 1406 --live 38 --trigger 73 --mark 16100 --stw 353",
    "java": "--work 4948 --alloc 2601 --young 32 --survivors 3 --collect 4270 --collect-serial 1850",
}
TIMES = ("--work", "--mark", "--stw", "--collect", "--collect-serial")
PROCESSORS = {"go": "--gomaxprocs", "java": "--processors"}
MASK = (1 << 64) - 1


def arrivals(seed, rate, seconds):
    """The schedule of ../services/client.c, in µs."""
    state, at = seed, 0.0

    def draw():
        nonlocal state
        state = state + 0x9E3779B97F4A7C15 & MASK
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return z ^ z >> 31

    while True:
        at -= math.log(((draw() >> 11) + 0.5) / 9007199254740992.0) * 1e9 / rate
        if at >= seconds * 1e9:
            return
        draw()
        yield int(at / 1000)


def forecast(options, name, row, seconds, folder, slower=1.0):
    log = folder / f"{row['seed']}-{row['rate']}.csv"
    if not log.exists():
        lines = "".join(f"0,{at},{at},{at}\n" for at in arrivals(row["seed"], row["rate"], seconds))
        log.write_text("client,scheduled_us,sent_us,replied_us\n" + lines)
    processors = row["processors"] or 2
    flags = FLAGS[name].split()
    flags = [str(round(int(flag) * slower)) if before in TIMES else flag for before, flag in zip(["", *flags], flags)]
    limit = "max" if row["limit"] is None else str(row["limit"] * 100)
    words = [options.schedcast, "run", "-q", "--machine", str(options.machine), "--kernel", "6.18", "--seeds",
             str(options.seeds), "--cgroup", "/server", "--set", f"cpu.max={limit} 100000", "--json", "-", "--",
             f"{name}-server", "--schedule", str(log), "--demand", "fixed", *flags, PROCESSORS[name],
             str(processors)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    metrics = json.loads(done.stdout)["variants"][0]["metrics"]

    def mean(metric, scale=1.0):
        return metrics[metric]["mean"] * scale if metric in metrics else 0.0

    figures = {f"p{one}": mean(f"{name}-server/latency.p{one}", 1e-3) for one in (50, 95, 99)}
    figures["usage_ms"] = mean(f"{name}-server/charged_time", 1e3)
    if options.own_time and slower == 1.0:
        return forecast(options, name, row, seconds, folder, row["usage_ms"] / figures["usage_ms"])
    figures["nr_throttled"] = mean("cgroup:/server/nr_throttled")
    return figures


def is_near(forecast, measured, share, least=0.0):
    return abs(forecast - measured) <= max(share * measured, least)


def base(options, folder):
    for name in FLAGS:
        for row in json.loads((HERE / f"results/{name}.json").read_text())["base"]:
            figures = forecast(options, name, row, SECONDS["base"], folder)
            shown = ", ".join(f"{key} {value:.2f} ({row[key]:.2f})" for key, value in figures.items())
            print(f"{name}, {row['processors'] or 'default'} processors: forecast (measured): {shown}")


def grid(options, folder):
    score = {}
    for name in FLAGS:
        cells = {}
        for row in json.loads((HERE / f"results/{name}.json").read_text())["grid"]:
            if is_disturbed(row):
                continue
            pair = (row, forecast(options, name, row, SECONDS["grid"], folder))
            cells.setdefault((row["limit"], row["processors"]), []).append(pair)
        print(f"\n| {name}: limit | processors | p50, ms | measured | p95, ms | measured | throttled | measured | CPU time, s "
              "| measured |\n|---|---|---|---|---|---|---|---|---|---|")
        right = {"p50": 0, "throttled": 0, "p95": 0}
        means = {}
        for key, pairs in sorted(cells.items()):
            real, sim = ([pair[side] for pair in pairs] for side in (0, 1))
            f = {one: statistics.mean(row[one] for row in sim) for one in sim[0]}
            m = {one: statistics.mean(row[one] for row in real) for one in f}
            span = {one: (min(row[one] for row in real), max(row[one] for row in real)) for one in f}
            means[key] = f, m, span
            good = {"p50": is_near(f["p50"], m["p50"], 0.1), "p95": is_near(f["p95"], m["p95"], 0.3),
                    "throttled": is_near(f["nr_throttled"], m["nr_throttled"], 0.25, 3)}
            for one in right:
                right[one] += good[one]
            mark = {one: "" if good[one] else " ✗" for one in good}

            def shown(one, digits):
                return f"{m[one]:.{digits}f} ({span[one][0]:.{digits}f} to {span[one][1]:.{digits}f})"

            print(f"| {key[0]}m | {key[1]} | {f['p50']:.2f}{mark['p50']} | {shown('p50', 2)} | {f['p95']:.1f}{mark['p95']} "
                  f"| {shown('p95', 1)} | {f['nr_throttled']:.1f}{mark['throttled']} | {shown('nr_throttled', 0)} "
                  f"| {f['usage_ms'] / 1e3:.2f} | {m['usage_ms'] / 1e3:.2f} ({span['usage_ms'][0] / 1e3:.2f} to "
                  f"{span['usage_ms'][1] / 1e3:.2f}) |")
        # Order: settings of one limit whose measured p95 do not overlap; best: the forecast best's
        # measured p95 overlaps that of the measured best.
        pairs = wrong = best = 0
        limits = sorted({limit for limit, _ in means})
        for limit in limits:
            own = {key: value for key, value in means.items() if key[0] == limit}
            for (_, one), (_, other) in itertools.combinations(own.items(), 2):
                low, high = sorted((one, other), key=lambda cell: cell[1]["p95"])
                if low[2]["p95"][1] < high[2]["p95"][0]:
                    pairs += 1
                    wrong += low[0]["p95"] >= high[0]["p95"]
            chosen = min(own.values(), key=lambda cell: cell[0]["p95"])
            truly = min(own.values(), key=lambda cell: cell[1]["p95"])
            best += chosen[2]["p95"][0] <= truly[2]["p95"][1]
        score[name] = (f"p50 {right['p50']} of {len(means)}, throttled periods {right['throttled']}, p95 (30 %) {right['p95']}, "
                       f"best setting {best} of {len(limits)}, order {pairs - wrong} of {pairs}")
    print()
    for name, text in score.items():
        print(f"{name}: {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("base", "grid"))
    parser.add_argument("--schedcast", default=str(ROOT / "target/release/schedcast"))
    parser.add_argument("--machine", default=MACHINE)
    parser.add_argument("--own-time", action="store_true", help="no score, but its reason: times of the model are multiplied so "
                        "that each run has the CPU time that was measured in it")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"base": base, "grid": grid}[options.what](options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
