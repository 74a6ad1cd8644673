#!/usr/bin/env python3
"""Score the ranges of `schedcast counters` against what services really counted under other limits.

    counters.py --schedcast FILE WORK

WORK is the folder of `make services`. Each recording's counters (`cgroups.json`; its CPU time is that of the recorded run in
`raw.json`, where the recording has none) are asked about every other setting that was measured. A figure is right where the
median of the undisturbed repeats lies in the range, half a percentage point of rounding allowed. Prints a table of both
halves of the bench (`services.toml`), for recordings under a limit and without one.

With --sampled recordings without a limit also get the `samples.csv` that `record --unprivileged` would have written beside them: what
the group's threads used in every 10 ms by their events, brought to the counter of the run.
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
# Which of the repeats a recording was made beside.
RECORDED = {"limited": "recorded", "nolimit": "no limit"}
ROUNDING = 0.005
SAMPLE_US = 10_000
# A row of `timehist`: end in seconds, CPU, name, thread, three times, of which the last is the run
# time in ms.
ROW = re.compile(r"\s*(\d+\.\d+) \[\d+\]\s+.*\[(\d+)(?:/\d+)?\]\s+\S+\s+\S+\s+(\S+)")


def sample(schedcast, recording, folder):
    """Writes what the recording's group used in each interval: its counter, spread as its events tell."""
    about = json.loads((recording / "recording.json").read_text())
    groups = json.loads((recording / "cgroups.json").read_text())
    group = about["title"]
    threads = set()
    for tree in groups.values():
        for path, files in tree.items():
            if path == group or path.startswith(group + "/"):
                threads.update(files.get("tasks", []))
    begin_us, end_us = about["start_s"] * 1e6, about["end_s"] * 1e6
    used_us = [0.0] * int((end_us - begin_us) // SAMPLE_US)
    rows = subprocess.run([schedcast, "timehist", recording], capture_output=True, text=True, check=True).stdout
    for row in filter(None, map(ROW.match, rows.splitlines())):
        if int(row[2]) not in threads:
            continue
        until = float(row[1]) * 1e6 - begin_us
        at = max(until - float(row[3]) * 1e3, 0.0)
        while at < until and at < len(used_us) * SAMPLE_US:
            index = int(at // SAMPLE_US)
            stop = min(until, (index + 1) * SAMPLE_US)
            used_us[index] += stop - at
            at = max(stop, (index + 1) * SAMPLE_US) if stop < until else until
    counted = json.loads((folder / "cgroups.json").read_text())
    grown_ns = [int(counted[when][group]["cpuacct.usage"]) for when in ("before", "after")]
    scale = (grown_ns[1] - grown_ns[0]) / 1000 / sum(used_us)
    total = 0.0
    with (folder / "samples.csv").open("w") as file:
        file.write("at_us,usage_us\n0,0\n")
        for index, used in enumerate(used_us, 1):
            total += used * scale
            file.write(f"{index * SAMPLE_US},{int(total)}\n")


def copy_with_usage(recording, raw, name, folder):
    """A copy of what `counters` reads, with the CPU time of the recorded run."""
    about = json.loads((recording / "recording.json").read_text())
    groups = json.loads((recording / "cgroups.json").read_text())
    run = next((one for one in raw["res"][RECORDED[name]] if one.get("recorded_run")), None)
    if run and "cpuacct.usage" not in groups["after"][about["title"]]:
        scale = (about["end_s"] - about["start_s"]) / run["window_s"]
        groups["before"][about["title"]]["cpuacct.usage"] = "0"
        groups["after"][about["title"]]["cpuacct.usage"] = str(int(run["usage_ms"] * 1e6 * scale))
    shutil.copy(recording / "recording.json", folder)
    (folder / "cgroups.json").write_text(json.dumps(groups))
    return about["title"]


def ask(schedcast, folder, group, limits):
    """The ranges for each limit by name; `None` where the counters say nothing."""
    command = [schedcast, "counters", folder, "--cgroup", group]
    for name, (quota, period, burst) in limits.items():
        command += ["--variant", name, "--set", f"cpu.max={quota} {period}", "--set", f"cpu.max.burst={burst}"]
    done = subprocess.run([*command, "--json", "-"], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    return {one["name"]: one for one in json.loads(done.stdout)["limits"]}


class Score:
    """Hits, tries and widths of ranges of throttled periods."""

    def __init__(self):
        self.ratio = self.time = self.tries = self.silent = 0
        self.widths = []

    def row(self, *names):
        """A line of the table."""
        width = f"{100 * statistics.median(self.widths):.0f} points" if self.widths else "–"
        hits = [f"{hits} of {self.tries}" for hits in (self.ratio, self.time)]
        return "| " + " | ".join([*names, *hits, width, str(self.silent)]) + " |"


def score(schedcast, service, name, total, is_sampled):
    """Adds what one recording of a service comes to."""
    raw = json.loads((service / "raw.json").read_text())
    own = RECORDED[name]
    limits = {label: limit for label, limit in raw["limits"].items() if limit[0] and label != own}
    with tempfile.TemporaryDirectory() as folder:
        group = copy_with_usage(service / name, raw, name, pathlib.Path(folder))
        if is_sampled:
            sample(schedcast, service / name, pathlib.Path(folder))
        ranges = ask(schedcast, folder, group, limits)
    if ranges is None:
        total.silent += 1
        return
    for label in limits:
        runs = [one for one in raw["res"][label] if not one.get("disturbed") and one["nr_periods"]]
        if not runs:
            continue
        counted = statistics.median(one["nr_throttled"] / one["nr_periods"] for one in runs)
        throttled_ms = statistics.median(one["throttled_ms"] for one in runs)
        low, high = ranges[label]["nr_throttled_ratio"]
        total.ratio += low - ROUNDING <= counted <= high + ROUNDING
        total.widths.append(high - low)
        low, high = ranges[label]["throttled_ms"]
        total.time += low <= throttled_ms <= high
        total.tries += 1


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedcast", required=True)
    parser.add_argument("--sampled", action="store_true")
    parser.add_argument("work", type=pathlib.Path)
    arguments = parser.parse_args()
    listed = tomllib.loads((HERE / "services.toml").read_text())
    totals = {}
    for service in sorted(path.parent for path in arguments.work.glob("*/raw.json")):
        half = listed.get(service.name, {}).get("half", "?")
        kinds = [("under a limit", "limited", False), ("without a limit", "nolimit", False)]
        if arguments.sampled:
            kinds.append(("without a limit, sampled", "nolimit", True))
        for kind, name, is_sampled in kinds:
            if (service / name / "recording.json").exists():
                total = totals.setdefault((half, kind), Score())
                score(arguments.schedcast, service, name, total, is_sampled)
    print("| half | recorded | throttled periods | throttled time | median width | no answer |")
    print("|---|---|---|---|---|---|")
    for (half, kind), total in sorted(totals.items()):
        print(total.row(half, kind))


if __name__ == "__main__":
    sys.exit(main())
