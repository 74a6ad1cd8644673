"""The examples run as they are written."""

import runpy

import pytest
from conftest import ROOT

EXAMPLES = sorted((ROOT / "python" / "examples").glob("*.py"))


def test_there_are_examples():
    assert [path.name for path in EXAMPLES] == ["burst.py", "postgres_what_if.py"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCHEDCAST_EXAMPLE_SEEDS", "3")
    names = runpy.run_path(str(path))
    assert capsys.readouterr().out.strip()
    assert list(tmp_path.glob("*.html")), "the example saves its plots"
    assert names["comparison"].seeds == 3
