"""Routes of many pairs of places over one shell, which share satellites and links."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.orbits import places
from orbitcc.envs.orbits.constellation import LIGHT_KM_PER_S, Shell
from orbitcc.envs.orbits.elements import AnyConstellation, Elements
from orbitcc.envs.orbits.routing import SLIVER_S, Sight

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Selection = Literal["shortest", "elevation", "sticky"]
KNOT_S = 7.5
"""Longest time between two points of a delay; linear interpolation between them errs by less than 5 us at 550 km."""


@dataclass(frozen=True)
class SharedSlot:
    """The routes during one slot: for each pair, the satellites in order from the source to the target."""

    start_s: float
    routes: tuple[tuple[int, ...], ...]


class SharedRoutes:
    """Who serves each place, and the shortest way between the serving satellites, slot by slot.

    selection: `shortest`: the satellites of the shortest path, for each pair; `elevation`: the highest satellite in the
    middle of the slot serves all pairs of a place; `sticky`: so does the present one until it sets.
    seed: places the satellites and the start of the slots.
    Raises OrbitccError about `cities` if a place is unknown, or a pair has no route during some slot.
    """

    def __init__(
        self,
        shell: Shell | Elements,
        cities: Sequence[str],
        duration_s: float,
        *,
        selection: Selection,
        slot_s: float,
        min_elevation_deg: float,
        seed: int,
    ) -> None:
        raan, argument, phase = np.random.default_rng(seed).random(3)
        self.shell = shell
        self.cities = tuple(cities)
        self.duration_s = duration_s
        slots = shell.satellites_per_plane if isinstance(shell, Shell) else 1
        self.constellation: AnyConstellation = shell.moving(360 * raan, 360 / slots * argument, 0.0)
        # The edges of all slots that have more than a sliver between 0 and the end.
        first = 0 if slot_s * phase < SLIVER_S else -1
        last = math.ceil((duration_s - SLIVER_S) / slot_s - phase)
        self.edges_s = slot_s * (phase + np.arange(first, last + 1))
        self._selection = selection
        found = [places.find(city, f"cities.{k}") for k, city in enumerate(cities)]
        self._sight = Sight(
            np.array([place.position_km() for place in found]),
            np.array([place.up() for place in found]),
            self.constellation.radius_km,
            min_elevation_deg,
        )

    @functools.cached_property
    def starts_s(self) -> list[float]:
        """When each slot starts; the first at 0."""
        return [max(float(t), 0.0) for t in self.edges_s[:-1]]

    @functools.cached_property
    def _serving(self) -> list[NDArray[np.bool_]]:
        """For each slot, which satellites serve each place, bool[satellites, places]."""
        found = []
        now = [-1] * len(self.cities)
        for k in range(len(self.starts_s)):
            seen = self._sight.seen(self.constellation.positions_km(self.edges_s[k : k + 2]), slice(None))
            if self._selection != "shortest":
                middle = self._middle(k)
                for place in range(len(self.cities)):
                    candidates = np.flatnonzero(seen[:, place])
                    if candidates.size and (self._selection == "elevation" or now[place] not in candidates):
                        heights = self._sight.elevations_deg(middle[candidates], place)
                        now[place] = int(candidates[np.argmax(heights)])
                    seen[:, place] &= np.arange(self.constellation.size) == now[place]
            found.append(seen)
        return found

    def unserved(self) -> list[str]:
        """The places that see no satellite during one of the slots."""
        return [
            city
            for place, city in enumerate(self.cities)
            if not all(serving[:, place].any() for serving in self._serving)
        ]

    def slots(self, pairs: Sequence[tuple[int, int]]) -> list[SharedSlot]:
        """The routes of pairs of places, by their numbers, during each slot."""
        return [SharedSlot(start_s, self._routes(k, pairs)) for k, start_s in enumerate(self.starts_s)]

    def _middle(self, slot: int) -> Array:
        """Positions of all satellites in the middle of a slot, [satellites, 3]."""
        return self.constellation.positions_km(self.edges_s[slot : slot + 2].mean(keepdims=True))[0]

    def _routes(self, slot: int, pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
        from scipy.sparse import csr_matrix  # a slow import, needed only here
        from scipy.sparse.csgraph import dijkstra

        middle, serving, size = self._middle(slot), self._serving[slot], self.constellation.size
        lines = self._sight.distances(middle, slice(None))
        grid = self.constellation.grid()
        hops = np.linalg.norm(middle[grid[:, 0]] - middle[grid[:, 1]], axis=1)
        grid, hops = grid[np.isfinite(hops)], hops[np.isfinite(hops)]  # real satellites can decay
        above, below = np.nonzero(serving)
        # Links between satellites lead both ways, those of places only up: no route comes down on its way.
        rows = np.concatenate((grid[:, 0], grid[:, 1], size + below))
        columns = np.concatenate((grid[:, 1], grid[:, 0], above))
        weights = np.concatenate((hops, hops, lines[above, below]))
        count = size + len(self.cities)
        graph = csr_matrix((weights, (rows, columns)), shape=(count, count))
        sources = sorted({source for source, _ in pairs})
        lengths, before = dijkstra(graph, indices=[size + source for source in sources], return_predecessors=True)
        row_of = {source: row for row, source in enumerate(sources)}
        routes = []
        for source, target in pairs:
            row = row_of[source]
            last = np.flatnonzero(serving[:, target])
            total = lengths[row, last] + lines[last, target]
            if not total.size or math.isinf(total.min()):
                where = f"{self.cities[source]} and {self.cities[target]}"
                raise OrbitccError("cities", where, f"places with a route at {self.starts_s[slot]:g} s")
            nodes = [int(last[np.argmin(total)])]
            while before[row, nodes[-1]] < size:
                nodes.append(int(before[row, nodes[-1]]))
            routes.append(tuple(nodes[::-1]))
        return tuple(routes)

    # -- delays -----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def knots_s(self) -> Array:
        """The times of the points of all delays, from 0 to the end."""
        return np.linspace(0.0, self.duration_s, math.ceil(self.duration_s / KNOT_S) + 1)

    def hop_ms(self, one: int, other: int) -> Array:
        """Delay between two satellites at the knots."""
        ends = self.constellation.positions_km(self.knots_s, [one, other])
        return np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) / LIGHT_KM_PER_S * 1e3

    def access_ms(self, place: int, satellite: int) -> Array:
        """Delay between a place and a satellite at the knots."""
        satellites = self.constellation.positions_km(self.knots_s, [satellite])[:, 0]
        return self._sight.distances(satellites, place) / LIGHT_KM_PER_S * 1e3


def permuted_pairs(cities: int, count: int, seed: int) -> list[tuple[int, int]]:
    """`count` ordered pairs of different places, from one random permutation after the other.

    Every place is the source of as many pairs as any other, give or take one, and so the target. No pair occurs twice
    while others are left.
    """
    rng = np.random.default_rng([seed, 1])
    offsets = 1 + rng.permutation(cities - 1)
    order = rng.permutation(cities)
    rounds = (((k, (k + offset) % cities) for k in range(cities)) for offset in itertools.cycle(offsets))
    chosen = itertools.islice(itertools.chain.from_iterable(rounds), count)
    return [(int(order[source]), int(order[target])) for source, target in chosen]
