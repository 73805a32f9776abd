"""A controller beside Cubic (the LEO paper's code)."""

from __future__ import annotations

import random
from typing import Annotated, Literal

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.model import number
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios import leo_paper
from orbitcc.envs.scenarios.micro import CUBIC


def cubic_friendliness(
    flows: Annotated[int, number(2, 1000, whole=True)] = 2,
    first: Literal["cubic", "controller"] = "cubic",
    base_rtt_ms: leo_paper.Rtt = 60.0,
    rate_mbps: leo_paper.Rate = 100.0,
    buffer_bdp: leo_paper.BufferBdp = 1.0,
    bdp_unit: leo_paper.BdpUnit = "mebi",
    join_s: leo_paper.Start = 50.0,
    run: leo_paper.Run = 1,
    controller: ControllerChoice = CUBIC,
    rival: ControllerChoice = CUBIC,
    duration_s: leo_paper.Duration = 200.0,
) -> Scenario:
    """One flow with the controller beside one or more Cubic flows; the flow that is not `first` joins after 50 s.

    rival: controller of the other flows.
    The paper's code has two flows of 20-200 ms with buffers of 0.2, 1 and 4 bandwidth-delay products, or 3 to 21 flows
    of 30 ms. With more than two flows, the controller's flow starts at 0, and the Cubic flows join at whole seconds
    drawn from 1 to 50.
    """
    if join_s >= duration_s:
        raise OrbitccError("join_s", join_s, f"before the end, duration_s = {duration_s:g}")
    if flows > 2 and join_s < 1:
        raise OrbitccError("join_s", join_s, "at least 1 s, because Cubic flows join at a second from 1 to this")
    buffer = leo_paper.buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp, bdp_unit)
    if flows == 2:
        ours, starts = (join_s, [0.0]) if first == "cubic" else (0.0, [join_s])
    else:
        draw = random.Random(run * flows)
        ours, starts = 0.0, [float(draw.randint(1, int(join_s))) for _ in range(flows - 1)]
    return Scenario(
        name="cubic-friendliness",
        duration_s=duration_s,
        seed=run,
        links=(leo_paper.bottleneck("bottleneck", rate_mbps, buffer),),
        flows=(
            Flow(name="controller", controller=controller, start_s=ours, uplink_delay_ms=base_rtt_ms),
            *(
                Flow(name=f"{rival.name}-{i}", controller=rival, start_s=start, uplink_delay_ms=base_rtt_ms)
                for i, start in enumerate(starts)
            ),
        ),
        sim=leo_paper.hosts(rate_mbps, base_rtt_ms, buffer),
    )
