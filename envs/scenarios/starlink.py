"""The access link of Starlink as measured from 2024 to 2026."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np

from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.links import Direction, Link, LoadLoss
from orbitcc.envs.description.model import number
from orbitcc.envs.description.queues import DropTailBytes, DropTailPackets
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.access_cycle import AccessCycle, under_cycle
from orbitcc.envs.impairments.effects import impaired
from orbitcc.envs.scenarios import leo_paper
from orbitcc.envs.scenarios.micro import CUBIC, buffer_bytes

NONE = Span(low=0, high=0)
OVERLAY = AccessOverlay(
    interruption_probability=Span(low=1, high=1),
    interruption_ms=Span(low=58, high=134),
    hold_probability=1.0,
    ramp_ms=Span(low=40, high=100),
    loss=NONE,
    bursts_per_s=NONE,
)
"""An outage at every edge of a slot, as in the example trace of LeoCC: nothing is served for 58 to 134 ms, then
the rate grows for 40 to 100 ms. The losses are those of the link."""

_Loss = Annotated[float, number(0, 1)]


def starlink_2026(
    direction: Literal["down", "up"] = "down",
    down_mbps: leo_paper.Rate = 118.0,
    up_mbps: leo_paper.Rate = 17.0,
    propagation_rtt_ms: leo_paper.Rtt = 10.0,
    drop: Literal["front", "tail"] = "front",
    down_buffer_bdp: leo_paper.BufferBdp = 2.0,
    up_buffer_packets: Annotated[int, number(1, 1e9, "packets", whole=True)] = 500,
    down_loss: _Loss = 1e-4,
    up_loss: _Loss = 5e-3,
    load_tau_s: Annotated[float, number(1e-3, 100, "s")] = 1.0,
    run: leo_paper.Run = 1,
    flows: Annotated[int, number(1, 1000, whole=True)] = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: leo_paper.Duration = 120.0,
) -> Scenario:
    """A Starlink access link as measured from 2024 to 2026: drops from the front, uplink losses rising with the rate.

    direction: of the data; the acknowledgements take the other one.
    down_mbps, up_mbps: geometric means over time and runs.
    drop: what a full queue drops, in both directions: what has waited longest (`front`) or what arrives (`tail`).
    down_buffer_bdp: the queue of the downlink, in multiples of rate times RTT at the start.
    up_loss: loss probability of the uplink at full load; it is proportional to the load.
    load_tau_s: the load is averaged over this time.
    run: number of the run, which determines all random draws.
    Slots, outages, delays and rates: `OVERLAY` and AccessCycle. docs/links.md gives the source of each number.
    """
    rng = np.random.default_rng([run, 0])
    slots = OVERLAY.own_slots(rng, duration_s)
    effect = under_cycle(OVERLAY, AccessCycle(loss=NONE), rng, duration_s, down_mbps, slots)
    if direction == "up":
        effect = replace(effect, forward=effect.reverse, reverse=effect.forward)
    delay_ms = propagation_rtt_ms / 2
    buffer = buffer_bytes(down_mbps, propagation_rtt_ms + effect.delay_ms_at_start(), down_buffer_bdp)
    down: dict[str, Any] = {
        "rate_mbps": down_mbps,
        "loss": down_loss,
        "queue": DropTailBytes(limit_bytes=buffer, drop=drop),
    }
    up: dict[str, Any] = {
        "rate_mbps": up_mbps,
        "loss": LoadLoss(full_loss=up_loss, tau_ms=load_tau_s * 1e3),
        "queue": DropTailPackets(limit_packets=up_buffer_packets, drop=drop),
    }
    data, acks = (down, up) if direction == "down" else (up, down)
    back = Direction(delay_ms=delay_ms, **acks)
    link = Link(name="access", delay_ms=delay_ms, handovers=(), reverse=back, **data)
    return Scenario(
        name="starlink-2026",
        duration_s=duration_s,
        seed=run,
        links=(impaired(link, [effect]),),
        flows=tuple(Flow(controller=controller) for _ in range(flows)),
    )
