"""Runs the flows of a scenario in ns-3, over the same links and routes (ns3_network.cc), or in OrbitCC.

A link is its rate, its queue in packets, its delay and its outages. Its name says where it leads: "A > B". Links of
`constellation` may also be the queue of a city ("up A"), that of a satellite ("down S"), or the way between a city and
a satellite ("A ~ S"), which follows "up A" or ends a path.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.links import Link
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.files import atomic_write_text

Array = NDArray[np.float64]
Ends = tuple[str, str]

SOURCE = Path(__file__).with_name("ns3_network.cc")
DELAY_STEP_S = 1.0
"""In ns-3 a delay that changes all the time changes as often as this, to its value in the middle of the step."""


@dataclass(frozen=True)
class Carried:
    """Rates in each interval: goodput_mbps, [T, flows], and link_mbps, [T, links]; NaN for a link without a rate."""

    goodput_mbps: Array
    link_mbps: Array


def simulated(scenario: Scenario, interval_s: float) -> Carried:
    """A run in OrbitCC."""
    recording = simulate(scenario, record_interval_s=interval_s)
    rated = [link.rate_mbps is not None for link in scenario.links]
    return Carried(recording.flows["goodput_mbps"], np.where(rated, recording.links["delivered_mbps"], np.nan))


class Network:
    """The network of a scenario, as ns3_network.cc reads it."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.ways = list(_ways(scenario))
        self.places: dict[int, dict[Ends, None]] = {}
        """Link -> the ends that it has on some path. The ways between cities and satellites are on two sides."""
        self.nodes: dict[str, int] = {}
        for _, links, ends in self.ways:
            for link, pair in zip(links, ends, strict=True):
                self.places.setdefault(link, {})[pair] = None
                for name in pair:
                    self.nodes.setdefault(name, len(self.nodes))

    def text(self) -> str:
        """Nodes, links and flows, and what changes when."""
        nodes, later = self.nodes, []
        lines = [f"segment {self.scenario.sim.mss_bytes}", f"nodes {len(nodes)}"]
        done: set[Ends] = set()
        # A node's address is that of its first link, and TCP sends from that of the first link of its path.
        first_hops = {links[0] for _, links, _ in self.ways}
        for number, places in sorted(self.places.items(), key=lambda item: (item[0] not in first_hops, item[0])):
            link = self.scenario.links[number]
            for one, other in places:
                a, b = nodes[one], nodes[other]
                for outage in link.outages:
                    later.append(f"outage {outage.at_s:g} {outage.at_s + outage.duration_ms / 1e3:g} {a} {b}")
                if (other, one) not in done:  # a link in ns-3 leads both ways
                    done.add((one, other))
                    (_, first), *changes = _delays_ns(link, self.scenario.duration_s)
                    packets = 0 if link.rate_mbps is None else getattr(link.queue, "limit_packets", 0)
                    lines.append(f"link {a} {b} {link.rate_mbps or 0:g} {packets} {first}")
                    later += [f"delay {at_s:g} {a} {b} {delay_ns}" for at_s, delay_ns in changes]
        routes = []
        for at_s, _, ends in self.ways:
            routes += [f"route {at_s:g} {nodes[one]} {nodes[ends[-1][1]]} {nodes[other]}" for one, other in ends]
        for flow in self.scenario.flows:
            ends = list(_ends(self.scenario.link_names[k] for k in link_numbers(self.scenario, flow.path)))
            lines.append(f"flow {nodes[ends[0][0]]} {nodes[ends[-1][1]]} {flow.start_s:g}")
        return "\n".join([*lines, *dict.fromkeys(routes), *later]) + "\n"

    def run(self, program: Path, interval_s: float, file: Path) -> Carried:
        """A run in ns-3. Network and results are kept in files; what ran with the same network is not run again."""
        scenario, text, results = self.scenario, self.text(), file.with_suffix(".out")
        if not (results.exists() and file.exists() and file.read_text(encoding="utf-8") == text):
            results.unlink(missing_ok=True)
            atomic_write_text(file, text)
            command = [str(program), str(file), f"{scenario.duration_s:g}", f"{interval_s:g}"]
            atomic_write_text(results, subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        count = round(scenario.duration_s / interval_s)
        goodput = np.zeros((count, len(scenario.flows)))
        rates = np.array([[np.nan if link.rate_mbps is None else 0.0 for link in scenario.links]] * count)
        number = {(self.nodes[a], self.nodes[b]): link for link, places in self.places.items() for a, b in places}
        for line in results.read_text(encoding="utf-8").splitlines():
            kind, *words = line.split()
            mbps = np.diff(np.array(words[-count:], dtype=float), prepend=0.0) * 8e-6 / interval_s
            ends = tuple(int(word) for word in words[:-count])
            if kind == "flow":
                goodput[:, ends[0]] = mbps
            elif ends in number:
                rates[:, number[ends]] = mbps
        return Carried(goodput, rates)


def link_numbers(scenario: Scenario, path: tuple[int | str, ...] | None) -> list[int]:
    """The links of a path by their numbers."""
    names = scenario.link_names
    return [names.index(link) if isinstance(link, str) else link for link in path or ()]


def _ways(scenario: Scenario) -> Iterator[tuple[float, list[int], list[Ends]]]:
    """Each path of data or acknowledgements: from when on, its links, and their ends."""
    for flow in scenario.flows:
        ways = [(0.0, flow.path, flow.return_path), *((way.at_s, way.path, way.return_path) for way in flow.reroutes)]
        for at_s, *paths in ways:
            for path in paths:
                links = link_numbers(scenario, path)
                yield at_s, links, list(_ends(scenario.link_names[k] for k in links))


def _ends(names: Iterable[str]) -> Iterator[Ends]:
    """The nodes that the links of a path lead from and to."""
    at = ""
    for name in names:
        if name.startswith(("up ", "down ")):
            ends = (name.partition(" ")[2], name)
        elif " ~ " in name:
            city, satellite = name.split(" ~ ")
            ends = (at, satellite if at == f"up {city}" else city)
        else:
            first, last = name.split(" > ")
            ends = (first, last)
        yield ends
        at = ends[1]


def _delays_ns(link: Link, duration_s: float) -> list[tuple[float, int]]:
    """When a link gets which delay, the first at 0."""
    if not isinstance(link.delay_ms, tuple):
        return [(0.0, round(link.delay_ms * 1e6))]
    times_s = np.arange(0, duration_s, DELAY_STEP_S)
    knots_s, delays_ms = np.transpose(link.delay_ms)
    middles_ms = np.interp(times_s + DELAY_STEP_S / 2, knots_s, delays_ms)
    found = [(float(at_s), round(1e6 * float(ms))) for at_s, ms in zip(times_s, middles_ms, strict=True)]
    return [found[0], *(now for last, now in itertools.pairwise(found) if now[1] != last[1])]
