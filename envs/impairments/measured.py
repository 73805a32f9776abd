"""What has been measured of LEO access since 2024, laid over the access network (`access.py`); each part by itself.

Sources, of which only the abstracts were read (but of [L]): [A] Aalborg, arXiv 2601.08439, one-way delay at 500 Hz;
[G1] Garcia et al., LEO-NET 2025, 500 million probes; [G2] Garcia et al., Computer Communications 234; [L] LeoCC,
SIGCOMM 2025. What no source tells is ours, and called so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from orbitcc.envs.description.links import MAX_DELAY_MS
from orbitcc.envs.description.model import Model, number
from orbitcc.envs.description.ranges import Span, span
from orbitcc.envs.impairments.effects import Effect, Way
from orbitcc.envs.impairments.series import JUMP_S, Series
from orbitcc.envs.orbits.trace import Slot

_probability = number(0, 1)
_ms = span(0, MAX_DELAY_MS, "ms")
SILENT = 0.02
"""Share of the rate that is left in a silence (ours: a schedule's rate is above 0)."""


class MeasuredAccess(Model):
    """Spikes of delay around slot edges, rates that go from step to step in bursts, losses by the second.

    The data direction is the downlink. A part is off where its probability is 0, or its range is [0, 0] or [1, 1].
    """

    before_edge_ms: Annotated[float, number(0, 1e3, "ms")] = Field(default=75.0, description="a spike's before [A]")
    after_edge_ms: Annotated[float, number(0, 1e3, "ms")] = Field(default=140.0, description="and after the edge [A]")
    spike_ms: Annotated[Span, _ms] = Field(
        default=Span(low=10, high=40), description="height on the downlink, one way, new at each edge (ours)"
    )
    uplink_factor: Annotated[Span, span(1, 100)] = Field(
        default=Span(low=1.5, high=3),
        description="of the uplink's spikes and losses ([G1]; size ours)",
    )
    levels: Annotated[int, number(1, 64, whole=True)] = Field(
        default=8, description="rates there are; with step_ratio a range of 7, as 10-70 Mbit/s in tens of seconds [L]"
    )
    step_ratio: Annotated[Span, span(1, 10)] = Field(
        default=Span(low=1.32, high=1.32), description="of neighbouring rates; the middle one is the link's own"
    )
    neighbour_probability: Annotated[float, _probability] = Field(
        default=0.9, description="that a change goes to a neighbour, else anywhere ([G2]: mainly; share ours)"
    )
    hold_s: Annotated[Span, span(0.1, 1e4, "s")] = Field(
        default=Span(low=2, high=5), description="mean of the exponential time at a rate (ours)"
    )
    duty: Annotated[Span, span(0.05, 1)] = Field(
        default=Span(low=0.6, high=0.95),
        description="share of the time in bursts, not silent ([G2]; ours)",
    )
    period_ms: Annotated[Span, span(1, 1e4, "ms")] = Field(
        default=Span(low=60, high=200), description="of one burst and one silence (ours)"
    )
    lossy_probability: Annotated[float, _probability] = Field(default=0.1, description="of a second with losses (ours)")
    loss: Annotated[Span, span(0, 1)] = Field(
        default=Span(low=0.005, high=0.06), description="of single packets in such a second [L]"
    )

    def draw(self, rng: np.random.Generator, duration_s: float, slots: Sequence[Slot]) -> Effect:
        """What it does to a link with these slots for this long. Each part has a generator of its own."""
        spikes, losses, rates = rng.spawn(3)
        factor = self.uplink_factor.draw(rng)
        spike = self._spikes(spikes, [slot.start_s for slot in slots[1:]], duration_s)
        loss = self._losses(losses, duration_s)
        worse = None if loss is None else Series(loss.t_s, np.minimum(loss.values * factor, 1.0))
        return Effect(
            forward=Way(rate=self._rates(rates, duration_s), delay_ms=spike, loss=loss),
            reverse=Way(delay_ms=None if spike is None else spike * factor, loss=worse),
        )

    def _spikes(self, rng: np.random.Generator, edges: Sequence[float], duration_s: float) -> Series | None:
        before, after = self.before_edge_ms / 1e3, self.after_edge_ms / 1e3
        if self.spike_ms.high == 0 or before + after == 0:
            return None
        times, extra, last = [0.0], [0.0], 0.0
        for edge in edges:
            height = self.spike_ms.draw(rng)
            start, end = max(edge - before, last + JUMP_S), edge + after
            if start + JUMP_S < end < duration_s:
                # Steps, as lines with jumps: delays are added in lines.
                times += [start, start + JUMP_S, end, end + JUMP_S]
                extra += [0.0, height, height, 0.0]
                last = end + JUMP_S
        return Series(np.array(times), np.array(extra), lines=True)

    def _losses(self, rng: np.random.Generator, duration_s: float) -> Series | None:
        if self.lossy_probability == 0 or self.loss.high == 0:
            return None
        t = np.arange(0.0, duration_s, 1.0)
        lossy = rng.random(t.size) < self.lossy_probability
        return Series(t, np.where(lossy, [self.loss.draw(rng) for _ in t], 0.0))

    def _rates(self, rng: np.random.Generator, duration_s: float) -> Series | None:
        """A factor: the level of the moment, over the duty in a burst, next to nothing in a silence."""
        steps, bursts = self._levels(rng, duration_s), self._bursts(rng, duration_s)
        if steps is None or bursts is None:
            return steps or bursts
        return steps * bursts

    def _levels(self, rng: np.random.Generator, duration_s: float) -> Series | None:
        ratio, hold = self.step_ratio.draw(rng), self.hold_s.draw(rng)
        if self.levels == 1 or ratio == 1:
            return None
        middle = self.levels // 2
        times, levels = [0.0], [middle]
        while (t := times[-1] + rng.exponential(hold)) < duration_s:
            at = levels[-1]
            if rng.random() < self.neighbour_probability:
                near = [level for level in (at - 1, at + 1) if 0 <= level < self.levels]
            else:
                near = [level for level in range(self.levels) if level != at]
            times.append(t)
            levels.append(int(rng.choice(near)))
        return Series(np.array(times), ratio ** (np.array(levels, dtype=np.float64) - middle))

    def _bursts(self, rng: np.random.Generator, duration_s: float) -> Series | None:
        duty, period = self.duty.draw(rng), self.period_ms.draw(rng) / 1e3
        if duty == 1:
            return None
        starts = np.arange(0.0, duration_s, period)
        t = np.column_stack((starts, starts + duty * period)).ravel()
        burst = (1 - SILENT * (1 - duty)) / duty  # the mean stays 1
        return Series(t, np.tile([burst, SILENT], starts.size))
