"""Forecast what the Linux CPU scheduler will do.

An experiment is a machine, a kernel, cgroup limits and programs; its variants run in virtual time
under the same seeds and are compared seed by seed::

    import schedcast

    experiment = schedcast.Experiment(
        kernel={"version": "6.12"},
        cgroup={"/web": {"cpu.max": "50000 100000"}},
        program=[{"run": "schbench-classic -m 1 -t 3 -c 20000 -R 30", "cgroup": "/web"}],
        variant=[
            {"name": "no burst"},
            {"name": "burst", "cgroup": {"/web": {"cpu.max.burst": 50000}}},
        ],
        run={"seeds": 10, "duration": "10s"},
    )
    comparison = schedcast.compare(experiment)
    print(comparison)
    comparison["burst"]["schbench-classic/request_latency.p99"].vs_baseline.ratio

    schedcast.what_if("recordings/pg", {"cpu.max": "60000 100000"})

Everything has the names, units and meaning of the command ``schedcast``, and results are its JSON
to the byte (`Comparison.to_json`). Errors are `schedcast.Error` with the command's message.
"""

from ._ask import advise, check, compare, fleet, list_names, run, sweep, what_if
from ._experiment import Experiment
from ._native import Error, FileError, InputError, Table, UsageError, __version__
from ._results import (
    Advice,
    Change,
    Check,
    Comparison,
    Fleet,
    Forecast,
    Measured,
    Metric,
    Option,
    Sweep,
    Variant,
)

__all__ = [
    "Advice",
    "Change",
    "Check",
    "Comparison",
    "Error",
    "Experiment",
    "FileError",
    "Fleet",
    "Forecast",
    "InputError",
    "Measured",
    "Metric",
    "Option",
    "Sweep",
    "Table",
    "UsageError",
    "Variant",
    "__version__",
    "advise",
    "check",
    "compare",
    "fleet",
    "list_names",
    "run",
    "sweep",
    "what_if",
]
