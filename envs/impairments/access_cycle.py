"""Effects of the 15-s cycle and the radio of a LEO access link, as measured since 2024.

They are applied on top of :class:`~orbitcc.envs.impairments.access.AccessOverlay` and replace its rates and its
settling delay. (A) marks figures known only from the abstract of a publication, (O) our own choice where nothing is
published.

- Aalborg (arXiv 2601.08439), one-way delay sampled 500 times per second: delay spikes from 75 ms before the end of a
  cycle to 140 ms after the start of the next (A). Their heights are O.
- Garcia et al., LEO-NET 2025, 500 million probes: the cycle affects the uplink more than the downlink (A). The factor
  is O.
- Garcia et al., Computer Communications 234: throughput depends on the rate and length of bursts and on the silences
  between them, and rates change mainly between neighbouring steps (A). Steps, their durations and silences are O.
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
"""Shortest burst or silence."""
SILENT = 0.01
"""Share of the rate during a silence; the rate of a link must never be zero."""

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
    """The effect of both on a link with these slots.

    The cycle replaces the settling delay of the overlay, and its rates unless it has neither steps nor silences.
    """
    none = Span(low=0, high=0)
    calmer = overlay.changed(settling_rtt_ms=none)
    if cycle.steps > 1 or cycle.silence_share.high > 0:
        calmer = calmer.changed(rate_sd=none, noise_sd=none)
    edges_s = np.array([slot.start_s for slot in slots[1:]])
    return joined([calmer.draw(rng, duration_s, rate_mbps, slots), cycle.draw(rng, duration_s, edges_s)])


class AccessCycle(Model):
    """Delay spikes around slot edges, rates in steps and bursts, windows of loss. Each range is drawn once per link.

    `spike_ms`, `silence_share` and `loss` of zeros switch their part off, and `step_ratio` of ones the rate steps.
    """

    before_edge_ms: Annotated[Span, _ms] = Field(
        default=Span(low=75, high=75), description="time from the first spike to the slot edge (Aalborg, A)"
    )
    after_edge_ms: Annotated[Span, _ms] = Field(
        default=Span(low=140, high=140), description="time from the slot edge to the last spike (Aalborg, A)"
    )
    spike_ms: Annotated[Span, _ms] = Field(
        default=Span(low=5, high=30, log=True),
        description="mean height of a spike in the one-way delay of the downlink (O)",
    )
    spike_every_ms: Annotated[float, number(1, 1e4, "ms")] = Field(
        default=15, description="time between two spikes (O)"
    )
    uplink_factor: Annotated[Span, span(1, 100)] = Field(
        default=Span(low=1.5, high=3),
        description="factor on spikes and losses in the uplink (Garcia, A; size O)",
    )

    steps: Annotated[int, number(1, 100, whole=True)] = Field(default=7, description="number of rate steps (O)")
    step_ratio: Annotated[Span, span(1, 100)] = Field(
        default=Span(low=7 ** (1 / 6), high=7 ** (1 / 6)),
        description="ratio of neighbouring steps; seven steps span 10-70 Mbit/s (LeoCC)",
    )
    dwell_s: Annotated[Span, span(0.05, 1e4, "s")] = Field(
        default=Span(low=1, high=6, log=True), description="mean time on a step, exponential (O)"
    )
    neighbour_probability: Annotated[float, _probability] = Field(
        default=0.9, description="probability that the next step is a neighbouring one (Garcia, A; size O)"
    )
    silence_share: Annotated[Span, span(0, 0.9)] = Field(
        default=Span(low=0.02, high=0.2),
        description="share of time without service, both directions (Garcia, A; size O)",
    )
    burst_ms: Annotated[Span, span(1, 1e6, "ms")] = Field(
        default=Span(low=100, high=600, log=True), description="mean length of a burst, exponential (O)"
    )

    loss: Annotated[Span, _share] = Field(
        default=Span(low=0.005, high=0.06), description="loss probability in a lossy window of 1 s, downlink (LeoCC)"
    )
    lossy_share: Annotated[Span, _share] = Field(
        default=Span(low=0.02, high=0.15, log=True), description="share of lossy windows (O)"
    )

    def draw(self, rng: np.random.Generator, duration_s: float, edges_s: Array) -> Effect:
        """The effect on a link for `duration_s`; edges_s: starts of the slots, without the first."""
        uplink = self.uplink_factor.draw(rng)
        # Each part has its own random numbers, so switching one off does not change the others.
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
        """Triangular spikes around each slot edge, with exponential heights."""
        step = self.spike_every_ms / 1e3
        peaks = np.arange(-before + step / 2, after - step / 2 + JUMP_S, step)
        edges_s = edges_s[edges_s > before + step]
        if mean == 0 or not peaks.size or not edges_s.size:
            return None
        # Each spike has a peak and a foot before the next. Windows never overlap, as slots last at least a second.
        times = edges_s[:, None, None] + peaks[:, None] + np.array([0.0, step / 2])
        values = np.zeros(times.shape)
        values[..., 0] = rng.exponential(mean, times.shape[:2])
        feet = edges_s + peaks[0] - step / 2
        times = np.column_stack((feet, times.reshape(edges_s.size, -1)))
        values = np.column_stack((np.zeros(edges_s.size), values.reshape(edges_s.size, -1)))
        return Series(np.append(0.0, times.ravel()), np.append(0.0, values.ravel()), lines=True)

    def _rate(self, rng: np.random.Generator, duration_s: float) -> Series | None:
        """A factor on the rate: a walk over steps with geometric mean 1, times bursts and silences with mean 1."""
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
        """A loss probability for each window of a second."""
        windows = max(1, int(np.ceil(duration_s / LOSS_WINDOW_S)))
        lossy = rng.random(windows) < share
        losses = np.array([self.loss.draw(rng) for _ in range(windows)])
        if not losses.any() or not lossy.any():
            return None
        shares: Array = np.minimum(1.0, lossy * losses * factor)
        return Series(np.arange(windows, dtype=np.float64) * LOSS_WINDOW_S, shares)
