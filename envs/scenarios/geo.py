"""Geostationary links."""

from __future__ import annotations

from typing import Annotated

from orbitcc.envs.flows import ControllerChoice, Flow
from orbitcc.envs.links import MAX_RATE_MBPS, Direction, Link, Viasat
from orbitcc.envs.model import MAX_TIME_S, number
from orbitcc.envs.scenario import Scenario, SimSettings
from orbitcc.envs.scenarios.micro import CUBIC

_HOST_BUFFER_BYTES = 60_000_000
"""tcp_rmem and tcp_wmem of the measurements (Claypool et al.)."""


def geo_ideal(
    rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 144.0,
    return_rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 20.0,
    base_rtt_ms: Annotated[float, number(0.01, 1e5, "ms")] = 597.0,
    flows: Annotated[int, number(1, 1000, whole=True)] = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: Annotated[float, number(0.001, MAX_TIME_S, "s")] = 120.0,
) -> Scenario:
    """The Viasat link of Claypool et al. without weather, loss and stalls; its 36 MB queue drops from 18 MB on."""
    sizes = (_HOST_BUFFER_BYTES,) * 3
    return Scenario(
        name="geo-ideal",
        duration_s=duration_s,
        links=(
            Link(
                name="satellite",
                rate_mbps=rate_mbps,
                delay_ms=base_rtt_ms / 2,
                queue=Viasat(),
                reverse=Direction(rate_mbps=return_rate_mbps, delay_ms=base_rtt_ms / 2),
            ),
        ),
        flows=tuple(Flow(controller=controller) for _ in range(flows)),
        sim=SimSettings(rmem_bytes=sizes, wmem_bytes=sizes),
    )
