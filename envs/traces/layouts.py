"""The folders in which data sets are published: which files belong to one path, its place and its date."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from orbitcc.common.errors import FileContentError, FileError, OrbitccError
from orbitcc.common.files import MOST_TABLE, csv_head, read_bytes
from orbitcc.common.numbers import checked_number
from orbitcc.envs.description.links import MAX_DELAY_MS, MAX_RATE_MBPS
from orbitcc.envs.fitting import files
from orbitcc.envs.fitting.recordings import Opportunities
from orbitcc.envs.orbits.trace import Slot
from orbitcc.envs.orbits.trace_set import MeasuredPath
from orbitcc.envs.traces import paths

_DATE = re.compile(r"20\d\d-[01]\d-[0-3]\d")
TEST_S, TESTS = 15, 20
"""Length of a test of WetLinks, and tests that make one path of 300 s."""
GRACE_S, PING_S = 2.0, 600.0
"""A test ends with a longer pause; a ping belongs to a test that it is closer to (both as in WetLinks' own scripts)."""


@dataclass(frozen=True)
class Item:
    """Files that are read together, relative to the folder of the data set; one path, or several after one another."""

    name: str
    place: str
    date: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """A data set: how its files are found and read, and what it says of itself."""

    find: Callable[[Path], list[Item]]
    read: Callable[[Path, Item], Iterator[MeasuredPath]]
    wanted: str
    origin: Mapping[str, str]
    licence: str = "not stated"


# -- LeoCC ------------------------------------------------------------------------------------------------------------


def _find_leocc(folder: Path) -> list[Item]:
    """PLACE/N/bw_N.txt with PLACE/N/delay_N.txt; one without the other is named when it is read."""
    pairs: dict[tuple[str, str], None] = {}
    for path in [*folder.rglob("bw_*.txt"), *folder.rglob("delay_*.txt")]:
        pairs[os.fspath(path.parent.relative_to(folder)), path.stem.partition("_")[2]] = None
    items = []
    for where, number in sorted(pairs, key=_naturally):
        names = tuple(os.fspath(Path(where, f"{kind}_{number}.txt")) for kind in ("bw", "delay"))
        place = _place(folder, names[0])
        items.append(Item(where if where != "." else f"{place}/{number}", place, "", names))
    return items


def _read_leocc(folder: Path, item: Item) -> Iterator[MeasuredPath]:
    rate_file, delay_file = (os.fspath(folder / name) for name in item.files)
    yield paths.of_replayer(item.name, delay_file, rate_file)


# -- Mahimahi ---------------------------------------------------------------------------------------------------------


def _find_mahimahi(folder: Path) -> list[Item]:
    """NAME.down with NAME.up, or ...downlink... with ...uplink..."""
    items = []
    for path in sorted(folder.rglob("*"), key=lambda p: _naturally(os.fspath(p))):
        name = os.fspath(path.relative_to(folder))
        if not path.is_file() or not (path.suffix == ".down" or "downlink" in path.name):
            continue
        up = path.name.replace("downlink", "uplink") if path.suffix != ".down" else f"{path.stem}.up"
        other = os.fspath(path.with_name(up).relative_to(folder))
        items.append(Item(name.removesuffix(".down"), _place(folder, name), "", (name, other)))
    return items


def _read_mahimahi(folder: Path, item: Item) -> Iterator[MeasuredPath]:
    found = []
    for name in item.files:
        one = files.read(folder / name)
        if not isinstance(one, Opportunities):
            raise FileContentError("file", one.file, "a trace of Mahimahi: a time in ms in each line, in order")
        found.append(one)
    yield paths.of_mahimahi(item.name, *found)


# -- logs of pings, and LENS ------------------------------------------------------------------------------------------


def _find_logs(folder: Path) -> list[Item]:
    """Every file; the place is the first folder, or the one before a date (.../PLACE/YYYY-MM-DD/...)."""
    items = []
    for path in sorted(folder.rglob("*"), key=lambda p: _naturally(os.fspath(p))):
        if not path.is_file() or path.name.startswith(".") or path.suffix in (".md", ".png", ".py"):
            continue
        name = os.fspath(path.relative_to(folder))
        dates = _DATE.findall(name)
        *above, _ = Path(name).parts
        dated = [k for k, part in enumerate(above) if _DATE.fullmatch(part)]
        place = above[dated[0] - 1] if dated and dated[0] > 0 else _place(folder, name)
        items.append(Item(os.fspath(Path(name).with_suffix("")), place, dates[0] if dates else "", (name,)))
    return items


def _find_lens(folder: Path) -> list[Item]:
    """Of the files of `_find_logs`, those that LENS publishes."""
    known = re.compile(r"(irtt|ping)[^/]*\.(json|txt|csv)(\.\w{2,4})?$")  # packed otherwise: listed as not read
    return [item for item in _find_logs(folder) if known.search(item.files[0])]


def _read_log(folder: Path, item: Item) -> Iterator[MeasuredPath]:
    yield paths.of_recording(item.name, files.read(folder / item.files[0]))


# -- WetLinks ---------------------------------------------------------------------------------------------------------


def _find_wetlinks(folder: Path) -> list[Item]:
    """SITE/net_iperf.csv with SITE/net_ping.csv, or iperf_cleaned_seconds_SITE.csv without RTTs."""
    items = []
    for path in sorted([*folder.rglob("net_iperf.csv"), *folder.rglob("iperf_cleaned_seconds_*.csv")]):
        raw = path.name == "net_iperf.csv"
        place = path.parent.name if raw else path.stem.removeprefix("iperf_cleaned_seconds_")
        both = [path, path.with_name("net_ping.csv")] if raw and path.with_name("net_ping.csv").is_file() else [path]
        items.append(Item(place, place, "", tuple(os.fspath(p.relative_to(folder)) for p in both)))
    return items


def _read_wetlinks(folder: Path, item: Item) -> Iterator[MeasuredPath]:
    """Twenty consecutive tests of 15 s make a path: each is a slot with the RTT and losses of the ping next to it."""
    most = dict.fromkeys(("timestamp_start", "timestamp_end", "download", "upload"), MAX_RATE_MBPS * 1e6)
    starts, ends, down, up = _columns(os.fspath(folder / item.files[0]), most)
    pings = None
    if len(item.files) > 1:
        most = {"timestamp_start": math.inf, "ping_best": MAX_DELAY_MS, "packet_loss": 100.0}
        pings = _columns(os.fspath(folder / item.files[1]), most)
    first = np.flatnonzero(np.append(True, starts[1:] - ends[:-1] >= GRACE_S))
    tests = [(a, b) for a, b in zip(first, np.append(first[1:], starts.size), strict=True) if b - a == TEST_S]
    tests = [(a, b) for a, b in tests if np.isfinite(down[a:b]).all()]
    size = min(TESTS, len(tests))
    for k in range(0, len(tests) - size + 1, size or 1):
        rows = np.concatenate([np.arange(a, b) for a, b in tests[k : k + size]])
        when = starts[rows[::TEST_S]]
        delays, losses = None, np.zeros(size)
        if pings is not None:
            near = np.abs(pings[0][:, None] - when).argmin(axis=0)
            if (np.abs(pings[0][near] - when) > PING_S).any() or not np.isfinite(pings[1][near]).all():
                continue
            delays, losses = pings[1][near] / 2, np.nan_to_num(pings[2][near]) / 100
        day = datetime.fromtimestamp(float(when[0]), UTC)
        yield MeasuredPath(
            f"{item.place}/{day:%Y-%m-%dT%H:%M:%S}", item.place, f"{day:%Y-%m-%d}", float(size * TEST_S),
            delays, float(TEST_S), down[rows] / 1e6, up[rows] / 1e6 if np.isfinite(up[rows]).all() else None, 1.0,
            tuple(
                Slot(float(j * TEST_S), mid_change=j > 0, loss=1 - math.sqrt(1 - p))
                for j, p in enumerate(losses.tolist())
            ),
        )  # fmt: skip


def _columns(file: str, most: Mapping[str, float]) -> list[Any]:
    """Columns of a CSV file as numbers, in order of the first; NaN for an empty cell. Times are in s.

    most: of each column that is read, its highest number, if it is not a time.
    """
    text = io.TextIOWrapper(io.BytesIO(read_bytes(file, MOST_TABLE)), encoding="utf-8-sig", newline="")
    rows: list[list[float]] = []
    try:
        reader = csv.reader(text)
        head = csv_head(next(iter(text), ""), f"{file}, line 1")
        for name in most:
            if name not in head:
                raise FileContentError("file", file, f"CSV with the columns {', '.join(most)}; {name} is missing")
        at = [(head.index(name), name, high) for name, high in most.items()]
        for cells in reader:
            rows.append([_cell(cells[k], name, high) for k, name, high in at])
    except (ValueError, IndexError, csv.Error) as error:
        if isinstance(error, FileError):
            raise
        where = f"{file}, line {len(rows) + 2}"
        if isinstance(error, OrbitccError):
            raise error.at(f"{where}, {error.field}") from None
        raise FileError(where, str(error)[:100], f"{', '.join(most)} in each line") from None
    if not rows:
        raise FileContentError("file", file, "CSV with at least one row")
    found = np.array(rows)
    return list(found[np.argsort(found[:, 0], kind="stable")].T)


def _cell(text: str, name: str, most: float) -> float:
    if name.startswith("timestamp"):
        when = datetime.fromisoformat(text)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    try:
        return checked_number(float(text), 0, most) if text and text != "nan" else math.nan
    except OrbitccError as error:
        raise error.at(name) from None


# -- all --------------------------------------------------------------------------------------------------------------


def _place(folder: Path, name: str) -> str:
    """The first folder of a relative name, or that of the data set."""
    parts = Path(name).parts
    return parts[0] if len(parts) > 1 else folder.resolve().name


def _naturally(text: Any) -> Any:
    """A key that sorts 2 before 10."""
    if isinstance(text, tuple):
        return tuple(map(_naturally, text))
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", text)]


def read(layout: str, folder: Path, item: Item) -> Iterator[MeasuredPath]:
    """The paths of an item, with its place and date where they have none of their own."""
    for path in LAYOUTS[layout].read(folder, item):
        yield replace(path, place=path.place or item.place, date=path.date or item.date)


_UNLICENSED = "the repository is under the MIT License; the traces have no licence of their own: ask their authors"
_LEOCC = "Lai et al.: LeoCC: Making Internet Congestion Control Robust to LEO Satellite Dynamics, ACM SIGCOMM 2025"
_BY_SA = "CC BY-SA 4.0"
LAYOUTS = {
    "leocc": Layout(
        _find_leocc, _read_leocc, "PLACE/N/bw_N.txt and PLACE/N/delay_N.txt",
        {"publisher": "SpaceNetLab, github.com/SpaceNetLab/LeoCC", "citation": _LEOCC},
        _UNLICENSED,
    ),
    "lens": Layout(
        _find_lens, _read_log, ".../PLACE/YYYY-MM-DD/irtt-*.json, ping-*.txt, or their CSV files",
        {
            "publisher": "Zhao and Pan, github.com/clarkzjw/LENS",
            "citation": "Zhao, Pan: LENS: A LEO Satellite Network Measurement Dataset, ACM MMSys 2024",
        },
        _BY_SA,
    ),
    "wetlinks": Layout(
        _find_wetlinks, _read_wetlinks, "SITE/net_iperf.csv and SITE/net_ping.csv, or iperf_cleaned_seconds_SITE.csv",
        {
            "publisher": "University of Osnabrück, github.com/sys-uos/WetLinks",
            "citation": "Laniewski et al.: WetLinks: a Large-Scale Longitudinal Starlink Dataset with Contiguous "
            "Weather Data, TMA 2024",
        },
        _BY_SA,
    ),
    "mahimahi": Layout(_find_mahimahi, _read_mahimahi, "NAME.down and NAME.up, or ...downlink... and ...uplink...", {}),
    "pings": Layout(_find_logs, _read_log, "logs of ping or iperf3, in one folder for each place", {}),
}  # fmt: skip
