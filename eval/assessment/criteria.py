"""The criteria of an assessment, read from criteria.toml: the figures of each row, their worlds and their limits."""

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


class CriterionFigure(BaseModel):
    """One number that decides a row, and its limits: absolute, and as multiples of Cubic's in the same world."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: str
    title: str
    better: Literal["lower", "higher"]
    reason: str
    percent: bool = False
    where: dict[str, list[str | float]] = Field(default_factory=dict)
    passes: float | None = Field(default=None, alias="pass")
    pass_ratio: float | None = None
    concern: float | None = None
    concern_ratio: float | None = None

    @model_validator(mode="after")
    def _limited(self) -> CriterionFigure:
        if self.passes is None and self.pass_ratio is None:
            raise ValueError(f"{self.metric}: needs pass or pass_ratio")
        return self

    def holds_at(self, point: Point) -> bool:
        """Whether the figure is measured at this point."""
        return all(point.get(factor) in values for factor, values in self.where.items())

    def judge(self, value: float, reference: float) -> Grade:
        """The result of a value, given Cubic's value in the same world."""
        if math.isnan(value):
            return "not applicable"
        if self._within(value, reference, self.passes, self.pass_ratio):
            return "pass"
        bounded = self.concern is not None or self.concern_ratio is not None
        return "concern" if not bounded or self._within(value, reference, self.concern, self.concern_ratio) else "fail"

    def excess(self, value: float, reference: float) -> float:
        """The value relative to the limit for a pass, as a factor: 1 at the limit, larger is worse."""
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
        """The limits that exist; meeting either one is enough."""
        relative = None if ratio is None or math.isnan(reference) else ratio * reference
        return [x for x in (limit, relative) if x is not None]

    def format(self, value: float) -> str:
        """The number without its unit, which the title names; an en dash for NaN."""
        if math.isnan(value):
            return "–"
        shown = 100 * value if self.percent else value
        return f"{shown:.{0 if abs(shown) >= 100 else 1 if abs(shown) >= 10 else 2}f}"


class Criterion(BaseModel):
    """A row of the assessment: a section of the RFC, the worlds that test it, and the figures that decide."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    section: str
    title: str
    worlds: str | None = None
    figures: list[CriterionFigure] = Field(default_factory=list, alias="figure")
    not_applicable: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Criterion:
        if bool(self.not_applicable) == bool(self.figures):
            raise ValueError(f"{self.key}: needs either figures or not_applicable")
        if self.figures and self.worlds not in WORLDS:
            raise ValueError(f"{self.key}: worlds = {self.worlds}; allowed: one of {', '.join(WORLDS)}")
        return self


_WORDS: Mapping[str, str] = {
    "buffer_bdp": "buffer {} BDP",
    "bully": "unresponsive flow at {} × the link rate",
    "candidate": "flows of the candidate: {}",
    "event": "{}",
    "flows": "{} flows",
    "loss": "loss probability {}",
    "medium": "{}",
    "mix": "flows {} (candidate : others)",
    "rate_kbps": "{} kbit/s",
    "rate_mbps": "{} Mbit/s",
    "reordering": "{}",
    "rtt_ms": "RTT {} ms",
    "rtt_ratio": "RTT ratio {}",
    "senders": "{} senders",
}
"""Factor of a point -> its words; other factors are shown as `name: value`."""


def where(point: Point) -> str:
    """A point in words: "2 flows, RTT 40 ms, buffer 1 BDP"."""
    said = []
    for key, value in point.items():
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        words = _WORDS.get(key, key + ": {}").format(shown)
        said.append("1 flow" if words == "1 flows" else words)
    return ", ".join(words for key, words in zip(point, said, strict=True) if key != "worlds")


@cache
def criteria() -> tuple[Criterion, ...]:
    """All criteria, in the order of the RFC."""
    text = resources.files(__package__).joinpath("criteria.toml").read_text(encoding="utf-8")
    return tuple(Criterion.model_validate(row) for row in tomllib.loads(text)["row"])
