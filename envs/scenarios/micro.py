"""A single static bottleneck."""

from __future__ import annotations

from typing import Annotated

from orbitcc.envs.description.flows import ControllerChoice, ControllerSpec, Flow
from orbitcc.envs.description.links import MAX_RATE_MBPS, Link
from orbitcc.envs.description.model import MAX_TIME_S, number
from orbitcc.envs.description.queues import PACKET_BYTES, DropTailBytes
from orbitcc.envs.description.scenario import Scenario

CUBIC = ControllerSpec(name="cubic")
"""The default controller."""


def buffer_bytes(rate_mbps: float, base_rtt_ms: float, buffer_bdp: float) -> int:
    """`buffer_bdp` bandwidth-delay products, at least one packet."""
    return max(round(buffer_bdp * rate_mbps * base_rtt_ms * 125), PACKET_BYTES)


def dumbbell(
    rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 100.0,
    base_rtt_ms: Annotated[float, number(0.01, 1e5, "ms")] = 50.0,
    buffer_bdp: Annotated[float, number(0.001, 1e4)] = 1.0,
    flows: Annotated[int, number(1, 1000, whole=True)] = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: Annotated[float, number(0.001, MAX_TIME_S, "s")] = 60.0,
) -> Scenario:
    """One static drop-tail bottleneck with half the base RTT in each direction; all flows start together."""
    return Scenario(
        name="dumbbell",
        duration_s=duration_s,
        links=(
            Link(
                name="bottleneck",
                rate_mbps=rate_mbps,
                delay_ms=base_rtt_ms / 2,
                queue=DropTailBytes(limit_bytes=buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp)),
            ),
        ),
        flows=tuple(Flow(controller=controller) for _ in range(flows)),
    )
