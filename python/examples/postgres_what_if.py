# %% [markdown]
# # How much CPU does this PostgreSQL need?
#
# The recording is half a minute of a PostgreSQL under `cpu.max 50000 100000`. We ask what other
# limits would have done to the time from a request's wakeup to its answer, and compare with what
# was really measured under them.

# %%
import os
from pathlib import Path

import polars
import schedcast
from schedcast import plots

RECORDING = Path(__file__).parents[2] / "recordings" / "postgres-quota"
SEEDS = int(os.environ.get("SCHEDCAST_EXAMPLE_SEEDS", "10"))

# %% [markdown]
# `measured=True` adds a variant for every limit in the recording's `measured.json`.

# %%
comparison = schedcast.what_if(
    RECORDING,
    variants={
        "70 ms": {"cpu.max": "70000 100000"},
        "50 ms + burst": {"cpu.max.burst": 50000},
    },
    measured=True,
    seeds=SEEDS,
)
print(comparison)

# %% [markdown]
# As a data frame, without a copy: the p95 of each variant, predicted.

# %%
P95 = "postgres/activation_latency.p95"
frame = polars.DataFrame(comparison).filter(polars.col("metric") == P95)
print(frame.select("variant", "mean", "ci95_low", "ci95_high", "ratio", "significant"))

# %% [markdown]
# Predicted beside measured, where somebody measured.

# %%
for name, variant in comparison.items():
    measured = variant[P95].measured
    if measured is not None:
        spread = f"{measured.min / 1000:.1f} to {measured.max / 1000:.1f} ms"
        print(f"{name:15} predicted {variant[P95].mean / 1000:6.1f} ms, measured {spread}")

# %%
plots.distribution(comparison, "postgres/activation_latency").save("postgres-latency.html")
plots.changes(comparison, [P95]).save("postgres-changes.html")
