# %% [markdown]
# # What does a burst buffer buy?
#
# Two requests of 80 ms of CPU time arrive together every 200 ms: 0.8 CPUs on average, so a limit of
# one CPU looks generous. It is not: together they want 160 ms of one period's 100.

# %%
import os

import schedcast
from schedcast import plots

SEEDS = int(os.environ.get("SCHEDCAST_EXAMPLE_SEEDS", "20"))

experiment = schedcast.Experiment(
    title="Burst for two requests of 80 ms",
    machine={"cpus": 4},
    kernel={"version": "6.12"},
    cgroup={"/web": {"cpu.max": "100000 100000"}},
    program=[{"run": "schbench-classic -m 1 -t 3 -c 80000 -R 10 -r 10", "cgroup": "/web"}],
    run={"seeds": SEEDS, "duration": "10s"},
)

# %% [markdown]
# First one value beside none, under the same seeds.

# %%
comparison = schedcast.compare(
    experiment, cgroup="/web", variants={"burst 80 ms": {"cpu.max.burst": 80000}}
)
print(comparison)

# %% [markdown]
# Then quota and burst together. A sweep with a folder can be interrupted and asked again.

# %%
QUOTA, BURST = 'cgroup."/web"."cpu.max"', 'cgroup."/web"."cpu.max.burst"'
grid = schedcast.Experiment(
    machine={"cpus": 4},
    kernel={"version": "6.12"},
    cgroup={"/web": {"cpu.max": "100000 100000"}},
    program=[{"run": "schbench-classic -m 1 -t 3 -c 80000 -R 10 -r 10", "cgroup": "/web"}],
    sweep={QUOTA: ["80000", "100000", "120000"], BURST: [0, 40000, 80000]},
    run={"seeds": SEEDS, "duration": "10s"},
)
sweep = grid.sweep("burst.sweep")
P99 = "schbench-classic/request_latency.p99"
print(sweep.table([P99, "cgroup:/web/nr_throttled"]))

# %%
plots.heatmap(sweep, P99).save("burst-heatmap.html")
plots.curve(sweep, P99).save("burst-curve.html")
