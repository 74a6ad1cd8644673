"""The verbs: run, compare, sweep, what_if, advise, check, fleet."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Union

from . import _native
from ._experiment import Experiment
from ._native import UsageError
from ._question import Settings, Variants, asked, expect, promises, threads
from ._question import folder as path_of
from ._results import Advice, Check, Comparison, Fleet, Sweep

#: What an experiment can be given as; see `Experiment`.
Source = Union[Experiment, str, "os.PathLike[str]", Mapping[str, Any]]
#: Called with the number of runs that have ended and the number of all runs.
Progress = Callable[[int, int], object]


def _experiment(source: Source) -> Experiment:
    return source if isinstance(source, Experiment) else Experiment(source)


def compare(
    experiment: Source,
    *,
    set: Settings | None = None,
    variants: Variants | None = None,
    cgroup: str | None = None,
    seeds: int | None = None,
    duration: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Run all variants of an experiment under the same seeds and compare them with the first.

    Args:
        experiment: An `Experiment`, or what one is made of: a path, a text, a dict.
        set: Settings over every variant, such as `{"kernel.hz": 1000}`, or `{"cpu.max": "50000"}`
            with `cgroup`.
        variants: Further variants by name, each with its settings.
        cgroup: The group whose `cpu.*` files settings mean.
        seeds: Runs of each variant, with seeds 0 to `seeds` - 1; over what the experiment says.
        duration: Simulated time of each run, such as `"20s"` or `"500ms"`.
        workers: Threads; default one for each CPU. The result does not depend on it.
        progress: Called in this thread with (ended runs, all runs), now and then and at the end.

    Returns:
        The comparison, the first variant being the baseline.

    Raises:
        schedcast.Error: A mistake, with its place; a run that failed.
        KeyboardInterrupt: Ctrl-C; runs that have begun end first.
    """
    question = asked(
        **_experiment(experiment)._source(),
        set=set,
        variants=variants,
        cgroup=cgroup,
        seeds=seeds,
        duration=duration,
    )
    return Comparison(_native.ask(question, threads(workers), progress))


def run(
    experiment: Source | None = None,
    *,
    command: str | Sequence[str] | None = None,
    variant: str | None = None,
    set: Settings | None = None,
    cgroup: str | None = None,
    seeds: int | None = None,
    duration: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Run one variant, or a command without any experiment.

    Args:
        experiment: As for `compare`; None with `command`.
        command: A command line such as `"schbench -m 1 -t 3 -r 20"`, or its words.
        variant: The variant to run, if there are several.
        set: Settings over it.
        cgroup: The group that `command` starts in, and whose `cpu.*` files settings mean.
        seeds: Runs, with seeds 0 to `seeds` - 1.
        duration: Simulated time of each run, such as `"20s"`.
        workers: Threads; default one for each CPU.
        progress: Called in this thread with (ended runs, all runs).

    Returns:
        A comparison of one variant, named `run` for a command.

    Raises:
        schedcast.Error: A mistake, with its place; several variants and none named.
        TypeError: Both or neither of `experiment` and `command`.
        KeyboardInterrupt: Ctrl-C; runs that have begun end first.
    """
    if (experiment is None) == (command is None):
        raise TypeError("either an experiment or a command")
    source: dict[str, Any]
    if experiment is not None:
        source = _experiment(experiment)._source()
    else:
        words = shlex.split(command) if isinstance(command, str) else list(command or ())
        source = {"command": words}
    question = asked(
        **source,
        only=variant,
        single=True,
        set=set,
        cgroup=cgroup,
        seeds=seeds,
        duration=duration,
    )
    return Comparison(_native.ask(question, threads(workers), progress))


def what_if(
    recording: str | os.PathLike[str],
    set: Settings | None = None,
    *,
    variants: Variants | None = None,
    cgroup: str | None = None,
    measured: bool = False,
    seeds: int | None = None,
    duration: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Replay a recording as it was and under other settings.

    Args:
        recording: The folder of a recording.
        set: Settings of the second variant, such as `{"cpu.max": "60000 100000"}` (microseconds)
            or `{"kernel.version": "6.12"}`; the first is always
            `as recorded, simulated`.
        variants: Further variants by name, each with its settings.
        cgroup: The group whose limits change; default the only one that was limited.
        measured: A further variant for every limit that was really measured, with the measured
            values beside the predicted ones (`Metric.measured`).
        seeds: Replays of each variant.
        duration: Simulated time of each, up to the length of the recording.
        workers: Threads; default one for each CPU.
        progress: Called in this thread with (ended runs, all runs).

    Returns:
        The comparison; `tier` says what the answer rests on.

    Raises:
        schedcast.Error: A recording that cannot be read, a setting that makes no sense.
        KeyboardInterrupt: Ctrl-C; runs that have begun end first.
    """
    question = asked(
        recording=path_of("recording", recording),
        set=set,
        variants=variants,
        cgroup=cgroup,
        measured=measured,
        seeds=seeds,
        duration=duration,
    )
    return Comparison(_native.ask(question, threads(workers), progress))


def advise(
    recording: str | os.PathLike[str],
    slo: str | Sequence[str],
    *,
    cgroup: str | None = None,
    max_neighbour: str | None = None,
    client: str | None = None,
    force: bool = False,
    seeds: int | None = None,
    duration: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Find the smallest limits under which a recorded service keeps its promises, and who pays.

    Args:
        recording: The folder of a recording.
        slo: A promise such as `"p99<80ms"`, or several.
        cgroup: The group whose limits are in question; default the only one that was limited.
        max_neighbour: How much worse a neighbour may become, such as `"+5%"`.
        client: When clients ask: `"open"` (by a schedule), `"closed"` (when they are answered) or
            `"bounded"` (both); default as the recording shows it.
        force: Advise even if the simulation of the recorded limit misses the recording.
        seeds: Replays of each limit that is tried.
        duration: Simulated time of each, up to the length of the recording.
        workers: Threads; default one for each CPU.
        progress: Called in this thread with (ended runs, 0): the length of a search is not known.

    Returns:
        The limits that were looked at, and the recommended one, if any suits.

    Raises:
        schedcast.Error: A promise about something that is not reported, a recording that cannot be
            read, several limited groups and none named.
        KeyboardInterrupt: Ctrl-C; runs that have begun end first.
    """
    if client not in (None, "open", "closed", "bounded"):
        raise UsageError(f"client: expected open, closed or bounded, found {client!r}")
    question = asked(
        recording=path_of("recording", recording),
        set=None if client is None else {"program.recording.client": client},
        cgroup=cgroup,
        seeds=seeds,
        duration=duration,
    )
    expect("max_neighbour", max_neighbour, str, 'a share such as "+5%"')
    limits = (max_neighbour, force)
    return Advice(*_native.advise(question, promises(slo), *limits, threads(workers), progress))


def check(
    recording: str | os.PathLike[str],
    slo: str | Sequence[str],
    set: Settings | None = None,
    *,
    variants: Variants | None = None,
    cgroup: str | None = None,
    seeds: int | None = None,
    duration: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Check:
    """Judge limits by what a recorded service promises.

    Args:
        recording: The folder of a recording.
        slo: A promise such as `"p99<80ms"`, or several.
        set: Settings to judge, such as `{"cpu.max": "60000 100000"}`; without any and without
            `variants` the recorded limits are judged.
        variants: Further settings to judge, by name.
        cgroup: The group whose limits are in question; default the only one that was limited.
        seeds: Replays of each column.
        duration: Simulated time of each, up to the length of the recording.
        workers: Threads; default one for each CPU.
        progress: Called in this thread with (ended runs, all runs).

    Returns:
        The verdict; `passes` is what the command's exit code says.

    Raises:
        schedcast.Error: A promise about something that is not reported, a recording that cannot be
            read.
        KeyboardInterrupt: Ctrl-C; runs that have begun end first.
    """
    question = asked(
        recording=path_of("recording", recording),
        set=set,
        variants=variants,
        cgroup=cgroup,
        seeds=seeds,
        duration=duration,
    )
    return Check(*_native.judge(question, promises(slo), threads(workers), progress))


def sweep(
    experiment: Source,
    folder: str | os.PathLike[str] | None = None,
    *,
    set: Settings | None = None,
    variants: Variants | None = None,
    cgroup: str | None = None,
    seeds: int | None = None,
    duration: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Run every point of an experiment's grid.

    The grid of a recording's limits is drawn by the command alone: `schedcast sweep RECORDING`.

    Args:
        experiment: As for `compare`, with a `[sweep]`.
        folder: Where finished points are kept: a sweep that was interrupted, or killed, runs only
            what is missing when it is asked again. `results.csv` and `results.json` go there.
        set: Settings over every point.
        variants: Further variants by name.
        cgroup: The group whose `cpu.*` files settings mean.
        seeds: Runs of each point.
        duration: Simulated time of each run.
        workers: Threads; default one for each CPU. The result does not depend on it.
        progress: Called in this thread with (ended runs, all runs that were missing).

    Returns:
        One row a point.

    Raises:
        schedcast.Error: A mistake, with its place; no `[sweep]`; a folder in use.
        KeyboardInterrupt: Ctrl-C; finished points stay in `folder`.
    """
    source = _experiment(experiment)._source()
    if "path" in source and source["path"].is_dir():
        raise UsageError(
            f"experiment: expected one with a [sweep], found the folder {source['path']}\n"
            "hint: what_if and advise are about recordings; the command "
            "`schedcast sweep RECORDING` draws their limits"
        )
    question = asked(
        **source,
        set=set,
        variants=variants,
        cgroup=cgroup,
        seeds=seeds,
        duration=duration,
    )
    place = None if folder is None else path_of("folder", folder)
    module = _native.__file__
    return Sweep(_native.sweep(question, module, place, threads(workers), progress))


def fleet(
    *ranges: str | os.PathLike[str],
    throttled_below: float = 0.05,
    budget: float | None = None,
    cpus: int | None = None,
) -> Fleet:
    """Say which containers of a cluster their limits hold back, and what would be enough.

    Args:
        ranges: Files with answers of Prometheus to `query_range`, in order of time.
        throttled_below: Share of a container's periods that may be throttled, 0 to 1.
        budget: CPUs of limits to give away where they save most throttled time.
        cpus: CPUs of every machine; default what the counters say.

    Returns:
        One row a container.

    Raises:
        schedcast.Error: A file that cannot be read or holds no counters of containers; a share or
            a number of CPUs out of bounds.
    """
    expect("throttled_below", throttled_below, Real, "a share from 0 to 1")
    expect("budget", budget, Real, "a number of CPUs above 0")
    expect("cpus", cpus, Integral, "a number of CPUs from 1 to 4096")
    paths = [path_of("ranges", one) for one in ranges]
    return Fleet(*_native.fleet_of(paths, throttled_below, budget, cpus))


def list_names(what: str) -> str:
    """Return what `schedcast list` prints: `machines`, `kernels`, `patches`, `programs`, `metrics`.

    Raises:
        schedcast.UsageError: Nothing is listed under this name.
    """
    return _native.list_names(what)
