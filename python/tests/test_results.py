"""Results as objects and as Arrow tables."""

import gc
import json
import pathlib

import duckdb
import pandas
import polars
import pyarrow
import pytest
import schedcast

ROOT = pathlib.Path(__file__).parents[2]
P99 = "schbench-classic/request_latency.p99"


def test_objects_hold_what_the_json_says(comparison):
    form = json.loads(comparison.to_json())
    assert list(comparison) == ["no burst", "burst"]
    assert (comparison.title, comparison.seeds, comparison.baseline) == ("Burst", 3, "no burst")
    assert comparison.tier is None
    for one in form["variants"]:
        variant = comparison[one["name"]]
        assert (variant.name, variant.event_hash) == (one["name"], one["event_hash"])
        assert variant.kernel["version"] == "6.12"
        assert list(variant) == list(one["metrics"])
        for name, metric in variant.items():
            assert (metric.name, metric.mean) == (name, one["metrics"][name]["mean"])
            assert list(metric.samples) == one["metrics"][name]["samples"]
    metric = comparison["burst"][P99]
    assert (metric.unit, metric.better, metric.measured) == ("us", "lower", None)
    assert metric.vs_baseline.ratio == pytest.approx(metric.mean / comparison["no burst"][P99].mean)
    assert comparison["no burst"][P99].vs_baseline is None


def test_arrow_tables_reach_every_library_alike(comparison):
    expected = comparison.summary().to_pydict()
    assert len(expected["mean"]) == len(comparison.summary()) > 20
    assert None in expected["ratio"], "the baseline has no ratio"
    assert pyarrow.table(comparison).to_pydict() == expected
    assert polars.DataFrame(comparison).to_dict(as_series=False) == expected
    frame = pandas.DataFrame.from_arrow(comparison)
    assert list(frame.columns) == list(expected)
    assert frame["mean"].tolist() == expected["mean"]
    assert frame["variant"].tolist() == expected["variant"]
    query = "select mean from comparison where variant = 'burst' and metric = ?"
    assert duckdb.execute(query, [P99]).fetchone() == (comparison["burst"][P99].mean,)


def test_the_arrow_types_and_validity(comparison):
    table = pyarrow.table(comparison.samples())
    assert table.schema.names == ["variant", "metric", "seed", "value"]
    types = [str(kind) for kind in table.schema.types]
    assert types == ["large_string", "large_string", "int64", "double"]
    table.validate(full=True)
    pyarrow.table(comparison.summary()).validate(full=True)
    schema = pyarrow.schema(comparison.summary())
    assert schema == pyarrow.table(comparison.summary()).schema
    row = table.filter(pyarrow.compute.equal(table["metric"], P99)).to_pydict()
    samples = comparison["no burst"][P99].samples + comparison["burst"][P99].samples
    assert row["value"] == list(samples)
    assert row["seed"] == [0, 1, 2, 0, 1, 2]


def test_buffers_are_shared_and_outlive_their_owner(comparison):
    native = comparison.summary()
    first, second = pyarrow.table(native), pyarrow.table(native)
    address = first["mean"].chunk(0).buffers()[1].address
    assert second["mean"].chunk(0).buffers()[1].address == address
    expected = native.to_pydict()
    del native, second
    gc.collect()
    assert first.to_pydict() == expected
    schedcast.compare("[run]\nseeds = 1\nduration = '1ms'\n").summary().__arrow_c_stream__()
    gc.collect()  # a stream that nobody took


def test_sweeps_have_typed_keys(grid):
    table = pyarrow.table(grid)
    table.validate(full=True)
    burst, version = grid.axes
    assert table[burst].to_pylist() == [0, 0, 25000, 25000, 50000, 50000]
    assert table[version].to_pylist() == ["6.6", "6.12"] * 3
    assert str(table.schema.field(burst).type) == "int64"
    assert len(grid) == table.num_rows == 6
    means = [point["metrics"][P99]["mean"] for point in grid.points]
    assert table[P99].to_pylist() == means
    assert polars.read_csv(grid.to_csv().encode())[P99].to_list() == pytest.approx(means)
    assert "cpu.max.burst" in str(grid)


def test_the_axes_of_mixed_values_are_floats_booleans_or_text():
    text = "[[program]]\nrun = 'hackbench -g 1 -l 10'\n[run]\nseeds = 1\n[sweep]\n{}\n"
    sweep = schedcast.sweep(text.format("'kernel.autogroup' = [true, false]"))
    table = pyarrow.table(sweep)
    assert table["kernel.autogroup"].to_pylist() == [True, False]
    sweep = schedcast.sweep(text.format("'run.duration' = ['1s', '2s']\n'machine.cpus' = [1, 9]"))
    table = pyarrow.table(sweep)
    assert table["run.duration"].to_pylist() == ["1s", "1s", "2s", "2s"]


def test_a_fleet_is_a_table_that_becomes_parquet(tmp_path):
    ranges = ROOT / "examples" / "fleet.json"
    fleet = schedcast.fleet(ranges, budget=0.5)
    table = pyarrow.table(fleet)
    table.validate(full=True)
    answered = len(fleet)
    names = [one["name"] for one in fleet.containers]
    assert table["container"].to_pylist()[:answered] == names
    enough = [one["enough"]["limit"]["cpus"] for one in fleet.containers]
    assert table["enough_cpus"].to_pylist()[:answered] == enough
    assert table["answer"].to_pylist()[answered:] == ["unlimited"] * fleet.unlimited
    polars.DataFrame(fleet).write_parquet(tmp_path / "fleet.parquet")
    kept = polars.read_parquet(tmp_path / "fleet.parquet")
    assert kept.to_dict(as_series=False) == fleet.rows().to_pydict()
    assert "8 of 10 limited containers" in str(fleet)
    with pytest.raises(schedcast.Error, match="throttled_below"):
        schedcast.fleet(ranges, throttled_below=5)
