#!/usr/bin/env python3
"""Simulates single-hog.toml on every kernel at every HZ, and the guests that single_hog_guests.py measured, and writes the
page about both.

    single_hog.py SCHEDCAST PAGE GUESTS
"""

import json
import pathlib
import sys

from beside import BACKGROUND, FOLDER, ask

KERNELS = ["5.10", "5.14", "6.1", "6.6", "6.12", "6.18"]
HERTZ = [100, 250, 1000]
THROTTLED = "cgroup:/pod/nr_throttled"
PERIODS = "cgroup:/pod/nr_periods"
# Of guests whose package has no configuration file: that of all others.
GUEST_HERTZ = 250


def compare(schedcast, file, words):
    """Throttled periods and periods of each seed, by column name."""
    # Files in a program's command line are named from where it is started.
    path = FOLDER / file
    compared = ask(schedcast, "compare", path.name, *words, folder=path.parent)
    names = (THROTTLED, PERIODS)
    return {
        variant["name"]: [variant["metrics"][name]["samples"] for name in names]
        for variant in compared["variants"]
    }


def simulate(schedcast):
    """Samples of both metrics by column name."""
    words = []
    for kernel in KERNELS:
        for hertz in HERTZ:
            words += ["--variant", f"{kernel} {hertz}", "--kernel", kernel, "--hz", str(hertz)]
    columns = compare(schedcast, "single-hog.toml", words)
    return {name: column for name, column in columns.items() if " " in name}


def cases(schedcast):
    """Lines about a hog on one of two CPUs for 100 s: alone, with housekeeping, and beside a recorded idle machine."""
    rows = [("alone", ["none"]), ("with housekeeping", []), (f"beside `recordings/{BACKGROUND.name}`", [BACKGROUND])]
    for name, background in rows:
        words = ["--machine", "generic-8", "--cpus", "2", "--kernel", "6.1", "--cgroup", "/pod"]
        words += ["--set", "cpu.max=100000 100000", "--duration", "100s", "--seeds", "30"]
        words += ["--background", *background] if background else []
        words += ["--", "stress-ng", "--cpu", "1", "--taskset", "1", "-t", "100"]
        metrics = ask(schedcast, "run", *words)["variants"][0]["metrics"]
        yield row(name, metrics[THROTTLED]["samples"], metrics[PERIODS]["samples"])


def guest_rows(schedcast, guests):
    """Lines about each guest: what it counted, what is simulated, and whether the mean lies inside the guest's range."""
    for series, guest in sorted(guests.items(), key=lambda pair: [int(part) for part in pair[0].split(".")]):
        hertz = guest["hz"] or GUEST_HERTZ
        words = ["--kernel", guest["version"], "--hz", str(hertz), "--background", "none"]
        columns = compare(schedcast, "guest/single-hog.toml", words)
        for neighbour, column in (("none", "alone"), ("pulse", "beside a pulse")):
            real = [1000 * throttled / periods for throttled, periods in guest["runs"][neighbour]]
            ours = [1000 * part / whole for part, whole in zip(*columns[column])]
            mean, measured = sum(ours) / len(ours), sum(real) / len(real)
            inside = "yes" if min(real) <= mean <= max(real) else "**no**"
            spreads = [f"{min(values):.0f} – {max(values):.0f}" for values in (real, ours)]
            without = [f"{sum(value == 0 for value in values)} of {len(values)}" for values in (real, ours)]
            cells = [guest["version"], str(hertz) + ("" if guest["hz"] else "?"), column]
            cells += [f"{measured:.1f}", spreads[0], without[0], f"{mean:.1f}", spreads[1], without[1], inside]
            yield "| " + " | ".join(cells) + " |"


def row(name, throttled, periods):
    """A line of the table."""
    shares = sorted(1000 * part / whole for part, whole in zip(throttled, periods))
    mean, middle = sum(shares) / len(shares), shares[len(shares) // 2]
    none = sum(share == 0 for share in shares)
    spread = f"{shares[0]:.0f} – {shares[-1]:.0f}"
    cells = [name, f"{mean:.1f}", f"{middle:.1f}", spread, f"{none} of {len(shares)}"]
    return "| " + " | ".join(cells) + " |"


def main(schedcast, page, guests):
    """Writes the page."""
    samples = simulate(schedcast)
    text = (FOLDER / "single-hog.md").read_text()
    runs = sum(len(throttled) for throttled, _ in samples.values())
    table = "\n".join(row(name.replace(" ", " | "), *both) for name, both in samples.items())
    text = text.replace("RUNS", str(runs)).replace("TABLE", table).replace("CASES", "\n".join(cases(schedcast)))
    measured = json.loads(pathlib.Path(guests).read_text())
    pathlib.Path(page).write_text(text.replace("GUESTS", "\n".join(guest_rows(schedcast, measured))))


if __name__ == "__main__":
    main(*sys.argv[1:])
