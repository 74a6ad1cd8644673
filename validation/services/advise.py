#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Ask `schedcast advise` for the limits of recorded services, apply them to the running services, and measure.

For each service, after `bench.py measure`, two promises, set by what its client saw and by nothing else:

    from the recording without a limit   p95 below three times the p95 of that run, at least 5 ms
    from the recording under a limit     p99 below half the p99 of that run, at least 20 ms

The limit that `advise` recommends is applied to the running service, and the client measures whether the promise is kept.
`check` judges each recording by two promises of p95: one and a half times what the client saw, which the recorded run keeps,
and two thirds of it, which it breaks. The recordings are used without the client's log, unless --with-log is given.

    advise.py [bench.py's options] [--with-log] [--forecast-only|--apply-only] NAME...     writes WORK/NAME/advice.json
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import bench

TRIES = 2


def ask(options, verb, recording, promise, group):
    """The JSON of a verb, or its message where it gives no answer."""
    command = [options.schedcast, "-q", verb, recording, "--slo", promise, "--cgroup", group, "--json", "-"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return None, "no answer within 600 s", -1
    text = done.stdout
    try:
        answer, _ = json.JSONDecoder().raw_decode(text[text.index("{"):])
    except ValueError:
        answer = None
    return answer, (done.stderr + text.partition("{")[0]).strip(), done.returncode


def promises(raw):
    """Recording, promise and its bound in ms."""
    # The last recorded run is the one on disk.
    seen = {setting: run for setting, runs in raw["res"].items() for run in runs if run["recorded_run"]}
    free = max(5.0, 3 * seen["no limit"]["request_p95_ms"])
    limited = max(20.0, seen["recorded"]["request_p99_ms"] / 2)
    return (("nolimit", "p95", float(f"{free:.3g}")), ("limited", "p99", float(f"{limited:.3g}"))), seen


def forecast(name, raw, options):
    """Advice and its judgement, without a measurement."""
    folder = options.work / name
    group = f"/bench-{name}"
    wanted, seen = promises(raw)
    # CPUs used without a limit, in the median.
    demand = bench.figure([run["usage_ms"] / run["window_s"] / 1e3 for run in bench.kept(raw["res"]["no limit"])])["median"]
    advices, checks = [], []
    for recording, percentile, bound in wanted:
        with tempfile.TemporaryDirectory() as scratch:
            copy = pathlib.Path(scratch) / recording
            shutil.copytree(folder / recording, copy)
            if not options.with_log:
                (copy / "requests.csv").unlink(missing_ok=True)
            answer, said, code = ask(options, "advise", copy, f"{percentile}<{bound}ms", group)
            one = {"recording": recording, "percentile": percentile, "bound_ms": bound, "code": code, "said": said[-600:]}
            if answer is not None:
                one |= {"slo": answer["slos"][0], "recommended": answer["recommended"]}
                for option in answer["options"]:
                    if option["name"] == answer["recommended"]:
                        limit = (option["quota_us"], option["period_us"], option["burst_us"])
                        one["limit"] = limit
                        one["forecast"] = {key: option["forecasts"][0][key] for key in ("mean", "interval", "unit")}
                        if limit[0] is not None:
                            one["below_demand"] = limit[0] / limit[1] < demand
            advices.append(one)
            log_p95 = seen["no limit" if recording == "nolimit" else "recorded"]["request_p95_ms"]
            for share, expected in ((1.5, True), (1 / 1.5, False)):
                answer, said, code = ask(options, "check", copy, f"p95<{share * log_p95:.4g}ms", group)
                checks.append({"recording": recording, "bound_ms": round(share * log_p95, 4), "log_p95_ms": log_p95,
                               "expected": expected, "found": answer and answer["passes"], "code": code,
                               "slo": answer and answer["slos"][0], "said": "" if answer else said[-600:]})
    return {"advices": advices, "checks": checks}


def apply(name, answer, options):
    """Measures every recommended limit on the running service."""
    limits = [one for one in answer["advices"] if one.get("limit") and "measured" not in one]
    if not limits:
        return
    with bench.Service(name, options.work) as service:
        for _ in range(TRIES):
            wanted = [one for one in limits if one.get("measured", {"disturbed": True})["disturbed"]]
            if not wanted:
                break
            for one, run in zip(wanted, bench.run_slots(service, [(one["limit"], None) for one in wanted], options)):
                bench.say(name, f"advised {one['limit']}", run)
                one["measured"] = run
                one["kept"] = run[f"request_{one['percentile']}_ms"] < one["bound_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--work", type=pathlib.Path, default=bench.HERE.parent.parent / "target" / "services")
    parser.add_argument("--schedcast", default="schedcast")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--around", default="")
    parser.add_argument("--with-log", action="store_true")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--forecast-only", action="store_true", help="ask, but apply nothing")
    only.add_argument("--apply-only", action="store_true", help="apply what was advised before")
    options = parser.parse_args()
    options.work = options.work.resolve()
    for name in options.names or [one for one in bench.SERVICES if (options.work / one / "raw.json").exists()]:
        path = options.work / name / "advice.json"
        raw = json.loads((options.work / name / "raw.json").read_text())
        answer = json.loads(path.read_text()) if options.apply_only else forecast(name, raw, options)
        path.write_text(json.dumps(answer, indent=1) + "\n")
        if not options.forecast_only:
            apply(name, answer, options)
            path.write_text(json.dumps(answer, indent=1) + "\n")
        for one in answer["advices"]:
            text = (f"{name:10} {one['recording']:8} {one['percentile']}<{one['bound_ms']} ms: {one.get('limit', 'no advice')} "
                    f"forecast {one.get('forecast')}")
            if "measured" in one:
                text += f" measured {one['measured']['request_' + one['percentile'] + '_ms']} kept {one['kept']}"
            print(text + f" below demand {one.get('below_demand')}", flush=True)
        for one in answer["checks"]:
            print(f"{name:10} {one['recording']:8} check p95<{one['bound_ms']}: {one['found']}, expected {one['expected']}",
                  flush=True)


if __name__ == "__main__":
    sys.exit(main())
