"""Low-Earth-orbit links: the experiments of the LEO paper (Mazilu et al.)."""

from __future__ import annotations

import math
import random
from typing import Annotated, Literal

from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.links import Direction, Handover, Link, Outage
from orbitcc.envs.description.model import MAX_TIME_S, number
from orbitcc.envs.description.queues import DropTailBytes, DropTailPackets
from orbitcc.envs.description.scenario import Scenario, SimSettings
from orbitcc.envs.scenarios import leo_paper
from orbitcc.envs.scenarios.micro import CUBIC

PERIOD_S = 15
MEAN_RATE_MBPS = 75.0
BUFFER_BYTES = 655_360
"""The paper's buffer: 50 x 2^20 bit/s x 100 ms."""
BDP_BYTES = 655_360
"""The paper's bandwidth-delay product of a path with 100 Mbit/s and 50 ms (it uses 2^20 for a million)."""


def reconfigurations(
    run: int, periods: int, *, order: Literal["M", "L"] = "M", rtt: Literal["paper", "repo"] = "paper"
) -> list[tuple[int, int, float, int | None]]:
    """The paper's random schedule: (rate in Mbit/s, base RTT in ms, loss in %, outage in ms) per 15-s period.

    order: the two branches of the paper's code draw differently. "M" draws an outage in each period, "L" none.
    rtt: "paper" draws 10-100 ms as the text says, "repo" 5-100 ms as the code does.
    """
    draw = random.Random(run)
    least = 10 if rtt == "paper" else 5
    return [
        (
            draw.randint(50, 100),
            draw.randint(least, 100),
            round(draw.uniform(0, 1), 2),
            draw.randint(45, 120) if order == "M" else None,
        )
        for _ in range(periods)
    ]


def leo_responsiveness(
    run: Annotated[int, number(1, 2**31, whole=True)] = 1,
    order: Literal["M", "L"] = "M",
    rtt: Literal["paper", "repo"] = "paper",
    loss: bool = False,
    buffer_bytes: Annotated[int, number(1514, 1e12, "bytes", whole=True)] = BUFFER_BYTES,
    shaper: leo_paper.Shaper = "exact",
    controller: ControllerChoice = CUBIC,
    duration_s: Annotated[float, number(0.001, MAX_TIME_S, "s")] = 300.0,
) -> Scenario:
    """Every 15 s a new rate (50-100 Mbit/s) and RTT, and an outage of 45-120 ms; runs 1 to 50 are the paper's.

    As in the paper, the whole RTT and, with `loss`, a loss of 0-1 % are in the data direction of a link before the
    bottleneck; acknowledgements return without delay and loss. An outage takes the bottleneck down: its queue and
    the packets that arrive meanwhile are lost. The delay changes when it starts, the rate when it ends. The start of
    each period is a handover.
    rtt: drawn from 10-100 ms (`paper`, as the text says) or 5-100 ms (`repo`, as in the paper's code and figure).
    """
    schedule = reconfigurations(run, math.ceil(duration_s / PERIOD_S), order=order, rtt=rtt)
    rates, delays, losses, outages, handovers = [], [], [], [], []
    for k, (rate_mbps, rtt_ms, loss_percent, interruption_ms) in enumerate(schedule):
        t = float(k * PERIOD_S)
        delays.append((t, rtt_ms))
        losses.append((t, loss_percent / 100))
        if k > 0:
            handovers.append(Handover(at_s=t, duration_ms=interruption_ms or 0))
        if k == 0 or interruption_ms is None:
            rates.append((t, rate_mbps))
        else:
            rates.append((t + interruption_ms / 1e3, rate_mbps))
            outages.append(Outage(at_s=t, duration_ms=interruption_ms, mode="drop", flush="queue"))
    most = 22 * (BDP_BYTES + buffer_bytes)
    return Scenario(
        name="leo-responsiveness",
        duration_s=duration_s,
        seed=run,
        links=(
            Link(
                name="path",
                rate_mbps=None,
                delay_ms=tuple(delays),
                loss=tuple(losses) if loss else 0.0,
                loss_at="ingress",
                queue=DropTailPackets(limit_packets=100_000),
                ordering="overtaking",
                handovers=tuple(handovers),
                reverse=Direction(),
            ),
            Link(
                name="bottleneck",
                rate_mbps=tuple(rates),
                burst_bytes=leo_paper.burst_bytes(shaper, MEAN_RATE_MBPS),
                queue=DropTailBytes(limit_bytes=buffer_bytes),
                outages=tuple(outages),
                handovers=(),  # they belong to the link "path"
                reverse=Direction(),
            ),
        ),
        flows=(Flow(controller=controller),),
        sim=SimSettings(rmem_bytes=(10_240, 87_380, most), wmem_bytes=(10_240, 87_380, most)),
    )
