"""A chain of several bottlenecks."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.model import number
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.impairments import hotspots
from orbitcc.envs.impairments.effects import Effect, Way, impaired
from orbitcc.envs.impairments.hotspots import Hotspots
from orbitcc.envs.scenarios import leo_paper
from orbitcc.envs.scenarios.micro import CUBIC


def parking_lot(
    bottlenecks: Annotated[int, number(1, 100, whole=True)] = 3,
    rate_mbps: leo_paper.Rate = 100.0,
    base_rtt_ms: leo_paper.Rtt = 50.0,
    long_rtt_ms: Annotated[float | None, number(0.01, 6e4, "ms", optional=True)] = None,
    buffer_bdp: leo_paper.BufferBdp = 1.0,
    bdp_unit: leo_paper.BdpUnit = "mebi",
    interruption_every_s: leo_paper.Every = 15.0,
    on_outage: leo_paper.OnOutage = "drop",
    shaper: leo_paper.Shaper = "exact",
    hotspots_per_min: Annotated[float, number(0, 60, "1/min")] = 0.0,
    run: leo_paper.Run = 1,
    controller: ControllerChoice = CUBIC,
    long_start_s: leo_paper.Start = 50.0,
    duration_s: leo_paper.Duration = 200.0,
) -> Scenario:
    """A long flow over all bottlenecks and a cross flow on each, with equal base RTTs (Mazilu et al., section V-B).

    Every 15 s all links have an outage at the same time, each of its own length (our choice: the paper does not say).
    The paper says 3 and 6 bottlenecks; its code had 3 and 6 switches, that is, 2 and 5 bottlenecks.
    long_rtt_ms: base RTT of the long flow; None: that of the other flows.
    hotspots_per_min: additional hotspots of short cross traffic on each link.
    """
    if long_start_s >= duration_s:
        raise OrbitccError("long_start_s", long_start_s, f"before the end, duration_s = {duration_s:g}")
    long_rtt = base_rtt_ms if long_rtt_ms is None else long_rtt_ms
    buffer = leo_paper.buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp, bdp_unit)
    outages = leo_paper.interruptions(run, interruption_every_s, duration_s, links=bottlenecks, on_outage=on_outage)
    links = [leo_paper.bottleneck(f"hop-{i}", rate_mbps, buffer, outages[i], shaper) for i in range(bottlenecks)]
    # As in the paper, the whole RTT is on each client's uplink; acknowledgements return without delay or rate limit.
    flows = [Flow(name="long", controller=controller, start_s=long_start_s, uplink_delay_ms=long_rtt)]
    flows += [
        Flow(name=f"cross-{i}", controller=controller, path=(i,), uplink_delay_ms=base_rtt_ms)
        for i in range(bottlenecks)
    ]
    rng = np.random.default_rng(run)
    for i, link in enumerate(links):
        crowds = Hotspots(per_s=hotspots_per_min / 60).draw(rng, duration_s)
        flows += hotspots.traffic(crowds, i, rate_mbps, duration_s)
        cuts = hotspots.rate_factor(crowds)
        if cuts is not None:
            links[i] = impaired(link, [Effect(forward=Way(rate=cuts))])
    return Scenario(
        name="parking-lot",
        duration_s=duration_s,
        seed=run,
        links=tuple(links),
        flows=tuple(flows),
        sim=leo_paper.hosts(rate_mbps, max(base_rtt_ms, long_rtt), buffer),
    )
