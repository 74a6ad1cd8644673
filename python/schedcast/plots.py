"""Plots of results with Altair (`pip install schedcast[plots]`).

Every function returns an `altair` chart whose data is in it, so that it can be saved as one HTML or
JSON file. Times keep the metric's unit, which the axis names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ._native import UsageError

if TYPE_CHECKING:
    import altair

    from ._results import Comparison, Metric, Sweep

_WIDTH = 420
_HEIGHT = 260


def _altair() -> Any:  # noqa: ANN401 (a module that may not be there)
    try:
        import altair
    except ImportError as error:
        raise ImportError("plots need Altair: pip install schedcast[plots]") from error
    return altair


def _metric(comparison: Comparison, variant: str, name: str) -> Metric:
    try:
        return comparison[variant][name]
    except KeyError:
        known = {metric for one in comparison.values() for metric in one}
        if name in known:
            raise UsageError(f"`{variant}` has no value of `{name}`") from None
        raise UsageError(f"no variant has the metric `{name}`") from None


def means(comparison: Comparison, metric: str) -> altair.LayerChart:
    """Plot the mean of one metric by variant with its 95 % interval and the value of each seed.

    Args:
        comparison: What `compare`, `run` or `what_if` returned.
        metric: A full name, such as `schbench/rps`.

    Raises:
        schedcast.UsageError: No variant has the metric.
    """
    alt = _altair()
    rows, seeds = [], []
    for variant in comparison:
        if metric not in comparison[variant]:
            continue
        found = comparison[variant][metric]
        low, high = found.interval or (found.mean, found.mean)
        rows.append({"variant": variant, "mean": found.mean, "low": low, "high": high})
        samples = enumerate(found.samples)
        seeds += [{"variant": variant, "seed": seed, "value": value} for seed, value in samples]
    if not rows:
        raise UsageError(f"no variant has the metric `{metric}`")
    unit = next(one[metric].unit for one in comparison.values() if metric in one)
    x = alt.X("variant:N", sort=None, title=None)
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    points = base.mark_point(filled=True, size=80).encode(
        y=alt.Y("mean:Q", title=_title(metric, unit))
    )
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q"), y2="high:Q")
    ticks = alt.Chart(alt.Data(values=seeds)).mark_tick(opacity=0.4).encode(x=x, y="value:Q")
    return (ticks + bars + points).properties(width=_WIDTH, height=_HEIGHT)


def distribution(comparison: Comparison, latency: str) -> altair.LayerChart:
    """Plot the percentiles of a latency by variant, on a logarithmic axis.

    Args:
        comparison: What `compare`, `run` or `what_if` returned.
        latency: A name without its percentile, such as `schbench/request_latency`.

    Raises:
        schedcast.UsageError: No variant has percentiles of it.
    """
    alt = _altair()
    pattern = re.compile(re.escape(latency) + r"\.p([0-9.]+)$")
    rows: list[dict[str, object]] = []
    unit = ""
    for variant, metrics in comparison.items():
        for name, found in metrics.items():
            if (match := pattern.match(name)) and found.mean > 0:
                unit = found.unit
                low, high = found.interval or (found.mean, found.mean)
                row = {"variant": variant, "percentile": float(match[1]), "value": found.mean}
                rows.append({**row, "low": max(low, 1e-3), "high": high})
    if not rows:
        raise UsageError(f"no variant has percentiles of `{latency}`")
    y = alt.Y("value:Q", scale=alt.Scale(type="log"), title=_title(latency, unit))
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("percentile:Q", scale=alt.Scale(zero=False), title="percentile"),
        color=alt.Color("variant:N", sort=None),
    )
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q").scale(type="log"), y2="high:Q")
    chart = band + base.mark_line(point=True).encode(y=y)
    return chart.properties(width=_WIDTH, height=_HEIGHT)


def changes(comparison: Comparison, metrics: list[str] | None = None) -> altair.LayerChart:
    """Plot how much metrics change against the baseline: ratio and 95 % interval.

    Args:
        comparison: What `compare` or `what_if` returned, with at least two variants.
        metrics: Full names; default every metric with a direction that changes significantly.

    Raises:
        schedcast.UsageError: A metric that no variant has, or nothing to show.
    """
    alt = _altair()
    rows = []
    for variant in list(comparison)[1:]:
        for name in comparison[variant] if metrics is None else metrics:
            found = _metric(comparison, variant, name)
            change = found.vs_baseline
            if change is None or change.ratio is None:
                continue
            if metrics is None and (found.better == "none" or not change.significant):
                continue
            low, high = change.ci95 or (change.ratio, change.ratio)
            row = {"variant": variant, "metric": name, "ratio": change.ratio}
            rows.append({**row, "low": low, "high": high})
    if not rows:
        raise UsageError("nothing changes against the baseline")
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("metric:N", sort=None, title=None),
        yOffset=alt.YOffset("variant:N", sort=None),
        color=alt.Color("variant:N", sort=None),
    )
    x = alt.X("ratio:Q", title=f"ratio to {comparison.baseline}")
    one = (
        alt.Chart(alt.Data(values=[{"ratio": 1}])).mark_rule(strokeDash=[4, 4]).encode(x="ratio:Q")
    )
    rules = base.mark_rule().encode(x="low:Q", x2="high:Q")
    return (one + rules + base.mark_point(filled=True).encode(x=x)).properties(width=_WIDTH)


def curve(sweep: Sweep, metric: str, x: str | None = None) -> altair.LayerChart:
    """Plot one metric of a sweep over one key, a line for each combination of the other keys.

    Args:
        sweep: What `sweep` returned.
        metric: A full name.
        x: The key of the horizontal axis; default the last.

    Raises:
        schedcast.UsageError: A key or a metric that the sweep does not have.
    """
    alt = _altair()
    key = _axis(sweep, x, -1)
    rows, unit = [], ""
    for point in sweep.points:
        if metric in point["metrics"]:
            found = point["metrics"][metric]
            unit = found["unit"]
            low, high = found["ci95"] or (found["mean"], found["mean"])
            others = [point["variant"]] if len({p["variant"] for p in sweep.points}) > 1 else []
            values = point["values"].items()
            others += [f"{name}={value}" for name, value in values if name != key]
            row = {"x": point["values"][key], "mean": found["mean"], "low": low, "high": high}
            rows.append({**row, "line": " ".join(others)})
    if not rows:
        raise UsageError(f"no point has the metric `{metric}`")
    numbers = all(isinstance(row["x"], (int, float)) for row in rows)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(f"x:{'Q' if numbers else 'O'}", sort=None, title=key),
        color=alt.Color("line:N", sort=None, title=None),
    )
    band = base.mark_area(opacity=0.2).encode(y="low:Q", y2="high:Q")
    line = base.mark_line(point=True).encode(y=alt.Y("mean:Q", title=_title(metric, unit)))
    return (band + line).properties(width=_WIDTH, height=_HEIGHT)


def heatmap(
    sweep: Sweep, metric: str, x: str | None = None, y: str | None = None
) -> altair.LayerChart:
    """Plot one metric of a sweep over two keys as a coloured table.

    Args:
        sweep: What `sweep` returned, with one value for each pair.
        metric: A full name.
        x: The key of the columns; default the last.
        y: The key of the rows; default the one before the last.

    Raises:
        schedcast.UsageError: A key or a metric that the sweep does not have.
    """
    alt = _altair()
    across, down = _axis(sweep, x, -1), _axis(sweep, y, -2)
    rows, unit = [], ""
    for point in sweep.points:
        if metric in point["metrics"]:
            found, values = point["metrics"][metric], point["values"]
            unit = found["unit"]
            rows.append({"x": str(values[across]), "y": str(values[down]), "mean": found["mean"]})
    if not rows:
        raise UsageError(f"no point has the metric `{metric}`")
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("x:O", sort=None, title=across), y=alt.Y("y:O", sort=None, title=down)
    )
    cells = base.mark_rect().encode(color=alt.Color("mean:Q", title=_title(metric, unit)))
    text = base.mark_text().encode(text=alt.Text("mean:Q", format=".4~g"))
    return (cells + text).properties(width=_WIDTH, height=_HEIGHT)


def _axis(sweep: Sweep, key: str | None, default: int) -> str:
    if key is None:
        if len(sweep.axes) < -default:
            raise UsageError("the sweep has too few keys for this plot")
        return sweep.axes[default]
    if key not in sweep.axes:
        raise UsageError(f"the sweep has no key `{key}`: {', '.join(sweep.axes)}")
    return key


def _title(metric: str, unit: str) -> str:
    return metric if unit in ("count", "") else f"{metric} ({unit})"
