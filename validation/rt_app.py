#!/usr/bin/env python3
"""Runs the rt-app files of rt-app-twins for real and simulates them, and writes the page of both.

    rt_app.py SCHEDCAST measure FILE [CASE…]        real runs, three of each, added to those in FILE
    rt_app.py SCHEDCAST report FILE MACHINE PAGE    simulates every measured case
    rt_app.py SCHEDCAST calibration RUNS            what a loop takes against rt-app's calibration

Of every thread the medians of four columns of its log are compared. How long a CPU takes to leave
idling is measured before the real runs of a file, by `schedcast calibrate`: on a virtual machine it
drifts by the hour, and a wakeup latency is little else. Worked example: 19 µs after 5 ms when the
machine was calibrated, 55 three hours later. The simulations take these instead of the machine's
one figure. Real runs are for root, alone on the machine, with cgroups of version 1 or 2.
"""

import contextlib
import datetime
import itertools
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib

from beside import (
    BACKGROUND, FOLDER, SIMULATED, Tables, chosen, described, file_of, kernel_keys, medians, printed, spread,
)

FILES = {path.stem: path for path in sorted((FOLDER / "rt-app-twins").glob("*.json"))}
REPEATS = 3
# Simulated runs of a file; each begins at another place between two ticks.
RUNS = 15
# Columns of the log that are compared, with their place.
COLUMNS = {"run": 2, "period": 3, "slack": 7, "wu_lat": 10}
# A median passes within the larger of these, µs and share; the wakeup latency within its own, µs.
TOLERANCE_US, TOLERANCE, WAKEUP_TOLERANCE_US = 20, 0.1, 30
# A repeat of which the hypervisor took more does not count (crates/base/src/disturbed.rs).
STEAL_MAX = 0.01
ASKED_US = 20_000
LOOP = {
    "tasks": {
        "loop": {
            "cpus": [1], "policy": "SCHED_FIFO", "priority": 50, "loop": -1, "run": ASKED_US,
            "timer": {"ref": "unique", "period": ASKED_US + 1000},
        }
    },
    "global": {
        "duration": 1, "calibration": "CPU1", "default_policy": "SCHED_OTHER", "logdir": "./",
        "log_basename": "calibration",
    },
}  # fmt: skip


def medians_of(log):
    """Medians of the compared columns, the first round left out: that one starts cold."""
    rows = [line.split() for line in log.splitlines()]
    rows = [[float(word) for word in row] for row in rows if len(row) > 10 and row[0].isdigit()][1:]
    return [statistics.median_low(row[place] for row in rows) for place in COLUMNS.values()] if rows else None


def run(file):
    """The logs of one real run by thread, and the share of the machine that the hypervisor took."""

    def ticks():
        return [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]

    # A group of version 1 has no time of its own for real-time threads, and the root has.
    root = next(pathlib.Path("/sys/fs/cgroup").glob("cpu*/cgroup.procs"), None)
    with tempfile.TemporaryDirectory() as folder:
        before = ticks()
        to_root = root and (lambda: root.write_text(str(os.getpid())))
        subprocess.run(["rt-app", file], cwd=folder, check=True, capture_output=True, preexec_fn=to_root)
        spent = [now - then for now, then in zip(ticks(), before)]
        logs = {path.stem: path.read_text() for path in pathlib.Path(folder).glob("*.log")}
    return logs, spent[7] / sum(spent)


def measure(schedcast, into, names):
    """Adds real runs of the files, all or those named, to those in `into`."""
    into = pathlib.Path(into)
    stored = json.loads(into.read_text()) if into.exists() else []
    for file in chosen(FILES, names):
        print(file.stem, file=sys.stderr)
        calibrated = printed(schedcast, "calibrate", "--output", "-")
        states = tomllib.loads(calibrated)["idle"].get("state", [{}])
        runs = []
        while len(runs) < REPEATS:
            logs, steal = run(file)
            if steal <= STEAL_MAX:
                rows = {name.removeprefix("rt-app-"): medians_of(log) for name, log in logs.items()}
                runs.append({name: row for name, row in rows.items() if row})
        row = next((row for row in stored if row["file"] == file.stem), None)
        # Runs of another kernel are no repeats of these.
        if not row or row["kernel"] != platform.release():
            stored = [row for row in stored if row["file"] != file.stem]
            stored.append(row := {"file": file.stem, "runs": [], "idle_exits": []})
        row["date"], row["kernel"] = str(datetime.date.today()), platform.release()
        row["runs"] += runs
        row["idle_exits"] += [states[-1].get("exit_after_stay_ns", [])] * REPEATS
        into.write_text(json.dumps(stored, indent=2))


def simulate(schedcast, file, machine, exits, number):
    """Medians by thread of a simulated run, the `number`-th."""
    text = f'[machine]\npreset = "{machine}"\nbackground = "{BACKGROUND}"\n' + kernel_keys()
    start_ns = 10_000_000 + number * 777_777
    text += f'[[program]]\nname = "rt-app"\nrun = ["rt-app", "{file}"]\nstart = "{start_ns}ns"\n'
    text += f'[run]\nduration = "{start_ns + 3_000_000_000}ns"\n'
    with contextlib.ExitStack() as stack:
        if exits:
            pattern = re.compile(r"^exit_after_stay_ns = .*$", re.MULTILINE)
            drifted = pattern.sub(f"exit_after_stay_ns = {exits}", machine.read_text())
            text = text.replace(str(machine), stack.enter_context(file_of(drifted)))
        experiment = stack.enter_context(file_of(text))
        report = printed(schedcast, "run", experiment, "--format", "tool")
    logs = (log.split(".log <==\n", 1) for log in report.split("==> rt-app-")[1:])
    return {name: row for name, log in logs if (row := medians_of(log))}


def report(schedcast, stored, machine, page):
    """Writes the page of all measured files."""
    stored = {row["file"]: row for row in json.loads(pathlib.Path(stored).read_text())}
    path = described(machine)
    tables = Tables()
    whole = "{:.0f}".format
    for name, file in FILES.items():
        if name not in stored:
            continue
        print(name, file=sys.stderr)
        real = stored[name]["runs"]
        beside = stored[name].get("idle_exits") or [None]
        turns = itertools.islice(itertools.cycle(beside), RUNS)
        ours = [simulate(schedcast, file, path, exits, number) for number, exits in enumerate(turns)]
        tables.begin(name, "", "thread", "column", "real", "simulated", "difference")
        for thread in sorted(real[0]):
            for number, column in enumerate(COLUMNS):
                measured, predicted = (
                    [run[thread][number] for run in side if thread in run] for side in (real, ours)
                )
                cells = [thread, column, spread(measured, whole)]
                if not predicted:
                    tables.verdict(False, *cells, "no rounds", "")
                    continue
                wanted, found = medians(measured, predicted)
                band = WAKEUP_TOLERANCE_US if column == "wu_lat" else max(TOLERANCE_US, abs(wanted) * TOLERANCE)
                tables.row(measured, predicted, band, *cells, spread(predicted, whole), f"{found - wanted:+.0f}")
    first = next(iter(stored.values()))
    beside = ", with the ways out of idling that were measured beside the real ones in turn"
    text = f"""\
# rt-app files, real and simulated

Written by `make twin-pages`. Real: {first["date"]}, Linux {first["kernel"]}, 2 CPUs, \
rt-app 1.0 calibrated at each start; simulated: {SIMULATED}, machine `{machine.rpartition("/")[2]}`, background \
`{BACKGROUND.name}`, {RUNS} runs from other places between two ticks\
{beside if first.get("idle_exits") else ""}. The files are in `validation/rt-app-twins`.

Medians over the rounds of a thread, µs, with (smallest – largest) of the runs, {REPEATS} in each session that was \
measured. A median passes within ±10 %, ±20 µs or the real spread, a wakeup latency within ±30 µs or the real spread.

**{tables.passed} of {tables.compared} figures pass.**
{tables.text}"""
    pathlib.Path(page).write_text(text)


def calibration(runs):
    """Prints in thousandths what a loop takes of what was asked for, after a calibration."""
    ratios = []
    for _ in range(int(runs)):
        with file_of(json.dumps(LOOP), ".json") as file:
            logs, _ = run(file)
        ratios.append(medians_of(logs["calibration-loop-0"])[0] * 1000 / ASKED_US)
        print(round(ratios[-1]))
    print(f"median {statistics.median(ratios):.0f}")


def main():
    """Does what the words say."""
    match sys.argv[1:]:
        case [schedcast, "measure", file, *names]:
            measure(schedcast, file, names)
        case [schedcast, "report", file, machine, page]:
            report(schedcast, file, machine, page)
        case [_, "calibration", runs]:
            calibration(runs)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
