"""Two bottlenecks; some flows move from one to the other: the soft handover of the LEO paper's code."""

from __future__ import annotations

from typing import Annotated

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.flows import ControllerChoice, Flow, Reroute
from orbitcc.envs.description.model import MAX_TIME_S, number
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios import leo_paper
from orbitcc.envs.scenarios.micro import CUBIC

_When = Annotated[float | None, number(0, MAX_TIME_S, "s", above=True, optional=True)]


def double_dumbbell(
    base_rtt_ms: leo_paper.Rtt = 40.0,
    first_rtt_ms: Annotated[float | None, number(0.01, 6e4, "ms", optional=True)] = None,
    flows_each: Annotated[int, number(1, 500, whole=True)] = 2,
    rate_mbps: leo_paper.Rate = 100.0,
    buffer_bdp: leo_paper.BufferBdp = 1.0,
    bdp_unit: leo_paper.BdpUnit = "mebi",
    cross_s: _When = None,
    return_s: _When = None,
    controller: ControllerChoice = CUBIC,
    duration_s: _When = None,
) -> Scenario:
    """Two dumbbells of two flows each; the flows of the second move to the bottleneck of the first, and return later.

    base_rtt_ms: RTT of all flows, or of the flows of the second dumbbell if first_rtt_ms is given (50 in the paper).
    Buffers are bandwidth-delay products of 50 ms (first dumbbell) and of base_rtt_ms (second).
    By default, the times are those of the paper: move, return and end after 2, 4 and 6 s per ms of RTT, or, with
    first_rtt_ms, after 100, 200 and 300 s.
    """
    unit_s = 2 * base_rtt_ms if first_rtt_ms is None else 100.0
    cross, back, end = (given or k * unit_s for k, given in ((1, cross_s), (2, return_s), (3, duration_s)))
    if not cross < back:
        raise OrbitccError("return_s", back, f"later than cross_s = {cross:g}")
    if not back < end:
        raise OrbitccError("duration_s", end, f"later than return_s = {back:g}")
    buffers = [leo_paper.buffer_bytes(rate_mbps, rtt, buffer_bdp, bdp_unit) for rtt in (50.0, base_rtt_ms)]
    first_rtt = base_rtt_ms if first_rtt_ms is None else first_rtt_ms
    stay = [
        Flow(name=f"first-{i}", controller=controller, path=("first",), uplink_delay_ms=first_rtt)
        for i in range(flows_each)
    ]
    cross_over = (Reroute(at_s=cross, path=("first",)), Reroute(at_s=back, path=("second",)))
    move = [
        Flow(
            name=f"second-{i}",
            controller=controller,
            path=("second",),
            reroutes=cross_over,
            uplink_delay_ms=base_rtt_ms,
        )
        for i in range(flows_each)
    ]
    return Scenario(
        name="double-dumbbell",
        duration_s=end,
        links=tuple(
            leo_paper.bottleneck(name, rate_mbps, buffer)
            for name, buffer in zip(("first", "second"), buffers, strict=True)
        ),
        flows=(*stay, *move),
        sim=leo_paper.hosts(rate_mbps, base_rtt_ms, buffers[1]),
    )
