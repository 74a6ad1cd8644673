"""Experiments: a file, a text, a dict, or keyword arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native, _toml
from ._question import asked

if TYPE_CHECKING:
    from ._results import Comparison, Sweep

Section = Mapping[str, Any]


class Experiment:
    """An experiment, as in an experiment file.

    Args:
        source: A path (`os.PathLike`, or a string without a line break that does not look like
            TOML), the text of an experiment file, or a mapping with its keys.
        title: One line on what is asked.
        machine: `[machine]`: `preset`, `cpus`, `topology`, `cost`, `latency`.
        kernel: `[kernel]`: `version`, `hz`, `preempt`, `patches`, `features`, tunables.
        cgroup: `[cgroup]`: a mapping from path to files, such as
            `{"/web": {"cpu.max": "50000 100000", "cpu.max.burst": 20000}}` (microseconds).
        program: `[[program]]` sections: `run` or `replay`, `name`, `cgroup`.
        variant: `[[variant]]` sections: `name` and any keys above.
        at: `[[at]]` sections: `time` and what changes then.
        sweep: `[sweep]`: a mapping from dotted key to its values.
        run: `[run]`: `seeds` (runs of each variant) and `duration` (such as `"20s"`).
        directory: Where relative paths in a text or mapping start; default the current directory.

    Keyword sections replace those of a mapping; with a path or a text there can be none.

    Raises:
        TypeError: Sections beside a path or a text, or values that TOML does not have.

    Nothing is read or checked before `check`, `compare`, `run` or `sweep`.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Section | None = None,
        *,
        title: str | None = None,
        machine: Section | None = None,
        kernel: Section | None = None,
        cgroup: Section | None = None,
        program: Sequence[Section] | None = None,
        variant: Sequence[Section] | None = None,
        at: Sequence[Section] | None = None,
        sweep: Section | None = None,
        run: Section | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        named = {
            "title": title,
            "machine": machine,
            "kernel": kernel,
            "cgroup": cgroup,
            "program": program,
            "variant": variant,
            "at": at,
            "sweep": sweep,
            "run": run,
        }
        sections = {name: section for name, section in named.items() if section is not None}
        self._path: Path | None = None
        self._text = ""
        self._directory = Path(directory) if directory is not None else Path()
        if isinstance(source, Mapping) or source is None:
            self._text = _toml.document({**(source or {}), **sections})
            return
        if sections:
            raise TypeError(f"{next(iter(sections))} beside a path or a text: use a variant")
        if isinstance(source, str) and ("\n" in source or "=" in source):
            self._text = source
        else:
            self._path = Path(source)

    @property
    def toml(self) -> str:
        """The experiment as the text of an experiment file.

        Raises:
            OSError: The experiment is a file that cannot be read.
        """
        return self._path.read_text(encoding="utf-8") if self._path else self._text

    def _source(self) -> dict[str, Any]:
        if self._path is not None:
            return {"path": self._path}
        return {"text": ("experiment", self._text, self._directory)}

    def check(self) -> list[str]:
        """Read the experiment without running it.

        Returns:
            The names of its variants; with a grid, of each point of each variant.

        Raises:
            schedcast.Error: The first mistake, with its place.
        """
        return _native.check(asked(**self._source()))

    def compare(self, **options: Any) -> Comparison:  # noqa: ANN401
        """Run all variants; see `schedcast.compare`."""
        from ._ask import compare

        return compare(self, **options)

    def run(self, **options: Any) -> Comparison:  # noqa: ANN401
        """Run one variant; see `schedcast.run`."""
        from ._ask import run

        return run(self, **options)

    def sweep(self, folder: str | os.PathLike[str] | None = None, **options: Any) -> Sweep:  # noqa: ANN401
        """Run the grid; see `schedcast.sweep`."""
        from ._ask import sweep

        return sweep(self, folder, **options)

    def __repr__(self) -> str:
        return f"Experiment({str(self._path)!r})" if self._path else f"Experiment({self._text!r})"
