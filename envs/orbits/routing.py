"""Routes through a constellation: selected at the start of each slot and kept until its end."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.model import MAX_TIME_S, Model, number
from orbitcc.envs.orbits import places
from orbitcc.envs.orbits.constellation import LIGHT_KM_PER_S, SHELLS, Shell
from orbitcc.envs.orbits.elements import AnyConstellation, Elements, ShellChoice
from orbitcc.envs.orbits.gateways import GATEWAYS
from orbitcc.envs.orbits.places import Place, great_circle_km
from orbitcc.envs.orbits.trace import JUMP_S, PathTrace, Slot

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

GUMBEL_DEG = 12.0
"""Scale of the noise that the selection `random` adds to elevations (our choice)."""
FIBRE_STRETCH = 1.5 * 1.5
"""A kilometre of great circle by fibre takes as long as this many kilometres in vacuum. Light in glass has 2/3 of its
vacuum speed, and cables are about 1.5 times as long as the great circle (our choice)."""
SLIVER_S = 1e-3
"""The part of a slot at the start or end of a path counts if it is longer than this."""
SLOTS_AT_ONCE = 32


class PathSpec(Model):
    """A path between two places over a shell of satellites, or over those of a file of orbital elements.

    source, target: a city (`places.CITIES`) or "latitude,longitude".
    mode: `isl`, over links between satellites; `bp`, a bent pipe up and down between satellites and gateways; `bp1`,
    over one satellite to a gateway and from there by fibre.
    selection: which satellites serve the two ends. `shortest`: those of the shortest path; `elevation`: the highest in
    the middle of the slot; `sticky`: the current one until it sets, then the highest; `random`: the highest after
    noise is added to the elevations. Between the two, the shortest path is taken.
    phase_s, raan_deg, argument_deg: None draws a value for each seed, so that no two seeds have the same path.
    """

    source: str
    target: str
    shell: ShellChoice = SHELLS["starlink1"]
    mode: Literal["isl", "bp", "bp1"] = "isl"
    selection: Literal["shortest", "elevation", "sticky", "random"] = "shortest"
    min_elevation_deg: Annotated[float, number(0, 89, "deg")] = Field(
        default=25.0,
        description="terminals and gateways see a satellite above this elevation, at the start and end of a slot",
    )
    slot_s: Annotated[float, number(1, 120, "s")] = Field(
        default=15.0, description="time between two selections of a route"
    )
    phase_s: Annotated[float | None, number(0, 1e4, "s", optional=True)] = Field(
        default=None, description="slots start at this time modulo slot_s; Starlink: at 12, 27, 42 and 57 s of a minute"
    )
    start_s: Annotated[float, number(0, MAX_TIME_S, "s")] = Field(
        default=0.0, description="time of the constellation when the path begins"
    )
    raan_deg: Annotated[float | None, number(-360, 360, "deg", optional=True)] = Field(
        default=None, description="ascending node of the first plane at time 0, east of Greenwich"
    )
    argument_deg: Annotated[float | None, number(-360, 360, "deg", optional=True)] = Field(
        default=None, description="angle of the first satellite past that node"
    )
    knot_s: Annotated[float, number(0.01, 1e4, "s")] = Field(
        default=1.0, description="time between the points of the delay in a slot; its start and end are always points"
    )

    @model_validator(mode="after")
    def _places_differ(self) -> PathSpec:
        if places.find(self.source, "source") == places.find(self.target, "target"):
            raise OrbitccError("target", self.target, f"a place other than the source, {self.source}")
        for field in ("raan_deg", "argument_deg"):
            if isinstance(self.shell, Elements) and getattr(self, field) is not None:
                raise OrbitccError(
                    field, getattr(self, field), "nothing, because orbital elements place the satellites"
                )
        return self

    @property
    def name(self) -> str:
        return f"{self.source} – {self.target}, {self.shell.name}, {self.mode}, {self.selection}"


@dataclass(frozen=True, slots=True)
class Leg:
    """The route during one slot: the numbers of its nodes from source to target; none during an outage."""

    start_s: float
    end_s: float
    nodes: tuple[int, ...]


class GroundNetwork:
    """A constellation and the places on the ground. Nodes are numbered: satellites from 0 on, then the source, the
    target and the gateways."""

    def __init__(self, spec: PathSpec, seed: int) -> None:
        rng = np.random.default_rng(seed)
        raan, argument, phase = rng.random(3)
        self.spec = spec
        self.rng = rng
        slots = spec.shell.satellites_per_plane if isinstance(spec.shell, Shell) else 1
        self.constellation: AnyConstellation = spec.shell.moving(
            360 * raan if spec.raan_deg is None else spec.raan_deg,
            360 / slots * argument if spec.argument_deg is None else spec.argument_deg,
            spec.start_s,
        )
        self.phase_s = spec.slot_s * phase if spec.phase_s is None else spec.phase_s % spec.slot_s
        ends = (places.find(spec.source, "source"), places.find(spec.target, "target"))
        self.ground: tuple[Place, ...] = ends if spec.mode == "isl" else (*ends, *GATEWAYS)
        if spec.mode == "isl":
            self.constellation.grid()  # a shell without one is refused at once
        self.source = self.constellation.size
        self.target = self.source + 1

    @functools.cached_property
    def ground_km(self) -> Array:
        """Positions of the places on the ground: [G, 3]."""
        return np.array([place.position_km() for place in self.ground])

    @functools.cached_property
    def ground_up(self) -> Array:
        """Vertical unit vectors of the places on the ground: [G, 3]."""
        return np.array([place.up() for place in self.ground])

    @functools.cached_property
    def fibre_km(self) -> Array:
        """Distance by fibre from every place on the ground to the target, in equivalent kilometres of vacuum: [G]."""
        target = self.ground[1]
        return np.array([FIBRE_STRETCH * great_circle_km(place, target) for place in self.ground])

    def satellites_km(self, t_s: Array, satellites: Indices | None = None) -> Array:
        """Positions of satellites at times relative to the start of the path: [T, n, 3]."""
        return self.constellation.positions_km(t_s + self.spec.start_s, satellites)

    def positions_km(self, t_s: Array, nodes: tuple[int, ...]) -> Array:
        """Positions of nodes at times relative to the start of the path: [T, n, 3]."""
        numbers = np.array(nodes)
        above = numbers < self.source
        found = np.empty((len(t_s), len(nodes), 3))
        found[:, above] = self.satellites_km(t_s, numbers[above])
        found[:, ~above] = self.ground_km[numbers[~above] - self.source]
        return found

    def length_km(self, t_s: Array, nodes: tuple[int, ...]) -> Array:
        """Length of a route at times of the path, with fibre in equivalent kilometres of vacuum: [T]."""
        by_fibre = self.spec.mode == "bp1"
        positions = self.positions_km(t_s, nodes[:-1] if by_fibre else nodes)
        hops = np.linalg.norm(np.diff(positions, axis=1), axis=2)
        return hops.sum(axis=1) + (self.fibre_km[nodes[-2] - self.source] if by_fibre else 0.0)

    def label(self, node: int) -> str:
        """The name of a node: a place or a satellite."""
        return self.ground[node - self.source].name if node >= self.source else self.constellation.label(node)

    def slot_edges(self, duration_s: float) -> Array:
        """The starts of the slots from the slot that contains time 0 on, and the end of the last slot."""
        slot, phase = self.spec.slot_s, self.phase_s
        first = math.floor(-phase / slot)
        last = math.ceil((duration_s - phase) / slot)
        return phase + slot * np.arange(first, last + 1)


class Sight:
    """What places on the ground see of satellites, whose positions are [..., 3] in km.

    ground_km, ups: positions and vertical unit vectors of the places, [G, 3].
    radius_km: of the orbits; None: they differ.
    """

    def __init__(self, ground_km: Array, ups: Array, radius_km: float | None, min_elevation_deg: float) -> None:
        self.ground_km = ground_km
        self.ups = ups
        self.heights = (ground_km * ups).sum(axis=1)
        self.squares = (ground_km**2).sum(axis=1) + (radius_km or 0.0) ** 2
        self.circular = radius_km is not None
        self.least_sine = math.sin(math.radians(min_elevation_deg))

    def distances(self, satellites: Array, place: int | slice | Indices) -> Array:
        """Distances from satellites [..., 3] to one place on the ground, [...], or to several, [..., places]."""
        own = 0.0 if self.circular else (satellites**2).sum(axis=-1, keepdims=not isinstance(place, int))
        return np.sqrt(self.squares[place] + own - 2 * (satellites @ self.ground_km[place].T))

    def seen(self, ends: Array, places: slice | Indices) -> Mask:
        """Which satellites each place sees at both the start and the end of a slot: [n, places]. ends: [2, n, 3]."""
        rise = ends @ self.ups[places].T - self.heights[places]
        seen: Mask = (rise >= self.least_sine * self.distances(ends, places)).all(axis=0)
        return seen

    def elevations_deg(self, satellites: Array, place: int) -> Array:
        """Elevations of satellites [n, 3] above one place."""
        sight = satellites - self.ground_km[place]
        return np.degrees(np.arcsin(sight @ self.ups[place] / np.linalg.norm(sight, axis=1)))


@dataclass(frozen=True)
class Route:
    """A path over time: its network, and one leg per slot from 0 to the end."""

    network: GroundNetwork
    legs: tuple[Leg, ...]

    def leg_at(self, t_s: float) -> Leg:
        """The leg at time t_s."""
        return next(leg for leg in reversed(self.legs) if leg.start_s <= max(t_s, 0.0))

    def trace(self) -> PathTrace:
        """The trace of the path: delays by exact geometry, equal in both directions, and one slot per leg."""
        times, delays, slots = [], [], []
        route: tuple[str, ...] = ()
        for leg in self.legs:
            inner = np.arange(leg.start_s, leg.end_s - 2 * JUMP_S, self.network.spec.knot_s)
            t = np.append(inner, leg.end_s if leg is self.legs[-1] else leg.end_s - JUMP_S)
            nodes = tuple(self.network.label(node) for node in leg.nodes)
            slot = Slot(leg.start_s, outage=not nodes, nodes=nodes)
            if nodes:
                slot = slot.after(route) if route else slot
                route = nodes
                times.append(t)
                delays.append(self.network.length_km(t, leg.nodes) / LIGHT_KM_PER_S * 1e3)
            slots.append(slot)
        return _whole(self.network.spec.name, times, delays, slots, self.legs[-1].end_s)


def _whole(name: str, times: list[Array], delays: list[Array], slots: list[Slot], end_s: float) -> PathTrace:
    """A trace from its parts. Before, between and after them the delay is constant."""
    if not times:
        return PathTrace(name, [0.0, end_s], [0.0, 0.0], [0.0, 0.0], tuple(slots))  # type: ignore[arg-type]
    if times[0][0] > 0:
        times.insert(0, np.array([0.0, times[0][0] - JUMP_S]))
        delays.insert(0, np.repeat(delays[0][0], 2))
    if times[-1][-1] < end_s:
        times.append(np.array([end_s]))
        delays.append(delays[-1][-1:])
    for k in reversed(range(1, len(times))):
        if times[k][0] > times[k - 1][-1] + 2 * JUMP_S:
            times.insert(k, np.array([times[k][0] - JUMP_S]))
            delays.insert(k, delays[k - 1][-1:])
    t, delay = np.concatenate(times), np.concatenate(delays)
    return PathTrace(name, t, delay, delay, tuple(slots))


def find_route(
    spec: PathSpec, duration_s: float, seed: int = 1, progress: Callable[[float], None] | None = None
) -> Route:
    """The route over `duration_s`. Equal arguments give equal routes; a longer route begins with the shorter one.

    progress: called with the share that is done, 0..1.
    """
    network = GroundNetwork(spec, seed)
    chooser = _Chooser(network)
    edges = network.slot_edges(duration_s)
    legs = []
    for start, end, nodes in _chosen(network, chooser, edges):
        if start < duration_s - SLIVER_S and end > SLIVER_S:
            first, last = start > SLIVER_S, end < duration_s - SLIVER_S
            legs.append(Leg(float(start) if first else 0.0, float(end) if last else duration_s, nodes))
        if progress is not None:
            progress(min(1.0, float(end) / duration_s))
    return Route(network, tuple(legs))


def find_path(spec: PathSpec, duration_s: float, seed: int = 1) -> PathTrace:
    """The trace of `find_route`."""
    return find_route(spec, duration_s, seed).trace()


def _chosen(network: GroundNetwork, chooser: _Chooser, edges: Array) -> Iterator[tuple[float, float, tuple[int, ...]]]:
    for first in range(0, len(edges) - 1, SLOTS_AT_ONCE):
        times = edges[first : first + SLOTS_AT_ONCE + 1]
        ends = network.satellites_km(times)
        middles = network.satellites_km((times[:-1] + times[1:]) / 2)
        for k, middle in enumerate(middles):
            yield times[k], times[k + 1], chooser.choose(ends[k : k + 2], middle)


class _Chooser:
    """Selects the route of one slot after the other."""

    def __init__(self, network: GroundNetwork) -> None:
        self.network = network
        self.spec = network.spec
        self.ground = network.ground_km
        self.sight = Sight(self.ground, network.ground_up, network.constellation.radius_km, self.spec.min_elevation_deg)
        self.relay_detours = np.linalg.norm(self.ground[:, None] - self.ground[:2], axis=2).sum(axis=1)
        self.serving: list[int | None] = [None, None]
        self.bound_km = 1.3 * float(np.linalg.norm(self.ground[0] - self.ground[1])) + 2500

    def choose(self, ends: Array, middle: Array) -> tuple[int, ...]:
        """The nodes of the route, or none without a route. ends: positions of the satellites at the start and end of
        the slot, [2, N, 3]; middle: in its middle, [N, 3]."""
        serves = [self.sight.seen(ends, slice(end, end + 1))[:, 0] for end in (0, 1)]
        if self.spec.mode == "bp1":
            return self._one_bounce(serves[0], ends, middle)
        if self.spec.selection != "shortest":
            if self.spec.mode == "bp":
                serves = [self._with_gateway(s, ends) for s in serves]
            serves = [self._chosen_one(end, s, middle) for end, s in enumerate(serves)]
        access = [np.flatnonzero(s) for s in serves]
        if not (access[0].size and access[1].size):
            return ()
        return self._shortest(access, ends, middle)

    def _shortest(self, access: list[Indices], ends: Array, middle: Array) -> tuple[int, ...]:
        """The shortest route, searched among the nodes that a route of at most `bound_km` can use.

        A route through a node is at least as long as the straight lines to it, so a result below the bound is exact.
        """
        bound = self.bound_km
        while True:
            nodes, length = self._shortest_within(bound, access, ends, middle)
            if nodes and length <= bound:
                self.bound_km = 1.03 * length + 50
                return nodes
            if math.isinf(bound):
                return ()
            bound = length

    def _shortest_within(
        self, bound_km: float, access: list[Indices], ends: Array, middle: Array
    ) -> tuple[tuple[int, ...], float]:
        network = self.network
        source, target = network.source, network.target
        lines = [self.sight.distances(middle, end) for end in (0, 1)]
        near = lines[0] + lines[1] <= bound_km
        rows, columns, weights = [], [], []
        for end, node in ((0, source), (1, target)):
            seen = access[end][near[access[end]]]
            rows.append(np.full(seen.size, node))
            columns.append(seen)
            weights.append(lines[end][seen])
        if self.spec.mode == "isl":
            grid = network.constellation.grid()
            grid = grid[near[grid].all(axis=1)]
            rows.append(grid[:, 0])
            columns.append(grid[:, 1])
            weights.append(np.linalg.norm(middle[grid[:, 0]] - middle[grid[:, 1]], axis=1))
        else:
            relays = 2 + np.flatnonzero(self.relay_detours[2:] <= bound_km)
            satellites = np.flatnonzero(near)
            above, below = np.nonzero(self.sight.seen(ends[:, satellites], relays))
            above, below = satellites[above], relays[below]
            rows.append(source + below)
            columns.append(above)
            weights.append(np.linalg.norm(middle[above] - self.ground[below], axis=1))
        count = source + len(self.ground)
        from scipy.sparse import csr_matrix  # a slow import, needed only here
        from scipy.sparse.csgraph import dijkstra

        graph = csr_matrix(
            (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))), shape=(count, count)
        )
        lengths, before = dijkstra(graph, directed=False, indices=source, return_predecessors=True)
        if math.isinf(lengths[target]):
            return (), math.inf
        nodes = [target]
        while nodes[-1] != source:
            nodes.append(int(before[nodes[-1]]))
        return tuple(nodes[::-1]), float(lengths[target])

    def _with_gateway(self, serves: Mask, ends: Array) -> Mask:
        """Those of the satellites that see a gateway."""
        candidates = np.flatnonzero(serves)
        useful = np.zeros_like(serves)
        useful[candidates] = self.sight.seen(ends[:, candidates], slice(2, None)).any(axis=1)
        return useful

    def _chosen_one(self, end: int, serves: Mask, middle: Array) -> Mask:
        """The one of the satellites that serves this end, by the rule `selection`."""
        candidates = np.flatnonzero(serves)
        chosen = np.zeros_like(serves)
        now = self.serving[end]
        if not candidates.size:
            self.serving[end] = None
            return chosen
        if self.spec.selection != "sticky" or now is None or not serves[now]:
            elevation_deg = self.sight.elevations_deg(middle[candidates], end)
            if self.spec.selection == "random":
                elevation_deg += GUMBEL_DEG * self.network.rng.gumbel(size=candidates.size)
            now = int(candidates[np.argmax(elevation_deg)])
        self.serving[end] = now
        chosen[now] = True
        return chosen

    def _one_bounce(self, serves: Mask, ends: Array, middle: Array) -> tuple[int, ...]:
        """The shortest route over one satellite and one gateway, and from there by fibre."""
        serves = self._with_gateway(serves, ends)
        if self.spec.selection != "shortest":
            serves = self._chosen_one(0, serves, middle)
        candidates = np.flatnonzero(serves)
        if not candidates.size:
            return ()
        seen = self.sight.seen(ends[:, candidates], slice(2, None))
        up, down = self.sight.distances(middle[candidates], 0), self.sight.distances(middle[candidates], slice(2, None))
        total = np.where(seen, up[:, None] + down + self.network.fibre_km[2:], np.inf)
        above, below = np.unravel_index(np.argmin(total), total.shape)
        source = self.network.source
        return source, int(candidates[above]), source + 2 + int(below), source + 1
