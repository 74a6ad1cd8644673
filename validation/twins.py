#!/usr/bin/env python3
"""Runs the commands of twins.toml for real and simulates them, and writes the page of both.

    twins.py SCHEDCAST measure programs|servers FILE [CASE…]   real runs, added to those in FILE
    twins.py SCHEDCAST report programs|servers FILE MACHINE PAGE   simulates every measured case

Both sides are `schedcast run` of the same experiment, so both have the same metrics. Real runs are
for root, alone on the machine: `measure` adds nine repeats to those of earlier sessions. Simulated
programs start at several places between two ticks, under several seeds at each.
"""

import datetime
import json
import pathlib
import platform
import sys
import tomllib

from beside import (
    BACKGROUND, FOLDER, HERTZ, SIMULATED, Tables, ask, chosen, described, file_of, kernel_keys, medians, spread,
)

TABLES = tomllib.loads((FOLDER / "twins.toml").read_text())
SESSIONS, REPEATS = 3, 3
# Bands of times, rates and latencies, and of counts.
VALUE, COUNT = 0.2, 0.1
RATES = ["x/tps", "x/events_per_s", "x/requests_per_s"]


def experiment(case, rest=""):
    """The experiment of a case as TOML: its programs in `/client`, their server in `/server`."""
    words = case["command"]
    served = words.startswith(("pgbench", "wrk", "sysbench oltp"))
    run = words + (" --server-cgroup /server" if served else "")
    text = ""
    for group in ["client", "server"] if served else ["client"]:
        text += f'[cgroup."/{group}"]\n"cpu.weight" = 100\n'
        if "cpus" in case:
            text += f'"cpuset.cpus" = "{",".join(map(str, case["cpus"]))}"\n'
        if "limit" in case and (group == "server") == served:
            text += f'"cpu.max" = "{case["limit"]}"\n'
    return text + f'[[program]]\nname = "x"\nrun = "{run}"\ncgroup = "/client"\n' + rest


def samples(schedcast, verb, text, *words):
    """Metrics of all columns of an experiment, with one sample for each run."""
    with file_of(text) as file:
        variants = ask(schedcast, verb, file, *words)["variants"]
    metrics = {}
    for variant in variants:
        for name, metric in variant["metrics"].items():
            metrics.setdefault(name, []).extend(metric["samples"])
    return metrics


def figures(case, metrics):
    """Values of each quantity of a case; a run without a figure has no value of it."""

    def each(of, *names):
        runs = zip(*(metrics.get(name, []) for name in names))
        return [of(*run) for run in runs if None not in run]

    # What the kernel charged, which the simulation has beside the true times.
    used = "charged_time" if "x/charged_time" in metrics else "cpu_time"
    if "units" in case:
        unit, units = case["unit"], case["units"]
        value = {
            "CPUs used": (lambda cpu_s, time_s: cpu_s / time_s, f"x/{used}", "x/time"),
            "mean latency, µs": (float, "x/latency.avg"),
            "time, s": (float, "x/time"),
            "round trip, µs": (lambda time_s: time_s * 1e6 / units, "x/time"),
        }
        title = case.get("value", "time, s")
        return {
            title: each(*value[title]),
            "CPU time, s": each(float, f"x/{used}"),
            f"switches a {unit}": each(lambda count: count / units, "x/switches"),
            f"wakeups a {unit}": each(lambda count: count / units, "x/wakeups"),
        }
    served = "x-server/cpu_time" in metrics
    count = next(name for name in ("x/requests", "x/latency.count") if name in metrics)
    rate = next(name for name in RATES if name in metrics)
    # A client's CPU time has that of its server in it.
    server_used = [f"x-server/{used}"] * served
    server_wakeups = ["x-server/wakeups"] * served
    return {
        "rate, 1/s": each(float, rate),
        "mean latency, ms": each(lambda us: us / 1000, "x/latency.avg"),
        "client's CPU time, µs": each(
            lambda n, cpu_s, *server_s: (cpu_s - sum(server_s)) * 1e6 / n, count, f"x/{used}", *server_used
        ),
        "server's CPU time, µs": each(lambda n, cpu_s: cpu_s * 1e6 / n, count, f"x-server/{used}"),
        "client's switches": each(lambda n, switches: switches / n, count, "x/switches"),
        "server's switches": each(lambda n, switches: switches / n, count, "x-server/switches"),
        "wakeups": each(lambda n, *wakeups: sum(wakeups) / n, count, "x/wakeups", *server_wakeups),
    }


def measure(schedcast, table, file, names):
    """Adds real runs of the cases, all or those named, to those in `file`."""
    file = pathlib.Path(file)
    stored = json.loads(file.read_text()) if file.exists() else {}
    for case in chosen({case["name"]: case for case in table["case"]}, names):
        print(f"{case['name']}: {case['command']}", file=sys.stderr)
        row = stored.setdefault(case["name"], {"values": {}})
        # Runs of another kernel are no repeats of these.
        if row.get("kernel", platform.release()) != platform.release():
            row = stored[case["name"]] = {"values": {}}
        row["date"], row["kernel"] = str(datetime.date.today()), platform.release()
        for _ in range(SESSIONS):
            metrics = samples(schedcast, "run", experiment(case), "--on", "host", "--seeds", REPEATS)
            for quantity, values in figures(case, metrics).items():
                row["values"].setdefault(quantity, []).extend(values)
        file.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")


def simulated(schedcast, table, case, machine):
    """Values of a case under all seeds, with its start at several places between two ticks."""
    starts = ""
    for phase in range(table["phases"]):
        start_us = 10_000 + phase * 1_000_000 // HERTZ // table["phases"]
        starts += f'[[variant]]\nname = "{phase}"\n[[variant.program]]\nname = "x"\nstart = "{start_us}us"\n'
    words = ["--seeds", table["seeds"], "--machine", described(machine), "--background", BACKGROUND]
    return figures(case, samples(schedcast, "compare", kernel_keys() + experiment(case) + starts, *words))


def digits(value):
    """A value with three to four figures."""
    places = next((places for places, size in enumerate((100, 10, 1)) if abs(value) >= size), 3)
    return f"{value:.{places}f}"


def report(schedcast, table, file, machine, page):
    """Writes the page of all measured cases."""
    stored = json.loads(pathlib.Path(file).read_text())
    tables = Tables()
    for case in table["case"]:
        if case["name"] not in stored:
            continue
        print(f"{case['name']}: {case['command']}", file=sys.stderr)
        ours = simulated(schedcast, table, case, machine)
        limit = f', `cpu.max` "{case["limit"]}"' if "limit" in case else ""
        cpus = ", ".join(map(str, case.get("cpus", [0, 1])))
        about = f"`{case['command']}` on CPU {cpus}{limit}\n\n"
        tables.begin(case["name"], about, "", "real", "simulated", "ratio")
        for quantity, real in stored[case["name"]]["values"].items():
            if not real or not ours[quantity]:
                continue
            measured, predicted = medians(real, ours[quantity])
            band = COUNT if "switches" in quantity or "wakeups" in quantity else VALUE
            ratio = predicted / measured if measured else float("inf")
            cells = [quantity, spread(real, digits), spread(ours[quantity], digits), f"{ratio:.2f}"]
            tables.row(real, ours[quantity], band * measured, *cells)
    dates = ", ".join(sorted({row["date"] for row in stored.values()}))
    kernels = ", ".join(sorted({row["kernel"] for row in stored.values()}))
    text = f"# {table['title']}\n\nWritten by `make twin-pages`. Real: {dates}, Linux {kernels}, 2 CPUs; simulated: "
    text += f"{SIMULATED}, machine `{pathlib.Path(machine).name}`, background "
    text += f"`{BACKGROUND.name}`, {table['seeds']} seeds at each of {table['phases']} places between two ticks.\n\n"
    text += f"{table['about'].strip()}\n\n**{tables.passed} of {tables.compared} figures pass.**\n{tables.text}"
    pathlib.Path(page).write_text(text)


def main():
    """Does what the words say."""
    match sys.argv[1:]:
        case [schedcast, "measure", table, file, *names] if table in TABLES:
            measure(schedcast, TABLES[table], file, names)
        case [schedcast, "report", table, file, machine, page] if table in TABLES:
            report(schedcast, TABLES[table], file, machine, page)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
