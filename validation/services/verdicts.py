#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Hold the verdicts of `check` on limits that were really measured against what the clients saw there.

    verdicts.py [--schedcast FILE] [--seeds N] [--json FILE] FOLDER...

Folders are those of `score.py`. For each recording (from the trace alone) and each measured setting other than the
recorded one, the promises are a p95 and a p99 below 2, 5, 20 and 80 ms. A verdict "kept" is harmful if the median of
the measured repeats breaks the promise. A verdict "broken" is timid if every repeat kept it with a margin of one
half; that is no error of the forecast alone, because the verdict is about the worse end of an interval.
"""

import argparse
import collections
import json
import pathlib
import subprocess

import score

PROMISES_MS = (2, 5, 20, 80)
PERCENTILES = ("p95", "p99")


def columns(measured):
    """Settings as arguments: a column for each measured limit."""
    for setting in measured["settings"]:
        if setting["name"] == "recorded":
            continue
        quota = setting["quota_us"]
        limit = "max" if quota in (None, -1) else str(quota)
        yield setting, ["--variant", setting["name"], "--set", f"cpu.max={limit} {setting['period_us']}", "--set",
                        f"cpu.max.burst={setting['burst_us'] or 0}"]


def verdicts(copy, schedcast, seeds):
    """Yields setting, percentile, promise in ms, verdict and the measured repeats in ms."""
    measured = json.loads((copy / "measured.json").read_text())
    title = json.loads((copy / "recording.json").read_text())["title"]
    known = list(columns(measured))
    command = [schedcast, "check", copy, "--cgroup", title, "--seeds", str(seeds), "--quiet", "--json", "-"]
    for _, arguments in known:
        command += arguments
    promises = [(percentile, limit) for percentile in PERCENTILES for limit in PROMISES_MS]
    for percentile, limit in promises:
        command += ["--slo", f"{percentile}<{limit}ms"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise score.NoForecast(f"{' '.join(map(str, command))}\n{done.stderr}")
    answer, _ = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{"):])
    judged = {column["name"]: column for column in answer["columns"]}
    for setting, _ in known:
        column = judged[setting["name"]]
        for (percentile, limit), forecast in zip(promises, column["forecasts"], strict=True):
            kept = forecast["met"] and column["falls_behind"] is None
            yield setting["name"], percentile, limit, kept, setting[f"request_{percentile}_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--schedcast", default="schedcast")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    rows = []
    for service, name, found in score.each(options.folders, False, lambda copy: list(verdicts(copy, options.schedcast, options.seeds))):
        for setting, percentile, limit, kept, figure in found:
            rows.append({"service": service, "recording": name, "setting": setting, "percentile": percentile,
                         "limit_ms": limit, "kept": kept, "measured": figure})
    counts = collections.Counter()
    for row in rows:
        kept_really = row["measured"]["median"] < row["limit_ms"]
        counts["kept" if row["kept"] else "broken", kept_really] += 1
        counts["timid"] += not row["kept"] and row["measured"]["max"] < row["limit_ms"] / 2
        if row["kept"] and not kept_really:
            print(f"harmful: {row['service']}, {row['recording']}, {row['setting']}: {row['percentile']} < {row['limit_ms']} ms, "
                  f"measured {row['measured']['median']} ({row['measured']['min']} to {row['measured']['max']})")
    print(f"said kept: {counts['kept', True]} were kept, {counts['kept', False]} broken; said broken: "
          f"{counts['broken', False]} were broken, {counts['broken', True]} kept, {counts['timid']} of them below half")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
