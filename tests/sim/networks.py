"""Small networks in the simulator's own terms: whole nanoseconds, bit/s and bytes. Noise is off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc._sim import Simulation

MS = 1_000_000
S = 1_000_000_000

# Buffers that never limit a flow.
LARGE = [4096, 67_108_864, 268_435_456]


@dataclass(frozen=True)
class Run:
    """A finished run. Series of flows and links are [T] for the first of them, [T, N] in `flows` and `links`."""

    t_s: NDArray[np.float64]
    flows: dict[str, NDArray[np.float64]]
    links: dict[str, NDArray[np.float64]]
    flow_totals: list[dict[str, Any]]
    link_totals: list[dict[str, Any]]

    def flow(self, series: str) -> NDArray[np.float64]:
        return self.flows[series][:, 0]

    def link(self, series: str) -> NDArray[np.float64]:
        return self.links[series][:, 0]

    @property
    def total(self) -> dict[str, Any]:
        return self.flow_totals[0]


def steps(value: Any) -> list[list[Any]]:
    """A number for all time, or [[time, number], ...] as it is."""
    return value if isinstance(value, list) else [[0, value]]


def direction(
    rate: Any = None,
    delay: Any = 0,
    *,
    interpolate: bool = False,
    queue: dict[str, Any] | None = None,
    loss: dict[str, Any] | None = None,
    ordering: str = "fifo",
) -> dict[str, Any]:
    """One direction of a link: rate in bit/s (None = unlimited), delay in ns, each a number or a schedule."""
    return {
        "rate": [] if rate is None else steps(rate),
        "delay": {"interpolate": interpolate, "points": steps(delay)},
        "loss": [] if loss is None else steps(loss),
        "queue": queue or {"kind": "drop_tail_packets", "limit": 1_000_000},
        "ordering": ordering,
    }


def drop_tail(limit_bytes: int) -> dict[str, Any]:
    return {"kind": "drop_tail_bytes", "limit": limit_bytes}


def bernoulli(p: float) -> dict[str, Any]:
    return {"kind": "bernoulli", "p": p}


def link(forward: dict[str, Any], reverse: dict[str, Any] | None = None, *outages: dict[str, Any]) -> dict[str, Any]:
    return {"name": "link", "forward": forward, "reverse": reverse or direction(), "outages": list(outages)}


def flow(controller: str, **params: Any) -> dict[str, Any]:
    """A bulk transfer over the first link."""
    return {"name": controller, "path": [0], "controller": {"name": controller, "params": params}}


def datagrams(rate: int, *, start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """A sender of constant rate (bit/s on the wire) that answers to nothing; its first packet leaves at `start`."""
    return flow("udp") | {"start": start, "stop": stop, "traffic": {"kind": "cbr", "rate": rate}}


def network(
    seconds: float, links: Sequence[dict[str, Any]], flows: Sequence[dict[str, Any]], *, seed: int = 1, **tcp: Any
) -> dict[str, Any]:
    """1500-byte packets (52 bytes of IP and TCP headers, no framing), so that shares come out round."""
    return {
        "seed": seed,
        "duration": round(seconds * S),
        "tcp": {"header_bytes": 52, "ack_bytes": 52, "rmem": LARGE, "wmem": [4096, 65_536, LARGE[2]], **tcp},
        "links": list(links),
        "flows": list(flows),
    }


def run(spec: dict[str, Any], interval: int = 100 * MS) -> Run:
    simulation = Simulation(json.dumps(spec), record_interval_ns=interval)
    simulation.run()
    recording = simulation.recording()
    return Run(
        recording["t_s"], recording["flows"], recording["links"], simulation.flow_totals(), simulation.link_totals()
    )
