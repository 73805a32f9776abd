"""Many flows start one after the other on one bottleneck (LEO paper, Mazilu et al., section V-C)."""

from __future__ import annotations

from typing import Annotated

from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.model import MAX_TIME_S, number
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios import leo_paper
from orbitcc.envs.scenarios.micro import CUBIC


def efficiency(
    flows: Annotated[int, number(1, 1000, whole=True)] = 5,
    base_rtt_ms: leo_paper.Rtt = 50.0,
    rate_mbps: leo_paper.Rate = 100.0,
    buffer_bdp: leo_paper.BufferBdp = 5.0,
    bdp_unit: leo_paper.BdpUnit = "mebi",
    interruption_every_s: leo_paper.Every = 15.0,
    on_outage: leo_paper.OnOutage = "drop",
    shaper: leo_paper.Shaper = "exact",
    start_span_s: leo_paper.Start = 100.0,
    life_s: Annotated[float, number(0.001, MAX_TIME_S, "s")] = 150.0,
    run: leo_paper.Run = 1,
    controller: ControllerChoice = CUBIC,
) -> Scenario:
    """Many flows start evenly over 100 s and stay for 150 s each, so that all are active from 100 to 150 s.

    The paper has 5, 10 and 20 flows, a deep buffer (5 bandwidth-delay products) and an outage every 15 s.
    """
    buffer = leo_paper.buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp, bdp_unit)
    duration_s = start_span_s + life_s if flows > 1 else life_s
    (outages,) = leo_paper.interruptions(run, interruption_every_s, duration_s, on_outage=on_outage)
    starts = [start_span_s * i / max(flows - 1, 1) for i in range(flows)]
    return Scenario(
        name="efficiency",
        duration_s=duration_s,
        seed=run,
        links=(leo_paper.bottleneck("bottleneck", rate_mbps, buffer, outages, shaper),),
        flows=tuple(
            Flow(
                controller=controller,
                uplink_delay_ms=base_rtt_ms,
                start_s=start,
                stop_s=start + life_s if start + life_s < duration_s else None,
            )
            for start in starts
        ),
        sim=leo_paper.hosts(rate_mbps, base_rtt_ms, buffer),
    )
