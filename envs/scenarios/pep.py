"""A server, a terrestrial link, and a GEO link with or without a performance-enhancing proxy before it."""

from __future__ import annotations

from typing import Annotated, Literal

from orbitcc.envs.description.flows import ControllerChoice, ControllerSpec, Flow, Pep, Stretch
from orbitcc.envs.description.links import Link
from orbitcc.envs.description.model import MAX_TIME_S, number
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios.geo import geo_viasat_2020
from orbitcc.envs.scenarios.micro import CUBIC

HYBLA = ControllerSpec(name="hybla")
"""The controller of PEPsal's satellite side (Caini, Firrincieli, Lacamera, AINA 2006)."""
SPARSE_ACKS = Stretch(segments=10, hold_ms=25)
"""One acknowledgement per ten packets, or after QUIC's default max_ack_delay of 25 ms (RFC 9000, section 18.2)."""


def geo_pep(
    connection: Literal["end-to-end", "proxy", "sparse-acks"] = "proxy",
    controller: ControllerChoice = CUBIC,
    pep_controller: ControllerChoice = HYBLA,
    pep_buffer_bytes: Annotated[int, number(10_000, 1e12, "bytes", whole=True)] = 60_000_000,
    access_rtt_ms: Annotated[float, number(0.01, 1e5, "ms")] = 20.0,
    run: Annotated[int, number(1, 2**31, whole=True)] = 1,
    duration_s: Annotated[float, number(0.001, MAX_TIME_S, "s")] = 120.0,
) -> Scenario:
    """A download through a terrestrial link of 1 Gbit/s and the Viasat link of 2020, which a proxy may split.

    connection: `proxy`, two TCP connections that a proxy at the satellite gateway joins; `end-to-end`, one connection
    over both links, as of every protocol that no proxy can split; `sparse-acks`, the same with one acknowledgement per
    ten packets, which QUIC can agree on.
    controller: of the server. pep_controller: of the proxy towards the client.
    pep_buffer_bytes: the most that the proxy holds.
    run: as in geo-viasat-2020, with its oscillating delay.
    """
    geo = geo_viasat_2020(run=run, rtt="sine_ar1", duration_s=duration_s)
    access = Link(name="access", rate_mbps=1000.0, delay_ms=access_rtt_ms / 2)
    start_s = geo.flows[0].start_s
    if connection == "proxy":
        flows: tuple[Flow, ...] = (
            Flow(name="server", controller=controller, path=("access",), start_s=start_s),
            Flow(
                name="client",
                controller=pep_controller,
                path=("satellite",),
                start_s=start_s,
                pep=Pep(of=0, buffer_bytes=pep_buffer_bytes),
            ),
        )
    else:
        receiver = SPARSE_ACKS if connection == "sparse-acks" else None
        flows = (Flow(name="client", controller=controller, start_s=start_s, receiver=receiver),)
    return geo.changed(name="geo-pep", links=(access, *geo.links), flows=flows)
