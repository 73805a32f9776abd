"""A scenario: links, flows, duration and seed; from a file or from Python, checked once, compiled for the simulator."""

from __future__ import annotations

import hashlib
import json
import math
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from orbitcc.common.errors import FileError, OrbitccError, UnknownNameError
from orbitcc.common.files import atomic_write_text, parse_toml, read_toml, toml_text
from orbitcc.envs import controllers
from orbitcc.envs.description import support
from orbitcc.envs.description.compile import CompiledNetwork, as_text, compile_network
from orbitcc.envs.description.flows import (
    Bulk,
    Bytes,
    ControllerSpec,
    Flow,
    Optimistic,
    Quic,
    Reroute,
    Transport,
    parse_value,
)
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.model import MAX_TIME_S, Model, mean_over, number, value_at
from orbitcc.envs.description.sim_settings import SimSettings

if TYPE_CHECKING:
    from orbitcc.envs.controllers import AnyPolicy

SCHEMA_VERSION = 1
MOST_SOURCES = 8192
"""Flows and directions of links of a network, as in the simulator."""


class Scenario(Model):
    """A network and its flows.

    Times are in seconds from the start. The names of fields include their units.
    """

    schema_version: Literal[1] = 1
    name: str = Field(min_length=1)
    description: str = ""
    duration_s: Annotated[float, number(1e-3, MAX_TIME_S, "s")]
    seed: Annotated[int, number(0, 2**53, whole=True)] = 1
    links: tuple[Link, ...]
    flows: tuple[Flow, ...]
    sim: SimSettings = SimSettings()

    @model_validator(mode="before")
    @classmethod
    def _not_too_many(cls, data: Any) -> Any:
        """The simulator's own limit (`MAX_SOURCES`), before every link is checked."""
        if isinstance(data, Mapping):
            counts = [len(data[key]) if isinstance(data.get(key), list | tuple) else 0 for key in ("links", "flows")]
            if 2 * counts[0] + counts[1] > MOST_SOURCES:
                given = f"{counts[0]:,} links and {counts[1]:,} flows"
                raise OrbitccError("links", given, f"at most {MOST_SOURCES:,} flows and directions of links")
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        if not self.links:
            raise OrbitccError("links", [], "one link or more")
        if not self.flows:
            raise OrbitccError("flows", [], "one flow or more")
        link_names = self.link_names
        if len(set(link_names)) < len(link_names):
            raise OrbitccError("links", list(link_names), "links with different names")
        known = dict.fromkeys(link_names)
        for i, flow in enumerate(self.flows):
            if flow.start_s >= self.duration_s:
                raise OrbitccError(
                    f"flows.{i}.start_s", flow.start_s, f"before the end, duration_s = {self.duration_s:g}"
                )
            ways: dict[str, Flow | Reroute] = {"": flow, **{f"reroutes.{k}.": r for k, r in enumerate(flow.reroutes)}}
            for where, way in ways.items():
                _known_links(way.path or (), known, f"flows.{i}.{where}path")
                _known_links(way.return_path or (), known, f"flows.{i}.{where}return_path")
        # A frozen model is filled in here, before anyone else has seen it.
        object.__setattr__(self, "flows", _named(self.flows))
        _check_proxies(self.flows)
        return self

    # -- contents ----------------------------------------------------------------------------------------------

    @property
    def link_names(self) -> tuple[str, ...]:
        return tuple(link.name for link in self.links)

    @property
    def flow_names(self) -> tuple[str, ...]:
        return tuple(flow.name for flow in self.flows)

    def path_of(self, flow_index: int, t_s: float = 0.0) -> tuple[int, ...]:
        """The positions of the links on a flow's path at t_s."""
        return tuple(self.positions(self._way(flow_index, t_s).path))

    def _way(self, flow_index: int, t_s: float) -> Flow | Reroute:
        """What holds the flow's path at t_s."""
        flow = self.flows[flow_index]
        return next((r for r in reversed(flow.reroutes) if r.at_s <= t_s), flow)

    def positions(self, path: Sequence[int | str] | None) -> list[int]:
        """The positions of the links of a path; None: all links."""
        if path is None:
            return list(range(len(self.links)))
        numbers = {name: k for k, name in enumerate(self.link_names)}
        return [hop if isinstance(hop, int) else numbers[hop] for hop in path]

    def base_rtt_ms(self, flow_index: int = 0, t_s: float = 0.0) -> float:
        """Round-trip propagation delay of a flow at t_s, without queues, transmission times, jitter and gates."""
        total = self.flows[flow_index].uplink_delay_ms
        for direction in self.directions_of(self._way(flow_index, t_s)):
            total += value_at(direction.delay_ms, t_s, interpolate=direction.interpolate_delay)
        return float(total)

    def directions_of(self, way: Flow | Reroute) -> list[Direction]:
        """The directions of links that packets of a flow and their acknowledgements pass on one of its paths."""
        there = [self.links[position] for position in self.positions(way.path)]
        if way.return_path is None:
            return [direction for link in there for direction in (link, link.backward())]
        return [*there, *(self.links[position] for position in self.positions(way.return_path))]

    def capacity_mbps(self, t_s: float = 0.0, flow_index: int = 0) -> float:
        """The rate of the slowest link on a flow's path at t_s (forward, outages ignored); inf if unlimited."""
        rates = [value_at(self.links[p].rate_mbps, t_s) for p in self.path_of(flow_index, t_s)]
        return min((r for r in rates if r is not None), default=math.inf)

    def mean_capacity_mbps(self, flow_index: int = 0) -> float:
        """The smallest time-averaged rate along a flow's path (outages ignored); inf if unlimited."""
        rates = [self.links[p].rate_mbps for p in self.path_of(flow_index)]
        return min((mean_over(r, self.duration_s) for r in rates if r is not None), default=math.inf)

    def first_connection(self, flow_index: int) -> int | None:
        """The position of the flow that a proxy's second connection sends on; None for other flows."""
        pep = self.flows[flow_index].pep
        return pep if pep is None else _position(pep.of, self.flow_names)

    @property
    def driven(self) -> tuple[int, ...]:
        """The positions of the flows that a contender drives: those of `contender`; without any, all but `udp`."""
        names = [flow.controller.name for flow in self.flows]
        marked = controllers.EXTERNAL in names
        return tuple(i for i, n in enumerate(names) if (n == controllers.EXTERNAL if marked else n != "udp"))

    # -- variants ---------------------------------------------------------------------------------------------------

    def with_flows(self, flows: Sequence[Flow]) -> Scenario:
        """The same network with other flows."""
        return self.changed(flows=tuple(flows))

    def with_controller(self, controller: ControllerSpec | str, *, only: str | None = None) -> Scenario:
        """The same flows with another controller: all flows, or those whose controller is named `only`.

        Without `only`, unresponsive `udp` flows keep their controller.
        """
        spec = ControllerSpec.parse(controller) if isinstance(controller, str) else controller
        chosen = [f.controller.name == only if only else f.controller.name != "udp" for f in self.flows]
        flows = [
            f.changed(controller=spec, name=given_name(f)) if c else f for f, c in zip(self.flows, chosen, strict=True)
        ]
        return self.changed(flows=tuple(flows))

    def over(self, transport: Quic | str | Mapping[str, Any] | None) -> Scenario:
        """The same scenario with this transport (as the field of a flow) for its `driven` flows. None: as it is."""
        if transport is None:
            return self
        flows = list(self.flows)
        for i in self.driven:
            flows[i] = flows[i].changed(transport=transport)
        return self.with_flows(flows)

    def with_seed(self, seed: int) -> Scenario:
        """The same scenario with another seed."""
        return self.changed(seed=seed)

    def override(self, key: str, value: Any) -> Scenario:
        """A copy with one field replaced: `override("links.0.rate_mbps", "50")`. Text is read as on the command line.

        Links and flows can be given by name instead of number (`links.bottleneck.rate_mbps`).
        """
        data = self.model_dump()
        for flow, own in zip(data["flows"], self.flows, strict=True):
            if own.controller.names_code:  # it was named in Python, and stays
                flow["controller"] = own.controller
        return Scenario.build(replaced(data, key, parse_value(value, key) if isinstance(value, str) else value))

    # -- files ------------------------------------------------------------------------------------------------------

    def to_toml(self) -> str:
        return toml_text(self.model_dump())

    def save(self, path: str | os.PathLike[str]) -> Path:
        return atomic_write_text(path, self.to_toml())

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Scenario:
        version = data.get("schema_version", SCHEMA_VERSION)
        if version != SCHEMA_VERSION:
            raise OrbitccError("schema_version", version, f"{SCHEMA_VERSION} (this version of OrbitCC)")
        return Scenario.build(data)

    @staticmethod
    def from_toml(text: str) -> Scenario:
        try:
            data = parse_toml(text)
        except ValueError as error:
            raise OrbitccError("scenario", text[:40], f"TOML text ({error})") from None
        return Scenario.from_dict(data)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Scenario:
        data = read_toml(path)
        if data.get("kind") is not None:
            raise FileError("file", str(path), "a scenario, not a distribution of scenarios")
        return Scenario.from_dict(data)

    # -- backends ---------------------------------------------------------------------------------------------------

    def unsupported(self, backend: str) -> tuple[str, ...]:
        """The names of the fields that `backend` ("simulator" or "emulator") does not support in a plain run."""
        return support.unsupported(self.sim, self.flows, backend)

    @property
    def links_digest(self) -> str:
        """12 hex digits that identify the links with their schedules, whatever the flows and the seed are."""
        links = json.dumps([link.model_dump(mode="json") for link in self.links], sort_keys=True)
        return hashlib.sha256(links.encode()).hexdigest()[:12]

    def network(self) -> CompiledNetwork:
        """The network that the simulator runs: integer nanoseconds, bits per second and bytes; a new one every time."""
        return compile_network(self)

    def compile(self) -> str:
        """The same as the JSON text for `orbitcc._sim`."""
        return as_text(self.network())

    def policies(self) -> dict[str, AnyPolicy]:
        """The policies to which the compiled text refers."""
        found: dict[str, AnyPolicy] = {}
        for i, flow in enumerate(self.flows):
            _, policies = controllers.make(flow.controller.name, flow.controller.params, f"flows.{i}.controller")
            found.update(policies)
        return found


class ScenarioDistribution(Model):
    """A distribution from which one scenario per episode is drawn."""

    name: str = Field(min_length=1)
    description: str = ""
    transport: Transport = Field(default=None, description="of the agents' flows (:meth:`Scenario.over`)")

    @property
    @abstractmethod
    def max_agents(self) -> int:
        """The largest number of flows with the controller `external` in any scenario."""

    def sample(self, rng: np.random.Generator) -> Scenario:
        """One scenario; it depends only on the state of the generator."""
        return self._draw(rng).over(self.transport)

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> Scenario:
        """The same over TCP."""


def _known_links(path: Sequence[int | str], names: Mapping[str, Any], where: str) -> None:
    for j, hop in enumerate(path):
        if isinstance(hop, int) and not 0 <= hop < len(names):
            raise OrbitccError(f"{where}.{j}", hop, f"a link: 0 to {len(names) - 1}, or its name")
        if isinstance(hop, str) and hop not in names:
            raise UnknownNameError(f"{where}.{j}", hop, names)


def _position(flow: int | str, names: Sequence[str]) -> int:
    return flow if isinstance(flow, int) else names.index(flow)


def _check_proxies(flows: Sequence[Flow]) -> None:
    names = [flow.name for flow in flows]
    taken: set[int] = set()
    traffic = [flow.traffic for flow in flows]  # of the second connection of a proxy, that of the first
    for i, flow in enumerate(flows):
        if flow.pep is None:
            continue
        where, of = f"flows.{i}.pep.of", flow.pep.of
        if isinstance(of, str) and of not in names:
            raise UnknownNameError(where, of, names[:i])
        first = _position(of, names)
        if not 0 <= first < i:
            raise OrbitccError(where, of, "an earlier flow")
        if first in taken:
            raise OrbitccError(where, of, "a flow with one proxy at most")
        taken.add(first)
        if not isinstance(flows[first].traffic, Bulk | Bytes):
            raise OrbitccError(where, of, "a flow whose traffic is bulk or bytes")
        traffic[i] = traffic[first]
        if isinstance(flow.receiver, Optimistic) and isinstance(traffic[i], Bytes):
            allowed = f"stretch or divide, because the traffic of {names[first]} is bytes"
            raise OrbitccError(f"flows.{i}.receiver.kind", flow.receiver.kind, allowed)
        if flows[first].transport is not None:
            raise OrbitccError(where, of, "a flow over TCP: a proxy cannot split a connection of QUIC")
        if flows[first].receiver is not None:
            raise OrbitccError(where, of, "a flow without receiver: that of a proxy acknowledges as TCP does")
        for k in (first, i):
            if flows[k].controller.name == "udp":
                raise OrbitccError(f"flows.{k}.controller", "udp", "a TCP controller, beside pep")


def given_name(flow: Flow) -> str:
    """The name that a flow keeps with another controller: empty if it was made from the old one."""
    return "" if flow.name.startswith(f"{stem(flow.controller)}-") else flow.name


def stem(controller: ControllerSpec) -> str:
    """The controller in the name of a flow without one of its own: of a policy, the end of its path (`mine/best`)."""
    return controllers.get(controller.name).called(controller.params) or controller.name


def _named(flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    """The flows; those without a name get one from their controller and position."""
    if not all(flow.name for flow in flows):
        flows = tuple(
            f if f.name else f.model_copy(update={"name": f"{stem(f.controller)}-{i}"}) for i, f in enumerate(flows)
        )
    names = [flow.name for flow in flows]
    if len(set(names)) < len(names):
        raise OrbitccError("flows", names, "flows with different names")
    return flows


def replaced(data: Any, key: str, value: Any) -> Any:
    """A dumped model with the field `key` replaced: a dotted name, in which items of lists are positions or names."""
    return _replaced(data, key.split("."), 0, value)


def check_undone(data: Any, keys: Sequence[str]) -> None:
    """OrbitccError if one of these dotted names of fields would undo what an earlier one sets.

    data: in which items of lists are found; their position and their name are the same place.
    """
    seen: dict[tuple[str | int, ...], str] = {}
    for key in keys if len(keys) > 1 else ():
        place = _place(data, key.split("."))
        if place in seen:
            raise OrbitccError(key, "a second value", f"none, because {seen[place]} is the same field")
        if lost := [earlier for other, earlier in seen.items() if other[: len(place)] == place]:
            raise OrbitccError(key, "a value", f"before {lost[0]}, which it would undo")
        seen[place] = key


def _place(node: Any, parts: Sequence[str]) -> tuple[str | int, ...]:
    """The names that lead to a field; items of lists are positions."""
    place: list[str | int] = []
    for part in parts:
        if isinstance(node, list | tuple):
            index = _index(node, part, ".".join(parts))
            place.append(index)
            node = node[index]
        else:
            place.append(part)
            node = node.get(part) if isinstance(node, dict) else None
    return tuple(place)


def _replaced(node: Any, parts: list[str], depth: int, value: Any) -> Any:
    """`node` with the value at parts[depth:] replaced."""
    if depth == len(parts):
        return value
    part, where = parts[depth], ".".join(parts[: depth + 1])
    if isinstance(node, list | tuple):
        index = _index(node, part, where)
        return [_replaced(item, parts, depth + 1, value) if i == index else item for i, item in enumerate(node)]
    if not isinstance(node, dict):
        raise OrbitccError(".".join(parts), value, f"a field ({'.'.join(parts[:depth])} is a single value)")
    below = node.get(part)
    if depth + 1 < len(parts):
        if part not in node:
            raise UnknownNameError(where, part, node)
        if part == "reverse" and below is None:
            below = Link.build(node).backward().model_dump()
    return {**node, part: _replaced(below, parts, depth + 1, value)}


def _index(items: Sequence[Any], part: str, where: str) -> int:
    if part.isascii() and part.isdigit() and len(part) < 10 and part == str(int(part)):
        if int(part) < len(items):
            return int(part)
        raise OrbitccError(where, int(part), f"0 to {len(items) - 1}")
    names = [item["name"] for item in items if isinstance(item, dict) and "name" in item]
    if part in names:
        return names.index(part)
    raise UnknownNameError(where, part, names or [str(i) for i in range(len(items))])


__all__ = [
    "SCHEMA_VERSION",
    "ControllerSpec",
    "Direction",
    "Flow",
    "Link",
    "Scenario",
    "ScenarioDistribution",
    "SimSettings",
]
