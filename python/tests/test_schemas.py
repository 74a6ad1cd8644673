"""Every JSON form that the command writes against its schema in docs/schemas."""

import dataclasses
import json
import re
import shutil

import jsonschema
import pytest
import schedcast
from conftest import EXPERIMENT, GRID, RECORDING, ROOT
from schedcast import _results

SCHEMAS = ROOT / "docs" / "schemas"
RUN = ["run", "--seeds", "2", "--duration", "100ms"]
HACKBENCH = ["--", "hackbench", "-g", "1", "-l", "5"]
KERNELS = ["--kernel", "6.1", "--kernel", "6.12", "--kernel", "6.18"]
RANGE = ROOT / "examples" / "range.json"
BURST = ["--set", "cpu.max.burst=50000"]
PROMISE = ["--seeds", "2", "--slo", "p99<80ms"]

FORMS = {
    "run": [*RUN, "--json", "-", *HACKBENCH],
    "bisection": ["compare", *KERNELS, "--bisect", "--seeds", "2", "--json", "-", *HACKBENCH],
    "what-if": ["what-if", RECORDING, "--seeds", "2", "--measured", "--json", "-"],
    "advise": ["advise", RECORDING, *PROMISE, "--json", "-"],
    "check": ["check", RECORDING, *PROMISE, "--json", "-"],
    "upgrade": ["upgrade", RECORDING, "--to", "7.3", "--seeds", "2", "--json", "-"],
    "counters": ["counters", RECORDING, *BURST, "--json", "-"],
    "counters of Prometheus": ["counters", RANGE, *BURST, "--cpus", "4", "--json", "-"],
    "fleet": ["fleet", ROOT / "examples" / "fleet.json", "--budget", "0.5", "--json", "-"],
    "explain": ["explain", RECORDING, "--count", "40", "--json", "-"],
    "reproduce": ["reproduce", "--quick", "burst", "--json", "-"],
    "top": ["top", "--once", "--all", "--json", "-"],
    "self check": ["self", "check", "--json", "-"],
}


def validate(document):
    name = document["schema"].removeprefix("schedcast.").replace("/", "-")
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.validate(document, schema, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("form", FORMS)
def test_what_a_verb_writes_has_the_form_of_its_schema(command, form):
    result = command(*FORMS[form])
    if form == "top" and not result.stdout:
        pytest.skip(f"no group to look at here: {result.stderr.strip()}")
    # `check` says by its exit code that a promise is broken.
    assert result.stdout, result.stderr
    validate(json.loads(result.stdout))


@pytest.mark.parametrize("verb", ["what-if", "advise"])
def test_answers_without_a_log_of_requests_have_the_form_of_their_schema(command, tmp_path, verb):
    recording = tmp_path / "recording"
    shutil.copytree(RECORDING, recording)
    meta = json.loads((recording / "recording.json").read_text())
    meta.pop("requests")
    (recording / "recording.json").write_text(json.dumps(meta))
    (recording / "requests.csv").unlink()
    promise = [] if verb == "what-if" else PROMISE[2:]
    result = command(verb, recording, "--seeds", "2", *promise, "--json", "-")
    assert "inferred" in result.stdout, result.stderr
    validate(json.loads(result.stdout))


def test_the_difference_of_two_variants_has_the_form_of_its_schema(command, tmp_path):
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    result = command(
        "explain", "exp.toml", "--diff", "no burst", "burst", "--json", "-", cwd=tmp_path
    )
    assert result.stdout, result.stderr
    validate(json.loads(result.stdout))


def test_a_sweep_has_the_form_of_its_schema(command, tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    result = command("sweep", "grid.toml", "-o", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    validate(json.loads((tmp_path / "out" / "results.json").read_text()))


def test_a_swept_recording_has_the_form_of_its_schema(command, tmp_path):
    result = command(
        "sweep", RECORDING, "--seeds", "2", "--slo", "p95<40ms", "-o", tmp_path / "out"
    )
    assert result.returncode == 0, result.stderr
    validate(json.loads((tmp_path / "out" / "results.json").read_text()))


def test_every_form_has_a_schema():
    """Forms for people's programs; the page's data, machine files and undo journals are our own."""
    own = {"report", "machine", "undo"}
    written = set()
    for path in (ROOT / "crates").glob("*/src/**/*.rs"):
        written |= set(re.findall(r'"schedcast\.([a-z]+/\d+)"', path.read_text()))
    named = {one.replace("/", "-") for one in written if one.split("/")[0] not in own}
    assert named == {path.stem for path in SCHEMAS.glob("*.json")}


def schema_of(name):
    return json.loads((SCHEMAS / f"{name}.json").read_text())


#: The class of each part of a form, and where its schema stands.
PARTS = {
    ("comparison-1", "$defs", "change"): _results.Change,
    ("comparison-1", "$defs", "summary"): _results.Metric,
    ("comparison-1", "$defs", "summary", "properties", "measured"): _results.Measured,
    ("advice-1", "properties", "options", "items"): _results.Option,
    ("check-1", "properties", "columns", "items", "properties", "forecasts", "items"): (
        _results.Forecast
    ),
}


@pytest.mark.parametrize("place", PARTS, ids=lambda place: PARTS[place].__name__)
def test_a_class_has_a_field_for_each_of_its_form(place):
    name, *inner = place
    part = schema_of(name)
    for key in inner:
        part = part[key]
    fields = {field.name for field in dataclasses.fields(PARTS[place])}
    # The mapping that holds a metric has its name.
    assert fields - {"name"} == set(part["properties"]) - {"name"}


def test_answers_have_an_attribute_for_each_field_of_their_form(comparison, grid):
    """Without the versions, the variants that a comparison maps, and bisections."""
    short = {"seeds": 2, "duration": "1s"}
    answers = {
        "comparison-1": comparison,
        "sweep-1": grid,
        "advice-1": schedcast.advise(RECORDING, "p95<500ms", force=True, **short),
        "check-1": schedcast.check(RECORDING, "p95<500ms", **short),
        "fleet-1": schedcast.fleet(ROOT / "examples" / "fleet.json"),
    }
    own = {"schema", "schedcast", "variants", "bisection", "earlier_bisections"}
    for name, answer in answers.items():
        lacking = {one for one in schema_of(name)["properties"] if not hasattr(answer, one)}
        assert lacking <= own, name
    fields = set(schema_of("comparison-1")["$defs"]["variant"]["properties"])
    lacking = {one for one in fields if not hasattr(comparison["burst"], one)}
    assert lacking == {"metrics"}, "a variant is the mapping of its metrics"


def test_a_promise_that_the_recording_breaks_is_a_false_check():
    check = schedcast.check(RECORDING, "p99<40ms", seeds=2, duration="5s")
    assert not check
    assert check.columns["as recorded, simulated"][0].refuted
