"""Records a node with two pods: record.py SCHEDCAST FOLDER. As root, on a machine that is no node.

Kubelet's groups and log folders are made as its cgroupfs driver makes them, and taken away again:

* `shop/checkout-6f9c` answers six clients of the ingress in the container `app`, limit 300m. Each
  client asks every 0.23 s, and an answer takes 8 ms of CPU time: 48 ms at once, of 30 ms in every
  100 ms. The container `log` beside it has no limit, and so the pod has none.
* `shop/reports-58d7`, container `worker`, limit 500m, computes 90 ms, then sleeps as long.

The trace is packed, so that the folder is small.
"""

import gzip
import hashlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PERIOD_US = 100_000
# Uid, and the quota of each container in every period.
PODS = {
    "checkout-6f9c": ("2f7b0c1e-8a44-4d0b-9c55-5d1f0a3e7b61", {"app": 30_000, "log": None}),
    "reports-58d7": ("b9d3e5a2-1c07-4f6e-8e2b-77a4c0d91f38", {"worker": 50_000}),
}
LOGS = [Path("/var/log/pods"), Path("/var/log/containers")]
CLIENTS, EVERY_S, ANSWER_S, REPORT_S = 6, 0.23, 0.008, 0.09


def compute(seconds: float) -> None:
    """Takes so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def start(name: str, group: Path, work: object, *arguments: object) -> int:
    """A process of this name in the group, which does the work until it is ended."""
    child = os.fork()
    if child == 0:
        Path("/proc/self/comm").write_text(name)
        (group / "cgroup.procs").write_text("0")
        work(*arguments)
        os._exit(0)
    return child


def answer(connections: list[socket.socket]) -> None:
    """A server of one thread."""
    while True:
        for one in select.select(connections, [], [])[0]:
            one.recv(1)
            compute(ANSWER_S)
            one.send(b"!")


def ask(connection: socket.socket) -> None:
    """A client with a connection of its own."""
    due = time.monotonic()
    while True:
        due += EVERY_S
        time.sleep(max(0, due - time.monotonic()))
        connection.send(b"?")
        connection.recv(1)


def report() -> None:
    """A worker that nobody waits for."""
    while True:
        compute(REPORT_S)
        time.sleep(REPORT_S)


def rotate() -> None:
    """A helper beside a service."""
    while True:
        compute(0.001)
        time.sleep(EVERY_S)


def make(group: Path, quota_us: int | None) -> Path:
    """A group, with a limit if there is one."""
    group.mkdir()
    version_2 = (group / "cgroup.controllers").exists()
    if version_2:
        (group.parent / "cgroup.subtree_control").write_text("+cpu")
    if quota_us and version_2:
        (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    elif quota_us:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))
    return group


def outweigh(groups: list[Path]) -> None:
    """What else this machine does hardly keeps them waiting."""
    for group in groups:
        for file, most in [("cpu.weight", 10_000), ("cpu.shares", 262_144)]:
            if (group / file).exists():
                (group / file).write_text(str(most))


def pack(folder: Path, schedcast: str) -> None:
    """The trace as packed text. Of executed files the name is enough."""
    text = folder / "trace.txt"
    subprocess.run([schedcast, "convert", folder, text], check=True)
    shutil.rmtree(folder / "trace")
    short = re.sub(r"filename=\S*/", "filename=", text.read_text())
    (folder / "trace.txt.gz").write_bytes(gzip.compress(short.encode(), mtime=0))
    text.unlink()
    meta = json.loads((folder / "recording.json").read_text())
    meta |= {"title": "a node with two pods", "trace": "trace.txt.gz", "trace_format": "ftrace-text"}
    (folder / "recording.json").write_text(json.dumps(meta, indent=1) + "\n")


def main() -> None:
    """Makes the node, records five seconds of it and takes it away."""
    schedcast, folder = sys.argv[1], Path(sys.argv[2])
    tree = Path("/sys/fs/cgroup/cpu")
    tree = tree if tree.exists() else Path("/sys/fs/cgroup")
    made, started = [], []
    for one in LOGS:
        one.mkdir()
    try:
        for name in ["node.slice", "kubepods", "kubepods/burstable"]:
            made.append(make(tree / name, None))
        outweigh(made[:2])
        groups = {}
        for pod, (uid, quotas) in PODS.items():
            limited = None not in quotas.values()
            whole = made[2] / f"pod{uid}"
            made.append(make(whole, sum(quotas.values()) if limited else None))
            (LOGS[0] / f"shop_{pod}_{uid}").mkdir()
            for container, quota_us in quotas.items():
                identity = hashlib.sha256(f"{uid} {container}".encode()).hexdigest()
                groups[container] = make(whole / identity, quota_us)
                made.append(groups[container])
                (LOGS[1] / f"{pod}_shop_{container}-{identity}.log").touch()
        pairs = [socket.socketpair() for _ in range(CLIENTS)]
        started.append(start("checkout", groups["app"], answer, [there for there, _ in pairs]))
        started += [start("ingress", made[0], ask, here) for _, here in pairs]
        started.append(start("log", groups["log"], rotate))
        started.append(start("reports", groups["worker"], report))
        time.sleep(1)
        words = ["record", "-o", folder, "--cgroup", "/kubepods", "--by", "bpf", "--duration", "5s"]
        subprocess.run([schedcast, *words], check=True)
    finally:
        for one in started:
            os.kill(one, signal.SIGKILL)
            os.waitpid(one, 0)
        for one in reversed(made):
            one.rmdir()
        for one in LOGS:
            shutil.rmtree(one)
    pack(folder, schedcast)


if __name__ == "__main__":
    main()
