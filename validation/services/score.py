#!/usr/bin/env python3
"""Score forecasts of recorded services against what was really measured.

Each service is a folder with recordings in it (`recordings.tar.zst` that holds `limited/` and
`nolimit/`, or these folders themselves), each with a `measured.json` of all settings, and possibly
the client's logs (`limited.requests.csv.zst`). For each recording, `schedcast what-if --measured`
forecasts every setting that was measured; the recorded setting itself is a re-simulation and does
not count. A forecast is right where it lies inside the band around the measured median, or inside
the range of the repeats:

    request p50 +-15 %, p95 +-30 %, p99 +-50 %       from the client's schedule to the reply
    throttled periods +-25 % or +-3, throttled time +-25 %, CPU usage +-10 %

The order of settings is right where no pair of settings, whose measured ranges of p95 do not
overlap, is forecast the other way round.

    score.py [--schedcast FILE] [--log both|with|without] [--cells] [--json FILE] FOLDER...

The group is the one that the recording's title names. `--log with` gives every recording its client's log as
`requests.csv`, `without` takes it away. `--json` writes every cell, every pair of settings and every warning.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

RECORDINGS = ("limited", "nolimit")
# By column: the measured figure, and the width of the band around it as a share and in its unit.
BANDS = {
    "p50": ("request_p50_ms", 0.15, 0.0),
    "p95": ("request_p95_ms", 0.30, 0.0),
    "p99": ("request_p99_ms", 0.50, 0.0),
    "throttled": ("nr_throttled", 0.25, 3),
    "throttled time": ("throttled_ms", 0.25, 1.0),
    "usage": ("usage_ms", 0.10, 0.0),
}
PERCENTILES = ("p50", "p95", "p99")
# Columns of the table, in order.
COLUMNS = (*BANDS, "order")
# A request's latency as the client sees it, else the nearest thing a recording shows.
LATENCIES = ("request_latency", "reply_latency", "activation_latency")


class NoForecast(Exception):
    """The program gave no answer."""


def unpack(archive, target):
    """Unpacks a tar archive that is packed with zstd."""
    subprocess.run(["tar", "--zstd", "-xf", archive, "-C", target], check=True)


def recordings(folder, scratch):
    """Yields the name and a private copy of each recording of a service."""
    source = folder
    archive = folder / "recordings.tar.zst"
    if archive.exists():
        source = scratch / "unpacked"
        source.mkdir()
        unpack(archive, source)
    for name in RECORDINGS:
        if (source / name / "recording.json").exists():
            copy = scratch / name
            shutil.copytree(source / name, copy)
            yield name, copy


def each(folders, log, of):
    """Yields service, recording and what `of` gives for a copy of it, with the client's log or without; one without
    that log, or without a forecast, is passed over, the latter with a message."""
    for folder in folders:
        with tempfile.TemporaryDirectory() as scratch:
            for name, copy in recordings(folder, pathlib.Path(scratch)):
                if not give_log(folder, name, copy, log):
                    continue
                try:
                    yield folder.name, name, of(copy)
                except NoForecast as error:
                    print(f"{folder.name}, {name}: no forecast\n{error}", file=sys.stderr)


def give_log(folder, name, copy, wanted):
    """Puts the client's log beside a recording, or takes it away; returns whether it could."""
    log = copy / "requests.csv"
    if not wanted:
        log.unlink(missing_ok=True)
        return True
    packed = folder / f"{name}.requests.csv.zst"
    if packed.exists():
        subprocess.run(["zstd", "-dqf", packed, "-o", log], check=True)
    return log.exists()


def forecast(schedcast, recording, seeds):
    """Variants of `what-if --measured` by name."""
    title = json.loads((recording / "recording.json").read_text())["title"]
    command = [schedcast, "what-if", recording, "--measured", "--cgroup", title]
    command += ["--seeds", str(seeds), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoForecast(f"{' '.join(map(str, command))}\n{done.stderr}")
    text = done.stdout
    answer, _ = json.JSONDecoder().raw_decode(text[text.index("{"):])
    variants = {variant["name"]: variant["metrics"] for variant in answer["variants"]}
    return variants, done.stderr + text.partition("{")[0]


@dataclasses.dataclass
class Setting:
    """A setting that was measured and is not the recorded one, with its forecast. `subject` and `latency` stand for the service."""

    name: str
    measured: dict
    metrics: dict
    group: str
    subject: str | None
    latency: str | None
    # A recording may be a little longer or shorter than the measured windows.
    of_window: float

    def percentile(self, percentile):
        """The metric of a percentile and the factor that makes it ms; None where no latency stands for the service."""
        metric = self.metrics.get(f"{self.subject}/{self.latency}.{percentile}")
        return None if metric is None else (metric, milliseconds(metric))

    def throttled(self):
        """The number of throttled periods and the factor that brings it to a measured window."""
        return self.metrics[f"{self.group}/nr_throttled"], self.of_window

    def time(self, name):
        """A time of the group and the factor that makes it ms of a measured window."""
        metric = self.metrics[f"{self.group}/{name}"]
        return metric, milliseconds(metric) * self.of_window


def settings(copy, schedcast, seeds):
    """Every `Setting` of a recording, and what the program said about it."""
    measured = json.loads((copy / "measured.json").read_text())
    about = json.loads((copy / "recording.json").read_text())
    of_window = measured["seconds"] / (about["end_s"] - about["start_s"])
    variants, said = forecast(schedcast, copy, seeds)
    found = []
    for setting in measured["settings"]:
        name = setting["name"]
        # The limit of a recording is called `recorded` in the forecast.
        if name not in variants or name == "recorded":
            continue
        metrics = variants[name]
        group = next(n.split("/nr_periods")[0] for n in metrics if n.endswith("/nr_periods")
                     and "measured" in metrics[n])
        found.append(Setting(name, setting, metrics, group, *subject_of(metrics, group), of_window))
    return found, said


def milliseconds(metric):
    """The factor that makes a metric ms."""
    return {"us": 1e-3, "ms": 1.0, "s": 1e3}[metric["unit"]]


def scaled(metric, factor):
    """The mean of a metric in the unit of the measured figure."""
    return metric["mean"] * factor


def subject_of(metrics, group):
    """The subject and latency that stand for the service: those of its requests, else of the
    threads of the group that use most CPU time, which are the ones `what-if` measures against."""
    for latency in LATENCIES:
        known = [n.split("/" + latency)[0] for n in metrics if n.endswith(f"/{latency}.p95")]
        # Neighbours may have requests, too.
        own = [k for k in known if "measured" in metrics[f"{k}/{latency}.p95"]]
        known = own or (known if latency == "activation_latency" else [])
        known = [k for k in known if metrics.get(f"{k}/{latency}.count", {}).get("mean", 0) >= 20]
        if known:
            return max(known, key=lambda k: metrics.get(f"{k}/cpu_time", {}).get("mean", 0)), latency
    return None, None


def within(value, figure, column):
    """Whether a value lies in the band around the median or in the range of the repeats."""
    _, share, absolute = BANDS[column]
    middle = figure["median"]
    band = max(abs(middle) * share, absolute)
    return abs(value - middle) <= band or figure["min"] <= value <= figure["max"]


def score_one(folder, name, copy, schedcast, seeds, cells, found):
    """Hits and tries of one recording by column; every cell goes into the list `found`."""
    raw = folder / "raw.json"
    usage = json.loads(raw.read_text())["res"] if raw.exists() else {}
    ahead, said = settings(copy, schedcast, seeds)
    found.append({"said": said.strip()})
    hits = {column: [0, 0] for column in COLUMNS}
    forecasts = []
    for one in ahead:
        def count(column, value, figure):
            right = within(value, figure, column)
            hits[column][0] += right
            hits[column][1] += 1
            found.append({"setting": one.name, "column": column, "subject": one.subject, "latency": one.latency, "right": bool(right),
                          "forecast": None if math.isnan(value) else value, **{key: figure[key] for key in ("median", "min", "max")}})
            if cells:
                sign = " " if right else "x"
                print(f"    {sign} {one.name:14} {column:15} {value:12.3f}  measured "
                      f"{figure['median']:.3f} {figure['min']:.3f}..{figure['max']:.3f}")

        # A service without a latency that could stand for it misses all of them.
        for percentile in PERCENTILES:
            forecast_ms = one.percentile(percentile)
            value = math.nan if forecast_ms is None else scaled(*forecast_ms)
            figure = one.measured[BANDS[percentile][0]]
            count(percentile, value, figure)
            if percentile == "p95" and forecast_ms is not None:
                forecasts.append((value, figure, one.name))
        count("throttled", scaled(*one.throttled()), one.measured["nr_throttled"])
        count("throttled time", scaled(*one.time("throttled_usec")), one.measured["throttled_ms"])
        of_setting = usage.get(name_in_raw(one.name, usage), [])
        of_setting = [run for run in of_setting if not run.get("disturbed")] or of_setting
        used = sorted(run["usage_ms"] for run in of_setting if "usage_ms" in run)
        if used:
            middle = (used[(len(used) - 1) // 2] + used[len(used) // 2]) / 2
            figure = {"median": middle, "min": used[0], "max": used[-1]}
            count("usage", scaled(*one.time("usage_usec")), figure)
    for first, (p95, figure, label) in enumerate(forecasts):
        for other_p95, other, other_label in forecasts[first + 1:]:
            if figure["max"] < other["min"] or other["max"] < figure["min"]:
                right = (p95 < other_p95) == (figure["median"] < other["median"])
                hits["order"][1] += 1
                hits["order"][0] += right
                found.append({"setting": f"{label} / {other_label}", "column": "order", "right": right})
    return hits


def name_in_raw(label, usage):
    """The name of a setting in `raw.json`, which calls the limited setting `recorded`."""
    return label if label in usage else "recorded"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--schedcast", default="schedcast")
    parser.add_argument("--log", choices=("both", "with", "without"), default="both")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--cells", action="store_true", help="print every cell, misses with an x")
    options = parser.parse_args()
    everything = []
    logs = {"both": (False, True), "with": (True,), "without": (False,)}[options.log]
    print(f"{'service':24}" + "".join(f"{column:>16}" for column in COLUMNS))
    for wanted in logs:
        total = {column: [0, 0] for column in COLUMNS}
        for folder in options.folders:
            with tempfile.TemporaryDirectory() as scratch:
                for name, copy in recordings(folder, pathlib.Path(scratch)):
                    if not give_log(folder, name, copy, wanted):
                        print(f"{folder.name}, {name}: no client's log")
                        continue
                    cells = []
                    try:
                        hits = score_one(folder, name, copy, options.schedcast, options.seeds, options.cells, cells)
                    except NoForecast as error:
                        print(f"score.py: {folder.name}, {name}: no forecast\n{error}", file=sys.stderr)
                        # Without an answer every cell is missed.
                        cells = [{"said": str(error)}]
                        others = len(json.loads((copy / "measured.json").read_text())["settings"]) - 1
                        hits = {column: [0, 0 if column == "order" else others] for column in COLUMNS}
                    about = {"service": folder.name, "recording": name, "with_log": wanted}
                    everything += [about | cell for cell in cells]
                    for column, (right, tried) in hits.items():
                        total[column][0] += right
                        total[column][1] += tried
                    print(line(f"{folder.name}, {name}", hits), flush=True)
        print(line("all, with log" if wanted else "all, without log", total), flush=True)
    if options.json is not None:
        options.json.write_text("[\n" + ",\n".join(json.dumps(cell) for cell in everything) + "\n]\n")


def line(name, hits):
    return f"{name:24}" + "".join(f"{f'{right} of {tried}':>16}" for right, tried in hits.values())


if __name__ == "__main__":
    main()
