"""The access network of a LEO constellation: what Starlink adds to the propagation delay, as measured.

The ranges follow published traces of Starlink: LeoCC's example (rates, gaps of 58-134 ms at slot edges), the pings of
the MMSys 2024 live streaming data set (bent pipe at Victoria, inter-satellite links to the Seychelles), and the LEO
paper's outages of 45-120 ms. docs/links.md gives the source of each figure.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from orbitcc.envs.description.links import MAX_DELAY_MS, GammaJitter, GilbertElliott, Handover, Outage
from orbitcc.envs.description.model import Model, number
from orbitcc.envs.description.queues import PACKET_BYTES
from orbitcc.envs.description.ranges import Span, span
from orbitcc.envs.impairments.effects import Effect, Way
from orbitcc.envs.impairments.series import JUMP_S, Array, Series, ar1, poisson
from orbitcc.envs.orbits.trace import Slot

RAMP_STEPS = 4
SETTLING_S = 0.4
LEAST_NOISE = 0.1
"""Noise reduces the rate to no less than this share."""

_probability = number(0, 1)
_share = span(0, 1)
_ms = span(0, MAX_DELAY_MS, "ms")


class AccessOverlay(Model):
    """Delays, outages, losses and rates of a satellite access link. Each range is drawn once per link.

    RTTs are split evenly between both directions. A range of zeros switches its part off.
    """

    slot_s: Annotated[Span, span(1, 1e4, "s")] = Field(
        default=Span(low=15, high=15), description="length of a slot, if there is no path that defines the slots"
    )
    handover_probability: Annotated[float, _probability] = Field(
        default=0.8,
        description="probability that a slot has a new access satellite, if there is no path that defines this",
    )

    processing_rtt_ms: Annotated[Span, _ms] = Span(low=6, high=25)
    terrestrial_rtt_ms: Annotated[Span, _ms] = Field(
        default=Span(low=0, high=60), description="RTT between the operator's point of presence and the server"
    )
    slot_sd_ms: Annotated[Span, _ms] = Field(
        default=Span(low=0.5, high=12, log=True), description="each slot adds |N(0, slot_sd_ms)| to the RTT"
    )
    slot_correlation: Annotated[float, _probability] = Field(
        default=0.0, description="correlation of these normal variables of neighbouring slots"
    )
    jitter_rtt_ms: Annotated[Span, _ms] = Field(
        default=Span(low=2, high=8), description="mean of a Gamma-distributed delay"
    )
    jitter_tau_ms: Annotated[Span, span(0.1, 1e6, "ms")] = Span(low=20, high=50)
    jitter_shape: Annotated[int, number(1, 16, whole=True)] = Field(
        default=2, description="shape of its Gamma distribution"
    )
    frame_ms: Annotated[Span, _ms] = Field(
        default=Span(low=1.33, high=1.33), description="length of the radio frames of each direction"
    )

    interruption_probability: Annotated[Span, _share] = Field(
        default=Span(low=0.3, high=1),
        description="probability of an outage at a slot edge if the satellite stays; always if it changes",
    )
    interruption_ms: Annotated[Span, span(0, 1e4, "ms")] = Span(low=45, high=120)
    long_interruption_probability: Annotated[float, _probability] = 0.0
    long_interruption_ms: Annotated[Span, span(0, 1e4, "ms")] = Span(low=20, high=750, log=True)
    hold_probability: Annotated[float, _probability] = Field(
        default=0.7,
        description="probability that packets wait, and the rate then grows from 0 in ramp_ms; else they are lost",
    )
    ramp_ms: Annotated[Span, span(0, 1e4, "ms")] = Span(low=40, high=150)
    settling_rtt_ms: Annotated[Span, _ms] = Field(
        default=Span(low=5, high=30), description="extra delay after an outage, which decays within 0.4 s"
    )

    obstructions_per_s: Annotated[float, number(0, 10, "1/s")] = Field(
        default=0.0, description="rate of outages at any time: trees, bridges, changes of the beam within a slot"
    )
    obstruction_ms: Annotated[float, number(0.1, 1e6, "ms")] = Field(
        default=1000.0, description="mean of their exponential length; packets wait or are lost by hold_probability"
    )

    loss: Annotated[Span, _share] = Field(
        default=Span(low=1e-5, high=1e-2, log=True), description="loss probability of single packets, in each direction"
    )
    bursts_per_s: Annotated[Span, span(0, 1e3, "1/s")] = Field(
        default=Span(low=1e-3, high=0.1, log=True),
        description="rate of bursts, in which all packets of a direction are lost",
    )
    burst_ms: Annotated[Span, span(0.1, 1e5, "ms")] = Field(
        default=Span(low=5, high=300, log=True), description="mean of the exponential length of a burst"
    )
    edge_burst_probability: Annotated[float, _probability] = Field(
        default=0.0, description="probability that consecutive packets are lost at a slot edge"
    )
    edge_burst_packets: Annotated[Span, span(1, 1e4, "packets")] = Span(low=1, high=30)

    rate_sd: Annotated[Span, span(0, 2)] = Field(
        default=Span(low=0.25, high=0.25), description="standard deviation of the logarithm of the rate of slots"
    )
    rate_correlation: Annotated[float, _probability] = Field(
        default=0.6, description="correlation of the rates of neighbouring slots"
    )
    noise_sd: Annotated[Span, span(0, 1)] = Field(
        default=Span(low=0.1, high=0.2),
        description="standard deviation of the rate within a slot, as a share; data direction only",
    )
    noise_step_s: Annotated[float, number(0.01, 1e3, "s")] = 0.1
    noise_tau_s: Annotated[float, number(0, 1e4, "s")] = Field(
        default=0.0, description="correlation time of this noise; 0: its steps are independent"
    )

    def draw(
        self, rng: np.random.Generator, duration_s: float, rate_mbps: float, slots: Sequence[Slot] | None = None
    ) -> Effect:
        """The effect on a link with this rate for `duration_s`.

        slots: the slots of a path (`PathTrace.slots`); outages that the path knows are left to it. None: own
        slots, with a random start.
        """
        slots = self.own_slots(rng, duration_s) if slots is None else slots
        starts = np.array([s.start_s for s in slots])
        cuts = self._interruptions(rng, slots)
        delay = self._delay(rng, starts, cuts)
        forward, reverse = self._way(rng, delay), self._way(rng, delay)
        outages = [o for o, _ in cuts] + self._edge_bursts(rng, slots, cuts, rate_mbps)
        outages += self._obstructions(rng, duration_s)
        # The rates come last: their numbers of draws differ, so switching one off does not change the other parts.
        ramps = _ramps(cuts, starts)
        return_rate, rate = self._rate(rng, starts, ramps), self._rate(rng, starts, ramps, duration_s)
        changed = {s.start_s for s in slots if s.access_change}
        return Effect(
            forward=replace(forward, rate=rate),
            reverse=replace(reverse, rate=return_rate),
            outages=outages,
            handovers=[Handover.trusted(at_s=o.at_s, duration_ms=o.duration_ms) for o, _ in cuts if o.at_s in changed],
        )

    def own_slots(self, rng: np.random.Generator, duration_s: float) -> list[Slot]:
        """Slots of equal length with a random first edge."""
        length = self.slot_s.draw(rng)
        edges = np.arange(length * (1 - rng.random()), duration_s, length)
        changes = rng.random(edges.size) < self.handover_probability
        return [
            Slot(0.0),
            *(Slot(t, access_fwd_change=c) for t, c in zip(edges.tolist(), changes.tolist(), strict=True)),
        ]

    def _interruptions(self, rng: np.random.Generator, slots: Sequence[Slot]) -> list[tuple[Outage, float]]:
        """Outages at slot edges, each with the length in ms of the ramp after it."""
        stays = self.interruption_probability.draw(rng)
        found: list[tuple[Outage, float]] = []
        for slot in slots[1:]:
            breaks = rng.random() < stays or slot.access_change
            long = rng.random() < self.long_interruption_probability
            length = (self.long_interruption_ms if long else self.interruption_ms).draw(rng)
            hold = rng.random() < self.hold_probability
            ramp = self.ramp_ms.draw(rng)
            if breaks and length > 0 and not slot.outage and slot.interruption_ms is None:
                mode = "hold" if hold else "drop"
                found.append((Outage.trusted(at_s=slot.start_s, duration_ms=length, mode=mode), ramp * hold))
        return found

    def _edge_bursts(
        self, rng: np.random.Generator, slots: Sequence[Slot], cuts: Sequence[tuple[Outage, float]], rate_mbps: float
    ) -> list[Outage]:
        """Bursts of loss at slot edges, after the outage if there is one."""
        if self.edge_burst_probability == 0:
            return []
        ends = {o.at_s: o.at_s + o.duration_ms / 1e3 for o, _ in cuts}
        packet_ms = PACKET_BYTES * 8 / (rate_mbps * 1e3)
        return [
            Outage.trusted(
                at_s=ends.get(s.start_s, s.start_s),
                duration_ms=self.edge_burst_packets.draw_whole(rng) * packet_ms,
                mode="drop",
                directions="forward",
            )
            for s in slots[1:]
            if rng.random() < self.edge_burst_probability
        ]

    def _obstructions(self, rng: np.random.Generator, duration_s: float) -> list[Outage]:
        if self.obstructions_per_s == 0:
            return []
        starts = poisson(rng, self.obstructions_per_s, duration_s)
        lengths, holds = rng.exponential(self.obstruction_ms, len(starts)), rng.random(len(starts))
        return [
            Outage.trusted(at_s=t, duration_ms=max(length, 1.0), mode="hold" if x < self.hold_probability else "drop")
            for t, length, x in zip(starts, lengths.tolist(), holds.tolist(), strict=True)
        ]

    def _delay(self, rng: np.random.Generator, starts: Array, cuts: Sequence[tuple[Outage, float]]) -> Series:
        fixed = self.processing_rtt_ms.draw(rng) + self.terrestrial_rtt_ms.draw(rng)
        sd, kept = self.slot_sd_ms.draw(rng), self.slot_correlation
        sizes = np.abs(ar1(rng, starts.size, kept) if kept > 0 else rng.standard_normal(starts.size))
        slots = Series(starts, (fixed + sd * sizes) / 2) if sd > 0 else Series.of(fixed / 2)
        settling = self.settling_rtt_ms.draw(rng) / 2
        ends = np.array([o.at_s + o.duration_ms / 1e3 for o, _ in cuts])
        ends = ends[np.append(np.diff(ends) > SETTLING_S + 2 * JUMP_S, True)] if ends.size else ends
        if settling == 0 or not ends.size:
            return slots
        times = np.column_stack((ends - JUMP_S, ends, ends + SETTLING_S)).ravel()
        peaks = np.tile([0.0, settling, 0.0], ends.size)
        return slots + Series(np.append(0.0, times), np.append(0.0, peaks), lines=True)

    def _rate(
        self, rng: np.random.Generator, starts: Array, ramps: Series | None, noisy_s: float = 0.0
    ) -> Series | None:
        """A factor per slot, with ramps after outages, and noise until noisy_s."""
        sd, noise = self.rate_sd.draw(rng), self.noise_sd.draw(rng) if noisy_s > 0 else 0.0
        factors = [] if ramps is None else [ramps]
        if sd > 0:
            factors.append(Series(starts, np.exp(sd * ar1(rng, starts.size, self.rate_correlation))))
        if noise > 0:
            t = np.arange(0.0, noisy_s, self.noise_step_s)
            if self.noise_tau_s > 0:
                around = ar1(rng, t.size, math.exp(-self.noise_step_s / self.noise_tau_s))
            else:
                around = rng.standard_normal(t.size)
            factors.append(Series(t, np.maximum(1 + noise * around, LEAST_NOISE)))
        return functools.reduce(operator.mul, factors) if factors else None

    def _way(self, rng: np.random.Generator, delay_ms: Series) -> Way:
        """The effect on one direction: delay, jitter, frames and losses."""
        mean, tau, frame = self.jitter_rtt_ms.draw(rng) / 2, self.jitter_tau_ms.draw(rng), self.frame_ms.draw(rng)
        loss, per_s, length = self.loss.draw(rng), self.bursts_per_s.draw(rng), self.burst_ms.draw(rng)
        bursts = GilbertElliott.trusted(good_loss=loss, bad_loss=1.0, to_bad_per_s=per_s, to_good_per_s=1e3 / length)
        return Way(
            delay_ms=delay_ms,
            loss=Series.of(loss) if loss > 0 and per_s == 0 else None,
            bursts=bursts if per_s > 0 else None,
            jitter=GammaJitter.trusted(mean_ms=mean, tau_ms=tau, shape=self.jitter_shape) if mean > 0 else None,
            gate_ms=frame,
            gate_phase_ms=frame * rng.random(),
        )


def _ramps(cuts: Sequence[tuple[Outage, float]], starts: Array) -> Series | None:
    """The share of the rate during the ramps after outages; None without ramps."""
    times, shares = [0.0], [1.0]
    for outage, ramp_ms in cuts:
        end, ramp_s = outage.at_s + outage.duration_ms / 1e3, ramp_ms / 1e3
        following = starts[np.searchsorted(starts, outage.at_s, side="right") :][:1]
        if ramp_s > 0 and (not following.size or end + ramp_s < following[0]):
            times += [end + ramp_s * k / RAMP_STEPS for k in range(RAMP_STEPS + 1)]
            shares += [*((k + 0.5) / RAMP_STEPS for k in range(RAMP_STEPS)), 1.0]
    return Series(np.array(times), np.array(shares)) if len(times) > 1 else None
