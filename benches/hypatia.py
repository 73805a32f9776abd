"""Hypatia's experiment with TCP (Kassing et al., IMC 2020) as a scenario: its shell, rules, cities and pairs.

Cities and pairs are read from a clone of the repository snkas/hypatia.
"""

from __future__ import annotations

import functools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.description.flows import ControllerSpec
from orbitcc.envs.description.links import Outage
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.description.sim_settings import SimSettings
from orbitcc.envs.errors import FileError
from orbitcc.envs.orbits.constellation import SHELLS, Constellation, Indices, Shell
from orbitcc.envs.orbits.routing import Mask, Sight
from orbitcc.envs.orbits.shared import SharedRoutes
from orbitcc.envs.scenarios.constellation import _Builder

Array = NDArray[np.float64]

COMMIT = "0ac531c313eba2335f6344b46347140c3a0d4230"
CITIES = (
    "paper/satellite_networks_state/input_data/ground_stations_cities_sorted_by_estimated_2025_pop_top_100.basic.txt"
)
PAIRS = "paper/ns3_experiments/traffic_matrix/step_1_generate_runs.py"
SATELLITES = 34 * 34
"""Hypatia numbers the cities from here on."""
RAAN_DEG = -99.97
"""Hypatia's first plane is at the vernal equinox of 2000-01-01, 0:00 UTC; Greenwich is 99.97 degrees east of it."""
RANGE_KM = 1260.0
"""Cities see satellites of Kuiper's first shell up to this distance, at any elevation."""
RATE_MBPS, QUEUE_PACKETS = 10.0, 100
"""Of all links: paper/ns3_experiments/traffic_matrix/templates."""
SLOT_S = 1.0
RENO = ControllerSpec(name="reno")
PACKETS = SimSettings(mss_bytes=1380, frame_overhead_bytes=2)
"""Packets of Hypatia: its segments, and the header of PPP."""


class ZigZag(Shell):
    """Hypatia's shell: satellites of odd planes are half a spacing ahead; links lead to the next plane's same number.

    That is a Walker shell whose phasing is half the number of planes, with other numbers of the satellites.
    """

    def theirs(self, satellite: Indices) -> Indices:
        """The numbers of our satellites in Hypatia."""
        plane, slot = np.divmod(satellite, self.satellites_per_plane)
        numbers: Indices = plane * self.satellites_per_plane + (slot + plane // 2) % self.satellites_per_plane
        return numbers

    def grid(self) -> Indices:
        plane, slot = np.divmod(np.arange(self.size), self.satellites_per_plane)
        ours = np.argsort(self.theirs(np.arange(self.size))).reshape(self.planes, -1)
        ahead, across = ours[plane, (slot + 1) % self.satellites_per_plane], ours[(plane + 1) % self.planes, slot]
        here = ours[plane, slot]
        links: Indices = np.unique(np.sort(np.r_[np.c_[here, ahead], np.c_[here, across]], axis=1), axis=0)
        return links


KUIPER = ZigZag(**SHELLS["kuiper1"].changed(phasing=17).model_dump())


def inputs(clone: Path) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
    """The cities as "latitude,longitude", and the pairs of the traffic matrix `specific` as numbers of cities.

    Raises FileError if the folder is no clone with Hypatia's commit.
    """
    cities = tuple(",".join(line.split(",")[2:4]) for line in _show(clone, CITIES).split())
    _, _, listed = _show(clone, PAIRS).partition("if non_conflicting_pairs != [")
    found = re.findall(r"\((\d+), (\d+)\)", listed.partition("]:")[0])
    return cities, [(int(source) - SATELLITES, int(target) - SATELLITES) for source, target in found]


def _show(clone: Path, path: str) -> str:
    command = ["git", "-C", str(clone), "show", f"{COMMIT}:{path}"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except OSError:
        reason = "git is not installed"
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().partition("\n")[0]
    raise FileError("hypatia", str(clone), f"a clone of snkas/hypatia with its commit {COMMIT[:8]} ({reason})")


@dataclass(frozen=True)
class Fixed(Constellation):
    """A shell whose satellites stay where they are at time 0."""

    def positions_km(self, t_s, satellites=None):  # type: ignore[no-untyped-def]
        return super().positions_km(np.zeros(len(t_s)), satellites)


class RangeSight(Sight):
    """Places see the satellites within a distance."""

    def seen(self, ends: Array, places: slice | Indices) -> Mask:
        return np.all(self.distances(ends, places) <= RANGE_KM, axis=0)


class Routes(SharedRoutes):
    """The shortest routes over Kuiper's first shell by Hypatia's rules, selected every second or, if fixed, once.

    While a city sees no satellite, its pairs keep the last route; `unserved_s` says from when until when.
    """

    def __init__(self, cities: tuple[str, ...], duration_s: float, fixed: bool) -> None:
        slot_s = duration_s if fixed else SLOT_S
        super().__init__(KUIPER, cities, duration_s, selection="shortest", slot_s=slot_s, min_elevation_deg=0, seed=1)
        self.constellation = (Fixed if fixed else Constellation)(KUIPER, RAAN_DEG, 0.0)
        self.edges_s = slot_s * np.arange(round(duration_s / slot_s) + 1)
        self._sight = RangeSight(self._sight.ground_km, self._sight.ups, KUIPER.radius_km, 0.0)

    @functools.cached_property
    def served(self) -> NDArray[np.bool_]:
        """Whether a city sees a satellite, [slots, cities]."""
        return np.array([serving.any(axis=0) for serving in self._serving])

    def unserved_s(self, city: int) -> list[tuple[float, float]]:
        """The times, from and until, during which a city sees no satellite."""
        gaps = np.diff(np.r_[False, ~self.served[:, city], False].astype(int))
        return list(zip(self.edges_s[np.flatnonzero(gaps == 1)], self.edges_s[np.flatnonzero(gaps == -1)], strict=True))

    def _routes(self, slot: int, pairs: list[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:  # type: ignore[override]
        routed = [pair for pair in pairs if self.served[slot, list(pair)].all()]
        new = dict(zip(routed, super()._routes(slot, routed), strict=True))
        self._last = {**getattr(self, "_last", {}), **new}
        return tuple(self._last[pair] for pair in pairs)


def scenario(cities: tuple[str, ...], pairs: list[tuple[int, int]], duration_s: float, fixed: bool) -> Scenario:
    """Hypatia's experiment with Reno: one flow for each pair."""
    routes = Routes(cities, duration_s, fixed)
    builder = _Builder(routes, 1, "none", RATE_MBPS, RATE_MBPS, QUEUE_PACKETS)
    made = builder.scenario(pairs, RENO)
    gaps: dict[str, tuple[Outage, ...]] = {
        city: tuple(Outage(at_s=start, duration_ms=1e3 * (end - start)) for start, end in routes.unserved_s(number))
        for number, city in enumerate(cities)
    }
    links = (link.changed(outages=gaps.get(link.name.partition(" ~ ")[0], ())) for link in made.links)
    return made.changed(links=tuple(links), sim=PACKETS)
