"""A limited service beside ten small busy programs, each in a group of its own (cgroup v1, as root): made-by.py SECONDS.

    python3 made-by.py 8 & sleep 1.2; schedcast record -o raw --cgroup /tenants --seconds 5
    schedcast convert raw trace.txt.gz --to ftrace-text
"""

import os
import random
import sys
import time

ROOT = "/sys/fs/cgroup/cpu/tenants"
LENGTH_S = float(sys.argv[1])
NEIGHBOURS = "ledger mailer indexer thumbnails metrics cronjobs search billing session archiver".split()
#: The service's limit, us in 100 ms.
QUOTA_US = 40_000


def work(ms):
    """Compute for so much CPU time."""
    end = time.thread_time() + ms / 1000
    while time.thread_time() < end:
        pass


def start(name, seed, run_ms, pause_ms):
    """A process of this name in a group of this name that computes and sleeps, both for random times."""
    os.makedirs(f"{ROOT}/{name}", exist_ok=True)
    if os.fork():
        return
    with open(f"{ROOT}/{name}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
    with open("/proc/self/comm", "w") as file:
        file.write(name)
    draw = random.Random(seed)
    end = time.time() + LENGTH_S
    while time.time() < end:
        work(draw.expovariate(1 / run_ms))
        time.sleep(draw.expovariate(1 / pause_ms) / 1000)
    os._exit(0)


for row, neighbour in enumerate(NEIGHBOURS):
    start(neighbour, row, 1 + row * 0.3, 18 + 2 * row)
start("checkout", 99, 12, 28)
with open(f"{ROOT}/checkout/cpu.cfs_quota_us", "w") as limit:
    limit.write(str(QUOTA_US))
for _ in range(len(NEIGHBOURS) + 1):
    os.wait()
