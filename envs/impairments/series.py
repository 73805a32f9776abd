"""A quantity over time as arrays, from which schedules of links are made."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orbitcc.envs.description.model import Kept, points_of

Array = NDArray[np.float64]

JUMP_S = 1e-6
"""A jump of an interpolated quantity is two points this far apart."""


@dataclass(frozen=True, eq=False)
class Series:
    """A quantity over time: constant between points, or with `lines` interpolated linearly.

    t_s: times from 0 on, increasing, [K].
    values: value from each time to the next, or with `lines` at each time, [K].
    After the last time the value stays constant.
    """

    t_s: Array
    values: Array
    lines: bool = False

    @staticmethod
    def of(value: Any, lines: bool = False) -> Series:
        """A series from a field of a link: one value, or a schedule."""
        if isinstance(value, float):
            return Series(_START, np.array([value]), lines)
        t, v = zip(*points_of(value), strict=True)
        return Series(np.array(t, dtype=np.float64), np.array(v, dtype=np.float64), lines)

    def at(self, t_s: ArrayLike) -> Array:
        if self.lines:
            return np.interp(np.asarray(t_s), self.t_s, self.values)
        return self.values[np.searchsorted(self.t_s, t_s, side="right") - 1]

    def __mul__(self, other: Series | float) -> Series:
        """The product of two series of steps, or of a series and a number."""
        if isinstance(other, float):
            return Series(self.t_s, self.values * other, self.lines)
        if self.t_s.size == 1 or other.t_s.size == 1:
            longer = self if other.t_s.size == 1 else other
            return Series(longer.t_s, self.values * other.values)
        t = _times(self, other)
        return Series(t, self.at(t) * other.at(t))

    def __add__(self, other: Series) -> Series:
        """The sum; interpolated if one of the two is."""
        if self.t_s.size == 1 or other.t_s.size == 1:
            longer = self if other.t_s.size == 1 else other
            return Series(longer.t_s, self.values + other.values, longer.lines)
        lines = self.lines or other.lines
        one, two = (s.in_lines() if lines else s for s in (self, other))
        t = _times(one, two)
        return Series(t, one.at(t) + two.at(t), lines)

    def in_lines(self) -> Series:
        """The same quantity with `lines`; steps become jumps."""
        if self.lines or self.t_s.size == 1:
            return Series(self.t_s, self.values, lines=True)
        t = np.column_stack((self.t_s[1:] - JUMP_S, self.t_s[1:])).ravel()
        return Series(np.append(self.t_s[:1], t), np.repeat(self.values, 2)[:-1], lines=True)

    def at_least(self, low: float) -> Series:
        """A copy in which lower values are replaced by `low`."""
        return Series(self.t_s, np.maximum(self.values, low), self.lines)

    @functools.cached_property
    def as_delay(self) -> Any:
        """The series as `Direction.delay_ms`, with negative values set to 0."""
        return self.at_least(0.0).points()

    def points(self) -> Any:
        """As a field of a link: one value, or a schedule."""
        if self.values.size == 1:
            return float(self.values[0])
        points = Kept(zip(self.t_s.tolist(), self.values.tolist(), strict=True))
        points.arrays = self.t_s, self.values
        return points


_START = np.zeros(1)


def _times(one: Series, other: Series) -> Array:
    """The times of both; times in the same nanosecond count as one, because links have no finer resolution."""
    t = np.concatenate((one.t_s, other.t_s))
    t.sort()
    return t[np.append(np.diff(t) > 1e-9, True)]


def ar1(rng: np.random.Generator, count: int, correlation: float) -> Array:
    """A stationary Gaussian process of variance 1: `count` values, neighbours correlated by this much."""
    fresh = math.sqrt(1 - correlation * correlation)
    noise = rng.standard_normal(count).tolist()
    values = noise[:1]
    for e in noise[1:]:
        values.append(correlation * values[-1] + fresh * e)
    return np.array(values)


def poisson(rng: np.random.Generator, per_s: float, duration_s: float) -> list[float]:
    """The times of a Poisson process in [0, duration_s), in order."""
    return np.sort(duration_s * rng.random(rng.poisson(per_s * duration_s))).tolist()
