"""Rain on a satellite link: attenuation over time, and its effect with adaptive coding and modulation."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.links import Outage
from orbitcc.envs.description.model import Model, number, tagged
from orbitcc.envs.description.ranges import Span, span
from orbitcc.envs.impairments.effects import Effect, Way
from orbitcc.envs.impairments.series import Array, Series

RAIN_COEFFICIENTS = (
    (12.0, 0.0242, 1.152),
    (14.0, 0.0393, 1.100),
    (18.5, 0.0787, 1.035),
    (20.0, 0.0939, 1.020),
    (28.5, 0.209, 0.944),
    (30.0, 0.235, 0.931),
)
"""Frequency in GHz, k and alpha of ITU-R P.838 for circular polarisation."""

MODCODS = ((1.0, 0.989), (4.0, 1.487), (6.6, 1.981), (7.9, 2.228), (10.2, 2.967), (11.6, 3.300))
"""Required Es/N0 in dB and efficiency in bit/s/Hz: QPSK 1/2 and 3/4, 8PSK 2/3 and 3/4, 16APSK 3/4 and 5/6 (DVB-S2,
ETSI EN 302 307, table 13)."""
LEAST_SHARE = 0.1
"""Lowest share of the clear-sky rate while the link is up (our choice)."""
LOCK_LOST = -1

Levels = NDArray[np.intp]


def specific_attenuation_db_per_km(rain_mm_per_h: float, frequency_ghz: float) -> float:
    """k R^alpha of ITU-R P.838 for circular polarisation, 12 to 30 GHz, with logarithmic interpolation in frequency."""
    if not RAIN_COEFFICIENTS[0][0] <= frequency_ghz <= RAIN_COEFFICIENTS[-1][0]:
        raise OrbitccError("frequency_ghz", frequency_ghz, "a number in [12, 30] GHz")
    frequencies, k, alpha = np.array(RAIN_COEFFICIENTS).T
    at = math.log(frequency_ghz)
    exponent = np.interp(at, np.log(frequencies), alpha)
    return float(np.exp(np.interp(at, np.log(frequencies), np.log(k))) * rain_mm_per_h**exponent)


class Rain(Model):
    """Attenuation exp(log_mean + log_sd X) - offset_db, never negative; X is Gaussian with correlation exp(-beta t).

    This is the model of Maseng and Bakken (1981), as in ITU-R P.1853. The defaults are fitted to P.618 for New York at
    20 GHz and 38 degrees: 1.8, 7.1 and 19.7 dB are exceeded for 1, 0.1 and 0.01 % of the time. beta is our choice:
    2e-4 /s for a GEO link; 5e-4 to 5e-3 /s for a LEO link, whose path moves over the rain.
    """

    kind: Literal["rain"] = "rain"
    log_mean: Annotated[float, number(-20, 20)] = -2.756
    log_sd: Annotated[float, number(0, 10)] = 1.550
    offset_db: Annotated[float, number(0, 100, "dB")] = 0.538
    beta_per_s: Annotated[Span, span(0, 10, "1/s")] = Span(low=2e-4, high=2e-4)
    start_percent: Annotated[float | None, number(0, 100, "%", above=True, optional=True)] = Field(
        default=None,
        description="start at the attenuation exceeded for this share of the time; None: at a random attenuation",
    )
    step_s: Annotated[float, number(0.01, 1e3, "s")] = 1.0

    def attenuation_db(self, rng: np.random.Generator, duration_s: float) -> Series:
        """The attenuation in dB: exact at points step_s apart, interpolated between them."""
        t = np.arange(0.0, duration_s + self.step_s, self.step_s)
        keep = math.exp(-self.beta_per_s.draw(rng) * self.step_s)
        fresh = math.sqrt(1 - keep * keep)
        noise = rng.standard_normal(t.size).tolist()
        x = noise[:1]
        if self.start_percent is not None:
            from scipy.special import ndtri

            x = [float(ndtri(1 - self.start_percent / 100))]
        for e in noise[1:]:
            x.append(keep * x[-1] + fresh * e)
        loss_db = np.exp(self.log_mean + self.log_sd * np.array(x)) - self.offset_db
        return Series(t, np.maximum(loss_db, 0.0), lines=True)


class Fades(Model):
    """Single fades with a clear sky between them, for training (all ranges are our choice).

    per_h: fades per hour of clear sky.
    peak_db, slope_db_per_s, length_s: peak, slope (drawn for each side) and length of a fade. A fade that is too short
    for its slopes does not reach its peak.
    speedup: how many times faster than in nature.
    """

    kind: Literal["fades"] = "fades"
    per_h: Annotated[float, number(0, 1e5, "1/h")] = 2.0
    peak_db: Annotated[Span, span(0, 100, "dB")] = Span(low=1, high=15)
    slope_db_per_s: Annotated[Span, span(1e-4, 100, "dB/s")] = Span(low=0.01, high=0.5, log=True)
    length_s: Annotated[Span, span(0.1, 1e6, "s")] = Span(low=60, high=1800, log=True)
    speedup: Annotated[Span, span(1, 1e4)] = Span(low=1, high=1)

    def attenuation_db(self, rng: np.random.Generator, duration_s: float) -> Series:
        """The attenuation in dB, interpolated between the corners of the fades."""
        speed = self.speedup.draw(rng)
        t, times, values = 0.0, [0.0], [0.0]
        while self.per_h > 0:
            t += rng.exponential(3600 / self.per_h / speed)
            if t >= duration_s:
                break
            up, down = (self.slope_db_per_s.draw(rng) * speed for _ in range(2))
            length = self.length_s.draw(rng) / speed
            peak = min(self.peak_db.draw(rng), length / (1 / up + 1 / down))
            times += [t, t + peak / up, max(t + length - peak / down, t + peak / up + 1e-6), t + length + 2e-6]
            values += [0.0, peak, peak, 0.0]
            t = times[-1]
        return Series(np.array(times), np.array(values), lines=True)


_ATTENUATIONS = {"rain": Rain, "fades": Fades}


class Weather(Model):
    """Attenuation by rain, and a link that adapts to it in both directions.

    The link uses the best entry of MODCODS that its signal allows. It steps down when the signal is too weak, at most
    once per step_s, and up when the signal is hysteresis_db better than needed. After a step down, some packets are
    lost until the sender knows of it. When the signal has been too weak for the lowest entry for outage_after_s, the
    link is down.
    """

    attenuation: Annotated[Rain | Fades, BeforeValidator(tagged(_ATTENUATIONS))] = Fades()
    clear_sky_db: Annotated[Span, span(1, 100, "dB")] = Field(
        default=Span(low=10.5, high=14),
        description="Es/N0 without rain, at which the link has its full rate; LEO: 8 to 14",
    )
    hysteresis_db: Annotated[float, number(0, 10, "dB")] = 0.5
    step_s: Annotated[float, number(0.01, 100, "s")] = 0.2
    step_loss: Annotated[Span, span(0, 1)] = Span(low=0, high=0.05)
    loop_ms: Annotated[Span, span(1, 1e4, "ms")] = Field(
        default=Span(low=250, high=600), description="delay of the control loop; 20 to 50 ms for LEO"
    )
    outage_after_s: Annotated[float, number(0, 1e3, "s")] = 1.0

    @model_validator(mode="after")
    def _up_without_rain(self) -> Weather:
        least = MODCODS[0][0] + self.hysteresis_db
        if self.clear_sky_db.low < least:
            raise OrbitccError(
                "clear_sky_db.low", self.clear_sky_db.low, f"at least {least:g} dB, so that the link is up"
            )
        return self

    def draw(self, rng: np.random.Generator, duration_s: float) -> Effect:
        attenuation = self.attenuation.attenuation_db(rng, duration_s)
        return self.effect(rng, attenuation, self.clear_sky_db.draw(rng), duration_s)

    def effect(self, rng: np.random.Generator, attenuation: Series, clear_db: float, duration_s: float) -> Effect:
        """The effect of this attenuation in dB on a link whose clear-sky signal is clear_db."""
        if not attenuation.values.any():
            return Effect()
        t = np.arange(0.0, duration_s, self.step_s)
        at, levels = ladder(clear_db - attenuation.at(t), self.hysteresis_db)
        times, clear = t[at], _level(clear_db - self.hysteresis_db)
        rate = Series(times, _share(levels, clear)) if levels.size > 1 or levels[0] != clear else None
        p, loop_s = self.step_loss.draw(rng), self.loop_ms.draw(rng) / 1e3
        way = Way(rate=rate, loss=_after_steps_down(times, levels, p, loop_s))
        return Effect(way, way, outages=self._outages(times, levels, duration_s))

    def _outages(self, times: Array, levels: Levels, duration_s: float) -> list[Outage]:
        ends = np.append(times[1:], duration_s)
        starts = times + self.outage_after_s
        down = (levels == LOCK_LOST) & (ends > starts)
        return [
            Outage.trusted(at_s=start, duration_ms=1e3 * (end - start), mode="drop")
            for start, end in zip(starts[down].tolist(), ends[down].tolist(), strict=True)
        ]


def rate_share(attenuation_db: Array, clear_db: float) -> Array:
    """The share of the clear-sky rate once the link has adapted; 0 where it is down."""
    levels = np.searchsorted(_NEEDED_DB, clear_db - attenuation_db, side="right") - 1
    return np.where(levels == LOCK_LOST, 0.0, _share(levels, _level(clear_db)))


_NEEDED_DB, _EFFICIENCY = np.array(MODCODS).T


def _level(signal_db: float) -> int:
    """The best entry of MODCODS for a signal; LOCK_LOST if there is none."""
    return int(np.searchsorted(_NEEDED_DB, signal_db, side="right")) - 1


def _share(levels: Levels, clear_level: int) -> Array:
    shares = np.maximum(_EFFICIENCY[levels] / _EFFICIENCY[clear_level], LEAST_SHARE)
    return np.where(levels == LOCK_LOST, LEAST_SHARE, shares)


def ladder(signal_db: Array, hysteresis_db: float) -> tuple[Levels, Levels]:
    """The entries of MODCODS for a signal with one sample per step: positions of the changes, and the entries.

    The first position is 0. Each change is by one entry. The first entry, and every step up, needs a signal that is
    hysteresis_db better than required.
    """
    level = _level(signal_db[0] - hysteresis_db)
    at, levels = [0], [level]
    while True:
        low = _NEEDED_DB[level] if level > LOCK_LOST else -math.inf
        high = _NEEDED_DB[level + 1] + hysteresis_db if level + 1 < len(MODCODS) else math.inf
        rest = signal_db[at[-1] + 1 :]
        leaves = (rest < low) | (rest >= high)
        if not leaves.any():
            return np.array(at), np.array(levels)
        at.append(at[-1] + 1 + int(leaves.argmax()))
        level += -1 if signal_db[at[-1]] < low else 1
        levels.append(level)


def _after_steps_down(times: Array, levels: Levels, p: float, loop_s: float) -> Series | None:
    """Loss with probability p for loop_s after each step down; None without any."""
    down = times[1:][np.diff(levels) < 0]
    if p == 0 or not down.size:
        return None
    last = np.append(np.diff(down) > loop_s + 1e-6, True)
    first = np.append(True, last[:-1])
    at = np.column_stack((down[first], down[last] + loop_s)).ravel()
    values = np.tile([p, 0.0], int(last.sum()))
    return Series(np.append(0.0, at), np.append(0.0, values))
