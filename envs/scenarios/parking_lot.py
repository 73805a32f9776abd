"""Several bottlenecks in a row."""

from __future__ import annotations

from typing import Annotated

from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.flows import ControllerChoice, Flow
from orbitcc.envs.links import MAX_RATE_MBPS, Direction, DropTailBytes, Link
from orbitcc.envs.model import MAX_TIME_S, number
from orbitcc.envs.scenario import Scenario
from orbitcc.envs.scenarios.micro import CUBIC, buffer_bytes


def parking_lot(
    bottlenecks: Annotated[int, number(1, 100, whole=True)] = 3,
    rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 100.0,
    base_rtt_ms: Annotated[float, number(0.01, 6e4, "ms")] = 50.0,
    buffer_bdp: Annotated[float, number(0.001, 1e4)] = 1.0,
    controller: ControllerChoice = CUBIC,
    long_start_s: Annotated[float, number(0, MAX_TIME_S, "s")] = 50.0,
    duration_s: Annotated[float, number(0.001, MAX_TIME_S, "s")] = 200.0,
) -> Scenario:
    """A long flow over all bottlenecks, a cross flow on each, all of one base RTT (Mazilu et al., section V-B)."""
    if long_start_s >= duration_s:
        raise OrbitccError("long_start_s", long_start_s, f"before the end, duration_s = {duration_s:g}")
    queue = DropTailBytes(limit_bytes=buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp))
    # As in the study the whole RTT is on each client's own uplink; acknowledgements return without delay or rate limit.
    links = [Link(name=f"hop-{i}", rate_mbps=rate_mbps, queue=queue, reverse=Direction()) for i in range(bottlenecks)]
    flows = [Flow(name="long", controller=controller, start_s=long_start_s, uplink_delay_ms=base_rtt_ms)]
    flows += [
        Flow(name=f"cross-{i}", controller=controller, path=(i,), uplink_delay_ms=base_rtt_ms)
        for i in range(bottlenecks)
    ]
    return Scenario(name="parking-lot", duration_s=duration_s, links=tuple(links), flows=tuple(flows))
