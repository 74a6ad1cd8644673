import os
import subprocess
from pathlib import Path

import pytest
import schedcast

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "recordings" / "postgres-quota"

EXPERIMENT = """\
title = "Burst"
[machine]
cpus = 4
[kernel]
version = "6.12"
[cgroup."/web"]
"cpu.max" = "50000 100000"
[[program]]
run = "schbench-classic -m 1 -t 3 -c 20000 -R 30 -r 2"
cgroup = "/web"
[[variant]]
name = "no burst"
[[variant]]
name = "burst"
[variant.cgroup."/web"]
"cpu.max.burst" = 50000
[run]
seeds = 3
duration = "2s"
"""

GRID = """\
[cgroup."/web"]
"cpu.max" = "50000 100000"
[[program]]
run = "schbench-classic -m 1 -t 3 -c 20000 -R 30 -r 1"
cgroup = "/web"
[sweep]
'cgroup."/web"."cpu.max.burst"' = [0, 25000, 50000]
"kernel.version" = ["6.6", "6.12"]
[run]
seeds = 2
duration = "1s"
"""


@pytest.fixture(scope="session")
def command():
    """The command `schedcast` of the same sources."""
    path = Path(os.environ.get("SCHEDCAST", ROOT / "target" / "release" / "schedcast"))
    if not path.exists():
        pytest.fail(f"no {path}: run `make build`, or set SCHEDCAST to the command")

    def run(*words, cwd=ROOT):
        words = [str(word) for word in words]
        return subprocess.run([str(path), *words], cwd=cwd, capture_output=True, text=True)

    return run


@pytest.fixture
def burst_file(tmp_path):
    path = tmp_path / "burst.toml"
    path.write_text(EXPERIMENT)
    return path


@pytest.fixture(scope="session")
def comparison():
    return schedcast.compare(EXPERIMENT)


@pytest.fixture(scope="session")
def grid():
    return schedcast.sweep(GRID)
