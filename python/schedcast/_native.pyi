"""The native half of the package."""

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

__version__: str

class Error(Exception): ...
class UsageError(Error): ...
class InputError(Error): ...
class FileError(Error): ...

class Asked(TypedDict):
    """One question; exactly one of path, text, command and recording is not None."""

    path: Path | None
    text: tuple[str, str, Path] | None
    command: list[str] | None
    recording: Path | None
    only: str | None
    single: bool
    cgroup: str | None
    settings: list[str]
    variants: list[tuple[str, list[str]]]
    seeds: int | None
    duration: str | None
    measured: bool

class Table:
    """A table that libraries with the Arrow PyCapsule interface take without a copy."""

    @property
    def column_names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_pydict(self) -> dict[str, list[object]]: ...

class Answer:
    """An answered question."""

    def to_json(self) -> str: ...
    def table(self, layout: str = "table", verbose: bool = False) -> str: ...
    def summary(self) -> Table: ...
    def samples(self) -> Table: ...

class SweepResults:
    """The results of a sweep."""

    def to_json(self) -> str: ...
    def to_csv(self) -> str: ...
    def table(self, metrics: list[str] | None = None) -> str: ...
    def points(self) -> Table: ...

Progress = Callable[[int, int], object]

def ask(asked: Asked, workers: int | None = None, progress: Progress | None = None) -> Answer: ...
def advise(
    asked: Asked,
    slos: list[str],
    max_neighbour: str | None = None,
    force: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[str, str]: ...
def judge(
    asked: Asked,
    slos: list[str],
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[str, str]: ...
def check(asked: Asked) -> list[str]: ...
def fleet_of(
    ranges: list[Path],
    throttled_below: float,
    budget: float | None = None,
    cpus: int | None = None,
) -> tuple[str, str, Table]: ...
def list_names(what: str) -> str: ...
def sweep(
    asked: Asked,
    module: str,
    folder: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    part: str | None = None,
    merged: list[Path] = ...,
) -> SweepResults: ...
