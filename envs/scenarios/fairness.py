"""Two flows on one bottleneck, with different or equal base RTTs (LEO paper, Mazilu et al., section V-B)."""

from __future__ import annotations

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios import leo_paper
from orbitcc.envs.scenarios.micro import CUBIC


def inter_rtt(
    base_rtt_ms: leo_paper.Rtt = 100.0,
    first_rtt_ms: leo_paper.Rtt = 20.0,
    rate_mbps: leo_paper.Rate = 100.0,
    buffer_bdp: leo_paper.BufferBdp = 1.0,
    bdp_unit: leo_paper.BdpUnit = "mebi",
    interruption_every_s: leo_paper.Every = 0.0,
    on_outage: leo_paper.OnOutage = "drop",
    shaper: leo_paper.Shaper = "exact",
    join_s: leo_paper.Start = 50.0,
    run: leo_paper.Run = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: leo_paper.Duration = 200.0,
) -> Scenario:
    """Two flows with different base RTTs on one bottleneck; the second joins the first, of 20 ms, after 50 s.

    The paper has base RTTs of 20-200 ms for the joining flow, and evaluates the last 100 s.
    buffer_bdp: buffer in bandwidth-delay products of the joining flow (0.2, 1 and 4 in the paper).
    A later version of the paper's code has 10 ms for the first flow and an outage every 5 s.
    """
    if join_s >= duration_s:
        raise OrbitccError("join_s", join_s, f"before the end, duration_s = {duration_s:g}")
    buffer = leo_paper.buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp, bdp_unit)
    (outages,) = leo_paper.interruptions(run, interruption_every_s, duration_s, on_outage=on_outage)
    return Scenario(
        name="inter-rtt",
        duration_s=duration_s,
        seed=run,
        links=(leo_paper.bottleneck("bottleneck", rate_mbps, buffer, outages, shaper),),
        flows=(
            Flow(name="first", controller=controller, uplink_delay_ms=first_rtt_ms),
            Flow(name="joining", controller=controller, uplink_delay_ms=base_rtt_ms, start_s=join_s),
        ),
        sim=leo_paper.hosts(rate_mbps, max(first_rtt_ms, base_rtt_ms), buffer),
    )


def intra_rtt(
    base_rtt_ms: leo_paper.Rtt = 100.0,
    rate_mbps: leo_paper.Rate = 100.0,
    buffer_bdp: leo_paper.BufferBdp = 1.0,
    bdp_unit: leo_paper.BdpUnit = "mebi",
    interruption_every_s: leo_paper.Every = 15.0,
    on_outage: leo_paper.OnOutage = "drop",
    shaper: leo_paper.Shaper = "exact",
    join_s: leo_paper.Start = 50.0,
    run: leo_paper.Run = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: leo_paper.Duration = 200.0,
) -> Scenario:
    """Two flows with equal base RTTs on one bottleneck with an outage every 15 s; the second joins after 50 s.

    The paper has base RTTs of 20-200 ms.
    """
    made = inter_rtt(
        base_rtt_ms, base_rtt_ms, rate_mbps, buffer_bdp, bdp_unit, interruption_every_s, on_outage, shaper, join_s, run,
        controller, duration_s,
    )  # fmt: skip
    return made.changed(name="intra-rtt")
