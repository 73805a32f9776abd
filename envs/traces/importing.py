"""Imports a folder as a trace set: item after item into a folder of parts, which are then merged.

An import that was stopped continues with the parts that are there, also after the set has its name: the file
`finished` among the parts has its digest, so that the same import may replace it. The set depends on the files alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common import provenance
from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.common.files import (
    MOST_RECORDING,
    atomic_write_bytes,
    atomic_write_text,
    load_arrays,
    open_regular,
    parse_json,
    read_bytes,
)
from orbitcc.common.names import plain
from orbitcc.envs.orbits import trace_set
from orbitcc.envs.traces.layouts import LAYOUTS, Item, read

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE_S, LEAST_S = 300.0, 15.0
"""Longer paths are cut into pieces of 300 s; a rest of less than a slot is left out."""
_MOST_ARRAYS = 4 * trace_set.MOST_PATHS + 1
_MERGED, _FINISHED = "merged", "finished"
_OWN = re.compile(r"\.lock|merged|\.?([0-9a-f]{24}\.npz|finished)(\.\w+\.tmp)?")
"""Files in a folder of parts; the lock is that of the command."""


@dataclass(frozen=True)
class Job:
    """One item to read, and the file for what is read."""

    layout: str
    folder: Path
    item: Item
    part: Path


def plan(layout: str, folder: Path, out: Path) -> list[Job]:
    """The items of a folder. Raises FileError when there are none."""
    if not folder.is_dir():
        raise FileError("DIR", str(folder), "an existing folder")
    chosen = LAYOUTS[layout]
    items = _items(chosen.find(folder), folder, out)
    if not items:
        raise FileError("DIR", str(folder), f"a folder with files as {layout} has them: {chosen.wanted}")
    if len(items) > trace_set.MOST_PATHS:
        raise FileError("DIR", str(folder), f"at most {trace_set.MOST_PATHS:,} paths; it has {len(items):,} or more")
    parts = parts_of(out)
    return [Job(layout, folder, item, parts / f"{_key(layout, folder, item)}.npz") for item in items]


def _items(found: list[Item], folder: Path, out: Path) -> list[Item]:
    """The items without the set itself and its parts, which may lie in the folder. Where two have the same name, it is
    the name of their file."""
    own = {Path(os.path.relpath(path.resolve(), folder.resolve())) for path in (out, parts_of(out))}
    found = [item for item in found if own.isdisjoint((Path(item.files[0]), *Path(item.files[0]).parents))]
    count, files = Counter(item.name for item in found), {item.files[0] for item in found}
    return [replace(item, name=item.files[0]) if count[item.name] > 1 or item.name in files else item for item in found]


def parts_of(out: Path) -> Path:
    """The folder of the parts of a set."""
    return out.with_name(f"{out.name}.parts")


def picture_of(out: Path) -> Path:
    """The picture of a set, beside it."""
    return out.with_suffix(".png")


def check_out(out: Path, overwrite: bool) -> None:
    """Raises FileError where the import would replace the set or picture of another one (unless overwrite), or the
    folder of its parts has other files."""
    parts = parts_of(out)
    if os.path.lexists(parts) and (
        parts.is_symlink() or not parts.is_dir() or not all(map(_OWN.fullmatch, os.listdir(parts)))
    ):
        raise FileError("--out", str(out), f"another name, because {parts} is not a folder that an import has made")
    if overwrite or _is_finished(out):
        return
    for path in (out, picture_of(out)):
        if path.exists():
            raise FileError("--out", str(path), "a file that does not exist yet, or --overwrite")


def _is_finished(out: Path) -> bool:
    """Whether the set was made from the parts beside it."""
    try:
        return read_bytes(parts_of(out) / _FINISHED) == trace_set.opened(out).digest.encode()
    except OrbitccError:
        return False


def _clear(parts: Path) -> None:
    """Remove the parts, at last what says that their set is finished, and their folder if it has nothing else."""
    for path in sorted(parts.iterdir(), key=lambda path: path.name == _FINISHED):
        if _OWN.fullmatch(path.name):
            path.unlink()
    with contextlib.suppress(OSError):  # it is not empty
        parts.rmdir()


def _key(layout: str, folder: Path, item: Item) -> str:
    """A name that another version of a file, or of the readers, does not have."""
    digest = hashlib.sha256(f"{provenance.version()} {trace_set.FORMAT} {layout} {item}".encode())
    for name in item.files:
        try:
            found = os.stat(folder / name)
            digest.update(f" {found.st_size} {found.st_mtime_ns}".encode())
        except OSError:
            digest.update(b" missing")
    return digest.hexdigest()[:24]


def run(job: Job) -> None:
    """Read one item and write its part: the paths, or why there are none."""
    said: dict[str, Any] = {"paths": [], "files": {}, "error": ""}
    arrays: dict[str, NDArray[Any]] = {}
    try:
        for name in job.item.files:
            said["files"][name] = _digest(job.folder / name)
        for path in read(job.layout, job.folder, job.item):
            for piece in path.pieces(PIECE_S, LEAST_S):
                try:
                    piece.trace()  # whatever is not allowed in a path is an error here
                except OrbitccError as error:
                    raise error.at(f"{job.item.files[0]}: {error.field}") from None
                arrays |= {f"{len(said['paths'])}/{name}": values for name, values in piece.arrays().items()}
                said["paths"].append(piece.entry())
        if not said["paths"]:
            said["error"] = f"{job.item.files[0]}: no path of at least {LEAST_S:g} s"
    except OrbitccError as error:
        said, arrays = {"paths": [], "files": {}, "error": str(error).replace(f"{job.folder}{os.sep}", "")}, {}
    text = np.frombuffer(_escaped(json.dumps(said, ensure_ascii=False)).encode(), np.uint8)
    data = io.BytesIO()
    np.savez_compressed(data, allow_pickle=False, said=text, **arrays)
    atomic_write_bytes(job.part, data.getvalue())


def _escaped(text: str) -> str:
    """JSON text in which the bytes of file names that are not UTF-8 are escapes such as `\\udcff`."""
    return re.sub(r"[\ud800-\udfff]", lambda found: f"\\\\u{ord(found[0]):x}", text)


def _digest(path: Path) -> str:
    with open_regular(path, MOST_RECORDING) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def merge(jobs: list[Job], out: Path, licence: str | None) -> tuple[trace_set.TraceSet, list[str]]:
    """The set of all parts, and the files that could not be read.

    Raises:
        OrbitccError: no file could be read, or the paths do not make three parts.
    """
    layout = jobs[0].layout
    entries: list[dict[str, Any]] = []
    digests: dict[str, str] = {}
    unreadable: list[str] = []
    for job in jobs:
        said = _said(job)
        entries += said["paths"]
        digests |= said["files"]
        unreadable += [said["error"]] if said["error"] else []
    if not entries:
        raise FileError(
            "DIR", str(jobs[0].folder), f"a folder with at least one file that can be read ({unreadable[0]})"
        )
    if len(entries) > trace_set.MOST_PATHS:
        raise FileError("DIR", str(jobs[0].folder), f"at most {trace_set.MOST_PATHS:,} paths; it has {len(entries):,}")
    try:
        unit, number, parts = trace_set.split([(e["place"], e["date"]) for e in entries])
    except OrbitccError as error:
        if not unreadable:
            raise
        why = f"{len(unreadable)} could not be read, first {unreadable[0]}"
        raise OrbitccError("paths", error.value, f"{error.allowed}; {why}") from None
    header = {
        "layout": layout,
        "source": plain(jobs[0].folder.resolve().name),
        **LAYOUTS[layout].origin,
        "licence": licence or LAYOUTS[layout].licence,
        "unit": unit,
        "number": number,
        "files": digests,
        "unreadable": unreadable,
    }
    merged = parts_of(out) / _MERGED
    trace_set.write(merged, header, _paths(jobs, iter(parts)))
    atomic_write_text(parts_of(out) / _FINISHED, trace_set.TraceSet(merged).digest)
    os.replace(merged, out)
    return trace_set.opened(out), unreadable


def _arrays(job: Job, known: tuple[str, ...] | None) -> dict[str, NDArray[Any]]:
    return load_arrays(job.part, known, most_members=_MOST_ARRAYS)


def _said(job: Job) -> dict[str, Any]:
    found = parse_json(_arrays(job, ("said",))["said"].tobytes())
    assert isinstance(found, dict)
    return found


def _paths(jobs: list[Job], parts: Iterator[str]) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
    for job in jobs:
        arrays = _arrays(job, None)
        for k, entry in enumerate(_said(job)["paths"]):
            names = [name for name in (*trace_set.ARRAYS, "slots") if f"{k}/{name}" in arrays]
            yield {**entry, "part": next(parts)}, {name: arrays[f"{k}/{name}"] for name in names}


def is_done(job: Job) -> bool:
    """Whether the part of an item is there."""
    try:
        return bool(_said(job))
    except (FileError, KeyError, ValueError):
        return False


def import_set(
    layout: str,
    folder: Path,
    out: Path,
    apply: Callable[..., Iterator[tuple[int, Any]]],
    progress: Callable[[int, int], None],
    licence: str | None = None,
    finish: Callable[[trace_set.TraceSet], object] = lambda found: None,
) -> tuple[trace_set.TraceSet, list[str]]:
    """Import a folder; the set, and the files that could not be read.

    apply: a function of :mod:`orbitcc.parallel.work`. progress: gets the number of items done, and of all items.
    finish: gets the set before its parts are removed; an import that is stopped in it is continued, too.
    """
    jobs = plan(layout, folder, out)
    missing = [job for job in jobs if not is_done(job)]
    done = len(jobs) - len(missing)
    progress(done, len(jobs))
    for _ in apply(run, missing, lambda job: job.item.name):
        done += 1
        progress(done, len(jobs))
    try:
        found = merge(jobs, out, licence)
    except OrbitccError:
        _clear(parts_of(out))
        raise
    finish(found[0])
    _clear(parts_of(out))
    return found
