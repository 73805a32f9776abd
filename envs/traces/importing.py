"""Imports a folder as a trace set: item after item into a folder of parts, which are then merged.

An import that was stopped continues with the parts that are there. The set depends on the files alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common import provenance
from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.common.files import MOST_RECORDING, atomic_write_bytes, load_arrays, open_regular, parse_json
from orbitcc.common.names import plain
from orbitcc.envs.orbits import trace_set
from orbitcc.envs.traces.layouts import LAYOUTS, Item, read

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE_S, LEAST_S = 300.0, 15.0
"""Longer paths are cut into pieces of 300 s; a rest of less than a slot is left out."""
_MOST_ARRAYS = 4 * trace_set.MOST_PATHS + 1


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
    items = chosen.find(folder)
    if not items:
        raise FileError("DIR", str(folder), f"a folder with files as {layout} has them: {chosen.wanted}")
    if len(items) > trace_set.MOST_PATHS:
        raise FileError("DIR", str(folder), f"at most {trace_set.MOST_PATHS:,} paths; it has {len(items):,} or more")
    parts = parts_of(out)
    return [Job(layout, folder, item, parts / f"{_key(layout, folder, item)}.npz") for item in items]


def parts_of(out: Path) -> Path:
    """The folder of the parts of a set."""
    return out.with_name(f"{out.name}.parts")


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
    """The set of all parts, and the files that could not be read. Its folder of parts is removed.

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
    merged = parts_of(out) / "merged"
    trace_set.write(merged, header, _paths(jobs, iter(parts)))
    os.replace(merged, out)
    shutil.rmtree(parts_of(out))
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
) -> tuple[trace_set.TraceSet, list[str]]:
    """Import a folder; the set, and the files that could not be read.

    apply: a function of :mod:`orbitcc.parallel.work`. progress: gets the number of items done, and of all items.
    """
    jobs = plan(layout, folder, out)
    missing = [job for job in jobs if not is_done(job)]
    done = len(jobs) - len(missing)
    progress(done, len(jobs))
    for _ in apply(run, missing, lambda job: job.item.name):
        done += 1
        progress(done, len(jobs))
    try:
        return merge(jobs, out, licence)
    except OrbitccError:
        shutil.rmtree(parts_of(out))
        raise
