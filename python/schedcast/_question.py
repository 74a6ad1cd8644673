"""Questions in the words of the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Union

from . import _toml
from ._native import InputError, UsageError

if TYPE_CHECKING:
    from ._native import Asked

#: Settings: a mapping from key to value, or texts as behind ``--set``.
Settings = Union[Mapping[str, object], Sequence[str]]
#: Further variants: a mapping from name to settings.
Variants = Mapping[str, Settings]


def setting(name: str, thing: object) -> str:
    """Return one setting as behind ``--set``.

    Raises:
        schedcast.InputError: A kernel's version as a number, which has lost its last zeros.
    """
    is_number = isinstance(thing, (int, float))
    if is_number and name.rpartition(".")[2] == "version":
        raise InputError(
            f"{name}: expected a kernel version as a string, found the number {thing}\n"
            'hint: write version = "6.12": as a number 6.10 would be 6.1'
        )
    return f"{name}={thing}" if isinstance(thing, str) else f"{name}={_toml.value(thing)}"


def settings(given: Settings | None) -> list[str]:
    """Return settings as behind ``--set``.

    Raises:
        TypeError: A single string, which would be taken for a list of letters.
    """
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [setting(name, thing) for name, thing in given.items()]
    if isinstance(given, str):
        raise TypeError(f"settings are a mapping or a list of 'KEY=VALUE': [{given!r}]")
    return list(given)


def expect(name: str, thing: object, kind: type, expected: str) -> None:
    """Refuse an argument that is neither None nor of a kind.

    Raises:
        schedcast.UsageError: It names the argument, what was expected and what was found.
    """
    if thing is not None and (not isinstance(thing, kind) or isinstance(thing, bool)):
        raise UsageError(f"{name}: expected {expected}, found {thing!r}")


def threads(workers: int | None) -> int | None:
    """Return a number of threads.

    Raises:
        schedcast.UsageError: It is no number above 0.
    """
    expected = "a number of threads from 1 on"
    expect("workers", workers, Integral, expected)
    if workers is not None and workers < 1:
        raise UsageError(f"workers: expected {expected}, found {workers}")
    return workers


def folder(name: str, thing: str | os.PathLike[str]) -> Path:
    """Return an argument that is a path.

    Raises:
        schedcast.UsageError: It is none.
    """
    if not isinstance(thing, (str, os.PathLike)):
        raise UsageError(f"{name}: expected a path, found {thing!r}")
    return Path(thing)


def promises(slo: str | Sequence[str]) -> list[str]:
    """Return promises as a list.

    Raises:
        schedcast.UsageError: It is neither a text nor a list of texts.
    """
    slos = [slo] if isinstance(slo, str) else slo
    if not isinstance(slos, Sequence) or not all(isinstance(one, str) for one in slos):
        expected = 'a promise such as "p99<80ms", or several'
        raise UsageError(f"slo: expected {expected}, found {slo!r}")
    return list(slos)


def asked(
    *,
    path: Path | None = None,
    text: tuple[str, str, Path] | None = None,
    command: list[str] | None = None,
    recording: Path | None = None,
    only: str | None = None,
    single: bool = False,
    cgroup: str | None = None,
    set: Settings | None = None,
    variants: Variants | None = None,
    seeds: int | None = None,
    duration: str | None = None,
    measured: bool = False,
) -> Asked:
    """Return a question for the native half.

    Raises:
        schedcast.UsageError: An argument of another type than its own.
    """
    seeds_expected = "a number of runs from 1 on"
    expect("seeds", seeds, Integral, seeds_expected)
    if seeds is not None and not 1 <= seeds < 1 << 32:
        raise UsageError(f"seeds: expected {seeds_expected}, found {seeds}")
    expect("duration", duration, str, 'a time such as "20s"')
    expect("cgroup", cgroup, str, "the path of a group")
    expect("variant", only, str, "the name of a variant")
    return {
        "path": path,
        "text": text,
        "command": command,
        "recording": recording,
        "only": only,
        "single": single,
        "cgroup": cgroup,
        "settings": settings(set),
        "variants": [(name, settings(given)) for name, given in (variants or {}).items()],
        "seeds": seeds,
        "duration": duration,
        "measured": measured,
    }
