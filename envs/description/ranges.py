"""Ranges from which scenarios are drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from pydantic import BeforeValidator

from orbitcc.common.errors import OrbitccError
from orbitcc.common.numbers import checked_number
from orbitcc.envs.description.model import Model


class Draws:
    """Random numbers of a generator, drawn in blocks.

    A world needs about a hundred; single draws would cost more than everything else about drawing a world.
    """

    BLOCK = 128

    def __init__(self, rng: np.random.Generator) -> None:
        blocks = iter(lambda: rng.random(self.BLOCK).tolist(), None)
        self.random: Callable[[], float] = itertools.chain.from_iterable(blocks).__next__
        """Uniform in [0, 1)."""

    def exponential(self, mean: float) -> float:
        return -mean * math.log1p(-self.random())

    def integers(self, low: int, high: int) -> int:
        """A whole number in [low, high)."""
        return low + int((high - low) * self.random())


Random = np.random.Generator | Draws


class Span(Model):
    """A range to draw from: uniformly, or with `log` uniformly in the logarithm. `[low, high]` is its short form."""

    low: float
    high: float
    log: bool = False

    def draw(self, rng: Random) -> float:
        low = self.low
        if self.log:
            return low * (self.high / low) ** rng.random()
        return low + (self.high - low) * rng.random()

    def draw_whole(self, rng: Random) -> int:
        """A whole number from low to high, both included."""
        if self.log:
            low, high = self.low, self.high + 1
            return min(int(low * (high / low) ** rng.random()), int(self.high))
        return int(rng.integers(int(self.low), int(self.high) + 1))


def span(low: float, high: float, unit: str = "") -> BeforeValidator:
    """A Span within [low, high]."""

    def check(value: Any) -> Span:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = (value, value)
        if isinstance(value, list | tuple) and len(value) == 2:
            value = {"low": value[0], "high": value[1]}
        got = value if isinstance(value, Span) else Span.build(value)
        for name in ("low", "high"):
            try:
                checked_number(getattr(got, name), low, high, unit)
            except OrbitccError as error:
                raise error.under(name) from None
        if got.low > got.high:
            raise OrbitccError("low", got.low, f"at most high = {got.high:g}")
        if got.log and got.low <= 0:
            raise OrbitccError("low", got.low, "above 0 for a logarithmic range")
        return got

    return BeforeValidator(check)
