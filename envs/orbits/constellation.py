"""Walker shells: positions of the satellites over time, and links between them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.model import Model, number

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# WGS-84 and the second zonal harmonic of the Earth's gravity (EGM96).
MU_KM3_PER_S2 = 398_600.4418
EARTH_RADIUS_KM = 6378.137
J2 = 1.08262668e-3
EARTH_RATE_RAD_PER_S = 7.2921158553e-5
LIGHT_KM_PER_S = 299_792.458
CLEAR_KM = 80.0
"""Lowest altitude of inter-satellite links, above the air that bends and absorbs them."""


class Shell(Model):
    """A Walker shell: equally spaced orbital planes, each with equally spaced satellites.

    phasing: F of the Walker notation; a satellite is 360 F / (planes x satellites per plane) degrees ahead of the
    satellite with the same number in the next plane to the west.
    raan_spread_deg: 360 for a Walker delta. With less (180 is a Walker star), the first and the last plane are not
    neighbours, because their satellites move in opposite directions.
    cross_shift: links to the next plane go to the satellite whose number is lower by this; None: to the one nearest in
    phase.
    """

    name: str = "custom"
    planes: Annotated[int, number(1, 1000, whole=True)]
    satellites_per_plane: Annotated[int, number(1, 1000, whole=True)]
    inclination_deg: Annotated[float, number(0, 180, "deg")]
    altitude_km: Annotated[float, number(200, 36_000, "km")] = Field(
        description="above the equatorial radius, 6378.137 km"
    )
    phasing: Annotated[int, number(0, 1000, whole=True)] = 0
    raan_spread_deg: Annotated[float, number(0, 360, "deg", above=True)] = 360.0
    cross_shift: Annotated[int | None, number(-1000, 1000, whole=True, optional=True)] = None

    @model_validator(mode="after")
    def _not_too_many(self) -> Shell:
        if self.size > MAX_SATELLITES:
            raise OrbitccError("planes", self.planes, f"at most {MAX_SATELLITES} satellites in total, not {self.size}")
        return self

    def __str__(self) -> str:
        return self.name

    @property
    def size(self) -> int:
        """Number of satellites. Number i is satellite i % satellites_per_plane of plane i // satellites_per_plane."""
        return self.planes * self.satellites_per_plane

    @property
    def radius_km(self) -> float:
        return EARTH_RADIUS_KM + self.altitude_km

    @property
    def closed(self) -> bool:
        """Whether the last plane is a neighbour of the first."""
        return self.raan_spread_deg == 360

    @property
    def rates_rad_per_s(self) -> tuple[float, float]:
        """Drift of the ascending nodes, and angular velocity along the orbit, with the mean effect of J2."""
        inclination = math.radians(self.inclination_deg)
        motion = math.sqrt(MU_KM3_PER_S2 / self.radius_km**3)
        k = 1.5 * J2 * (EARTH_RADIUS_KM / self.radius_km) ** 2 * motion
        drift = -k * math.cos(inclination)
        along = motion + k * (1 - 1.5 * math.sin(inclination) ** 2) + k * (2 - 2.5 * math.sin(inclination) ** 2)
        return drift, along

    @property
    def period_s(self) -> float:
        """Time between two passes of the ascending node."""
        return 2 * math.pi / self.rates_rad_per_s[1]

    def moving(self, raan_deg: float, argument_deg: float, start_s: float) -> Constellation:
        """The shell in motion; its satellites are fit at any time."""
        return Constellation(self, raan_deg, argument_deg)

    def grid(self) -> Indices:
        """The links of a +Grid as pairs of satellite numbers, [M, 2], each link once.

        A satellite has links to both neighbours in its plane and to one satellite in each neighbouring plane. Raises
        OrbitccError if a link would pass too close to the Earth.
        """
        return _grid(self)


MAX_SATELLITES = 20_000


@functools.lru_cache(maxsize=32)
def _grid(shell: Shell) -> Indices:
    planes, slots = shell.planes, shell.satellites_per_plane
    plane, slot = np.divmod(np.arange(shell.size), slots)
    shift = round(shell.phasing / planes) if shell.cross_shift is None else shell.cross_shift
    # From the last plane to the first, the satellite numbers shift by the sum of all phase offsets.
    across = (slot - shift + np.where(plane == planes - 1, shell.phasing, 0)) % slots
    links = [(i, p * slots + (s + 1) % slots) for i, p, s in zip(range(shell.size), plane, slot, strict=True)]
    links += [
        (i, (p + 1) % planes * slots + t)
        for i, p, t in zip(range(shell.size), plane, across, strict=True)
        if shell.closed or p < planes - 1
    ]
    ends = np.reshape([link for link in links if link[0] != link[1]], (-1, 2)).astype(int)  # one satellite has no links
    pairs = np.unique(np.sort(ends, axis=1), axis=0)
    positions = Constellation(shell).positions_km([0.0])[0]
    lowest = np.linalg.norm(positions[pairs].sum(axis=1), axis=1).min(initial=np.inf) / 2
    if lowest < EARTH_RADIUS_KM + CLEAR_KM:
        raise OrbitccError(
            "shell", shell.name, f"a shell dense enough that its links stay {CLEAR_KM:g} km above the Earth"
        )
    pairs.setflags(write=False)
    return pairs


@dataclass(frozen=True)
class Constellation:
    """A shell in motion.

    raan_deg: ascending node of the first plane at time 0, relative to the rotating Earth.
    argument_deg: angle of its first satellite past that node at time 0.
    """

    shell: Shell
    raan_deg: float = 0.0
    argument_deg: float = 0.0

    @property
    def size(self) -> int:
        return self.shell.size

    @property
    def radius_km(self) -> float:
        return self.shell.radius_km

    def grid(self) -> Indices:
        return self.shell.grid()

    def label(self, satellite: int) -> str:
        """The plane of a satellite and its number there."""
        plane, slot = divmod(satellite, self.shell.satellites_per_plane)
        return f"{plane}/{slot}"

    def positions_km(self, t_s: Sequence[float] | Array, satellites: Sequence[int] | Indices | None = None) -> Array:
        """Earth-fixed positions in km of satellites, by default of all, at the times [T]: [T, n, 3]."""
        shell = self.shell
        chosen = np.arange(shell.size) if satellites is None else np.asarray(satellites, dtype=np.intp)
        t = np.asarray(t_s, dtype=np.float64)[:, None]
        plane, slot = np.divmod(chosen, shell.satellites_per_plane)
        drift, along = shell.rates_rad_per_s
        inclination = math.radians(shell.inclination_deg)
        planes = np.unique(plane)
        nodes = (
            math.radians(self.raan_deg)
            + math.radians(shell.raan_spread_deg) / shell.planes * planes
            + (drift - EARTH_RATE_RAD_PER_S) * t
        )
        argument = (
            math.radians(self.argument_deg)
            + 2 * math.pi * (slot / shell.satellites_per_plane + shell.phasing / shell.size * plane)
            + along * t
        )
        at = np.searchsorted(planes, plane)
        cos_node, sin_node = np.cos(nodes)[:, at], np.sin(nodes)[:, at]
        forward = shell.radius_km * np.cos(argument)
        sideways = shell.radius_km * np.sin(argument)
        north, east = sideways * math.sin(inclination), sideways * math.cos(inclination)
        return np.stack((cos_node * forward - sin_node * east, sin_node * forward + cos_node * east, north), axis=-1)


SHELLS: dict[str, Shell] = {
    shell.name: shell
    for shell in (
        # First shells as filed with the FCC. Phasings as in the literature; those of Kuiper and OneWeb are our choice.
        Shell(name="starlink1", planes=72, satellites_per_plane=22, inclination_deg=53, altitude_km=550, phasing=39),
        Shell(name="kuiper1", planes=34, satellites_per_plane=34, inclination_deg=51.9, altitude_km=630, phasing=1),
        Shell(
            name="oneweb", planes=18, satellites_per_plane=40, inclination_deg=87.9, altitude_km=1200, phasing=9,
            raan_spread_deg=180,
        ),
        # LeoEM's (Cao and Zhang 2022): 550 km above a sphere of 6371 km.
        Shell(
            name="leoem", planes=24, satellites_per_plane=66, inclination_deg=53,
            altitude_km=6371 + 550 - EARTH_RADIUS_KM, phasing=1,
        ),
    )
}  # fmt: skip
