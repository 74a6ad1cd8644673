#!/usr/bin/env python3
"""Simulates CPU limits that were measured earlier, and writes the page of both.

    limits.py SCHEDCAST FILE MACHINE PAGE

A repeat in FILE is a new group with a limit, whose period timer started at any time: growth of its
`cpu.stat` and of the CPU times of its tasks in 4 s, half a second after their start. A `hog`
computes without end on some CPUs, a `beat` is a thread of rt-app that works every period. What its
loops take drifted with the machine, so each repeat is simulated with the work that its own
activations took; the counters are compared, not the work. What a limit does on the kernel of today
is measured by `schedcast validate` (limits.toml, bursts.toml). Worked example: two hogs on two CPUs
under 50 ms of every 100 ms show 40 periods, all throttled, 6 s of throttled time (75 ms a period on
each CPU), and one second of CPU time each.
"""

import json
import pathlib
import sys
import tempfile

from beside import SIMULATED, Tables, described, kernel_keys, medians, spread
from twins import TABLES, samples

SEEDS = 5
FROM_MS, WINDOW_MS = 500, 4000
BEAT = {"duration": 6, "calibration": 1000, "default_policy": "SCHED_OTHER", "logdir": "/tmp"}
CASES = {case["name"]: case for case in TABLES["limits"]["case"]}
# Figures of a repeat: metric of the group, its unit in the repeat, and how far off it may be.
COUNTERS = {
    "nr_periods": ("periods", 1, 0.03),
    "nr_throttled": ("throttled", 1, 0.03),
    "throttled_time, ms": ("throttled_ms", 1000, 0.05),
    "nr_bursts": ("bursts", 1, 0.03),
    "burst_time, ms": ("burst_ms", 1000, 0.05),
}
METRICS = ["nr_periods", "nr_throttled", "throttled_usec", "nr_bursts", "burst_usec"]
CPU_TIME = 0.02


def work_us(repeat):
    """CPU time of an activation of each task in a repeat; 0 for hogs."""
    counts = repeat["activations"] or [0] * len(repeat["cpu_ms"])
    return [ms * 1000 / count if count else 0 for ms, count in zip(repeat["cpu_ms"], counts)]


def simulate(schedcast, case, limit, works, machine, seeds):
    """Counters of the group and CPU times of the tasks in ms, by run: `seeds` for each of `works`."""
    quota_us, period_us, burst_us = limit
    text = kernel_keys() + f'[cgroup."/twins"]\n"cpu.weight" = 10000\n"cpu.max" = "{quota_us} {period_us}"\n'
    text += f'"cpu.max.burst" = {burst_us}\n[run]\nwarmup = "{FROM_MS}ms"\nduration = "{FROM_MS + WINDOW_MS}ms"\n'
    tasks = [task.split() for task in case["tasks"]]
    program = '[[{}program]]\nname = "{}{}"\nrun = {}\ncgroup = "/twins"\n'
    with tempfile.TemporaryDirectory() as folder:
        variants = ""
        for number, work in enumerate(works):
            variants += f'[[variant]]\nname = "{number}"\n'
            for place, (kind, *where) in enumerate(tasks):
                words = ["taskset", "-c", where[-1], "stress-ng", "--cpu", "1", "-t", "9"]
                if kind == "beat":
                    timer = {"ref": "tick", "period": int(where[0])}
                    thread = {"loop": -1, "cpus": [int(where[1])], "run": round(work[place]), "timer": timer}
                    file = pathlib.Path(folder) / f"{number}-{place}.json"
                    file.write_text(json.dumps({"tasks": {f"beat{place}": thread}, "global": BEAT}))
                    words = ["rt-app", str(file)]
                text += program.format("", kind, place, json.dumps(words)) if number == 0 else ""
                variants += program.format("variant.", kind, place, json.dumps(words))
        metrics = samples(schedcast, "compare", text + variants, "--seeds", seeds, "--machine", machine)
    runs = []
    for run in range(len(works) * seeds):
        figures = {of: metrics[f"cgroup:/twins/{metric}"][run] / unit
                   for metric, (of, unit, _) in zip(METRICS, COUNTERS.values())}  # fmt: skip
        figures["cpu_ms"] = [metrics[f"{kind}{place}/charged_time"][run] * 1000
                             for place, (kind, *_) in enumerate(tasks)]  # fmt: skip
        # Tasks that are alike and free to move: which is which does not matter.
        if case["name"] == "crowd":
            figures["cpu_ms"].sort()
        runs.append(figures)
    return runs


def own_works(schedcast, case, repeats, machine):
    """Work of the activations of each repeat less what the simulated kernel charges a task besides,
    ticks above all: the CPU time that was measured has it in it. Seen in runs that no limit stops.
    """
    works = [work_us(repeat) for repeat in repeats]
    if not any(map(any, works)):
        return works
    period_us = case["limit"][1]
    unlimited = (period_us * 2, period_us, 0)
    for work, run in zip(works, simulate(schedcast, case, unlimited, works, machine, 1)):
        for place, (task, charged_ms) in enumerate(zip(case["tasks"], run["cpu_ms"])):
            if work[place]:
                charged_us = charged_ms * int(task.split()[1]) / WINDOW_MS
                work[place] *= min(work[place] / charged_us, 1)
    return works


def whole(value):
    """A value, with one decimal if it is not whole."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"


def rows(case, real, ours):
    """Figures of both sides with what they allow: title, measured, simulated, band."""
    for title, (of, _, band) in COUNTERS.items():
        if case["limit"][2] or "burst" not in title:
            yield title, [one[of] for one in real], [one[of] for one in ours], band
    # The work of a beat is what was measured of it.
    for place, task in enumerate(case["tasks"]):
        if task.startswith("hog"):
            sides = ([one["cpu_ms"][place] for one in side] for side in (real, ours))
            yield f"CPU time of hog{place}, ms", *sides, CPU_TIME


def tasks_of(case, repeats):
    """The tasks of a case in words."""
    words = []
    for place, (kind, *where) in enumerate(task.split() for task in case["tasks"]):
        if kind == "hog":
            words.append("hog on any CPU" if where[0] == "0-1" else f"hog on CPU {where[0]}")
        else:
            work = spread([round(work_us(repeat)[place]) / 1000 for repeat in repeats], whole)
            words.append(f"beat of {work} ms every {int(where[0]) // 1000} ms on CPU {where[1]}")
    return ", ".join(words)


def report(schedcast, file, machine, page):
    """Writes the page of all cases."""
    stored = json.loads(pathlib.Path(file).read_text())
    tables = Tables()
    for row in stored:
        case, real = CASES[row["case"]], row["repeats"]
        print(row["case"], file=sys.stderr)
        works = own_works(schedcast, case, real, described(machine))
        ours = simulate(schedcast, case, case["limit"], works, described(machine), SEEDS)
        quota, period, burst = (f"{us / 1000:g}" for us in case["limit"])
        about = f"Quota {quota} of {period} ms, burst {burst} ms; {tasks_of(case, real)}. "
        about += f"{len(real)} repeats, {row['disturbed']} more disturbed.\n\n"
        tables.begin(row["case"], about, "", "real", "simulated", "ratio")
        for title, measured, predicted, band in rows(case, real, ours):
            middles = medians(measured, predicted)
            ratio = f"{middles[1] / middles[0]:.3f}" if middles[0] else "–"
            cells = [title, spread(measured, whole), spread(predicted, whole), ratio]
            tables.row(measured, predicted, band * middles[0], *cells)
    dates = ", ".join(sorted({row["date"] for row in stored}))
    text = f"""\
# CPU limits, real and simulated: Linux 6.18

Written by `make twin-pages`. Real: {dates}, Linux {stored[0]["kernel"]}, 2 CPUs, HZ 250; simulated: {SIMULATED}, \
machine `{machine}`, random timer phases.

Each repeat is a new group. Counters of `cpu.stat` and CPU times of the tasks are those of {WINDOW_MS // 1000} s in \
the midst of it; every figure is the median with (smallest – largest) of the repeats. *hog* computes without end, \
*beat* is an rt-app thread; what its loops take drifts with the machine, so each repeat is simulated, under five \
seeds, with the work its own activations took. Counts pass within ±3 %, throttled and burst times within ±5 %, CPU \
times within ±2 %, or within the spread of the real repeats. Repeats in which the hypervisor took more than 1 % of \
the machine or other programs more than 3 % do not count.

**{tables.passed} of {tables.compared} figures pass.** Ticks of both CPUs are due at the same moment, and the one whose interrupt \
comes first draws the last runtime of the pool: a race which either wins as often. How late interrupts are is a figure \
of the machine, drawn for each, so the split of a group's CPU time varies as it really does.
{tables.text}"""
    pathlib.Path(page).write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    report(*sys.argv[1:])
