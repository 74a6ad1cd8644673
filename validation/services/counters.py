#!/usr/bin/env python3
"""Score the ranges of `schedcast counters` against what services really counted under other limits.

    counters.py --schedcast FILE WORK

WORK is the folder of `make services`. Each recording's counters (`cgroups.json`; its CPU time is that of the recorded run in
`raw.json`, where the recording has none) are asked about every other setting that was measured. A figure is right where the
median of the undisturbed repeats lies in the range, half a percentage point of rounding allowed. Prints a table of both
halves of the bench (`services.toml`), for recordings under a limit and without one.
"""

import argparse
import json
import pathlib
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


def score(schedcast, service, name, total):
    """Adds what one recording of a service comes to."""
    raw = json.loads((service / "raw.json").read_text())
    own = RECORDED[name]
    limits = {label: limit for label, limit in raw["limits"].items() if limit[0] and label != own}
    with tempfile.TemporaryDirectory() as folder:
        group = copy_with_usage(service / name, raw, name, pathlib.Path(folder))
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
    parser.add_argument("work", type=pathlib.Path)
    arguments = parser.parse_args()
    listed = tomllib.loads((HERE / "services.toml").read_text())
    totals = {}
    for service in sorted(path.parent for path in arguments.work.glob("*/raw.json")):
        for name in RECORDED:
            if (service / name / "recording.json").exists():
                half = listed.get(service.name, {}).get("half", "?")
                score(arguments.schedcast, service, name, totals.setdefault((half, name), Score()))
    print("| half | recorded | throttled periods | throttled time | median width | no answer |")
    print("|---|---|---|---|---|---|")
    for (half, name), total in sorted(totals.items()):
        print(total.row(half, "under a limit" if name == "limited" else "without a limit"))


if __name__ == "__main__":
    sys.exit(main())
