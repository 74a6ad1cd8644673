#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Write the tables of docs/validity/services-bench.md from what was measured, forecast and applied.

    page.py keep WORK          takes raw.json and advice.json of every service into results/
    page.py write SCORE PAGE   puts the tables between the marks of the page; SCORE is what `score.py --json` wrote

Everything outside the marks `<!-- tables: NAME -->` and `<!-- end -->` is written by people and stays.
"""

import json
import pathlib
import re
import shutil
import sys

import bench
import score

RESULTS = bench.HERE / "results"


def keep(work):
    RESULTS.mkdir(exist_ok=True)
    for name in bench.SERVICES:
        raw = work / name / "raw.json"
        if not raw.exists():
            continue
        about = json.loads(raw.read_text())
        runs = ",\n".join(f'  {json.dumps(key)}: [\n   ' + ",\n   ".join(json.dumps(run) for run in found) + "\n  ]"
                          for key, found in about.pop("res").items())
        head = json.dumps(about)[1:-1]
        (RESULTS / f"{name}.json").write_text(f'{{{head},\n "res": {{\n{runs}\n }}\n}}\n')
        if (work / name / "advice.json").exists():
            shutil.copy(work / name / "advice.json", RESULTS / f"{name}-advice.json")


def measured():
    for name in bench.SERVICES:
        path = RESULTS / f"{name}.json"
        if path.exists():
            yield name, json.loads(path.read_text())


def table(head, lines):
    return "\n".join(["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines]])


def services():
    """Table of the services and their loads."""
    lines = []
    for name, raw in measured():
        about = bench.SERVICES[name]
        quota, period, _ = raw["limits"]["recorded"]
        lines.append([f"`{name}`", about["half"], about["what"], about["load_what"], f"{raw['demand_ms_in_100']:.0f} ms",
                      f"{quota / 1e3:g} ms"])
    return table(["service", "half", "what it is", "load", "used in 100 ms", "limit recorded"], lines)


def share(cells):
    return f"{sum(cell['right'] for cell in cells)} of {len(cells)}"


def scores(cells, with_log):
    """One line a recording, and one for each half."""
    cells = [cell for cell in cells if cell["with_log"] == with_log and "column" in cell]
    lines = []
    for half in ("seen", "unseen"):
        of_half = [cell for cell in cells if bench.SERVICES[cell["service"]]["half"] == half]
        for name in bench.SERVICES:
            for recording, words in (("limited", "limited"), ("nolimit", "not limited")):
                own = [c for c in of_half if c["service"] == name and c["recording"] == recording]
                if own:
                    lines.append([f"`{name}`, {words}"] + [share([c for c in own if c["column"] == column])
                                                          for column in score.COLUMNS])
        lines.append([f"**{half}**"] + [f"**{share([c for c in of_half if c['column'] == column])}**"
                                        for column in score.COLUMNS])
    head = ["recorded run", "p50", "p95", "p99", "throttled periods", "throttled time", "CPU time", "order"]
    return table(head, lines)


def one_run():
    """How often one real run lies in the bands around the others of its setting: nobody forecasts better from one run."""
    lines = []
    for half in ("seen", "unseen"):
        hits = {column: [0, 0] for column in score.BANDS}
        for name, raw in measured():
            if bench.SERVICES[name]["half"] != half:
                continue
            for runs in map(bench.kept, raw["res"].values()):
                for position, run in enumerate(runs):
                    others = runs[:position] + runs[position + 1:]
                    for column, (key, _, _) in score.BANDS.items() if others else ():
                        hits[column][0] += score.within(run[key], bench.figure([other[key] for other in others]), column)
                        hits[column][1] += 1
        lines.append([half] + [f"{right} of {tried}" + (f" ({right / tried:.0%})" if tried else "") for right, tried in hits.values()])
    return table(["half", "p50", "p95", "p99", "throttled periods", "throttled time", "CPU time"], lines)


def number(value):
    return "none" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def misses(cells, with_log):
    """Every miss."""
    lines = []
    for cell in cells:
        if cell["with_log"] == with_log and "column" in cell and not cell["right"]:
            words = "limited" if cell["recording"] == "limited" else "not limited"
            figures = ["", ""] if cell["column"] == "order" else [
                number(cell["forecast"]), f"{number(cell['median'])} ({number(cell['min'])} to {number(cell['max'])})"]
            lines.append([f"`{cell['service']}`, {words}", cell["setting"], cell["column"], *figures])
    return table(["recorded run", "setting", "figure", "forecast", "measured"], lines)


def advice():
    """Promises applied to the running services."""
    lines, kept, tried, below, agreed, checks = [], 0, 0, 0, 0, 0
    for name, _ in measured():
        path = RESULTS / f"{name}-advice.json"
        if not path.exists():
            continue
        answer = json.loads(path.read_text())
        for one in answer["advices"]:
            recording = "limited" if one["recording"] == "limited" else "not limited"
            row = [f"`{name}`, {recording}", f"{one['percentile']} < {one['bound_ms']:g} ms"]
            if one.get("limit"):
                quota, period, burst = one["limit"]
                limit = "no limit" if quota is None else f"{quota / 1e3:g} in {period / 1e3:g}, burst {burst / 1e3:g}"
                row += [limit, "yes" if one.get("below_demand") else "no"]
                below += bool(one.get("below_demand"))
            else:
                row += ["none", ""]
            if "measured" in one:
                value = one["measured"][f"request_{one['percentile']}_ms"]
                broken = value / one["bound_ms"]
                row += [f"{number(value)} ms", "kept" if one["kept"] else f"broken {broken:.1f} times"]
                tried += 1
                kept += one["kept"]
            else:
                row += ["", ""]
            lines.append(row)
        agreed += sum(one["found"] == one["expected"] for one in answer["checks"])
        checks += len(answer["checks"])
    head = ["recorded run", "promise", "limit advised, ms", "below demand", "measured", "promise"]
    return (f"{kept} of {tried} promises were kept; {below} limits were below mean demand; {agreed} of {checks} verdicts of "
            f"`check` on the recordings agree with the client's log.\n\n" + table(head, lines))


def write(found, page):
    cells = json.loads(found.read_text())
    tables = {
        "services": services(),
        "without log": scores(cells, False),
        "with log": scores(cells, True),
        "one run": one_run(),
        "misses": misses(cells, False),
        "advice": advice(),
    }
    text = page.read_text()
    for name, content in tables.items():
        mark = re.compile(rf"(<!-- tables: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not mark.search(text):
            sys.exit(f"page.py: {page} has no mark `<!-- tables: {name} -->`")
        text = mark.sub(lambda match: match[1] + "\n" + content + "\n\n" + match[2], text)
    page.write_text(text)


def main():
    match sys.argv[1:]:
        case ["keep", work]:
            keep(pathlib.Path(work))
        case ["write", found, page]:
            write(pathlib.Path(found), pathlib.Path(page))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
