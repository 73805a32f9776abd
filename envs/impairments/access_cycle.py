"""What the 15-s cycle and the radio of a LEO access link do, by what has been measured since 2024.

It lies over :class:`~orbitcc.envs.impairments.access.AccessOverlay`, whose own rates and settling it replaces. Figures
that are known from the abstract of a publication only are marked (A); what nobody has published is ours (O).

- Aalborg: one-way delay sampled 500 times a second (arXiv 2601.08439): spikes from 75 ms before the end of a cycle to
  140 ms after the start of the next (A); their heights are O.
- Garcia et al., LEO-NET 2025, 500 million probes: the uplink suffers more from the cycle than the downlink (A); by how
  much is O.
- Garcia et al., Computer Communications 234: throughput is the rate of bursts times their length and what silences
  leave, and rates switch mainly between neighbouring steps (A); the steps, their dwelling times and the silences are O.
- Lai et al. (LeoCC), SIGCOMM 2025: 10-70 Mbit/s within tens of seconds; random loss of 0.5-6 % in windows of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from orbitcc.envs.description.links import MAX_DELAY_MS
from orbitcc.envs.description.model import Model, number
from orbitcc.envs.description.ranges import Span, span
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.effects import Effect, Way, joined
from orbitcc.envs.impairments.series import JUMP_S, Array, Series
from orbitcc.envs.orbits.trace import Slot

LOSS_WINDOW_S = 1.0
SHORTEST_S = 1e-3
"""Of a burst or a silence."""
SILENT = 0.01
"""What a silence leaves of the rate: links have one at all times, whatever else takes a share of it."""

_probability = number(0, 1)
_share = span(0, 1)
_ms = span(0, MAX_DELAY_MS, "ms")


def under_cycle(
    overlay: AccessOverlay,
    cycle: AccessCycle,
    rng: np.random.Generator,
    duration_s: float,
    rate_mbps: float,
    slots: Sequence[Slot],
) -> Effect:
    """Both on a link with these slots: the cycle instead of the overlay's own rates and settling."""
    none = Span(low=0, high=0)
    calmer = overlay.changed(rate_sd=none, noise_sd=none, settling_rtt_ms=none)
    edges_s = np.array([slot.start_s for slot in slots[1:]])
    return joined([calmer.draw(rng, duration_s, rate_mbps, slots), cycle.draw(rng, duration_s, edges_s)])


class AccessCycle(Model):
    """Spikes of delay around slot edges, rates in steps and bursts, windows of loss; a range is drawn once for a link.

    A range of zeros switches its part off: `spike_ms`, `silence_share`, `loss`; `step_ratio` of ones the steps of rate.
    """

    before_edge_ms: Annotated[Span, _ms] = Field(
        default=Span(low=75, high=75), description="spikes begin so long before a slot edge (Aalborg, A)"
    )
    after_edge_ms: Annotated[Span, _ms] = Field(
        default=Span(low=140, high=140), description="and end so long after it (Aalborg, A)"
    )
    spike_ms: Annotated[Span, _ms] = Field(
        default=Span(low=5, high=30, log=True), description="mean height of a spike of one-way delay, downlink (O)"
    )
    spike_every_ms: Annotated[float, number(1, 1e4, "ms")] = Field(default=15, description="one spike so often (O)")
    uplink_factor: Annotated[Span, span(1, 100)] = Field(
        default=Span(low=1.5, high=3),
        description="by which spikes and losses are more in the uplink (Garcia, A; size O)",
    )

    steps: Annotated[int, number(1, 100, whole=True)] = Field(default=7, description="of the rate (O)")
    step_ratio: Annotated[Span, span(1, 100)] = Field(
        default=Span(low=7 ** (1 / 6), high=7 ** (1 / 6)),
        description="from step to step; seven span 10-70 Mbit/s (LeoCC)",
    )
    dwell_s: Annotated[Span, span(0.05, 1e4, "s")] = Field(
        default=Span(low=1, high=6, log=True), description="mean time on a step, exponential (O)"
    )
    neighbour_probability: Annotated[float, _probability] = Field(
        default=0.9, description="that the next step is a neighbouring one, else any other (Garcia, A; size O)"
    )
    silence_share: Annotated[Span, span(0, 0.9)] = Field(
        default=Span(low=0.02, high=0.2), description="of time without service, both directions (Garcia, A; size O)"
    )
    burst_ms: Annotated[Span, span(1, 1e6, "ms")] = Field(
        default=Span(low=100, high=600, log=True), description="mean length of a burst, exponential (O)"
    )

    loss: Annotated[Span, _share] = Field(
        default=Span(low=0.005, high=0.06), description="in a lossy window of 1 s, downlink (LeoCC)"
    )
    lossy_share: Annotated[Span, _share] = Field(
        default=Span(low=0.02, high=0.15, log=True), description="of windows that are lossy (O)"
    )

    def draw(self, rng: np.random.Generator, duration_s: float, edges_s: Array) -> Effect:
        """What it does to a link for this long; edges_s: where slots begin, without the first."""
        uplink = self.uplink_factor.draw(rng)
        # Each part has random numbers of its own, so that switching one off leaves the others as they are.
        spikes, rates, losses = rng.spawn(3)
        height = self.spike_ms.draw(spikes)
        before, after = self.before_edge_ms.draw(spikes) / 1e3, self.after_edge_ms.draw(spikes) / 1e3
        down, up = (self._spikes(spikes, edges_s, before, after, h) for h in (height, height * uplink))
        rate = self._rate(rates, duration_s)
        share = self.lossy_share.draw(losses)
        lost_down, lost_up = (self._losses(losses, duration_s, share, factor) for factor in (1.0, uplink))
        return Effect(
            forward=Way(rate=rate, delay_ms=down, loss=lost_down), reverse=Way(rate=rate, delay_ms=up, loss=lost_up)
        )

    def _spikes(
        self, rng: np.random.Generator, edges_s: Array, before: float, after: float, mean: float
    ) -> Series | None:
        """Triangles around each edge, exponentially high."""
        step = self.spike_every_ms / 1e3
        peaks = np.arange(-before + step / 2, after - step / 2 + JUMP_S, step)
        edges_s = edges_s[edges_s > before + step]
        if mean == 0 or not peaks.size or not edges_s.size:
            return None
        # A peak, and a foot between it and the next; neighbouring windows never meet: slots last a second at least.
        times = edges_s[:, None, None] + peaks[:, None] + np.array([0.0, step / 2])
        values = np.zeros(times.shape)
        values[..., 0] = rng.exponential(mean, times.shape[:2])
        feet = edges_s + peaks[0] - step / 2
        times = np.column_stack((feet, times.reshape(edges_s.size, -1)))
        values = np.column_stack((np.zeros(edges_s.size), values.reshape(edges_s.size, -1)))
        return Series(np.append(0.0, times.ravel()), np.append(0.0, values.ravel()), lines=True)

    def _rate(self, rng: np.random.Generator, duration_s: float) -> Series | None:
        """A factor: a walk over steps of geometric mean 1, cut into bursts and silences that keep its mean."""
        ratio, dwell, silence = self.step_ratio.draw(rng), self.dwell_s.draw(rng), self.silence_share.draw(rng)
        burst = self.burst_ms.draw(rng) / 1e3
        walk = self._walk(rng, duration_s, ratio, dwell) if ratio > 1 and self.steps > 1 else None
        if silence == 0:
            return walk
        pause = burst * silence / (1 - silence)
        pairs = int(duration_s / (burst + pause) * 1.5) + 10
        lengths = np.maximum(rng.exponential((burst, pause), (pairs, 2)), SHORTEST_S)
        starts = np.append(0.0, np.cumsum(lengths.ravel()))[:-1]
        served = np.tile([(1.0 - silence * SILENT) / (1.0 - silence), SILENT], pairs)
        heard = starts < duration_s
        bursts = Series(starts[heard], served[heard])
        return bursts if walk is None else walk * bursts

    def _walk(self, rng: np.random.Generator, duration_s: float, ratio: float, dwell_s: float) -> Series:
        times, at = [0.0], [int(rng.integers(self.steps))]
        while (t := times[-1] + max(rng.exponential(dwell_s), SHORTEST_S)) < duration_s:
            here = at[-1]
            near = [k for k in (here - 1, here + 1) if 0 <= k < self.steps]
            others = [k for k in range(self.steps) if k != here and k not in near]
            choice = near if rng.random() < self.neighbour_probability or not others else others
            times.append(t)
            at.append(choice[int(rng.integers(len(choice)))])
        factors: Array = ratio ** (np.array(at, np.float64) - (self.steps - 1) / 2)
        return Series(np.array(times), factors)

    def _losses(self, rng: np.random.Generator, duration_s: float, share: float, factor: float) -> Series | None:
        """A probability in each window of a second."""
        windows = max(1, int(np.ceil(duration_s / LOSS_WINDOW_S)))
        lossy = rng.random(windows) < share
        losses = np.array([self.loss.draw(rng) for _ in range(windows)])
        if not losses.any() or not lossy.any():
            return None
        shares: Array = np.minimum(1.0, lossy * losses * factor)
        return Series(np.arange(windows, dtype=np.float64) * LOSS_WINDOW_S, shares)
