#!/usr/bin/env python3
"""Counts stars of comparisons without an effect and with one of known size, and writes the page about them.

    null_test.py SCHEDCAST PAGE

Null: the same kernel with one price a nanosecond higher. Effect: one price so much higher that the headline metric changes by
three chaos floors. How much higher is found with 200 draws that the tested comparisons do not use, so nothing is tuned
to the star.
"""

import pathlib
import sys

from beside import FOLDER, ask, file_of

# Command, its headline metric, a price that it pays often while that is measured, and its CPUs.
# hackbench measures from when all its processes are forked, so its time does not depend on
# `fork_ns`.
LOADS = [
    ("hackbench -g 1 -l 20", "hackbench/time", "syscall_ns", 4),
    ("hackbench -p -g 2 -l 10", "hackbench/time", "syscall_ns", 4),
    ("perf bench sched pipe -l 500", "perf-bench-pipe/time", "wakeup_ns", 2),
    ("schbench -m 1 -t 4 -r 1", "schbench/wakeup_latency.p99", "context_switch_ns", 4),
    ("cyclictest -t 4 -i 1000 -l 100 -q", "cyclictest/latency.avg", "timer_interrupt_ns", 4),
]
KERNELS = ["6.1", "6.6", "6.12", "6.18"]
PRICES = [
    "context_switch_ns",
    "context_switch_thread_ns",
    "wakeup_ns",
    "enqueue_level_ns",
    "tick_ns",
    "ipi_send_ns",
    "ipi_receive_ns",
    "timer_interrupt_ns",
    "syscall_ns",
    "balance_cpu_ns",
]
# Of generic-8.
NOMINAL = {
    "context_switch_ns": 1300,
    "context_switch_thread_ns": 1000,
    "wakeup_ns": 500,
    "enqueue_level_ns": 200,
    "tick_ns": 800,
    "ipi_send_ns": 200,
    "ipi_receive_ns": 410,
    "timer_interrupt_ns": 700,
    "syscall_ns": 200,
    "balance_cpu_ns": 60,
}
# Most seeds that a comparison takes of itself, and the further draws that a true effect is found
# with.
TESTED_SEEDS = 40
OTHER_SEEDS = 200
FLOORS = 3


def compare(schedcast, load, kernel, variants, seeds=None):
    """The comparison of a load with its variants: pairs of a price and its value."""
    command, _, _, cpus = load
    settings = f'[machine]\ncpus = {cpus}\n[kernel]\nversion = "{kernel}"\n'
    program = f'[[program]]\nrun = "{command}"\n[[variant]]\nname = "as it is"\n'
    words = ["--seeds", seeds] if seeds else []
    for number, (price, value) in enumerate(variants):
        words += ["--variant", number, "--set", f"machine.cost.{price}={value}"]
    with file_of(settings + program) as file:
        return ask(schedcast, "compare", file, *words)


def changes(answer, metric):
    """The metric's change in each variant but the first, and the baseline's chaos floor."""
    summaries = [variant["metrics"][metric] for variant in answer["variants"]]
    return [summary["vs_baseline"] for summary in summaries[1:]], summaries[0]["chaos_floor"]


def true_change(schedcast, load, kernel, price, value):
    """Change of the metric in draws that no tested comparison has."""
    answer = compare(schedcast, load, kernel, [(price, value)], TESTED_SEEDS + OTHER_SEEDS)
    before, after = (one["metrics"][load[1]]["samples"][TESTED_SEEDS:] for one in answer["variants"])
    return sum(after) / sum(before) - 1


def dearer(schedcast, load, kernel, wanted):
    """Price at which the metric changes as wanted, as a ratio, and the change at that price."""
    price = load[2]
    more = 1.0
    for _ in range(3):
        change = true_change(schedcast, load, kernel, price, round(NOMINAL[price] * (1 + more)))
        if change <= 0:
            sys.exit(f"{load[0]}: {price} does not make it slower")
        if abs(change / wanted - 1) < 0.1:
            break
        more *= wanted / change
    return more, change


def main(schedcast, page):
    """Writes the page."""
    lines, stars, seen, nulls, effects = [], 0, 0, 0, 0
    for kernel in KERNELS:
        for load in LOADS:
            command, metric, dear, _ = load
            null = [(price, NOMINAL[price] + 1) for price in PRICES]
            answer = compare(schedcast, load, kernel, null)
            found, floor = changes(answer, metric)
            starred = sum(change["significant"] for change in found)
            more, true = dearer(schedcast, load, kernel, FLOORS * floor)
            prices = [(dear, round(NOMINAL[dear] * (1 + more * (1 + 0.02 * step)))) for step in range(10)]
            tested = compare(schedcast, load, kernel, prices)
            effect, _ = changes(tested, metric)
            right = sum(one["significant"] and one["ratio"] > 1 for one in effect)
            cells = [f"`{command}`", kernel, f"{answer['seeds']}, {tested['seeds']}", f"{100 * floor:.2f} %"]
            cells += [f"{starred} of {len(found)}", f"`{dear}` +{100 * more:.1f} %", f"{100 * true:.2f} %"]
            cells += [f"{right} of {len(effect)}"]
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
            stars, nulls = stars + starred, nulls + len(found)
            seen, effects = seen + right, effects + len(effect)
            text = (FOLDER / "null-test.md").read_text().replace("TABLE", "\n".join(lines))
            text = text.replace("NULLS", f"{stars} of {nulls}").replace("EFFECTS", f"{seen} of {effects}")
            pathlib.Path(page).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
