"""Experiment documents as TOML text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def key(name: object) -> str:
    """Return `name` as a TOML key, quoted where it must be."""
    text = str(name)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def value(thing: object) -> str:
    """Return `thing` as a TOML value on one line.

    Raises:
        TypeError: `thing` is no str, bool, int, float, list, tuple or mapping of these.
    """
    if isinstance(thing, bool):
        return "true" if thing else "false"
    if isinstance(thing, int):
        return str(thing)
    if isinstance(thing, float):
        return repr(thing) if math.isfinite(thing) else str(thing).replace("infinity", "inf")
    if isinstance(thing, str):
        # JSON's escapes are TOML's; DEL, which JSON leaves as it is, is not allowed in TOML.
        return json.dumps(thing, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(thing, Mapping):
        entries = ", ".join(f"{key(name)} = {value(inner)}" for name, inner in thing.items())
        return f"{{ {entries} }}" if entries else "{}"
    if isinstance(thing, Sequence) and not isinstance(thing, (bytes, bytearray)):
        return f"[{', '.join(value(inner) for inner in thing)}]"
    # numpy's scalars know their Python value.
    item = getattr(thing, "item", None)
    if callable(item):
        return value(item())
    raise TypeError(f"an experiment cannot hold {thing!r} of type {type(thing).__name__}")


def document(tree: Mapping[str, Any]) -> str:
    """Return `tree` as a TOML document, one key or section a line."""
    return "\n".join(_section(tree, [])) + "\n"


def _section(tree: Mapping[str, Any], path: list[str]) -> list[str]:
    plain = {name: inner for name, inner in tree.items() if not _is_section(inner)}
    lines = [f"{key(name)} = {value(inner)}" for name, inner in plain.items()]
    for name, inner in tree.items():
        if name in plain:
            continue
        below = [*path, key(name)]
        if isinstance(inner, Mapping):
            lines += ["", f"[{'.'.join(below)}]", *_section(inner, below)]
        else:
            for one in inner:
                lines += ["", f"[[{'.'.join(below)}]]", *_section(one, below)]
    return lines


def _is_section(thing: object) -> bool:
    if isinstance(thing, Mapping):
        return True
    return (
        isinstance(thing, (list, tuple))
        and len(thing) > 0
        and all(isinstance(one, Mapping) for one in thing)
    )
