"""Sweeps on the workers of a Dask cluster.

A grid is cut into parts, and each part is a task. What a task returns is the journal of its part,
which this process syncs to disk at once: the journals are the truth, and a worker or this process
may die at any moment. Asked again, the sweep runs the parts that are missing::

    from distributed import Client
    import schedcast.distributed

    client = Client("tcp://scheduler:8786")
    sweep = schedcast.distributed.sweep("grid.toml", "grid.sweep", client)

The results are the bytes that `schedcast.sweep` would have written. Worked example: 10,000 points
on 16 workers are 256 parts of 39 or 40 points; a worker that dies costs at most those forty.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native
from ._ask import _experiment
from ._question import asked
from ._results import Sweep

if TYPE_CHECKING:
    from distributed import Client, Future

    from ._ask import Source

#: Parts for each thread of the cluster, so that a slow worker does not hold up the end. Every part
#: reads the whole grid, which takes half a second for 10,000 points.
PARTS_EACH = 16
#: Workers that may die with the same part before it counts as the cause.
DEATHS = 20


def _build() -> str:
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()


def _packed(files: Iterable[str | os.PathLike[str]], directory: Path) -> bytes:
    """Return the files and folders, by their paths below `directory`, as a tar file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in sorted(str(file) for file in files):
            # Times and owners are no part of the content.
            same = {"mtime": 0, "uid": 0, "gid": 0, "uname": "", "gname": ""}
            tar.add(
                directory / name,
                arcname=name,
                filter=lambda info, same=same: info.replace(**same, deep=False),
            )
    return packed.getvalue()


def _run(job: dict[str, Any], part: str, files: bytes | None) -> bytes:
    """Run one part in a worker, and return its journal."""
    if _build() != job["build"]:
        raise RuntimeError("this worker has another build of schedcast than the client")
    with tempfile.TemporaryDirectory(prefix="schedcast-") as scratch:
        question = dict(job["question"])
        if files is not None:
            name, text, _ = question["text"]
            with tarfile.open(fileobj=io.BytesIO(files)) as tar:
                tar.extractall(scratch, filter="data")
            question["text"] = (name, text, Path(scratch))
        place = Path(scratch) / "sweep"
        _native.sweep(question, _native.__file__, place, 1, None, part)
        return (place / "journal").read_bytes()


def _keep(journal: Path, content: bytes) -> None:
    """Write a journal so that it is there whole or not at all."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    new = journal.with_name("journal.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.rename(journal)


def sweep(
    experiment: Source,
    folder: str | os.PathLike[str],
    client: Client,
    *,
    parts: int | None = None,
    files: Iterable[str | os.PathLike[str]] = (),
    **options: Any,  # noqa: ANN401
) -> Sweep:
    """Run every point of an experiment's grid on the workers of a cluster.

    Args:
        experiment: As for `schedcast.sweep`.
        folder: Where journals and results go, on this machine.
        client: A client of the cluster, whose workers need the same wheel as this process.
        parts: Number of tasks; default 16 for each thread of the cluster, and no more than points.
        files: Recordings and other files of the experiment, by their paths below its directory,
            that are sent to the workers; without any, workers need them at the same paths.
        **options: `set`, `variants`, `cgroup`, `seeds` and `duration`, as for `schedcast.sweep`.

    Returns:
        One row a point: what `schedcast.sweep` returns, to the byte.

    Raises:
        schedcast.Error: A mistake, with its place; a run that failed.
        RuntimeError: A worker with another build, or a part with which 20 workers died.
    """
    from distributed import KilledWorker, as_completed

    source = _experiment(experiment)
    home = (source._path.parent if source._path else source._directory).resolve()
    question = asked(text=("experiment", source.toml, home), **options)
    points = len(_native.check(question))
    if parts is None:
        parts = PARTS_EACH * max(1, sum(client.nthreads().values()))
    parts = max(1, min(parts, points))
    files = list(files)
    packed = _packed(files, home) if files else None
    job = {"build": _build(), "question": question}
    # Journals of another question are not those of this one.
    parameters = hashlib.sha256(packed or b"")
    parameters.update(repr((job["build"], source.toml, sorted(options.items()))).encode())
    digest = parameters.hexdigest()[:12]
    kept = Path(folder) / f"parts-{digest}"
    names = {
        f"{number}/{parts}": kept / f"part-{number}-of-{parts}" for number in range(1, parts + 1)
    }
    sent = None if packed is None else client.scatter(packed, hash=True)

    def submit(part: str) -> Future:
        return client.submit(_run, job, part, sent, key=f"schedcast-{digest}-{part}", retries=2)

    missing = [part for part, place in names.items() if not (place / "journal").exists()]
    waiting = {submit(part): part for part in missing}
    deaths: dict[str, int] = {}
    running = as_completed(list(waiting))
    try:
        for future in running:
            part = waiting.pop(future)
            try:
                _keep(names[part] / "journal", future.result())
            except KilledWorker as death:
                deaths[part] = deaths.get(part, 0) + 1
                if deaths[part] >= DEATHS:
                    raise RuntimeError(f"part {part}: {DEATHS} workers died with it") from death
                future.retry()
                waiting[future] = part
                running.add(future)
            else:
                future.release()
    finally:
        for future in waiting:
            future.cancel()
    merged = list(names.values())
    return Sweep(_native.sweep(question, _native.__file__, Path(folder), None, None, None, merged))
