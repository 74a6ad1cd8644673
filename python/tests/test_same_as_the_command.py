"""The package and the command answer alike, to the byte."""

import re

import pytest
import schedcast
from conftest import EXPERIMENT, GRID, RECORDING, ROOT


def test_compare_from_a_path_a_text_a_dict_and_sections(command, burst_file):
    expected = command("compare", burst_file, "--json", "-").stdout
    assert '"schema": "schedcast.comparison/1"' in expected
    assert schedcast.compare(burst_file).to_json() == expected
    assert schedcast.compare(EXPERIMENT).to_json() == expected
    tree = {
        "title": "Burst",
        "machine": {"cpus": 4},
        "kernel": {"version": "6.12"},
        "cgroup": {"/web": {"cpu.max": "50000 100000"}},
        "program": [{"run": "schbench-classic -m 1 -t 3 -c 20000 -R 30 -r 2", "cgroup": "/web"}],
        "variant": [
            {"name": "no burst"},
            {"name": "burst", "cgroup": {"/web": {"cpu.max.burst": 50000}}},
        ],
        "run": {"seeds": 3, "duration": "2s"},
    }
    assert schedcast.compare(tree).to_json() == expected
    assert schedcast.Experiment(**tree).compare(workers=1).to_json() == expected


def test_settings_variants_seeds_and_duration(command, burst_file):
    words = ["--set", "kernel.hz=1000", "--cgroup", "/web", "--variant", "more"]
    words += ["--set", "cpu.max=70000 100000", "--seeds", "2", "--duration", "1s"]
    expected = command("compare", burst_file, *words, "--json", "-")
    comparison = schedcast.compare(
        burst_file,
        set={"kernel.hz": 1000},
        cgroup="/web",
        variants={"more": {"cpu.max": "70000 100000"}},
        seeds=2,
        duration="1s",
    )
    assert comparison.to_json() == expected.stdout
    assert list(comparison) == ["no burst", "burst", "more"]


def test_run_of_one_variant_and_of_a_command(command, burst_file):
    expected = command("run", burst_file, "--variant", "burst", "--json", "-").stdout
    assert schedcast.run(burst_file, variant="burst").to_json() == expected
    words = ["--cgroup", "/a", "--set", "cpu.max=50000", "--seeds", "2"]
    tool = "schbench-classic -m 1 -t 2 -r 1"
    expected = command("run", *words, "--json", "-", "--", *tool.split()).stdout
    answer = schedcast.run(command=tool, cgroup="/a", set={"cpu.max": "50000"}, seeds=2)
    assert answer.to_json() == expected


def test_what_if(command):
    recording = RECORDING
    words = ["--set", "cpu.max=60000 100000", "--set", "cpu.max.burst=20000", "--variant", "free"]
    words += ["--set", "cpu.max=max", "--measured", "--seeds", "2"]
    expected = command("what-if", recording, *words, "--json", "-").stdout
    answer = schedcast.what_if(
        RECORDING,
        {"cpu.max": "60000 100000", "cpu.max.burst": 20000},
        variants={"free": ["cpu.max=max"]},
        measured=True,
        seeds=2,
    )
    assert answer.to_json() == expected
    assert answer.tier == "trace"
    assert answer["quota 60 ms"]["cgroup:/pg/nr_throttled"].measured.median == 42


def test_advise(command):
    recording = RECORDING.relative_to(ROOT)
    words = ["--slo", "p99<80ms", "--max-neighbour", "+10%", "--seeds", "2", "--duration", "5s"]
    words += ["--client", "closed"]
    expected = command("advise", recording, *words, "--json", "-").stdout
    assert '"schema": "schedcast.advice/1"' in expected
    advice = schedcast.advise(
        str(RECORDING),
        "p99<80ms",
        max_neighbour="+10%",
        client="closed",
        seeds=2,
        duration="5s",
    )
    assert advice.to_json() == expected.replace(f'"{recording}"', f'"{RECORDING}"')
    assert advice.target == "/pg"
    assert advice.options[0].name == "as recorded, simulated"
    assert advice.options[0].quota_us == 50000
    assert advice.recommended is None or advice.recommended.suits
    with pytest.raises(schedcast.UsageError, match="nothing is promised"):
        schedcast.advise(RECORDING, [])


def test_check(command):
    recording = RECORDING.relative_to(ROOT)
    words = ["--seeds", "2", "--duration", "5s", "--json", "-"]
    broken = command("check", recording, "--slo", "p99<1ms", *words)
    assert broken.returncode == 1
    verdict = schedcast.check(RECORDING, "p99<1ms", seeds=2, duration="5s")
    assert verdict.to_json() == broken.stdout
    assert not verdict.passes
    assert not verdict, "a broken promise is false"
    assert not verdict.columns["as recorded, simulated"][0].met
    slos = ["p99<500ms", "nr_throttled<=100"]
    # Two runs hardly bound a third one.
    words = ["--seeds", "4", *words[2:], "--slo", slos[0], "--slo", slos[1]]
    words += ["--set", "cpu.max.burst=50000", "--variant", "free", "--set", "cpu.max=max"]
    kept = command("check", recording, *words)
    assert kept.returncode == 0
    verdict = schedcast.check(
        RECORDING,
        slos,
        {"cpu.max.burst": 50000},
        variants={"free": {"cpu.max": "max"}},
        seeds=4,
        duration="5s",
    )
    assert verdict.to_json() == kept.stdout
    assert verdict.passes
    assert verdict
    low, high = verdict.columns["free"][0].interval
    assert 0 < low <= verdict.columns["free"][0].mean <= high < 500_000
    assert "passed" in str(verdict).splitlines()
    with pytest.raises(schedcast.InputError, match="compares a metric with a value"):
        schedcast.check(RECORDING, "p99 is small")


def test_sweep(command, tmp_path, grid):
    (tmp_path / "grid.toml").write_text(GRID)
    done = command("sweep", "grid.toml", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert grid.to_csv() == (tmp_path / "out" / "results.csv").read_text()
    assert grid.to_json() == (tmp_path / "out" / "results.json").read_text()


def test_tables(command, burst_file):
    answer = schedcast.compare(burst_file)
    for layout in ["table", "markdown", "mmtests", "lkp"]:
        printed = command("compare", burst_file, "--format", layout).stdout
        # Only the command's answer has a command that gives it again, in lines that end with "\\".
        kept = re.sub(r"^reproduce: (.*\\\n)*.*\n", "", printed, flags=re.MULTILINE)
        assert answer.table(layout).rstrip() == kept.rstrip()
    assert str(answer) == answer.table()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[kernel]\nversoin = '6.12'\n", schedcast.InputError),
        ("[kernel\n", schedcast.InputError),
        (
            "[[program]]\nrun = 'schbench --frobnicate'\n",
            schedcast.InputError,
        ),
        ("[sweep]\n'kernel.hz' = [333]\n", schedcast.InputError),
    ],
)
def test_errors_have_the_text_of_the_command(command, tmp_path, text, kind):
    (tmp_path / "bad.toml").write_text(text)
    said = command("compare", "bad.toml", cwd=tmp_path)
    assert said.returncode == 3
    with pytest.raises(kind) as raised:
        schedcast.compare(text)
    assert isinstance(raised.value, schedcast.Error)
    expected = said.stderr.removeprefix("error: ").rstrip()
    assert str(raised.value) == expected.replace("bad.toml:", "experiment:")


def test_usage_and_file_errors(command, burst_file, tmp_path):
    said = command("run", burst_file).stderr
    with pytest.raises(schedcast.UsageError) as raised:
        schedcast.run(burst_file)
    assert str(raised.value) == said.removeprefix("error: ").rstrip()
    missing = tmp_path / "missing.toml"
    said = command("compare", missing).stderr
    with pytest.raises(schedcast.FileError) as raised:
        schedcast.compare(missing)
    assert str(raised.value) == said.removeprefix("error: ").rstrip()
    with pytest.raises(schedcast.Error):
        schedcast.what_if(tmp_path)


def test_lists(command):
    for what in ["machines", "kernels", "patches", "programs", "metrics"]:
        assert schedcast.list_names(what) == command("list", what).stdout
    with pytest.raises(schedcast.UsageError, match="metrics"):
        schedcast.list_names("metric")
