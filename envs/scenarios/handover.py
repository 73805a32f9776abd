"""One flow and one kind of event: outages of one length, or a step of the delay (the LEO paper's code)."""

from __future__ import annotations

from typing import Annotated

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.links import Direction, Handover, Link, Outage
from orbitcc.envs.description.model import number
from orbitcc.envs.description.queues import DropTailPackets
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios import leo_paper
from orbitcc.envs.scenarios.micro import CUBIC


def hard_handover(
    interruption_ms: Annotated[float, number(0, 1e5, "ms")] = 100.0,
    every_s: Annotated[float, number(0, 1e6, "s", above=True)] = 5.0,
    base_rtt_ms: leo_paper.Rtt = 50.0,
    rate_mbps: leo_paper.Rate = 100.0,
    buffer_bdp: leo_paper.BufferBdp = 1.0,
    bdp_unit: leo_paper.BdpUnit = "mebi",
    controller: ControllerChoice = CUBIC,
    duration_s: leo_paper.Duration = 100.0,
) -> Scenario:
    """Every 5 s the hop before the bottleneck is down, in both directions, for a fixed time (20-200 ms in the paper).

    The bottleneck continues to send the packets in its queue meanwhile.
    """
    if interruption_ms / 1e3 >= every_s:
        raise OrbitccError("interruption_ms", interruption_ms, f"less than every_s = {every_s:g} s")
    buffer = leo_paper.buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp, bdp_unit)
    times = [k * every_s for k in range(1, int(duration_s / every_s) + 1) if k * every_s < duration_s]
    outages = tuple(Outage(at_s=t, duration_ms=interruption_ms) for t in times) if interruption_ms else ()
    return Scenario(
        name="hard-handover",
        duration_s=duration_s,
        links=(
            Link(name="hop", rate_mbps=None, outages=outages, reverse=Direction()),
            leo_paper.bottleneck("bottleneck", rate_mbps, buffer),
        ),
        flows=(Flow(controller=controller, uplink_delay_ms=base_rtt_ms),),
        sim=leo_paper.hosts(rate_mbps, base_rtt_ms, buffer),
    )


def delay_jump(
    base_rtt_ms: leo_paper.Rtt = 20.0,
    factor: Annotated[float, number(0.01, 100)] = 3.0,
    at_s: Annotated[float, number(0, 1e6, "s", above=True)] = 20.0,
    rate_mbps: leo_paper.Rate = 100.0,
    buffer_bdp: leo_paper.BufferBdp = 1.0,
    bdp_unit: leo_paper.BdpUnit = "mebi",
    controller: ControllerChoice = CUBIC,
    duration_s: leo_paper.Duration = 50.0,
) -> Scenario:
    """After 20 s a handover without outage multiplies the base RTT by `factor`.

    The paper has base RTTs of 10-100 ms and factors of 1.5, 2, 3 and 4. The buffer is in bandwidth-delay products of
    the first RTT.
    """
    if at_s >= duration_s:
        raise OrbitccError("at_s", at_s, f"before the end, duration_s = {duration_s:g}")
    buffer = leo_paper.buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp, bdp_unit)
    return Scenario(
        name="delay-jump",
        duration_s=duration_s,
        links=(
            Link(
                name="path",
                rate_mbps=None,
                delay_ms=((0.0, base_rtt_ms), (at_s, factor * base_rtt_ms)),
                queue=DropTailPackets(limit_packets=100_000),
                ordering="overtaking",
                handovers=(Handover(at_s=at_s),),
                reverse=Direction(),
            ),
            leo_paper.bottleneck("bottleneck", rate_mbps, buffer),
        ),
        flows=(Flow(controller=controller),),
        sim=leo_paper.hosts(rate_mbps, max(1.0, factor) * base_rtt_ms, buffer),
    )
