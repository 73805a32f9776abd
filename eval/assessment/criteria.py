"""The criteria of an assessment, read from criteria.toml: the figures of each row, their worlds and their limits."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from orbitcc.eval.assessment.worlds import WORLDS
from orbitcc.eval.quantities.evidence import Array, Labelled, shown
from orbitcc.eval.quantities.limits import Data, Limit, Limits, Values, multiple
from orbitcc.eval.quantities.words import limits_in_words
from orbitcc.eval.suites.base import Point

Grade = Literal["not applicable", "pass", "concern", "fail"]
GRADES: tuple[Grade, ...] = get_args(Grade)
"""A later one is worse."""
STANDARD = "cubic"
NO_LIMIT = Limits(at_most=np.inf)


class CriterionFigure(Data):
    """One number that decides a row, and its limits: numbers, and multiples of Cubic's in the same world (`cubic`)."""

    metric: str
    title: str
    reason: str
    percent: bool = False
    where: dict[str, list[str | float]] = Field(default_factory=dict)
    passes: Limits = Field(alias="pass")
    concern: Limits | None = None

    @model_validator(mode="after")
    def _limited(self) -> CriterionFigure:
        given = [self.passes, self.concern or self.passes]
        if [x.model_fields_set for x in given] not in (2 * [{"at_least"}], 2 * [{"at_most"}]):
            raise ValueError(f"{self.metric}: needs either at_least or at_most, the same for pass and concern")
        if others := {name for x in given for name in x.uses} - {STANDARD}:
            raise ValueError(f"{self.metric}: {', '.join(sorted(others))} is no value; allowed: {STANDARD}")
        return self

    def holds_at(self, point: Point) -> bool:
        """Whether the figure is measured at this point."""
        return all(point.get(factor) in values for factor, values in self.where.items())

    def judge(self, value: ArrayLike, cubic: ArrayLike) -> Array:
        """Places in GRADES, given Cubic's values in the same worlds; what cannot be compared is not applicable."""
        passes, concern = (self._found(x.compare, value, cubic) for x in (self.passes, self.concern or NO_LIMIT))
        return np.where(passes, 1, np.where(concern, 2, 3)) * np.isfinite(self.excess(value, cubic))

    def excess(self, value: ArrayLike, cubic: ArrayLike) -> Array:
        """The values relative to the limit for a pass, as a factor: 1 at the limit, larger is worse; -inf: unknown."""
        found = self._found(self.passes.excess, value, cubic)
        return np.where(np.isnan(found), -np.inf, found)

    @staticmethod
    def _found(of: Callable[[Labelled, Values], Labelled], value: ArrayLike, cubic: ArrayLike) -> Array:
        own, standard = (Labelled({(): np.asarray(x, dtype=float)}) for x in (value, cubic))
        return of(own, {STANDARD: standard}).numbers[()]

    @property
    def limits(self) -> str:
        """What passes, and up to where it is a concern."""
        concern = f", concern {limits_in_words(self.concern, self._limit)}" if self.concern else ""
        return f"pass {limits_in_words(self.passes, self._limit)}{concern}"

    def _limit(self, limit: Limit) -> str:
        return self.format(limit) if isinstance(limit, float) else f"{multiple(str(limit)):g} × Cubic's"

    def format(self, value: float) -> str:
        """The number without its unit, which the title names; an en dash for NaN."""
        if value != value:
            return "–"
        number = 100 * value if self.percent else value
        return f"{number:.{0 if abs(number) >= 100 else 1 if abs(number) >= 10 else 2}f}"


class Criterion(Data):
    """A row of the assessment: a section of the RFC, the worlds that test it, and the figures that decide."""

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
    said = [_WORDS.get(key, f"{key}: {{}}").format(shown(level)) for key, level in point.items() if key != "worlds"]
    return ", ".join("1 flow" if words == "1 flows" else words for words in said)


@cache
def criteria() -> tuple[Criterion, ...]:
    """All criteria, in the order of the RFC."""
    text = resources.files(__package__).joinpath("criteria.toml").read_text(encoding="utf-8")
    return tuple(Criterion.model_validate(row) for row in tomllib.loads(text)["row"])
