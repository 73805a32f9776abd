"""Trace sets: measured paths in one file, each in one part of a fixed split.

The file is a zip archive: `index.json`, and for each path k its arrays `k/delay_ms.npy`, `k/rate_mbps.npy`,
`k/back_mbps.npy` (float32, at regular times, rounded to 0.001) and `k/slots.npy`; those that were not measured are
absent. The comment at the end of the archive is the SHA-256 of all bytes before it, so that any change is found.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import json
import math
import os
import re
import weakref
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import FileContentError, OrbitccError, UnknownNameError
from orbitcc.common.files import DAMAGED_ARRAYS, MB, check_zip, open_regular, parse_json, set_usual_mode, zipped_array
from orbitcc.envs.description.model import MAX_TIME_S
from orbitcc.envs.orbits.trace import Array, Capacity, PathTrace, Slot, slots_since, steps

FORMAT = "orbitcc trace set 2"
PARTS = ("train", "validation", "test")
UP_TO = (0.7, 0.8, 1.0)
"""A unit whose hash, as a share of all hashes, is below such a number belongs to that part."""
FEWEST_UNITS = 20
"""With fewer months (days) of places, units are shorter."""
BLOCKS = (10, 5, 2, 1)
MOST_PATHS = 16_000
"""Paths of a set: with four arrays each, a zip archive of the usual format has no more members."""
MOST_SET, MOST_INDEX, MOST_LIST, MOST_ARRAY = 8_000 * MB, 64 * MB, 8 * MB, 32 * MB
"""Bytes of a set, of its index, of the list of its members, and of one array unpacked."""
MOST_FIGURE, MOST_NAME = 1e9, 5_000
KEPT = 8
"""Sets that a process keeps open."""
ARRAYS = ("delay_ms", "rate_mbps", "back_mbps")
"""Fields of a path that are arrays, beside its slots."""
_COMMENT, _SPREAD = 64, (5, 50, 95)
_SLOT = ("start_s", "interruption_ms", "hold", "loss", "change")
_WANTED = "a trace set of `orbitcc traces import`"


@dataclass(frozen=True, eq=False)
class MeasuredPath:
    """What was measured of a path, at regular times from 0 on.

    delay_ms: one-way delay in each direction, every delay_step_s, [K]; None: not measured.
    rate_mbps, back_mbps: rates in the direction of the data and in the other one, every rate_step_s, [C]; None: not
    measured.
    slots: reconfigurations, outages and losses, the first from 0 on.
    date: YYYY-MM-DD; empty: not known. pauses: start and length in s of times without a sample. doubts: what the
    recording leaves open about its times, in words.
    """

    name: str
    place: str
    date: str
    duration_s: float
    delay_ms: Array | None = None
    delay_step_s: float = 0.01
    rate_mbps: Array | None = None
    back_mbps: Array | None = None
    rate_step_s: float = 0.01
    slots: tuple[Slot, ...] = (Slot(0.0),)
    pauses: tuple[tuple[float, float], ...] = ()
    doubts: tuple[str, ...] = ()

    def pieces(self, length_s: float, least_s: float) -> Iterator[MeasuredPath]:
        """Parts of this length, and the rest if it is not shorter than least_s; the path itself if it is not longer."""
        if self.duration_s <= length_s:
            yield self
            return
        for k in range(math.ceil(self.duration_s / length_s)):
            start_s = k * length_s
            span_s = min(length_s, self.duration_s - start_s)
            if span_s < least_s:
                return

            def cut(values: Array | None, step_s: float, start_s: float = start_s, span_s: float = span_s) -> Any:
                first = round(start_s / step_s)
                return None if values is None else values[first : first + max(1, round(span_s / step_s))]

            yield replace(
                self,
                name=f"{self.name}/{start_s:g}s",
                duration_s=span_s,
                delay_ms=cut(self.delay_ms, self.delay_step_s),
                rate_mbps=cut(self.rate_mbps, self.rate_step_s),
                back_mbps=cut(self.back_mbps, self.rate_step_s),
                slots=tuple(s for s in slots_since(self.slots, start_s) if s.start_s < span_s),
                pauses=tuple((at - start_s, s) for at, s in self.pauses if 0 <= at - start_s < span_s),
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the path in a set."""
        found: dict[str, NDArray[Any]] = {}
        for name in ARRAYS:
            if (values := getattr(self, name)) is not None:
                found[name] = np.round(values, 3).astype(np.float32)
        rows = [
            (s.start_s, math.nan if s.interruption_ms is None else s.interruption_ms, s.interruption_mode == "hold",
             s.loss, s.change)
            for s in self.slots
        ]  # fmt: skip
        return {**found, "slots": np.array(rows, dtype=np.float64)}

    def entry(self) -> dict[str, Any]:
        """The path in the index of a set, without its part."""
        arrays, digest = self.arrays(), hashlib.sha256()
        for name, values in arrays.items():
            digest.update(name.encode() + values.tobytes())
        cuts = [s.interruption_ms / 1e3 for s in self.slots if s.interruption_ms]
        lengths = np.diff([*(s.start_s for s in self.slots), self.duration_s])
        return {
            "name": self.name,
            "place": self.place,
            "date": self.date,
            "duration_s": round(self.duration_s, 6),
            "delay_step_s": None if self.delay_ms is None else self.delay_step_s,
            "rate_step_s": None if self.rate_mbps is None else self.rate_step_s,
            "rtt_ms": None if self.delay_ms is None else _spread(2 * self.delay_ms),
            "rate_mbps": None if self.rate_mbps is None else _spread(self.rate_mbps),
            "outages": len(cuts),
            "outage_s": round(sum(cuts), 3),
            "loss": round(float(lengths @ [s.loss for s in self.slots]) / self.duration_s, 6),
            "most_loss": round(max(s.loss for s in self.slots), 6),
            "reconfigurations": sum(s.change for s in self.slots),
            "unmeasured_s": round(sum(s for _, s in self.pauses), 3),
            "doubts": list(self.doubts),
            "digest": digest.hexdigest()[:16],
        }

    def trace(self) -> PathTrace:
        """The path as a trace; without measured delays they are 0."""
        t, zero, end_s = np.array([0.0, self.duration_s]), np.zeros(2), self.duration_s
        forward, reverse, capacity = zero, zero, None
        if self.delay_ms is not None:
            t, forward, reverse = steps(
                _times(self.delay_ms, self.delay_step_s), self.delay_ms, self.delay_ms, end_s=end_s
            )
        if self.rate_mbps is not None:
            there = self.rate_mbps
            back = there if self.back_mbps is None else self.back_mbps
            new = np.append(True, (np.diff(there) != 0) | (np.diff(back) != 0))
            capacity = Capacity(_times(there, self.rate_step_s)[new], there[new], back[new])
        return PathTrace(self.name, t, forward, reverse, self.slots, capacity)


def _times(values: Array, step_s: float) -> Array:
    """The times of values, as the nearest numbers to decimals."""
    return np.round(np.arange(values.size) * step_s, 9)


def _spread(values: Array) -> list[float]:
    """5 %, median and 95 %."""
    return [round(float(v), 3) for v in np.percentile(values, _SPREAD)]


# -- the split --------------------------------------------------------------------------------------------------------


def part_of(unit: str, number: int = 0) -> str:
    """The part of a unit, `place/month`, `place/day` or `place/block`.

    The first 64 bits of SHA-256 of `orbitcc-traces-NUMBER/UNIT` are a number in [0, 1): below 0.7 train, below 0.8
    validation, otherwise test.
    """
    digest = hashlib.sha256(f"orbitcc-traces-{number}/{unit}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    return next(part for part, most in zip(PARTS, UP_TO, strict=True) if share < most)


def split(paths: Sequence[tuple[str, str]]) -> tuple[str, int, list[str]]:
    """What the units are, the number that the hash counts in, and the part of each path (place, date).

    Units are months of a place; days, if there are fewer than 20 months; or blocks of consecutive paths of a place:
    ten, or five, two or one where these would be fewer than three. The number is 0, or the first with which no part is
    empty and half of the units are for training (of three: one).

    Raises:
        OrbitccError: fewer than three units.
    """
    dated = all(date for _, date in paths)
    levels = [("month", [f"{p}/{d[:7]}" for p, d in paths]), ("day", [f"{p}/{d}" for p, d in paths])]
    levels = [(kind, units) for kind, units in levels if dated and len(set(units)) >= FEWEST_UNITS]
    for size in BLOCKS:
        seen: dict[str, int] = {}
        units = []
        for place, _ in paths:
            units.append(f"{place}/{seen.get(place, 0) // size}")
            seen[place] = seen.get(place, 0) + 1
        levels.append((f"block of {size}", units))
    for kind, units in levels:
        distinct = set(units)
        if len(distinct) >= len(PARTS):
            number = next(n for n in itertools.count() if _is_useful([part_of(unit, n) for unit in distinct]))
            return kind, number, [part_of(unit, number) for unit in units]
    raise OrbitccError("paths", len(paths), f"at least {len(PARTS)}, so that {', '.join(PARTS)} each have one")


def _is_useful(parts: Sequence[str]) -> bool:
    """Whether the parts of units leave none empty, and at least half of them, but for the others, to the training."""
    return set(parts) == set(PARTS) and 2 * parts.count("train") >= min(len(parts), 2 * (len(parts) - 2))


def split_digest(entries: Iterable[Mapping[str, Any]]) -> str:
    """16 hex digits of which path is in which part."""
    text = "".join(f"{e['name']}\t{e['digest']}\t{e['part']}\n" for e in entries)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# -- the file ---------------------------------------------------------------------------------------------------------


def write(
    path: Path, header: Mapping[str, Any], paths: Iterable[tuple[dict[str, Any], Mapping[str, NDArray[Any]]]]
) -> None:
    """Write a set: entries with their parts, and their arrays. The same content gives the same bytes."""
    entries = []
    with open(path, "w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for k, (entry, arrays) in enumerate(paths):
                entries.append(entry)
                for name, values in arrays.items():
                    data = io.BytesIO()
                    np.lib.format.write_array(data, values, version=(1, 0), allow_pickle=False)
                    _member(packed, f"{k}/{name}.npy", data.getvalue())
            index = {"format": FORMAT, **header, "split_digest": split_digest(entries), "paths": entries}
            _member(packed, "index.json", json.dumps(index, ensure_ascii=False, separators=(",", ":")).encode())
            packed.comment = b"0" * _COMMENT
        file.flush()
        size = file.seek(0, io.SEEK_END) - _COMMENT
        digest = _digest(file, size)
        file.seek(size)
        file.write(digest.encode())
        file.flush()
        os.fsync(file.fileno())
        set_usual_mode(file.fileno())


def _member(packed: zipfile.ZipFile, name: str, data: bytes) -> None:
    packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)  # always with the date 1980


def _digest(file: Any, size: int) -> str:
    """SHA-256 of the first bytes."""
    found = hashlib.sha256()
    file.seek(0)
    while size > 0 and (part := file.read(min(size, MB))):
        found.update(part)
        size -= len(part)
    return found.hexdigest()


class TraceSet:
    """A set that is open for reading; its digest has been checked.

    index: what the set says of itself. entries: its paths in order. digest: 64 hex digits of the content.
    Raises FileError for a file that is no trace set, or was changed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        file = open_regular(self.path, MOST_SET)
        weakref.finalize(self, file.close)
        try:
            try:
                check_zip(file, MOST_LIST)
                self._packed = zipfile.ZipFile(file)
                size, comment = os.fstat(file.fileno()).st_size, self._packed.comment.decode("ascii", "replace")
                if "index.json" not in self._packed.namelist() or len(comment) != _COMMENT:
                    raise ValueError("it has no index")
                if _digest(file, size - _COMMENT) != comment:
                    raise ValueError("its content is not what was written: import it again")
                index = self._packed.getinfo("index.json")
                if index.file_size > MOST_INDEX:
                    raise ValueError(f"its index has more than {MOST_INDEX / MB:g} MB")
                with self._packed.open(index) as member:
                    data = parse_json(member.read(MOST_INDEX))
                self.index, self.digest = data, comment
                self.entries: list[dict[str, Any]] = _checked(data)
            except DAMAGED_ARRAYS as error:
                raise FileContentError("traces", self.path, f"{_WANTED} ({error})") from None
        except BaseException:
            file.close()
            raise

    @property
    def places(self) -> list[str]:
        return sorted({e["place"] for e in self.entries})

    def numbers(self, part: str, places: Sequence[str] = ()) -> list[int]:
        """The paths of a part, in a fixed order that mixes places and times; only at these places, if any are named.

        Raises:
            OrbitccError: an unknown part or place, or a part without paths there.
        """
        if part not in PARTS:
            raise UnknownNameError("split", part, PARTS)
        there = self.places if places else []
        for place in places:
            if place not in there:
                raise UnknownNameError("places", place, there)
        chosen = [k for k, e in enumerate(self.entries) if e["part"] == part and (not places or e["place"] in places)]
        if not chosen:
            raise OrbitccError("places", ", ".join(places), f"places with paths in the part {part} of {self.path}")
        return sorted(chosen, key=lambda k: (hashlib.sha256(self.entries[k]["digest"].encode()).digest(), k))

    def measured(self, k: int) -> MeasuredPath:
        """Path k of the set. Raises FileError for arrays that no import writes."""
        entry = self.entries[k]
        try:
            slots = self._array(f"{k}/slots.npy")
            if slots is None or slots.ndim != 2 or slots.shape[1] != len(_SLOT):
                raise ValueError(f"path {k} has no slots")
            delay_s, rate_s = (entry[name] or 1.0 for name in ("delay_step_s", "rate_step_s"))
            delay_ms, rate_mbps, back_mbps = (
                self._values(f"{k}/{name}.npy", entry["duration_s"] / step_s)
                for name, step_s in zip(ARRAYS, (delay_s, rate_s, rate_s), strict=True)
            )
            if back_mbps is not None and (rate_mbps is None or back_mbps.size != rate_mbps.size):
                raise ValueError(f"{k}/back_mbps.npy and {k}/rate_mbps.npy differ in size")
            return MeasuredPath(
                name=entry["name"],
                place=entry["place"],
                date=entry["date"],
                duration_s=float(entry["duration_s"]),
                delay_ms=delay_ms,
                delay_step_s=delay_s,
                rate_mbps=rate_mbps,
                back_mbps=back_mbps,
                rate_step_s=rate_s,
                slots=tuple(_slot(row) for row in slots.tolist()),
            )
        except DAMAGED_ARRAYS as error:
            raise FileContentError("traces", self.path, f"{_WANTED} ({error})") from None

    def _values(self, name: str, size: float) -> Array | None:
        found = self._array(name)
        if found is not None and (
            found.dtype.kind not in "fiu" or found.ndim != 1 or not found.size or abs(found.size - size) > 1.5
        ):  # pieces of a path are cut at whole steps
            raise ValueError(f"{name} does not have a number for each step of the path")
        return None if found is None else np.asarray(np.round(found.astype(np.float64), 3), dtype=np.float64)

    def _array(self, name: str) -> NDArray[Any] | None:
        try:
            member = self._packed.getinfo(name)
        except KeyError:
            return None
        if member.file_size > MOST_ARRAY:
            raise ValueError(f"{name} has more than {MOST_ARRAY / MB:g} MB")
        return zipped_array(self._packed, member)


def _slot(row: Sequence[float]) -> Slot:
    start_s, cut_ms, hold, loss, change = row
    return Slot(
        start_s,
        mid_change=bool(change),
        interruption_ms=None if math.isnan(cut_ms) else cut_ms,
        interruption_mode="hold" if hold else "drop",
        loss=loss,
    )


_DIGEST = re.compile("[0-9a-f]{1,64}")


def _checked(index: Any) -> list[dict[str, Any]]:
    """The entries of an index; ValueError where it is none."""
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    entries = index.get("paths")
    if not isinstance(entries, list) or not 0 < len(entries) <= MOST_PATHS:
        raise ValueError(f"it does not have 1 to {MOST_PATHS:,} paths")
    if not isinstance(index.get("unreadable", []), list):
        raise ValueError("its field unreadable is not a list")
    fields = {*MeasuredPath("", "", "", 1.0).entry(), "part"}
    for k, entry in enumerate(entries):
        if not isinstance(entry, dict) or fields - entry.keys() or entry["part"] not in PARTS:
            raise ValueError(f"path {k} of its index is incomplete")
        texts = all(
            isinstance(entry[name], str) and len(entry[name]) <= MOST_NAME
            for name in ("name", "place", "date", "digest")
        )
        texts = texts and _DIGEST.fullmatch(entry["digest"]) is not None
        texts = texts and isinstance(entry["doubts"], list) and all(isinstance(doubt, str) for doubt in entry["doubts"])
        steps_s = [entry["duration_s"]]
        steps_s += [1.0 if entry[name] is None else entry[name] for name in ("delay_step_s", "rate_step_s")]
        counts = [
            entry[name] for name in ("outages", "outage_s", "loss", "most_loss", "reconfigurations", "unmeasured_s")
        ]
        given = [entry[name] for name in ("rtt_ms", "rate_mbps") if entry[name] is not None]
        whole = all(isinstance(spread, list) and len(spread) == len(_SPREAD) for spread in given)
        figures = (*steps_s, *counts, *(v for spread in given if whole for v in spread))
        numbers = all(type(v) in (int, float) and 0 <= v <= MOST_FIGURE for v in figures)
        if not (texts and numbers and whole and min(steps_s) > 0 and max(steps_s) <= MAX_TIME_S):
            raise ValueError(f"path {k} of its index is damaged")
    return entries


def opened(path: str | os.PathLike[str]) -> TraceSet:
    """The set in a file; a process opens it once, unless it changes."""
    try:
        found = os.stat(path)
    except OSError:
        return TraceSet(path)  # which names the reason
    return _opened(os.path.abspath(path), found.st_size, found.st_mtime_ns, os.getpid())


@functools.lru_cache(KEPT)
def _opened(path: str, size: int, changed_ns: int, process: int) -> TraceSet:
    return TraceSet(path)
