"""Measures what recording costs the recorded tasks: recorder_overhead.py --schedcast FILE [--rounds N].

`perf bench sched pipe` on one CPU makes 100,000 switches a second or more, each with a `sched_waking`
and a `sched_wakeup`. A round runs it without a recorder, under tracefs and under BPF, in an order that
rotates from round to round. The CPU time of its two threads beyond that of the run without a recorder,
divided by the events, is what a recorder costs them; the recorder says itself what it needs. As a
round takes a few seconds, both see nearly the same machine, and the median over many rounds is robust
where other work disturbs some of them. Needs root and perf; the recorder is kept on another CPU.
"""

import argparse
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ARMS = ["none", "tracefs", "bpf"]
# A message there and back: two switches, and for each a sched_waking and a sched_wakeup.
EVENTS_A_LOOP = 6
WORDS = re.compile(r"(\d+) events .*overhead: ([\d.]+) ms.*lost events: (.*?)\n", re.DOTALL)


def bench(loops: int, cpu: int) -> tuple[float, float]:
    """CPU time and length of one run, in seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = ["taskset", "-c", str(cpu), "perf", "bench", "sched", "pipe", "-l", str(loops)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.monotonic() - begun


class Recorder:
    """A recorder beside the runs, or none."""

    def __init__(self, program: str, way: str, cpu: int, folder: Path) -> None:
        self.process, self.way = None, way
        if way == "none":
            return
        words = ["taskset", "-c", str(cpu), program, "record", "-o", str(folder), "--by", way]
        self.process = subprocess.Popen([*words, "--duration", "600s"], stdout=subprocess.PIPE, text=True)
        while not (folder / "trace" / "trace_clock").exists():
            assert self.process.poll() is None, f"the recorder by {way} ended"
            time.sleep(0.01)
        # Between the begin of the files and that of the trace.
        time.sleep(0.5)

    def end(self) -> tuple[float, int]:
        """The recorder's own CPU time an event, ns, and lost events."""
        if self.process is None:
            return 0.0, 0
        self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate()
        found = WORDS.search(said)
        assert found, said
        lost = sum(int(one) for one in re.findall(r"CPU \d+: (\d+)", found[3]))
        return float(found[2]) * 1e6 / int(found[1]), lost


def spread(values: list[float]) -> str:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


def main() -> None:
    """Prints the rows of the table of docs/commands/record.md, and what else its text says."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--schedcast", required=True)
    options.add_argument("--rounds", type=int, default=31)
    options.add_argument("--loops", type=int, default=50_000)
    options.add_argument("--cpu", type=int, default=0, help="of the tasks; the recorder is on another")
    given = options.parse_args()
    events = given.loops * EVENTS_A_LOOP
    other = next(cpu for cpu in sorted(os.sched_getaffinity(0)) if cpu != given.cpu)
    cost: dict[str, list[float]] = {arm: [] for arm in ARMS}
    own: dict[str, list[float]] = {arm: [] for arm in ARMS}
    lost = dict.fromkeys(ARMS, 0)
    rates = []
    bench(given.loops, given.cpu)
    for number in range(given.rounds):
        first = number % len(ARMS)
        used = {}
        for arm in ARMS[first:] + ARMS[:first]:
            with tempfile.TemporaryDirectory() as place:
                recorder = Recorder(given.schedcast, arm, other, Path(place) / "recording")
                used[arm], seconds = bench(given.loops, given.cpu)
                own_ns, gone = recorder.end()
            own[arm].append(own_ns)
            lost[arm] += gone
            if arm != "none":
                rates.append(2 * given.loops / seconds)
        for arm in ARMS:
            cost[arm].append((used[arm] - used["none"]) * 1e9 / events)
        print(f"round {number + 1}: " + ", ".join(f"{arm} {cost[arm][-1]:.0f}" for arm in ARMS[1:]), file=sys.stderr)
    print("| | in the recorded tasks, ns an event | in the recorder, ns an event | lost |\n|---|---:|---:|---:|")
    for arm in ARMS[1:]:
        print(f"| {arm} | {spread(cost[arm])} | {spread(own[arm])} | {lost[arm]} |")
    less = [bpf - tracefs for bpf, tracefs in zip(cost["bpf"], cost["tracefs"], strict=True)]
    cheaper = sum(one < 0 for one in less)
    print(f"\nbpf less tracefs of the same round: {spread(less)}; bpf is cheaper in {cheaper} of {len(less)} rounds")
    print(f"{events} events a run, {statistics.median(rates):.0f} switches a second")


if __name__ == "__main__":
    main()
