"""A LEO access link as measured: delays, outages, losses and rates that change from slot to slot."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np

from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.model import number
from orbitcc.envs.description.queues import DropTailBytes, DropTailPackets
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.impairments import hotspots
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.access_cycle import AccessCycle, under_cycle
from orbitcc.envs.impairments.effects import Effect, Way, impaired
from orbitcc.envs.impairments.hotspots import Hotspots
from orbitcc.envs.scenarios import leo_paper
from orbitcc.envs.scenarios.micro import CUBIC, buffer_bytes

_NONE = Span(low=0, high=0)


def leo_access(
    rate_mbps: leo_paper.Rate = 150.0,
    return_rate_mbps: leo_paper.Rate = 15.0,
    profile: Literal["since-2024", "before-2024"] = "since-2024",
    propagation_rtt_ms: leo_paper.Rtt = 10.0,
    buffer_bdp: leo_paper.BufferBdp = 2.0,
    interruption: Literal["mixed", "hold", "drop", "none"] = "mixed",
    long_interruptions: bool = False,
    delay_changes: bool = True,
    jitter: bool = True,
    losses: bool = True,
    rate_changes: bool = True,
    hotspots_per_min: Annotated[float, number(0, 60, "1/min")] = 0.0,
    run: leo_paper.Run = 1,
    flows: Annotated[int, number(1, 1000, whole=True)] = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: leo_paper.Duration = 120.0,
) -> Scenario:
    """A Starlink-like access link as measured: every 15-s slot has its own delay and rate, with outages between.

    run: number of the run, which determines all random draws.
    profile: `since-2024` includes what has been measured since 2024: delay spikes around slot edges, rates in steps and
    bursts, windows of loss (docs/links.md). `before-2024` does not.
    interruption: packets wait (`hold`), are lost (`drop`), or either (`mixed`).
    long_interruptions: outages of 20-750 ms instead of 45-120 ms.
    delay_changes: the delay changes from slot to slot and around slot edges.
    rate_changes: the rate changes from slot to slot and within slots.
    The buffer is in multiples of rate times RTT at the start.
    """
    off: dict[str, Any] = {}
    calm: dict[str, Any] = {}
    if interruption == "none":
        off |= {"interruption_ms": _NONE, "long_interruption_ms": _NONE}
    elif interruption != "mixed":
        off["hold_probability"] = float(interruption == "hold")
    if not delay_changes:
        off |= {"slot_sd_ms": _NONE, "settling_rtt_ms": _NONE}
        calm["spike_ms"] = _NONE
    if not jitter:
        off |= {"jitter_rtt_ms": _NONE, "frame_ms": _NONE}
    if not losses:
        off |= {"loss": _NONE, "bursts_per_s": _NONE}
        calm["loss"] = _NONE
    if not rate_changes:
        off |= {"rate_sd": _NONE, "noise_sd": _NONE}
        calm |= {"steps": 1, "silence_share": _NONE}
    overlay = AccessOverlay(long_interruption_probability=float(long_interruptions), **off)
    crowds = Hotspots(per_s=hotspots_per_min / 60).draw(np.random.default_rng([run, 1]), duration_s)
    rng = np.random.default_rng([run, 0])
    if profile == "since-2024":
        slots = overlay.own_slots(rng, duration_s)
        effect = under_cycle(overlay, AccessCycle(**calm), rng, duration_s, rate_mbps, slots)
    else:
        effect = overlay.draw(rng, duration_s, rate_mbps)
    link = impaired(
        Link(
            name="access",
            rate_mbps=rate_mbps,
            delay_ms=propagation_rtt_ms / 2,
            handovers=(),
            reverse=Direction(
                rate_mbps=return_rate_mbps,
                delay_ms=propagation_rtt_ms / 2,
                queue=DropTailPackets(limit_packets=500),
            ),
        ),
        [effect, Effect(forward=Way(rate=hotspots.rate_factor(crowds)))],
    )
    scenario = Scenario(
        name="leo-access",
        duration_s=duration_s,
        seed=run,
        links=(link,),
        flows=(
            *(Flow(controller=controller) for _ in range(flows)),
            *hotspots.traffic(crowds, 0, rate_mbps, duration_s),
        ),
    )
    buffer = buffer_bytes(rate_mbps, scenario.base_rtt_ms(), buffer_bdp)
    return scenario.changed(links=(link.changed(queue=DropTailBytes(limit_bytes=buffer)),))
