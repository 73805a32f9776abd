"""Many pairs of cities over one shell of satellites: their flows share satellites and links."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Literal

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.flows import ControllerChoice, Flow, Reroute
from orbitcc.envs.description.links import MAX_RATE_MBPS, Direction, Link, Outage
from orbitcc.envs.description.model import MAX_TIME_S, Points, number
from orbitcc.envs.description.queues import DropTailPackets
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.orbits import places
from orbitcc.envs.orbits.constellation import SHELLS
from orbitcc.envs.orbits.elements import ShellChoice, chosen_shell
from orbitcc.envs.orbits.shared import SharedRoutes, permuted_pairs
from orbitcc.envs.scenarios.micro import CUBIC
from orbitcc.envs.scenarios.orbits import INTERRUPTION_MS

MOST_PAIRS = 1000


def constellation(
    pairs: Annotated[int, number(1, MOST_PAIRS, whole=True)] = 100,
    cities: tuple[str, ...] = (),
    shell: ShellChoice = SHELLS["starlink1"],
    tle: str = "",
    selection: Literal["shortest", "elevation", "sticky"] = "shortest",
    run: Annotated[int, number(0, 2**53, whole=True)] = 1,
    slot_s: Annotated[float, number(1, 120, "s")] = 15.0,
    min_elevation_deg: Annotated[float, number(0, 89, "deg")] = 25.0,
    interruption: Literal["drop", "hold", "none"] = "none",
    rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 10.0,
    satellite_rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 10.0,
    buffer_packets: Annotated[int, number(1, 1e6, "packets", whole=True)] = 100,
    controller: ControllerChoice = CUBIC,
    duration_s: Annotated[float, number(1, MAX_TIME_S, "s")] = 100.0,
) -> Scenario:
    """Pairs of cities over a shell of satellites: flows share satellites and links, and their routes change.

    Each city sends to another one, as many times as `pairs` needs (a random permutation; `run` draws it and places the
    satellites). cities: names or "latitude,longitude"; by default, all known cities that the shell serves all the time.
    At the start of each slot, the shortest route is taken between the satellites that serve both ends (`selection`).
    Acknowledgements take the shortest route back, and wait in the same queues as the data of other flows.

    Queues of `buffer_packets` are where Hypatia has them (Kassing et al., IMC 2020): at the uplink of each city and at
    the downlink of each satellite (`rate_mbps`), which all its cities share, and at both ends of each link between
    satellites (`satellite_rate_mbps`). The defaults are those of its experiments with TCP, but a route is kept for a
    slot of 15 s. With `interruption`, packets between a city and a satellite that did not serve it before are lost
    (`drop`) or wait (`hold`) for 45 to 120 ms.
    """
    shell = chosen_shell(shell, tle)
    named = cities or tuple(places.CITIES)
    if len(set(named)) < max(len(named), 2):
        raise OrbitccError("cities", list(cities), "two different places or more")
    options = {"selection": selection, "slot_s": slot_s, "min_elevation_deg": min_elevation_deg, "seed": run}
    routes = SharedRoutes(shell, named, duration_s, **options)  # type: ignore[arg-type]
    if unserved := routes.unserved():
        if cities:
            raise OrbitccError("cities", unserved[0], f"places that {shell.name} serves all the time")
        routes = SharedRoutes(shell, [city for city in named if city not in unserved], duration_s, **options)  # type: ignore[arg-type]
    return _Builder(routes, run, interruption, rate_mbps, satellite_rate_mbps, buffer_packets).scenario(
        permuted_pairs(len(routes.cities), pairs, run), controller
    )


class _Builder:
    """Makes the links that routes need, each once."""

    def __init__(
        self,
        routes: SharedRoutes,
        seed: int,
        interruption: Literal["drop", "hold", "none"],
        rate_mbps: float,
        satellite_rate_mbps: float,
        buffer_packets: int,
    ) -> None:
        self.routes = routes
        self.seed = seed
        self.interruption = interruption
        self.rate_mbps = rate_mbps
        self.satellite_rate_mbps = satellite_rate_mbps
        self.queue = DropTailPackets(limit_packets=buffer_packets)
        self.numbers: dict[str, int] = {}
        self.links: list[Link] = []
        self._access: dict[int, dict[tuple[int, int], None]] = defaultdict(dict)
        """Slot -> the pairs of a city and a satellite that serves it then."""
        self._slot = 0

    def scenario(self, pairs: list[tuple[int, int]], controller: ControllerChoice) -> Scenario:
        routes = self.routes
        both = [*pairs, *((target, source) for source, target in pairs)]
        ways: list[list[Reroute]] = [[] for _ in pairs]
        for self._slot, slot in enumerate(routes.slots(both)):
            for k, (source, target) in enumerate(pairs):
                path = tuple(self._path(source, slot.routes[k], target))
                back = tuple(self._path(target, slot.routes[len(pairs) + k], source))
                if not ways[k] or (ways[k][-1].path, ways[k][-1].return_path) != (path, back):
                    ways[k].append(Reroute.trusted(at_s=slot.start_s, path=path, return_path=back))
        names = [f"{routes.cities[source]} - {routes.cities[target]}" for source, target in pairs]
        return Scenario(
            name="constellation",
            description=f"{len(pairs)} pairs of {len(routes.cities)} places over {routes.shell.name}",
            duration_s=routes.duration_s,
            seed=self.seed,
            links=tuple(self._with_interruptions()),
            flows=tuple(
                Flow(
                    name=name if names.count(name) == 1 else f"{name} ({k})",
                    controller=controller,
                    path=first.path,
                    return_path=first.return_path,
                    reroutes=tuple(later),
                )
                for k, (name, (first, *later)) in enumerate(zip(names, ways, strict=True))
            ),
        )

    def _path(self, source: int, satellites: tuple[int, ...], target: int) -> Iterable[int]:
        """The links from a city over satellites to another one: its uplink, what each satellite sends on, and the way
        from the last one."""
        cities = self.routes.cities
        yield self._link(f"up {cities[source]}", self.rate_mbps)
        yield self._ground(source, satellites[0])
        for one, other in itertools.pairwise(satellites):
            name = f"{self._label(one)} > {self._label(other)}"
            if name not in self.numbers:
                self._link(name, self.satellite_rate_mbps, self._points(self.routes.hop_ms(one, other)))
            yield self.numbers[name]
        yield self._link(f"down {self._label(satellites[-1])}", self.rate_mbps)
        yield self._ground(target, satellites[-1])

    def _ground(self, city: int, satellite: int) -> int:
        """The way between a city and a satellite, without a queue."""
        self._access[self._slot][city, satellite] = None
        name = f"{self.routes.cities[city]} ~ {self._label(satellite)}"
        if name not in self.numbers:
            self._link(name, None, self._points(self.routes.access_ms(city, satellite)))
        return self.numbers[name]

    def _link(self, name: str, rate_mbps: float | None, delay_ms: float | Points = 0.0) -> int:
        """The number of a link, which is made unless it is there. Only its forward direction is used."""
        if name not in self.numbers:
            self.numbers[name] = len(self.links)
            way = {"delay_ms": delay_ms, "interpolate_delay": isinstance(delay_ms, tuple)}
            unused = Direction.trusted(rate_mbps=None)
            queue = {} if rate_mbps is None else {"queue": self.queue}
            self.links.append(Link.trusted(name=name, rate_mbps=rate_mbps, reverse=unused, **way, **queue))
        return self.numbers[name]

    def _points(self, delays_ms: Iterable[float]) -> Points:
        """Delays at the knots, to a nanosecond, so that a file of the scenario stays small."""
        return tuple(
            (round(float(t), 6), round(float(ms), 6)) for t, ms in zip(self.routes.knots_s, delays_ms, strict=True)
        )

    def _label(self, satellite: int) -> str:
        return self.routes.constellation.label(satellite)

    def _with_interruptions(self) -> list[Link]:
        """The links; the ways between cities and satellites with an outage whenever they come into use."""
        if self.interruption == "none":
            return self.links
        draw = random.Random(self.seed)
        outages: dict[int, list[Outage]] = defaultdict(list)
        for slot, start_s in enumerate(self.routes.starts_s[1:], 1):
            for city, satellite in self._access[slot]:
                if (city, satellite) not in self._access[slot - 1]:
                    number = self.numbers[f"{self.routes.cities[city]} ~ {self._label(satellite)}"]
                    length_ms = float(draw.randint(*INTERRUPTION_MS))
                    outages[number].append(Outage(at_s=start_s, duration_ms=length_ms, mode=self.interruption))
        return [link.changed(outages=tuple(outages[k])) if k in outages else link for k, link in enumerate(self.links)]
