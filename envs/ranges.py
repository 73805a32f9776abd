"""Ranges that scenarios are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BeforeValidator

from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.model import Model, checked_number


class Span(Model):
    """A range to draw from, uniformly or (log) uniformly in the logarithm; `[low, high]` for short."""

    low: float
    high: float
    log: bool = False

    def draw(self, rng: np.random.Generator) -> float:
        if self.log:
            return float(self.low * (self.high / self.low) ** rng.random())
        return float(self.low + (self.high - self.low) * rng.random())

    def draw_whole(self, rng: np.random.Generator) -> int:
        """A whole number; every one of low..high (both inclusive) has its share of the range."""
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
