"""The criteria of an assessment, read from criteria.toml: which figures of which worlds decide a row, and how."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orbitcc.eval.assessment.worlds import WORLDS
from orbitcc.eval.suites.base import Point

Grade = Literal["pass", "concern", "fail", "not applicable"]
WORST: Mapping[Grade, int] = {"not applicable": 0, "pass": 1, "concern": 2, "fail": 3}


class Figure(BaseModel):
    """One number that decides, and its limits: absolute, and as multiples of Cubic's in the same world."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: str
    title: str
    better: Literal["lower", "higher"]
    reason: str
    unit: str = ""
    percent: bool = False
    where: dict[str, list[str | float]] = Field(default_factory=dict)
    passes: float | None = Field(default=None, alias="pass")
    pass_ratio: float | None = None
    concern: float | None = None
    concern_ratio: float | None = None

    @model_validator(mode="after")
    def _limited(self) -> Figure:
        if self.passes is None and self.pass_ratio is None:
            raise ValueError(f"{self.metric}: pass or pass_ratio")
        return self

    def holds_at(self, point: Point) -> bool:
        """Is the figure taken at this point?"""
        return all(point.get(factor) in values for factor, values in self.where.items())

    def judge(self, value: float, reference: float) -> Grade:
        """Of a value and Cubic's in the same world."""
        if math.isnan(value):
            return "not applicable"
        if self._within(value, reference, self.passes, self.pass_ratio):
            return "pass"
        bounded = self.concern is not None or self.concern_ratio is not None
        return "concern" if not bounded or self._within(value, reference, self.concern, self.concern_ratio) else "fail"

    def excess(self, value: float, reference: float) -> float:
        """How far beyond what passes, as a factor: 1 at the limit, more is worse."""
        if math.isnan(value):
            return -math.inf
        limits = self._limits(reference, self.passes, self.pass_ratio)
        if self.better == "lower":
            return value / max(max(limits), 1e-9)
        return max(min(limits), 1e-9) / max(value, 1e-9)

    def _within(self, value: float, reference: float, limit: float | None, ratio: float | None) -> bool:
        limits = self._limits(reference, limit, ratio)
        if not limits:
            return False
        return value <= max(limits) if self.better == "lower" else value >= min(limits)

    @staticmethod
    def _limits(reference: float, limit: float | None, ratio: float | None) -> list[float]:
        """Either limit suffices."""
        relative = None if ratio is None or math.isnan(reference) else ratio * reference
        return [x for x in (limit, relative) if x is not None]

    def format(self, value: float) -> str:
        """As people read it; an en dash for NaN."""
        if math.isnan(value):
            return "–"
        shown = 100 * value if self.percent else value
        return f"{shown:.{0 if abs(shown) >= 100 else 1 if abs(shown) >= 10 else 2}f}{self.unit}"


class Criterion(BaseModel):
    """A row of the assessment: a section of the RFC, the worlds it is put to the test in, the figures that decide."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    section: str
    title: str
    worlds: str | None = None
    figures: list[Figure] = Field(default_factory=list, alias="figure")
    not_applicable: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Criterion:
        if bool(self.not_applicable) == bool(self.figures):
            raise ValueError(f"{self.key}: figures, or the reason why it does not apply")
        if self.figures and self.worlds not in WORLDS:
            raise ValueError(f"{self.key}: worlds = {self.worlds}, allowed: one of {', '.join(WORLDS)}")
        return self


@cache
def criteria() -> tuple[Criterion, ...]:
    """All of them, in the order of the RFC."""
    text = resources.files(__package__).joinpath("criteria.toml").read_text(encoding="utf-8")
    return tuple(Criterion.model_validate(row) for row in tomllib.loads(text)["row"])
