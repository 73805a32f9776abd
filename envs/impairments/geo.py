"""A geostationary link: varying RTT, stalls, losses and rate, as measured on Viasat by Claypool et al.

They sent five probes per second for a week. The RTT had a median of 597 ms, a mean of 597.5 ms, a standard deviation of
16.9 ms, a minimum of 564 ms and a maximum of 2174 ms. 604 probes were lost: 77 % of them alone, and 44 times several in
a row, at most 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from orbitcc.envs.description.links import MAX_DELAY_MS, Outage, SineJitter
from orbitcc.envs.description.model import Model, number
from orbitcc.envs.description.ranges import Span, span
from orbitcc.envs.impairments.effects import Effect, Way
from orbitcc.envs.impairments.series import Series, ar1, poisson

LEAST_RTT_MS = 564.0
"""Measured minimum without load."""

SLOW_BETA = (3.0, 1.12)
SLOW_TAU_S, SLOW_KNOT_S = 600.0, 20.0
STALL_PER_S, STALL_MEAN_S, STALL_MAX_S = 8.6e-3, 0.135, 1.0
LONG_STALL_PER_S, LONG_STALL_S = 2.9e-5, (1.30, 1.575)
SINGLE_LOSS = 1.41e-4
BAD_PER_S, BAD_MEAN_S = 1.82e-4, 0.322
"""Parameters fitted to the week of probes."""

SWING = SineJitter(mean_ms=33.2, sine_sd_ms=14.0, sine_period_s=2.0, ar_sd_ms=3.0, ar_tau_ms=190.0)
"""A second process that fits the probes. Unlike frames, it also ends slow start early, as was measured."""

RATE_TAU_S, RATE_STEP_S = 30.0, 3.0

_scale = span(0, 100)


class GeoImpairments(Model):
    """Impairments of a geostationary link. A range of zeros switches its part off.

    The defaults are fitted to the week of probes: RTT = minimum + slow drift + wait for a frame + stalls.
    """

    slow_ms: Annotated[Span, span(0, MAX_DELAY_MS, "ms")] = Field(
        default=Span(low=11, high=11),
        description="size of a slow drift on the return path, a factor on Beta(3, 1.12), correlated over 600 s",
    )
    frame_ms: Annotated[Span, span(0, MAX_DELAY_MS, "ms")] = Field(
        default=Span(low=50, high=50), description="length of the frames of the return channel"
    )
    swing_probability: Annotated[float, number(0, 1)] = Field(
        default=0.0, description="share of links whose return path has the jitter `swing` instead of drift and frames"
    )
    swing: SineJitter = SWING
    stall_scale: Annotated[Span, _scale] = Field(
        default=Span(low=1, high=1),
        description="factor on the rate of stalls, in which a random direction holds its packets: 8.6e-3 per s of "
        "0.135 s (mean, exponential, at most 1 s), and 2.9e-5 per s of 1.3-1.575 s",
    )
    loss_scale: Annotated[Span, _scale] = Field(
        default=Span(low=1, high=1),
        description="factor on losses: 1.41e-4 of all packets, 1.82e-4 outages per s of 0.322 s (mean, exponential)",
    )
    outage_share: Annotated[Span, span(0, 1)] = Field(
        default=Span(low=0, high=0),
        description="share of single losses that are short outages; probes at 5 Hz cannot distinguish them",
    )
    short_outage_ms: Annotated[Span, span(1, 1e4, "ms")] = Span(low=5, high=50)
    residual_loss: Annotated[Span, span(0, 1)] = Field(
        default=Span(low=0, high=0), description="additional loss probability per packet, in the data direction"
    )
    rate_mean: Annotated[Span, span(0.01, 2)] = Field(
        default=Span(low=1, high=1), description="mean rate as a share of the link's rate"
    )
    rate_sd: Annotated[Span, span(0, 0.5)] = Field(
        default=Span(low=0, high=0),
        description="standard deviation of the varying rate as a share of the rate, correlated over 30 s",
    )
    start_delay_ms: Annotated[Span, span(0, MAX_DELAY_MS, "ms")] = Field(
        default=Span(low=0, high=0), description="extra delay of the return path during the first start_delay_s"
    )
    start_delay_s: Annotated[float, number(0, 1e4, "s")] = 25.0

    def draw(self, rng: np.random.Generator, duration_s: float) -> list[Effect]:
        """The active parts, drawn for a run of this length."""
        return [e for part in self._parts() if (e := part(rng, duration_s)) is not None]

    def draw_apart(self, seed: int, duration_s: float) -> list[Effect]:
        """As `draw`, with a generator for each part, so that switching one off does not change the others."""
        drawn = (part(np.random.default_rng([seed, k]), duration_s) for k, part in enumerate(self._parts()))
        return [e for e in drawn if e is not None]

    def _parts(self) -> tuple[Callable[[np.random.Generator, float], Effect | None], ...]:
        return self._delay, self._stalls, self._losses, self._rate, self._start

    def _delay(self, rng: np.random.Generator, duration_s: float) -> Effect | None:
        if rng.random() < self.swing_probability:
            return Effect(reverse=Way(jitter=self.swing))
        size, frame = self.slow_ms.draw(rng), self.frame_ms.draw(rng)
        slow = slow_drift_ms(rng, size, duration_s) if size > 0 else None
        phase = frame * rng.random()
        return Effect(reverse=Way(delay_ms=slow, gate_ms=frame, gate_phase_ms=phase))

    def _stalls(self, rng: np.random.Generator, duration_s: float) -> Effect | None:
        scale = self.stall_scale.draw(rng)
        if scale == 0:
            return None
        stalls = [
            (t, min(rng.exponential(STALL_MEAN_S), STALL_MAX_S)) for t in poisson(rng, scale * STALL_PER_S, duration_s)
        ]
        low, high = LONG_STALL_S
        stalls += [(t, low + (high - low) * rng.random()) for t in poisson(rng, scale * LONG_STALL_PER_S, duration_s)]
        ways: list[Literal["forward", "reverse"]] = ["forward", "reverse"]
        return Effect(outages=[_outage(t, length_s, "hold", ways[rng.random() < 0.5]) for t, length_s in stalls])

    def _losses(self, rng: np.random.Generator, duration_s: float) -> Effect:
        scale, share = self.loss_scale.draw(rng), self.outage_share.draw(rng)
        short = self.short_outage_ms
        mean_s = (short.low + short.high) / 2e3
        singles = scale * SINGLE_LOSS
        outages = [(t, rng.exponential(BAD_MEAN_S)) for t in poisson(rng, scale * BAD_PER_S, duration_s)]
        outages += [(t, short.draw(rng) / 1e3) for t in poisson(rng, singles * share / mean_s, duration_s)]
        p = singles * (1 - share) + self.residual_loss.draw(rng)
        return Effect(
            forward=Way(loss=Series.of(p) if p > 0 else None),
            outages=[_outage(t, length_s, "drop", "forward") for t, length_s in outages],
        )

    def _rate(self, rng: np.random.Generator, duration_s: float) -> Effect | None:
        mean, sd = self.rate_mean.draw(rng), self.rate_sd.draw(rng)
        if (mean, sd) == (1.0, 0.0):
            return None
        if sd == 0:
            return Effect(forward=Way(rate=Series.of(mean)))
        t = np.arange(0.0, duration_s, RATE_STEP_S)
        factor = mean + sd * ar1(rng, t.size, math.exp(-RATE_STEP_S / RATE_TAU_S))
        return Effect(forward=Way(rate=Series(t, np.asarray(factor.clip(0.1 * mean), dtype=np.float64))))

    def _start(self, rng: np.random.Generator, duration_s: float) -> Effect | None:
        """The extra delay at the start, which decays within a second."""
        extra, until = self.start_delay_ms.draw(rng), self.start_delay_s
        if extra == 0 or until == 0:
            return None
        return Effect(
            reverse=Way(delay_ms=Series(np.array([0.0, until, until + 1]), np.array([extra, extra, 0.0]), lines=True))
        )


def slow_drift_ms(rng: np.random.Generator, size_ms: float, duration_s: float) -> Series:
    """size_ms times a Beta(3, 1.12) variable, correlated over 600 s, with linear interpolation."""
    from scipy.special import betaincinv, ndtr

    t = np.arange(0.0, duration_s + SLOW_KNOT_S, SLOW_KNOT_S)
    x = ar1(rng, t.size, math.exp(-SLOW_KNOT_S / SLOW_TAU_S))
    return Series(t, size_ms * betaincinv(*SLOW_BETA, ndtr(x)), lines=True)


def _outage(
    at_s: float, length_s: float, mode: Literal["drop", "hold"], directions: Literal["forward", "reverse"]
) -> Outage:
    return Outage.trusted(at_s=at_s, duration_ms=max(1e3 * length_s, 1e-3), mode=mode, directions=directions)
