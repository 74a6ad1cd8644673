"""Plots hold the numbers of the results and are valid Vega-Lite (Altair validates on export)."""

import pytest
import schedcast
from schedcast import plots

P99 = "schbench-classic/request_latency.p99"


def values(chart):
    """Every row of data, wherever Altair put it."""

    def rows(tree):
        if isinstance(tree, list):
            return [row for one in tree for row in rows(one)]
        if not isinstance(tree, dict):
            return []
        own = tree.get("data", {}).get("values", []) if isinstance(tree.get("data"), dict) else []
        return own + [row for key, one in tree.items() if key != "data" for row in rows(one)]

    return rows(chart.to_dict())


def test_means_show_every_seed(comparison):
    chart = plots.means(comparison, P99)
    seeds = [row["value"] for row in values(chart) if "seed" in row]
    assert seeds == [value for one in comparison.values() for value in one[P99].samples]
    assert "request_latency.p99 (us)" in chart.to_json()


def test_distributions_have_all_percentiles_in_order(comparison):
    chart = plots.distribution(comparison, "schbench-classic/request_latency")
    found = {row["percentile"] for row in values(chart) if row["variant"] == "no burst"}
    assert {50.0, 95.0, 99.0} <= found


def test_changes_show_ratios(comparison):
    chart = plots.changes(comparison, [P99])
    ratios = {row["ratio"] for row in values(chart) if "metric" in row}
    assert ratios == {comparison["burst"][P99].vs_baseline.ratio}


def test_sweeps_as_curves_and_heatmaps(grid):
    burst, version = grid.axes
    rows = values(plots.curve(grid, P99, x=burst))
    assert {row["line"] for row in rows} == {"kernel.version=6.6", "kernel.version=6.12"}
    cells = values(plots.heatmap(grid, P99))
    assert {(cell["x"], cell["y"]) for cell in cells} >= {("6.6", "0"), ("6.12", "50000")}
    plots.curve(grid, P99, x=version).to_json()


def test_unknown_names_are_errors(comparison, grid):
    for call in [
        lambda: plots.means(comparison, "schbench/speed"),
        lambda: plots.distribution(comparison, "schbench/speed"),
        lambda: plots.changes(comparison, ["schbench/speed"]),
        lambda: plots.curve(grid, "schbench/speed"),
        lambda: plots.curve(grid, P99, x="kernel.hz"),
    ]:
        with pytest.raises(schedcast.UsageError):
            call()
