#!/usr/bin/env python3
"""Simulates single-hog.toml on every kernel at every HZ and writes the page about it.

    single_hog.py SCHEDCAST PAGE
"""

import json
import pathlib
import subprocess
import sys

KERNELS = ["5.10", "5.14", "6.1", "6.6", "6.12", "6.18"]
HERTZ = [100, 250, 1000]
THROTTLED = "cgroup:/pod/nr_throttled"
PERIODS = "cgroup:/pod/nr_periods"
FOLDER = pathlib.Path(__file__).parent


def simulate(schedcast):
    """Samples of both metrics by column name."""
    command = [schedcast, "-q", "compare", str(FOLDER / "single-hog.toml"), "--json", "-"]
    for kernel in KERNELS:
        for hertz in HERTZ:
            command += ["--variant", f"{kernel} {hertz}", "--kernel", kernel, "--hz", str(hertz)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    names = (THROTTLED, PERIODS)
    return {
        variant["name"]: [variant["metrics"][name]["samples"] for name in names]
        for variant in answer["variants"]
        if " " in variant["name"]
    }


def row(name, throttled, periods):
    """A line of the table."""
    shares = sorted(1000 * part / whole for part, whole in zip(throttled, periods))
    mean, middle = sum(shares) / len(shares), shares[len(shares) // 2]
    none = sum(share == 0 for share in shares)
    kernel, hertz = name.split()
    spread = f"{shares[0]:.0f} – {shares[-1]:.0f}"
    cells = [kernel, hertz, f"{mean:.1f}", f"{middle:.1f}", spread, f"{none} of {len(shares)}"]
    return "| " + " | ".join(cells) + " |"


def main(schedcast, page):
    """Writes the page."""
    samples = simulate(schedcast)
    text = (FOLDER / "single-hog.md").read_text()
    runs = sum(len(throttled) for throttled, _ in samples.values())
    table = "\n".join(row(name, *both) for name, both in samples.items())
    pathlib.Path(page).write_text(text.replace("RUNS", str(runs)).replace("TABLE", table))


if __name__ == "__main__":
    main(*sys.argv[1:])
