"""Results as Python objects and as Arrow tables."""

from __future__ import annotations

import difflib
import json
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from typing import Any

from . import _native
from ._native import Table, UsageError


class NoSuchName(UsageError, KeyError):
    """A name that a result does not have: a `UsageError`, and the `KeyError` of a mapping."""

    __str__ = Exception.__str__


def _named(things: dict[str, Any], kind: str, name: object) -> Any:  # noqa: ANN401
    """Return the thing of this name.

    Raises:
        NoSuchName: It has the nearest valid name.
    """
    try:
        return things[name]  # type: ignore[index]
    except (KeyError, TypeError):
        near = difflib.get_close_matches(str(name), things, 1, 0.0)
        hint = f"; nearest valid name: `{near[0]}`" if near else ""
        raise NoSuchName(f"there is no {kind} `{name}`{hint}") from None


@dataclass(frozen=True)
class Change:
    """A change against the baseline, seed by seed."""

    #: Mean of this variant over mean of the baseline; None if that is zero.
    ratio: float | None
    #: 95 % interval of the ratio; None with fewer than two common seeds.
    ci95: tuple[float, float] | None
    #: Whether the 95 % interval of the paired difference excludes zero.
    significant: bool


@dataclass(frozen=True)
class Measured:
    """Repeats on the real machine, in the metric's unit."""

    median: float
    min: float
    max: float


@dataclass(frozen=True)
class Metric:
    """One metric of one variant over all seeds."""

    #: The full name, such as `schbench/request_latency.p99`.
    name: str
    #: Unit of mean, interval and samples, such as `us`, `1/s`, `ratio`, `count`.
    unit: str
    #: Which change is an improvement: `lower`, `higher`, `none`.
    better: str
    #: Mean over seeds: harmonic for rates, arithmetic for the rest.
    mean: float
    #: Whether the mean is a lower bound: the percentile falls among what had not finished.
    at_least: bool
    #: 95 % interval of the mean; None with fewer than two samples.
    ci95: tuple[float, float] | None
    #: 95 % interval of one more run, in answers from a recording: where a measurement will lie. The
    #: printed table has this one. None elsewhere.
    one_run95: tuple[float, float] | None
    #: One value for each seed, in seed order; None where the run had none.
    samples: tuple[float | None, ...]
    #: The change against the baseline; None in the baseline and where it lacks the metric.
    vs_baseline: Change | None
    #: What really happened under these settings, where a recording knows.
    measured: Measured | None
    #: Whether `one_run95` was moved apart because the simulated recorded run misses the recording.
    misfit: bool = False
    #: What the recording shows; None where it shows none.
    recorded: float | None = None
    #: Whether that is of requests that are inferred, as no log of them is in use.
    inferred: bool = False
    #: Relative difference below which the baseline differs from itself under other draws.
    chaos_floor: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval that the printed table has: of one run, else of the mean."""
        return self.one_run95 or self.ci95

    @classmethod
    def _of(cls, name: str, form: dict[str, Any]) -> Metric:
        change = form["vs_baseline"]
        measured = form.get("measured")
        return cls(
            name=name,
            unit=form["unit"],
            better=form["better"],
            mean=form["mean"],
            at_least=form.get("at_least", False),
            ci95=_pair(form["ci95"]),
            one_run95=_pair(form.get("one_run95")),
            samples=tuple(form["samples"]),
            vs_baseline=change
            and Change(change["ratio"], _pair(change["ci95"]), change["significant"]),
            measured=measured and Measured(**measured),
            misfit=form.get("misfit", False),
            recorded=form.get("recorded"),
            inferred=form.get("inferred", False),
            chaos_floor=form.get("chaos_floor"),
        )


def _pair(ends: list[float] | None) -> tuple[float, float] | None:
    return None if ends is None else (ends[0], ends[1])


class Variant(Mapping[str, Metric]):
    """One variant: its metrics by name, programs first, then cgroups, then the machine."""

    def __init__(self, form: dict[str, Any]) -> None:
        #: Its name.
        self.name: str = form["name"]
        #: The kernel, with the keys of `[kernel]`.
        self.kernel: dict[str, Any] = form["kernel"]
        #: Hash over all events of all seeds: equal runs have equal hashes.
        self.event_hash: str = form["event_hash"]
        #: The machine, as the JSON describes it.
        self.machine: dict[str, Any] = form["machine"]
        #: The programs, as the JSON describes them.
        self.programs: list[dict[str, Any]] = form["programs"]
        #: Simulated time that was asked for, in nanoseconds; None if a run ends by itself.
        self.duration_ns: int | None = form["duration_ns"]
        metrics = form["metrics"].items()
        self._metrics = {name: Metric._of(name, metric) for name, metric in metrics}

    def __getitem__(self, metric: str) -> Metric:
        return _named(self._metrics, "metric", metric)

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    def __repr__(self) -> str:
        return f"Variant({self.name!r}, {len(self)} metrics)"


class _Arrow:
    """A result that libraries with the Arrow PyCapsule interface take as a table."""

    def _arrow(self) -> Table:
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._arrow().__arrow_c_schema__()


class Comparison(_Arrow):
    """Variants by name, in the order of the experiment; the first is the baseline.

    Used like a mapping (`comparison["burst"]`, `in`, `len`, `keys`, `values`, `items`).

    `print` shows the command's table. Libraries with the Arrow PyCapsule interface take it as the
    table `summary()`: `polars.DataFrame(comparison)`, `pandas.DataFrame.from_arrow(comparison)`,
    `duckdb.sql("from comparison")`.
    """

    def __init__(self, answer: _native.Answer) -> None:
        self._answer = answer
        form = json.loads(answer.to_json())
        #: Title of the experiment; empty if it has none.
        self.title: str = form["title"]
        #: Runs of each variant.
        self.seeds: int = form["seeds"]
        #: Name of the first variant.
        self.baseline: str = form["baseline"]
        #: What an answer from a recording rests on: `trace`, `profile`, `counters`; else None.
        self.tier: str | None = form.get("tier")
        #: Warnings that a reader needs before the numbers.
        self.warnings: list[str] = form.get("warnings", [])
        self._variants = {one["name"]: Variant(one) for one in form["variants"]}

    def __getitem__(self, variant: str) -> Variant:
        return _named(self._variants, "variant", variant)

    def __iter__(self) -> Iterator[str]:
        return iter(self._variants)

    def __len__(self) -> int:
        return len(self._variants)

    def __contains__(self, variant: object) -> bool:
        return variant in self._variants

    # No `collections.abc.Mapping`: libraries would take that for a dict of columns.

    def keys(self) -> KeysView[str]:
        """Return the names of the variants."""
        return self._variants.keys()

    def values(self) -> ValuesView[Variant]:
        """Return the variants."""
        return self._variants.values()

    def items(self) -> ItemsView[str, Variant]:
        """Return names and variants."""
        return self._variants.items()

    def to_json(self) -> str:
        """Return the JSON object `schedcast.comparison/1`, the same bytes as the command writes."""
        return self._answer.to_json()

    def table(self, layout: str = "table", *, verbose: bool = False) -> str:
        """Return a table as text.

        Args:
            layout: `table`, `markdown`, `mmtests` (positive is better) or `lkp` (raw change).
            verbose: Every metric, not only the usual ones.

        Raises:
            schedcast.UsageError: There is no such layout.
        """
        return self._answer.table(layout, verbose)

    def summary(self) -> Table:
        """Return one row for each variant and metric.

        Columns: `variant`, `metric`, `unit`, `better` (text); `mean`, `ci95_low`, `ci95_high` (of
        the mean, in the unit); `one_run95_low`, `one_run95_high` (of one run); `ratio`,
        `ratio_ci95_low`, `ratio_ci95_high` (of the baseline); `significant`; `at_least` (the mean
        is a lower bound).
        """
        return self._answer.summary()

    def samples(self) -> Table:
        """Return one row a variant, metric and seed: `variant`, `metric`, `seed`, `value`."""
        return self._answer.samples()

    def _arrow(self) -> Table:
        return self.summary()

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"Comparison({list(self)!r}, seeds={self.seeds})"

    def _repr_markdown_(self) -> str:
        return self.table("markdown")


@dataclass(frozen=True)
class Option:
    """One limit that was looked at, with what it would do."""

    #: Name of its column.
    name: str
    #: CPU time per period in microseconds; None is no limit.
    quota_us: int | None
    #: The period in microseconds.
    period_us: int
    #: What may be carried over, in microseconds.
    burst_us: int
    #: Whether it keeps every promise and its price can be paid.
    suits: bool
    #: Share of the wish to run that throttling denied to the group's threads.
    time_lost: float
    #: Share of the active periods that ended throttled.
    periods_throttled: float
    #: The most of it in 95 of 100 runs.
    periods_throttled_at_most: float
    #: One for each promise, as in the JSON.
    forecasts: list[dict[str, Any]]
    #: Why the service does not keep up with its requests; None where it does. It never suits then.
    falls_behind: str | None
    #: Requests that finish, or activations where no requests are known.
    finished: float
    #: The neighbour that loses most, as in the JSON; None without neighbours.
    price: dict[str, Any] | None


class Advice:
    """The smallest limits that keep promises; `print` shows the command's ticket."""

    def __init__(self, text: str, table: str) -> None:
        self._text = text
        self._table = table
        form = json.loads(text)
        #: The recording's folder as it was given.
        self.recording: str = form["recording"]
        #: The group that is advised about.
        self.target: str = form["target"]
        #: The promises in full.
        self.slos: list[str] = form["slos"]
        #: What `Option.finished` counts: `requests` or `activations`.
        self.counted: str = form["counted"]
        #: How much worse a neighbour may become, as a share; None: as much as it does.
        self.max_neighbour: float | None = form["max_neighbour"]
        #: What was looked at: first the recorded limit, last none at all.
        self.options: list[Option] = [Option(**one) for one in form["options"]]
        #: The recommended limit in the words of each tool; None if none suits.
        self.patches: dict[str, Any] | None = form["patches"]
        #: `recommended`, `too_dear`, `only_without_limit`, `not_certain` or `not_kept`.
        self.conclusion: str = form["conclusion"]
        names = {option.name: option for option in self.options}
        #: The recommended option; None if none suits.
        self.recommended: Option | None = names.get(form["recommended"])
        #: The simulated limits as the JSON of a comparison.
        self.comparison: dict[str, Any] = form["comparison"]

    def to_json(self) -> str:
        """Return the JSON object `schedcast.advice/1`, the same bytes as the command writes."""
        return self._text

    def __str__(self) -> str:
        return self._table

    def __repr__(self) -> str:
        return f"Advice({self.recommended!r})"


@dataclass(frozen=True)
class Forecast:
    """A promise under one column of settings."""

    #: The full name of the metric.
    metric: str
    #: Unit of mean and interval.
    unit: str
    #: Mean over seeds; None where a run has no such value.
    mean: float | None
    #: 95 % interval, the misfit of the recorded settings allowed for; None as the mean.
    interval: tuple[float, float] | None
    #: Whether the whole interval keeps the promise.
    met: bool
    #: Whether the mean is a lower bound: the percentile falls among what had not finished.
    at_least: bool = False
    #: Whether the recording itself breaks the promise, under a limit that grants at least as much,
    #: or only clients with a schedule would keep it.
    refuted: bool = False

    @classmethod
    def _of(cls, form: dict[str, Any]) -> Forecast:
        return cls(**{**form, "interval": _pair(form["interval"])})


class Check:
    """Promises under every column of settings; `print` shows the command's table."""

    def __init__(self, text: str, table: str) -> None:
        self._text = text
        self._table = table
        form = json.loads(text)
        #: The kernel, with the keys of `[kernel]`.
        self.kernel: dict[str, Any] = form["kernel"]
        #: Warnings that a reader needs before the verdict.
        self.warnings: list[str] = form["warnings"]
        #: The promises in full.
        self.slos: list[str] = form["slos"]
        #: Whether every promise is kept in every column.
        self.passes: bool = form["passes"]
        #: Of each column one forecast for each promise.
        self.columns: dict[str, list[Forecast]] = {
            column["name"]: [Forecast._of(one) for one in column["forecasts"]]
            for column in form["columns"]
        }
        #: Of each column why the service does not keep up with its requests; None where it does.
        self.falls_behind: dict[str, str | None] = {
            column["name"]: column["falls_behind"] for column in form["columns"]
        }

    def __bool__(self) -> bool:
        """Return `passes`: `if schedcast.check(…)` and `assert` mean what they say."""
        return self.passes

    def to_json(self) -> str:
        """Return the JSON object `schedcast.check/1`, the same bytes as the command writes."""
        return self._text

    def __str__(self) -> str:
        return self._table

    def __repr__(self) -> str:
        return f"Check(passes={self.passes})"


class Sweep(_Arrow):
    """The results of a sweep, one row a point: an Arrow table, like `Comparison`.

    Columns: `variant`, one for each key of the grid, then for each metric `NAME`, `NAME ci95 low`
    and `NAME ci95 high` in the metric's unit.
    """

    def __init__(self, results: _native.SweepResults) -> None:
        self._results = results
        form = json.loads(results.to_json())
        #: Title of the experiment.
        self.title: str = form["title"]
        #: Runs of each point.
        self.seeds: int = form["seeds"]
        #: Keys of the grid.
        self.axes: list[str] = form["axes"]
        #: The points as in `results.json`.
        self.points: list[dict[str, Any]] = form["points"]

    def __len__(self) -> int:
        return len(self.points)

    def to_json(self) -> str:
        """Return the bytes of `results.json`."""
        return self._results.to_json()

    def to_csv(self) -> str:
        """Return the bytes of `results.csv`."""
        return self._results.to_csv()

    def table(self, metrics: list[str] | None = None) -> str:
        """Return a table of some metrics (default: the usual ones) as text."""
        return self._results.table(metrics)

    def rows(self) -> Table:
        """Return the table as an Arrow object."""
        return self._results.points()

    def _arrow(self) -> Table:
        return self.rows()

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"Sweep({len(self)} points, axes={self.axes!r}, seeds={self.seeds})"


class Fleet(_Arrow):
    """The limits of the containers of a cluster, one row each: an Arrow table, like `Comparison`.

    Behind the limited containers, which `len` counts, the table has those without a limit and those
    without an answer. Columns
    are those of the command's `--csv`: limits and use in CPUs, shares between 0 and 1, the period
    in microseconds. `polars.DataFrame(fleet).write_parquet("fleet.parquet")` keeps them.
    """

    def __init__(self, text: str, printed: str, table: Table) -> None:
        self._text, self._printed, self._table = text, printed, table
        form = json.loads(text)
        #: What the answer rests on: `counters`.
        self.tier: str = form["tier"]
        #: Share of a container's periods that may be throttled.
        self.throttled_below: float = form["throttled_below"]
        #: CPUs of limits that were to be given away; None if none were.
        self.budget_cpus: float | None = form["budget_cpus"]
        #: Number of containers without a limit.
        self.unlimited: int = form["unlimited"]
        #: Number of series that are sums of containers, and no containers.
        self.sums: int = form["sums"]
        #: Containers without an answer: `name`, and `why`.
        self.silent: list[dict[str, str]] = form["silent"]
        #: The containers as in the command's JSON, those that are throttled most often first.
        self.containers: list[dict[str, Any]] = form["containers"]

    def __len__(self) -> int:
        return len(self.containers)

    def to_json(self) -> str:
        """Return the JSON object `schedcast.fleet/1`, the same bytes as the command writes."""
        return self._text

    def rows(self) -> Table:
        """Return the table as an Arrow object."""
        return self._table

    def _arrow(self) -> Table:
        return self._table

    def __str__(self) -> str:
        return self._printed

    def __repr__(self) -> str:
        return f"Fleet({len(self)} containers)"
