"""Satellites as they fly: positions by SGP4 from files of orbital elements. It needs the extra `tle`."""

from __future__ import annotations

import csv
import functools
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from orbitcc.common.errors import (
    FileContentError,
    FileError,
    OrbitccError,
    OrbitccWarning,
    StateError,
    UnknownNameError,
)
from orbitcc.common.extras import installing
from orbitcc.common.files import MOST_TRACE, csv_head, parse_json, read_text
from orbitcc.common.names import plain
from orbitcc.envs.description.model import Model
from orbitcc.envs.orbits.constellation import (
    CLEAR_KM,
    EARTH_RADIUS_KM,
    MAX_SATELLITES,
    SHELLS,
    Constellation,
    Shell,
)

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

WANTED = "TLE, 3LE, or OMM as JSON or CSV"
MAX_AGE_DAYS = 14.0
"""Elements are used for so long before and after their epoch. SGP4 then errs by tens of kilometres, 0.1 ms (our
choice)."""
NEIGHBOURS, ALIKE_MOTION, PLANE_DEG, BESIDE_DEG = 64, 0.01, 2.0, 40.0
"""Links lead to one of so many nearest satellites, whose mean motion differs by this share at most. Planes that differ
by less than PLANE_DEG are one; the next one is tilted by at most BESIDE_DEG (our choice; Iridium's by 32)."""
J2000 = datetime(2000, 1, 1, 12, tzinfo=UTC)
J2000_DAY, DAY_S = 2_451_545.0, 86_400.0
_SGP4_DAY_0 = 2_433_281.5
"""SGP4 counts days from 1949-12-31."""
_FIELDS = {"1": ((18, 20), (20, 32)), "2": ((8, 16), (17, 25), (26, 33), (34, 42), (43, 51), (52, 63))}
"""Columns of the numbers that SGP4 needs, beside B*."""
_SYSTEM = {
    "MEAN_ELEMENT_THEORY": ("SGP4", "SGP"),
    "TIME_SYSTEM": ("UTC",),
    "CENTER_NAME": ("EARTH",),
    "REF_FRAME": ("TEME",),
}
_OMM = ("BSTAR", "ECCENTRICITY", "ARG_OF_PERICENTER", "INCLINATION", "MEAN_ANOMALY", "MEAN_MOTION", "RA_OF_ASC_NODE")


@dataclass(frozen=True)
class _Satellite:
    """One set of elements. day: Julian day of its epoch; model: sgp4's `Satrec`."""

    name: str
    number: str
    day: float
    model: Any


class Elements(Model):
    """The satellites of a file of orbital elements, as CelesTrak and Space-Track publish them, in place of a shell.

    tle: the file: TLE, 3LE, or OMM as JSON or CSV.
    start: UTC (ISO 8601) of time 0; empty: the newest epoch of the file.
    """

    tle: str = Field(min_length=1)
    start: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return Path(self.tle).stem

    def moving(self, raan_deg: float, argument_deg: float, start_s: float) -> Fleet:
        """The satellites whose elements are fresh at `start_s`. They are where they are: the angles do not count.

        Others are left out with an OrbitccWarning. Raises FileError for a file without fresh ones or with a wrong line.
        """
        try:
            text = read_text(self.tle, MOST_TRACE)
        except FileError as error:
            raise error.at("tle") from None
        found = _parsed(text, self.tle)
        try:
            start = _day(self.start) if self.start else max(one.day for one in found)
        except ValueError:
            raise OrbitccError("start", self.start, "a time in UTC, e.g. 2026-11-01T12:00:00, or nothing") from None
        now, ages = start + start_s / DAY_S, np.array([one.day for one in found]) - start - start_s / DAY_S
        try:
            when = f"{J2000 + timedelta(days=now - J2000_DAY):%Y-%m-%d %H:%M} UTC"
        except OverflowError:
            raise OrbitccError(
                "start", self.start, f"a time in the years 1 to 9999, also {start_s:g} s later"
            ) from None
        fresh = [one for one, age in zip(found, ages, strict=True) if abs(age) <= MAX_AGE_DAYS]
        fleet = Fleet(self.name, tuple(fresh), start)
        heights = np.linalg.norm(fleet.positions_km([start_s])[0], axis=1) - EARTH_RADIUS_KM
        up = np.flatnonzero(heights >= CLEAR_KM)  # not where there is no position
        stale, down = len(found) - len(fresh), len(fresh) - len(up)
        if not len(up):
            why = f"the nearest epoch is {np.abs(ages).min():.1f} days away" if not fresh else "they have decayed"
            wanted = (
                f"elements with an epoch within {MAX_AGE_DAYS:g} days of {when}; of {len(found)} satellites none has"
            )
            raise FileContentError("tle", self.tle, f"{wanted} a position: {why}")
        if len(up) > MAX_SATELLITES:
            raise FileContentError("tle", self.tle, f"at most {MAX_SATELLITES:,} satellites, not {len(up):,}")
        if stale or down:
            parts = (f"{stale} with an epoch more than {MAX_AGE_DAYS:g} days from {when}", f"{down} that have decayed")
            said = ", ".join(part for part in parts if not part.startswith("0 "))
            text = f"{self.tle}: {stale + down} of {len(found)} satellites are left out: {said}"
            warnings.warn(plain(text), OrbitccWarning, stacklevel=2)
        return Fleet(self.name, tuple(fresh[k] for k in up), start)


@dataclass(frozen=True)
class Fleet:
    """Satellites by SGP4. start_day: Julian day of time 0. radius_km: None, because their orbits differ."""

    name: str
    satellites: tuple[_Satellite, ...]
    start_day: float
    radius_km = None

    @property
    def size(self) -> int:
        return len(self.satellites)

    def label(self, satellite: int) -> str:
        return self._labels[satellite]

    @functools.cached_property
    def _labels(self) -> list[str]:
        """Names, with the catalogue number where a name is missing or not the only one."""
        count = Counter(one.name for one in self.satellites)
        numbered = [f"{one.name or 'satellite'} ({one.number})" for one in self.satellites]
        return [one.name if one.name and count[one.name] == 1 else text
                for one, text in zip(self.satellites, numbered, strict=True)]  # fmt: skip

    def positions_km(self, t_s: Sequence[float] | Array, satellites: Sequence[int] | Indices | None = None) -> Array:
        """Earth-fixed positions in km of satellites, by default of all, at the times [T]: [T, n, 3]; NaN where SGP4
        fails, as after a decay.

        SGP4's frame (TEME) turns with the mean sidereal time of UTC, without polar motion and UT1 - UTC: they move a
        satellite by less than 0.5 km, 2 us.
        """
        angle = sidereal_rad(self.start_day, np.asarray(t_s, dtype=np.float64))
        return earth_fixed_km(self._inertial(t_s, satellites)[0], angle[:, None])

    def _inertial(self, t_s: Any, satellites: Any = None) -> tuple[Array, Array]:
        """Positions and velocities in TEME, [T, n, 3]."""
        from sgp4.api import SatrecArray

        t = np.asarray(t_s, dtype=np.float64)
        chosen = self.satellites if satellites is None else [self.satellites[k] for k in satellites]
        if not chosen:
            return np.empty((len(t), 0, 3)), np.empty((len(t), 0, 3))
        whole = math.floor(self.start_day)
        errors, position, velocity = SatrecArray([one.model for one in chosen]).sgp4(
            np.full(len(t), float(whole)), self.start_day - whole + t / DAY_S
        )
        position[errors != 0] = np.nan
        return position.swapaxes(0, 1), velocity.swapaxes(0, 1)

    def grid(self) -> Indices:
        """Links as pairs of satellite numbers, [M, 2], each once, chosen at time 0 and kept.

        Elements do not say who has a link to whom. Two satellites have one if each is the nearest to the other on that
        side: ahead or behind in its plane, left or right in the planes next to it. So a satellite has at most four.
        """
        return self._grid

    @functools.cached_property
    def _grid(self) -> Indices:
        from scipy.spatial import cKDTree

        position, velocity = (x[0] for x in self._inertial([0.0]))
        position[~np.isfinite(position).all(axis=1)] = np.nan
        numbers = np.flatnonzero(np.isfinite(position[:, 0]))
        if len(numbers) < 2:
            return np.empty((0, 2), np.intp)
        position, velocity = position[numbers], velocity[numbers]
        motion = np.array([self.satellites[k].model.no_kozai for k in numbers])
        normal, ahead = _unit(np.cross(position, velocity)), _unit(velocity)
        near = (
            cKDTree(position).query(position, k=min(NEIGHBOURS + 1, len(numbers)))[1].reshape(len(numbers), -1)[:, 1:]
        )
        way = position[near] - position[:, None]
        along, across = (way * ahead[:, None]).sum(axis=-1), (way * normal[:, None]).sum(axis=-1)
        tilt_deg = np.degrees(np.arccos(np.clip((normal[near] * normal[:, None]).sum(axis=-1), -1, 1)))
        same = tilt_deg <= PLANE_DEG
        fit = (tilt_deg <= BESIDE_DEG) & (np.abs(motion[near] / motion[:, None] - 1) <= ALIKE_MOTION)
        fit &= np.linalg.norm(position[near] + position[:, None], axis=-1) / 2 >= EARTH_RADIUS_KM + CLEAR_KM
        pairs = []
        for side in (same & (along > 0), same & (along < 0), ~same & (across > 0), ~same & (across < 0)):
            there = fit & side
            there &= tilt_deg <= np.where(there, tilt_deg, np.inf).min(axis=1, keepdims=True) + PLANE_DEG
            rows = np.flatnonzero(there.any(axis=1))
            pairs.append(np.stack((rows, near[rows, there[rows].argmax(axis=1)]), axis=1))
        chosen = np.concatenate(pairs)
        mutual = np.isin(chosen @ (len(numbers), 1), chosen @ (1, len(numbers)))
        return np.unique(np.sort(numbers[chosen[mutual]], axis=1), axis=0)


def _unit(vectors: Array) -> Array:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def earth_fixed_km(inertial: Array, sidereal: Array) -> Array:
    """Positions [..., 3] in TEME as Earth-fixed ones, at a sidereal time in rad."""
    cos, sin, (x, y, z) = np.cos(sidereal), np.sin(sidereal), np.moveaxis(inertial, -1, 0)
    return np.stack((cos * x + sin * y, cos * y - sin * x, z), axis=-1)


def sidereal_rad(day: float, t_s: Array) -> Array:
    """Greenwich mean sidereal time (IAU 1982; Vallado, Fundamentals of Astrodynamics, equation 3-47) at the Julian day
    and so many seconds later."""
    days = day - J2000_DAY + t_s / DAY_S
    centuries = days / 36_525
    seconds = 67_310.54841 + 8_640_184.812866 * centuries + 0.093104 * centuries**2 - 6.2e-6 * centuries**3
    return 2 * math.pi * ((seconds / DAY_S + days % 1) % 1)


# -- files ---------------------------------------------------------------------------------------------------------


def _day(text: str) -> float:
    """The Julian day of an ISO 8601 time; without a zone it is UTC. Raises ValueError."""
    time = datetime.fromisoformat(text)
    return J2000_DAY + ((time if time.tzinfo else time.replace(tzinfo=UTC)) - J2000) / timedelta(days=1)


@functools.lru_cache(maxsize=2)
def _parsed(text: str, path: str) -> tuple[_Satellite, ...]:
    """The newest elements of each satellite. Raises FileError that names the line, or StateError without sgp4."""
    try:
        import sgp4.api  # noqa: F401
    except ImportError:
        raise StateError("tle", f"sgp4 is not installed: it comes with {installing('tle')}") from None
    text = text.removeprefix("\ufeff")
    begins = text.lstrip()[:1]
    newest: dict[str, _Satellite] = {}
    try:
        if begins in ("[", "{"):
            rows = parse_json(text)
            given = [
                _of_message(row, f"satellite {k}") for k, row in enumerate(rows if isinstance(rows, list) else [rows])
            ]
        elif "MEAN_MOTION" in text.lstrip().partition("\n")[0]:
            reader = csv.DictReader(text.lstrip().split("\n"))
            try:
                csv_head(",".join(reader.fieldnames or ()), "")
            except FileError as error:
                raise ValueError(f"line 1: must have {error.allowed}; {error.value} comes again") from None
            given = [_of_message(row, f"line {reader.line_num}") for row in reader]
        else:
            given = list(_of_lines(text))
    except (ValueError, csv.Error) as error:
        raise FileContentError("tle", path, f"{WANTED}; {error}") from None
    for one in given:
        if one.number not in newest or one.day > newest[one.number].day:
            newest[one.number] = one
    if not newest:
        raise FileContentError("tle", path, f"{WANTED}; there is no satellite in it")
    return tuple(newest.values())


def _of_lines(text: str) -> Iterator[_Satellite]:
    """TLE and 3LE. A line that is neither blank, a comment nor of elements is the name of the next satellite."""
    from sgp4.api import Satrec

    name, first, number = "", "", 0
    for number, line in enumerate((line.rstrip() for line in text.split("\n")), 1):
        if not line.strip() or line.startswith("#"):
            continue
        wanted = "2" if first else "1"
        if line[:2] not in ("1 ", "2 ") and not (name or first):
            name = line.removeprefix("0 ").strip()
            continue
        if line[:2] != f"{wanted} ":
            raise ValueError(f"line {number}: must be line {wanted} of a satellite's elements")
        if len(line) != 69:
            raise ValueError(f"line {number}: has {len(line)} characters, not 69")
        total = sum(int(c) if c in "0123456789" else c == "-" for c in line[:68]) % 10
        if line[68] != str(total):
            raise ValueError(f"line {number}: its checksum is {line[68]}, but must be {total}")
        texts = [line[low:high] for low, high in _FIELDS[wanted]]
        texts += [f"{line[53:54].strip()}.{line[54:59]}e{line[59:61].strip()}"] if wanted == "1" else []
        if any(_number(text) is None for text in texts):
            raise ValueError(f"line {number}: has letters or spaces where numbers must be")
        if not first:
            first = line
            continue
        if first[2:7] != line[2:7]:
            raise ValueError(f"line {number}: is of satellite {line[2:7]}, but line 1 is of {first[2:7]}")
        model = Satrec.twoline2rv(first, line)
        yield _Satellite(_named(name), line[2:7].strip(), model.jdsatepoch + model.jdsatepochF, model)
        name, first = "", ""
    if name or first:
        raise ValueError(f"line {number}: the file ends within a satellite's elements")


def _of_message(row: Any, where: str) -> _Satellite:
    """An orbit mean-elements message (CCSDS 502.0-B)."""
    from sgp4.api import WGS72, Satrec

    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: must be a table of a satellite's elements")
    if row.get(None):
        raise ValueError(f"{where}: has more cells than the first line")
    for key, allowed in _SYSTEM.items():
        if (row.get(key) or allowed[0]) not in allowed:
            raise ValueError(f"{where}: {key} must be {allowed[0]}")
    for key in (*_OMM, "NORAD_CAT_ID"):
        if _number(row.get(key)) is None:
            raise ValueError(f"{where}: {key} must be a number")
    try:
        day = _day(str(row.get("EPOCH")))
    except ValueError:
        raise ValueError(f"{where}: EPOCH must be a time, e.g. 2026-11-01T12:00:00.000000") from None
    bstar, eccentricity, argument, inclination, anomaly, motion, node = (float(row[key]) for key in _OMM)
    if not 0 <= eccentricity < 1:
        raise ValueError(f"{where}: ECCENTRICITY must be in [0, 1)")
    if motion <= 0:
        raise ValueError(f"{where}: MEAN_MOTION must be above 0")
    angles = map(math.radians, (argument, inclination, anomaly))
    model = Satrec()
    model.sgp4init(
        WGS72, "i", 0, day - _SGP4_DAY_0, bstar, 0.0, 0.0, eccentricity, *angles, motion * 2 * math.pi / 1440,
        math.radians(node),
    )  # fmt: skip
    return _Satellite(_named(str(row.get("OBJECT_NAME") or "")), str(row["NORAD_CAT_ID"]).strip(), day, model)


def _number(given: Any) -> float | None:
    """A finite number from a text or a number."""
    try:
        value = float(given)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _named(text: str) -> str:
    """A name without what separates the nodes of a route, and not longer than a line."""
    return plain(text.strip()).replace(">", " ")[:40]


# -- the choice of a constellation -----------------------------------------------------------------------------------


def _shell(value: Any) -> Any:
    if isinstance(value, str):
        if value not in SHELLS:
            raise UnknownNameError("", value, SHELLS)
        return SHELLS[value]
    if isinstance(value, Shell | Elements):
        return value
    return Elements.build(value) if isinstance(value, Mapping) and "tle" in value else Shell.build(value)


ShellChoice = Annotated[Shell | Elements, BeforeValidator(_shell)]
"""A shell by its name or as a table, or `{tle = "FILE"}`, the satellites of a file."""
AnyConstellation = Constellation | Fleet


def chosen_shell(shell: Shell | Elements, tle: str) -> Shell | Elements:
    """The shell, or the satellites of the file `tle`, if one is given. Raises OrbitccError if both are."""
    if tle and shell != SHELLS["starlink1"]:
        raise OrbitccError("tle", tle, f"either tle or shell ({shell.name}), not both")
    return Elements(tle=tle) if tle else shell
