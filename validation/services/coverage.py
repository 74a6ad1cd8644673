#!/usr/bin/env python3
"""Count how often what was really measured lies in the interval that `what-if` prints for one run.

    coverage.py [--schedcast FILE] [--log with|without] [--seeds N] [--json FILE] FOLDER...

Folders are those of `score.py`. For every setting but the recorded one, each measured repeat is one try: it is
covered if it lies in `one_run95`, the interval of one more run, of the forecast. Of 100 runs, 95 should.
"""

import argparse
import json
import pathlib

import score

FIGURES = (*score.PERCENTILES, "throttled", "throttled time")


def interval(metric, factor):
    """The interval of one run of a metric, in the unit of the measured figure."""
    low, high = metric["one_run95"]
    return low * factor, high * factor


def tries(copy, schedcast, seeds):
    """Yields setting, figure, interval and the measured repeats."""
    for one in score.settings(copy, schedcast, seeds)[0]:
        for percentile in score.PERCENTILES:
            forecast_ms = one.percentile(percentile)
            if forecast_ms is not None:
                yield one.name, percentile, interval(*forecast_ms), one.measured[f"request_{percentile}_ms"]["samples"]
        yield one.name, "throttled", interval(*one.throttled()), one.measured["nr_throttled"]["samples"]
        yield one.name, "throttled time", interval(*one.time("throttled_usec")), one.measured["throttled_ms"]["samples"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--schedcast", default="schedcast")
    parser.add_argument("--log", choices=("with", "without"), default="with")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    rows = []
    found = score.each(options.folders, options.log == "with", lambda copy: list(tries(copy, options.schedcast, options.seeds)))
    for service, name, of_recording in found:
        for setting, figure, (low, high), samples in of_recording:
            for value in samples:
                where = "inside" if low <= value <= high else "below" if value < low else "above"
                rows.append({"service": service, "recording": name, "setting": setting, "figure": figure,
                             "low": low, "high": high, "measured": value, "where": where})
    print(f"{'':16}{'inside':>12}{'below':>8}{'above':>8}")
    for figure in FIGURES:
        own = [row["where"] for row in rows if row["figure"] == figure]
        inside, below, above = (own.count(where) for where in ("inside", "below", "above"))
        print(f"{figure:16}{f'{inside} of {len(own)}':>12}{below:>8}{above:>8}")
    if options.json is not None:
        options.json.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
