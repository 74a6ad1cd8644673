#!/usr/bin/env python3
"""Take the client out of recorded services, as if it ran on another machine.

What the client sent comes from a network card then: softirqs wake the service while the CPU idles,
and nothing shows a reply. The client's log stays, in microseconds or, as access logs have them, in
whole milliseconds of a wall clock. What was really measured stays the truth, so `score.py` tells
what the trace of the client is worth.

    remote.py [--schedcast FILE] [--milliseconds] --out FOLDER FOLDER...

A CPU is given back to the thread that the client interrupted, or idles for as long as the client
ran there.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

import score

CLIENT = "olc"
# What the wall clock of the written logs is ahead of the trace's, in ns; no whole millisecond.
REALTIME_OFFSET_NS = 1_764_091_889_200_123_456
EVENT = re.compile(r"^(\s*.*?)-(\d+)(\s+\[(\d+)\]\s+\S+\s+([\d.]+): )(\w+): (.*)$")
SWITCH = re.compile(
    r"prev_comm=.*? prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+) ==> "
    r"next_comm=.* next_pid=(\d+) next_prio=\d+"
)
IDLE = "          <idle>-0"


def without_client(lines):
    """Yields the lines of a trace without the threads of the client."""
    lines = list(lines)
    clients = {
        found[1] for line in lines for found in re.finditer(rf"comm={CLIENT} pid=(\d+)", line)
    }
    about = re.compile(rf".*\bpid=({'|'.join(clients)})\b")
    # By CPU: the switch to the client that is under way, and what it interrupted.
    pending = {}
    for line in lines:
        event = EVENT.match(line)
        if line.startswith("#") or not event:
            yield line
            continue
        _, task, head, cpu, _, name, fields = event.groups()
        switch = SWITCH.match(fields) if name == "sched_switch" else None
        if switch is None:
            if not about.match(fields):
                yield f"{IDLE}{head}{name}: {fields}\n" if task in clients else line
            continue
        prev, state, following = switch.groups()
        if following in clients:
            if prev not in clients:
                pending[cpu] = (line, prev, state)
            continue
        if prev not in clients:
            yield line
            continue
        idle = f"swapper/{int(cpu)}"
        first, interrupted, left = pending.pop(cpu, (None, "0", "R"))
        if interrupted == following and (left.startswith("R") or following == "0"):
            continue
        if first is not None and interrupted != "0":
            yield re.sub(r"next_comm=.* next_pid=\d+", f"next_comm={idle} next_pid=0", first)
        if following != "0":
            fields = re.sub(
                r"prev_comm=.*? prev_pid=\d+(.*) prev_state=\S+",
                rf"prev_comm={idle} prev_pid=0\1 prev_state=R",
                fields,
            )
            yield f"{IDLE}{head}{name}: {fields}\n"


def time_of(line):
    """Seconds of a line; -1 of the header."""
    event = EVENT.match(line)
    return -1.0 if line.startswith("#") or not event else float(event[5])


def in_milliseconds(rows):
    """Yields the lines of an access log as nginx writes `$msec $request_time $connection`."""
    for row in rows:
        client, _, sent_us, replied_us = map(int, row.split(",")[:4])
        begin, end = ((us * 1000 + REALTIME_OFFSET_NS) // 1_000_000 for us in (sent_us, replied_us))
        took = end - begin
        yield f"{end // 1000}.{end % 1000:03} {took // 1000}.{took % 1000:03} {client}\n"


def main():
    """Writes a folder of each service."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--schedcast", default="schedcast")
    parser.add_argument("--milliseconds", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    for folder in options.folders:
        target = options.out / folder.name
        target.mkdir(parents=True)
        shutil.copy(folder / "raw.json", target)
        with tempfile.TemporaryDirectory() as scratch:
            for name, source in score.recordings(folder, pathlib.Path(scratch)):
                rewrite(options, folder, name, source, target / name)


def rewrite(options, folder, name, source, target):
    """Writes one recording without its client."""
    target.mkdir()
    text = source / "all.txt"
    command = [options.schedcast, "convert", "--quiet", source, text, "--to", "ftrace-text"]
    subprocess.run(command, check=True)
    with text.open() as lines:
        kept = sorted(without_client(lines), key=time_of)
    (target / "trace.txt").write_text("".join(kept))
    meta = json.loads((source / "recording.json").read_text())
    meta |= {"trace": "trace.txt", "trace_format": "ftrace-text"}
    meta.pop("events", None)
    packed = folder / f"{name}.requests.csv.zst"
    log = subprocess.run(["zstd", "-dcq", packed], check=True, capture_output=True, text=True)
    if options.milliseconds:
        meta["realtime_offset_ns"] = REALTIME_OFFSET_NS
        rows = log.stdout.splitlines()[1:]
        (target / "requests.log").write_text("".join(in_milliseconds(rows)))
    else:
        (target / "requests.csv").write_text(log.stdout)
    (target / "recording.json").write_text(json.dumps(meta))
    for file in ("cgroups.json", "measured.json"):
        shutil.copy(source / file, target)


if __name__ == "__main__":
    main()
