"""Questions in the words of the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Union

from . import _toml

if TYPE_CHECKING:
    from ._native import Asked

#: Settings: a mapping from key to value, or texts as behind ``--set``.
Settings = Union[Mapping[str, object], Sequence[str]]
#: Further variants: a mapping from name to settings.
Variants = Mapping[str, Settings]


def setting(name: str, thing: object) -> str:
    """Return one setting as behind ``--set``."""
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


def asked(
    *,
    path: Path | None = None,
    text: tuple[str, str, Path] | None = None,
    command: list[str] | None = None,
    recording: str | os.PathLike[str] | None = None,
    only: str | None = None,
    single: bool = False,
    cgroup: str | None = None,
    set: Settings | None = None,
    variants: Variants | None = None,
    seeds: int | None = None,
    duration: str | None = None,
    measured: bool = False,
) -> Asked:
    """Return a question for the native half."""
    return {
        "path": path,
        "text": text,
        "command": command,
        "recording": None if recording is None else Path(recording),
        "only": only,
        "single": single,
        "cgroup": cgroup,
        "settings": settings(set),
        "variants": [(name, settings(given)) for name, given in (variants or {}).items()],
        "seeds": seeds,
        "duration": duration,
        "measured": measured,
    }
