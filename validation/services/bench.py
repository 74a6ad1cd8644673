#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Install, start, load, record and measure the services of services.toml under several limits.

    bench.py check                       what is missing here
    bench.py install                     installs the Debian packages of the services
    bench.py trial NAME... [--seconds 3] starts, loads and stops; says what it used and how long replies took
    bench.py measure NAME...             every setting, and a recording under a limit and without one
    bench.py live NAME... --limit QUOTA PERIOD BURST   measures one more limit (µs), such as a recommended one

Results are in the folder --work: for each service `raw.json` with every run, and the recordings `limited/` and `nolimit/`
with `measured.json` and the client's log `requests.csv`, as score.py reads them.

A run loads the service for --seconds after a lead of one second. Its percentiles are over the requests that were due in
the window; one without a reply at the window's end counts with its age then. A run is disturbed if the hypervisor took
more than 2 % of the machine, or programs other than service, client and recorder used more than 15 % of one CPU. Disturbed
runs are kept, marked, and repeated up to twice; nothing else decides about a repetition.

The limits follow the service's own demand D, measured in the first run without a limit. For root, on cgroup v1.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
SERVICES = tomllib.loads((HERE / "services.toml").read_text())
PORT = 18700
LEAD_S = 0.7
STEAL_SHARE_MAX = 0.02
OTHERS_SHARE_MAX = 0.15
# A run begins only after this long in which the machine used less than this share of one CPU.
CALM_S = 0.4
CALM_SHARE_MAX = 0.3
CALM_TRIES = 1000
# So many disturbed runs of a setting are repeated.
DISTURBED_MAX = 2
PERCENTILES = (50, 75, 90, 95, 99)
# Name, quota as a share of demand, period in ms, burst as a share of the quota. "recorded" is the
# limit of the recording.
SETTINGS = (
    ("no limit", None, 100, 0.0),
    ("recorded", 1.15, 100, 0.0),
    ("quota x1.3", 1.15 * 1.3, 100, 0.0),
    ("quota x0.83, burst", 0.95, 100, 0.5),
    ("period 20 ms", 1.15, 20, 0.0),
    ("period 200 ms", 1.15, 200, 0.0),
    ("burst 50 %", 1.15, 100, 0.5),
)


class Group:
    """A group of the v1 controllers cpu and cpuacct."""

    def __init__(self, name):
        self.name = f"bench-{name}"
        roots = [pathlib.Path("/sys/fs/cgroup", one) for one in ("cpu", "cpuacct")]
        for root in roots:
            if not (root / "cgroup.procs").exists():
                sys.exit(f"bench.py: {root} is no cgroup v1 controller; this bench needs cpu and cpuacct there")
        self.cpu, self.account = (root / self.name for root in roots)
        for folder in self.folders():
            folder.mkdir(exist_ok=True)

    def folders(self):
        return sorted({self.cpu.resolve(), self.account.resolve()})

    def enter(self):
        for folder in self.folders():
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def limit(self, quota_us, period_us=100_000, burst_us=0):
        def put(file, value):
            (self.cpu / f"cpu.cfs_{file}_us").write_text(str(value))

        put("burst", 0)
        put("quota", -1)
        put("period", period_us)
        if quota_us is not None:
            put("quota", quota_us)
            put("burst", burst_us)

    def state(self):
        stat = dict(line.split() for line in (self.cpu / "cpu.stat").read_text().splitlines())
        return {
            "nr_periods": int(stat["nr_periods"]),
            "nr_throttled": int(stat["nr_throttled"]),
            "throttled_ms": int(stat["throttled_time"]) / 1e6,
            "nr_bursts": int(stat.get("nr_bursts", 0)),
            "burst_ms": int(stat.get("burst_time", 0)) / 1e6,
            "usage_ms": int((self.account / "cpuacct.usage").read_text()) / 1e6,
        }

    def processes(self):
        return [int(one) for one in (self.cpu / "cgroup.procs").read_text().split()]

    def remove(self):
        """Ends what is in the group, first politely, and takes the group away."""
        for kind in (signal.SIGTERM, signal.SIGKILL):
            for _ in range(50):
                for process in self.processes():
                    try:
                        os.kill(process, kind)
                    except ProcessLookupError:
                        pass
                if not self.processes():
                    break
                time.sleep(0.1)
        for folder in self.folders():
            folder.rmdir()


class Service:
    """A running service; use it with `with`."""

    def __init__(self, name, work):
        self.name, self.about, self.work = name, SERVICES[name], work
        self.folder = work / name
        self.client = work / "client"

    def __enter__(self):
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        # Servers that give up root must reach their folder.
        for folder in (data, *data.parents):
            if folder.owner() == "root" and not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o011)
        self.group = Group(self.name)
        self.group.limit(None)
        environment = dict(os.environ, DIR=str(data), PORT=str(PORT), HERE=str(HERE / "servers"))
        with open(self.folder / "server.log", "w") as log:
            self.process = subprocess.Popen(
                ["sh", str(HERE / "servers" / f"{self.name}.sh")], env=environment, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, preexec_fn=self.group.enter, start_new_session=True)
        try:
            self.wait()
            for load in self.about.get("fill", ()):
                self.run_client([*load, "drain=5"])
            warm = self.about.get("warm_seconds", 2)
            self.run_client([*self.about["load"], f"seconds={warm}", "seed=99"])
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self):
        """Waits until the service takes a connection for the third time, a second apart: some start twice."""
        answered = 0
        for _ in range(120):
            time.sleep(0.5)
            if self.process.poll() is not None:
                log = (self.folder / "server.log").read_text()
                sys.exit(f"bench.py: {self.name} ended at its start with {self.process.returncode}:\n{log}")
            try:
                socket.create_connection(("127.0.0.1", PORT), 1).close()
                answered += 1
            except OSError:
                answered = 0
            if answered == 3:
                return
        sys.exit(f"bench.py: {self.name} takes no connections on port {PORT}")

    def client_command(self, options):
        return [str(self.client), f"port={PORT}", f"out={self.folder / 'log.csv'}", *options]

    def run_client(self, options):
        subprocess.run(self.client_command(options), check=True, stdout=subprocess.DEVNULL)

    def __exit__(self, *_):
        self.group.limit(None)
        self.group.remove()
        self.process.wait()
        shutil.rmtree(self.folder / "data", ignore_errors=True)


def machine():
    """CPU time of the machine in s: what somebody used, and what the hypervisor took."""
    fields = [int(one) for one in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq) / tick, steal / tick


def used_by(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def yardstick():
    """How long a fixed computation takes now, in ms of CPU time: says how fast the machine is, whoever slows it down."""
    start = time.process_time()
    sum(range(2_000_000))
    return (time.process_time() - start) * 1e3


def percentile(ordered, percent):
    """By nearest rank."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def rows(path):
    for line in path.read_text().splitlines()[1:]:
        yield [int(one) for one in line.split(",")]


def latencies(log, begin_s, end_s):
    """Latencies that the client saw of requests due in the window."""
    begin, end = begin_s * 1e6, end_s * 1e6
    replies, requests, unfinished = [], [], 0
    for path in (log, log.with_name(log.name + ".unfinished")):
        for _, due, sent, replied, _ in rows(path):
            if not begin <= due < end:
                continue
            if not replied or replied > end:
                unfinished += 1
                replied = end
            requests.append((replied - due) / 1e3)
            if sent and sent <= end:
                replies.append((replied - sent) / 1e3)
    figures = {"requests": len(requests) - unfinished, "unfinished": unfinished}
    for name, values in (("", replies), ("request_", requests)):
        values.sort()
        for percent in PERCENTILES:
            figures[f"{name}p{percent}_ms"] = round(percentile(values, percent), 3) if values else None
    return figures


def slot(options):
    """Runs of a service that is up already, one after the other; prints their figures as a list."""
    order = json.loads(options.order)
    folder = pathlib.Path(order["folder"])
    group = Group.__new__(Group)
    group.name = f"bench-{folder.name}"
    group.cpu, group.account = (pathlib.Path("/sys/fs/cgroup", one, group.name) for one in ("cpu", "cpuacct"))
    busy, _ = machine()
    time.sleep(CALM_S)
    if machine()[0] - busy > CALM_SHARE_MAX * CALM_S:
        print("[]")
        return
    runs = []
    for one in order["runs"]:
        runs.append(run_once(group, folder, order, one))
    print(json.dumps(runs))


def run_once(group, folder, order, one):
    """Loads the service under one limit, and records if that is asked for."""
    yardsticks = [yardstick()]
    group.limit(*one["limit"])
    client = subprocess.Popen(order["client"], stdout=subprocess.PIPE, text=True)
    begin = int(client.stdout.readline()) / 1e9
    recorder, recorder_s = None, 0.0
    if one.get("record"):
        command = [order["schedcast"], "record", "-q", "-o", one["record"], "--cgroup", f"/{group.name}", "--seconds",
                   str(order["seconds"])]
        # It takes about this long until it records.
        time.sleep(max(0, begin + LEAD_S - 0.15 - time.monotonic()))
        recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(max(0, begin + LEAD_S - time.monotonic()))
    start, before, busy, steal, own = time.monotonic(), group.state(), *machine(), used_by(client)
    time.sleep(order["seconds"])
    end, after, busy_end, steal_end, own_end = time.monotonic(), group.state(), *machine(), used_by(client)
    if recorder is not None:
        spent = children_s()
        if recorder.wait() != 0:
            sys.exit(f"bench.py: {' '.join(command)} failed")
        recorder_s = children_s() - spent
    if client.wait() != 0:
        sys.exit("bench.py: the client failed")
    group.limit(None)
    if recorder is not None:
        shutil.copy(folder / "log.csv", pathlib.Path(one["record"]) / "requests.csv")
    yardsticks.append(yardstick())
    run = {name: round(after[name] - before[name], 3) for name in after}
    window = end - start
    cpus = os.cpu_count()
    others = busy_end - busy - run["usage_ms"] / 1e3 - (own_end - own) - recorder_s
    run.update(latencies(folder / "log.csv", start, end), window_s=round(window, 3), client_s=round(own_end - own, 2),
               steal_share=round((steal_end - steal) / window / cpus, 4), others_share=round(others / window, 3),
               yardstick_ms=round(sum(yardsticks) / 2, 2), recorded_run=recorder is not None)
    run["disturbed"] = run["steal_share"] > STEAL_SHARE_MAX or run["others_share"] > OTHERS_SHARE_MAX
    return run


def children_s():
    """CPU time of the children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_slots(service, wanted, options):
    """Runs under limits, each with a folder to record into or None, in a process of their own, inside `--around`."""
    for _, record in wanted:
        if record is not None:
            shutil.rmtree(record, ignore_errors=True)
    client = service.client_command(
        [*service.about["load"], f"seconds={LEAD_S + options.seconds + 0.1}", f"seed={options.seed}", "drain=0.6"])
    order = {"folder": str(service.folder), "seconds": options.seconds, "client": client, "schedcast": options.schedcast,
             "runs": [{"limit": limit, "record": record and str(record)} for limit, record in wanted]}
    command = [*options.around.split(), sys.executable, __file__, "slot", "--order", json.dumps(order)]
    for _ in range(CALM_TRIES):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"bench.py: a run of {service.name} failed")
        runs = json.loads(done.stdout)
        if runs:
            return runs
        time.sleep(1.5)
    sys.exit(f"bench.py: the machine has been busy with other programs for {CALM_TRIES} tries")


def run_slot(service, limit, options):
    return run_slots(service, [(limit, None)], options)[0]


def limits_for(demand_ms):
    """Quota, period and burst of each setting in µs, quotas in steps of 0.1 ms."""
    limits = {}
    for name, share, period_ms, burst in SETTINGS:
        if share is None:
            limits[name] = (None, 100_000, 0)
        else:
            quota = max(1000, round(demand_ms * share * period_ms / 100 * 10) * 100)
            limits[name] = (quota, period_ms * 1000, round(quota * burst))
    return limits


def kept(runs):
    """The runs that count: undisturbed ones, or all if none is."""
    return [run for run in runs if not run["disturbed"]] or runs


def figure(values):
    ordered = sorted(values)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return {"median": middle, "min": ordered[0], "max": ordered[-1], "samples": values}


def write_measured(service, raw):
    """`measured.json` beside each recording; the setting of the recording is called "recorded" there."""
    names = ["nr_periods", "nr_throttled", "throttled_ms", "nr_bursts", "burst_ms", "usage_ms", "requests"]
    names += [f"{kind}p{percent}_ms" for kind in ("", "request_") for percent in PERCENTILES]
    for recording, own in (("limited", "recorded"), ("nolimit", "no limit")):
        settings = []
        for name, (quota, period, burst) in raw["limits"].items():
            runs = kept(raw["res"].get(name, []))
            if not runs:
                continue
            if recording == "nolimit":
                shown = "recorded" if name == own else "limited" if name == "recorded" else name
            else:
                shown = name
            about = {"name": shown, "quota_us": -1 if quota is None else quota, "period_us": period, "burst_us": burst}
            settings.append(about | {key: figure([run[key] for run in runs]) for key in names
                                     if all(run[key] is not None for run in runs)})
        how = "validation/services/bench.py: p*: reply minus send at the client, request_*: reply minus schedule"
        text = {"kernel": platform.release(), "seconds": raw["seconds"], "how": how, "settings": settings}
        folder = service.folder / recording
        if (folder / "recording.json").exists():
            (folder / "measured.json").write_text(json.dumps(text, indent=1) + "\n")


def measure(service, options):
    path = service.folder / "raw.json"
    raw = json.loads(path.read_text()) if path.exists() else None

    def run(batch):
        limits = [(raw["limits"][name], record) for name, record in batch]
        again = []
        for (name, record), one in zip(batch, run_slots(service, limits, options)):
            raw["res"].setdefault(name, []).append(one)
            say(service.name, name, one)
            if one["disturbed"] and len(raw["res"][name]) - len(kept_only(raw["res"][name])) < DISTURBED_MAX:
                again.append((name, record))
        path.write_text(json.dumps(raw, indent=1) + "\n")
        return again

    if raw is None:
        demand = 0.0
        for attempt in range(3):
            first = run_slot(service, (None, 100_000, 0), options)
            say(service.name, "no limit", first)
            demand = first["usage_ms"] / first["window_s"] / 10
            if not first["disturbed"]:
                break
        raw = {"service": service.name, "seconds": options.seconds, "seed": options.seed,
               "demand_ms_in_100": round(demand, 2), "limits": limits_for(demand), "res": {"no limit": [first]}}
    recordings = {"recorded": "limited", "no limit": "nolimit"}
    wanted = [(name, None) for name in raw["limits"]
              for _ in range(options.repeats - len(kept_only(raw["res"].get(name, []))))]
    for name, folder in recordings.items():
        if not (service.folder / folder / "recording.json").exists():
            if (name, None) in wanted:
                wanted.remove((name, None))
            wanted.append((name, service.folder / folder))
    # Each service has an order of its own: it grows older while it is measured.
    random.Random(f"{options.seed} {service.name}").shuffle(wanted)
    while wanted:
        wanted[:0] = run([wanted.pop(0) for _ in range(min(options.batch, len(wanted)))])
    write_measured(service, raw)


def kept_only(runs):
    return [run for run in runs if not run["disturbed"]]


def say(service, name, run):
    print(f"{service:10} {name:20} yardstick {run['yardstick_ms']:5.1f} ms, usage {run['usage_ms'] / run['window_s'] / 10:6.2f} ms in 100, throttled "
          f"{run['nr_throttled']:4} of {run['nr_periods']:4}, {run['throttled_ms']:8.0f} ms; {run['requests']:6} replies, "
          f"{run['unfinished']:5} open; p50 {run['request_p50_ms']}, p95 {run['request_p95_ms']}, p99 "
          f"{run['request_p99_ms']} ms; steal {run['steal_share']}, others {run['others_share']}, client "
          f"{run['client_s']} s{'; disturbed' if run['disturbed'] else ''}", flush=True)


def missing(name):
    return [program for program in SERVICES[name].get("programs", ())
            if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("verb", choices=("check", "install", "trial", "measure", "live", "slot"))
    parser.add_argument("names", nargs="*", help="services [default: all]")
    parser.add_argument("--work", type=pathlib.Path, default=HERE.parent.parent / "target" / "services")
    parser.add_argument("--schedcast", default="schedcast")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, nargs=3, metavar=("QUOTA", "PERIOD", "BURST"))
    parser.add_argument("--around", default="", help="command that every run is started with")
    parser.add_argument("--batch", type=int, default=1, help="runs that are started together, one after the other")
    parser.add_argument("--order", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.verb == "slot":
        return slot(options)
    names = options.names or list(SERVICES)
    for name in names:
        if name not in SERVICES:
            sys.exit(f"bench.py: unknown service `{name}`; there are {', '.join(SERVICES)}")
    if options.verb == "install":
        packages = sorted({one for name in names for one in SERVICES[name].get("packages", ()) if missing(name)})
        if packages:
            # Without services that start by themselves: policy-rc.d of the host decides.
            subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *packages], check=True)
        return None
    lacking = {name: missing(name) for name in names if missing(name)}
    for name, programs in lacking.items():
        packages = SERVICES[name].get("packages")
        hint = f"apt-get install {' '.join(packages)}" if packages else "install its tool chain"
        print(f"bench.py: {name} needs {', '.join(programs)}: {hint}", file=sys.stderr)
    if options.verb == "check" or (options.names and lacking):
        return 1 if lacking else None
    work = options.work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    compiler = shutil.which("cc") or sys.exit("bench.py: the client needs a C compiler: apt-get install gcc libc6-dev")
    subprocess.run([compiler, "-O2", "-Wall", "-o", work / "client", HERE / "client.c", "-lm"], check=True)
    for name in names:
        if name in lacking:
            continue
        with Service(name, work) as service:
            if options.verb == "measure":
                measure(service, options)
            elif options.verb == "trial":
                say(name, "trial", run_slot(service, (None, 100_000, 0), options))
            else:
                quota, period, burst = options.limit
                one = run_slot(service, (quota, period, burst), options)
                say(name, f"live {quota} {period} {burst}", one)
                print(json.dumps(one))
    return None


if __name__ == "__main__":
    sys.exit(main())
