"""What a claim of a paper states, as data, and whether it holds in the runs of suites."""

from __future__ import annotations

import itertools
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from orbitcc.eval import suites
from orbitcc.eval.claims.evidence import REDUCTIONS, STATISTICS, Evidence, Labelled, Missing, shown

ClaimVerdict = Literal["holds", "fails", "undecidable"]
Limit = float | str | dict[str, float]
"""A number, a value by its name, or a number for each level."""
Values = Mapping[str, Labelled]

COMPARISONS = {"above": np.greater, "at_least": np.greater_equal, "below": np.less, "at_most": np.less_equal}


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Range(Model):
    """Those levels of a factor that the results have, from one on, up to one."""

    low: float = Field(default=-np.inf, alias="from")
    high: float = Field(default=np.inf, alias="to")


class Comparison(Model):
    """Whether a quantity (`of`, minus or per another) meets its limits, at all of its labels.

    near: within so many percent or within `by` of it, whichever is more. highest, lowest: the level with that end.
    otherwise: what may be met instead.
    """

    of: str = ""
    minus: Limit | None = None
    per: Limit | None = None
    above: Limit | None = None
    at_least: Limit | None = None
    below: Limit | None = None
    at_most: Limit | None = None
    near: Limit | None = None
    percent: float = 0.0
    by: float = 0.0
    highest: str = ""
    lowest: str = ""
    otherwise: Comparison | None = None

    @property
    def limits(self) -> dict[str, Limit]:
        return {name: limit for name in COMPARISONS if (limit := getattr(self, name)) is not None}

    @property
    def compares(self) -> bool:
        return bool(self.limits or self.near is not None or self.highest or self.lowest)

    @property
    def uses(self) -> list[str]:
        """The names of the values that it reads."""
        others = (self.of, self.minus, self.per, self.near, *self.limits.values())
        further = self.otherwise.uses if self.otherwise else []
        return [split(x)[0] for x in others if isinstance(x, str) and x] + further

    def quantity(self, values: Values) -> Labelled:
        found = looked_up(self.of, values)
        if self.minus is not None:
            found = found.combine(looked_up(self.minus, values), lambda a, b: a - b)
        if self.per is not None:
            found = found.combine(looked_up(self.per, values), lambda a, b: float(np.divide(a, b)))
        return found

    def compare(self, quantity: Labelled, values: Values) -> Labelled:
        """1 where the limits are met, else 0."""
        parts = [quantity.combine(looked_up(x, values), COMPARISONS[name]) for name, x in self.limits.items()]
        if self.near is not None:
            parts.append(quantity.combine(looked_up(self.near, values), self._is_near))
        for level, end in ((self.highest, max), (self.lowest, min)):
            if level:
                factor = next(f for labels in quantity.numbers for f, own in labels if shown(own) == level)
                groups = quantity.groups([factor]).items()
                parts.append(Labelled({rest: shown(end(x, key=lambda k: x[k])[0][1]) == level for rest, x in groups}))
        met, *further = parts
        for part in further:
            met = met.combine(part, np.logical_and)
        return met.change(int)

    def _is_near(self, a: float, b: float) -> bool:
        return abs(a - b) <= self.by or bool(abs(np.divide(a, b) - 1) <= self.percent / 100)

    def is_met(self, values: Values) -> bool:
        met = all(self.compare(self.quantity(values), values).numbers.values())
        return met or (self.otherwise is not None and self.otherwise.is_met(values))


class Value(Comparison):
    """A quantity: read from the runs of a suite, given as numbers, or made from quantities before it (`of`).

    Then, in this order: minus, per, times, plus, absolute, a comparison (1 where it is met, else 0), reduce.

    at: levels of factors; a single level adds no label. "all": every level of the full profile.
    least_runs: fewer runs decide nothing. over: the factors that are reduced; by default all but the contender.
    """

    suite: str = ""
    metric: str = ""
    who: str | list[str] = ""
    at: dict[str, float | str | list[float | str] | Range] = Field(default_factory=dict)
    statistic: str = "median"
    against: str = ""
    least_runs: int = 1
    numbers: dict[str, float] = Field(default_factory=dict)
    times: float = 1.0
    plus: float = 0.0
    absolute: bool = False
    reduce: str = ""
    over: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _is_known(self) -> Value:
        if [bool(self.of), bool(self.suite and self.metric and self.who), bool(self.numbers)].count(True) != 1:
            raise ValueError("needs either of, or numbers, or suite, metric and who")
        factors = {factor for point in suites.get(self.suite).points("full") for factor in point} if self.suite else {}
        for name, given, allowed in (
            ("statistic", [self.statistic], STATISTICS),
            ("reduce", [self.reduce] if self.reduce else [], REDUCTIONS),
            ("at", self.at, factors),
        ):
            if unknown := set(given) - set(allowed):
                raise ValueError(f"{name}: {', '.join(unknown)} is unknown; allowed: {', '.join(allowed) or 'none'}")
        if bool(self.against) != STATISTICS[self.statistic].against:
            raise ValueError(f"against: the statistic {self.statistic} compares {1 + (not self.against)} contender(s)")
        return self

    @property
    def listed(self) -> list[str]:
        """The factors that label what is read."""
        several = [f for f, levels in self.at.items() if levels == "all" or isinstance(levels, list | Range)]
        return ["contender"] * isinstance(self.who, list) + several + ["run"] * (self.statistic == "runs")

    def evaluate(self, evidence: Evidence, values: Values) -> Labelled:
        """Raises Missing for runs that are not there."""
        if self.numbers:
            return looked_up(self.numbers, values)
        found = self.quantity(values if self.of else {"": self.read(evidence), **values})
        found = found.change(lambda x: x * self.times + self.plus)
        found = found.change(abs) if self.absolute else found
        found = self.compare(found, values) if self.compares else found
        if not self.reduce:
            return found
        factors = {factor for labels in found.numbers for factor, _ in labels}
        groups = found.groups(self.over or sorted(factors - {"contender"})).items()
        return Labelled({rest: REDUCTIONS[self.reduce].of(numbers) for rest, numbers in groups})

    def read(self, evidence: Evidence) -> Labelled:
        whos = [self.who] if isinstance(self.who, str) else self.who
        factors = {"contender": whos, **{factor: self._levels(evidence, factor) for factor in self.at}}
        found: dict[Any, float] = {}
        for levels in itertools.product(*factors.values()):
            point = dict(zip(factors, levels, strict=True))
            labels = tuple((factor, level) for factor, level in point.items() if factor in self.listed)
            who = point.pop("contender")
            samples = [x for name in (who, self.against) if name for x in self._samples(evidence, name, point)]
            result = STATISTICS[self.statistic].of(*samples)
            if np.ndim(result):
                found |= {(*labels, ("run", i)): x for i, x in enumerate(result)}
            else:
                found[labels] = float(result)
        return Labelled(found)

    def _samples(self, evidence: Evidence, who: str, point: Mapping[str, Any]) -> np.ndarray:
        metrics = [self.metric, *(name.format(self.metric) for name in STATISTICS[self.statistic].metrics)]
        samples = evidence.runs(self.suite, who, metrics, point)
        if samples.shape[1] < self.least_runs:
            raise Missing(f"needs {self.least_runs} downloads each (the full profile)")
        return samples

    def _levels(self, evidence: Evidence, factor: str) -> list[Any]:
        levels = self.at[factor]
        if levels == "all":
            return list(dict.fromkeys(p[factor] for p in evidence.results(self.suite).suite.points("full")))
        if not isinstance(levels, Range):
            return levels if isinstance(levels, list) else [levels]
        found = [x for x in evidence.levels(self.suite, factor) if levels.low <= x <= levels.high]
        if not found:
            raise Missing(f"needs runs of {self.suite} with another {factor} (a larger profile)")
        return found


class Words(Model):
    """Words of criteria. factors: of one level, with {} for it, and of several."""

    suites: dict[str, str] = Field(default_factory=dict)
    metrics: dict[str, str]
    factors: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class ClaimResult:
    """measured: the figures, as people read them. verdict, and why if it is undecidable."""

    measured: str
    verdict: ClaimVerdict
    reason: str = ""


class Claim(Model):
    """A row of the reproduction.

    statement: in our words. source: section or table. measured: what is printed, with values in braces as in
    str.format. It holds if all conditions are met, and all other `claims` hold. closed: a program that nobody can run,
    about which nothing can be decided.
    """

    key: str
    statement: str = Field(min_length=1)
    source: str = Field(min_length=1)
    measured: str = ""
    closed: str = ""
    values: dict[str, Value] = Field(default_factory=dict)
    conditions: list[Comparison] = Field(default_factory=list)
    claims: list[Claim] = Field(default_factory=list)
    words: Words

    @model_validator(mode="after")
    def _names_values_before_use(self) -> Claim:
        known: set[str] = set()
        printed = [split(name)[0] for _, name, _, _ in string.Formatter().parse(self.measured) if name]
        uses = [(name, value.uses) for name, value in self.values.items()]
        for name, used in [*uses, *(("", c.uses) for c in self.conditions), ("", printed)]:
            if unknown := set(used) - known:
                raise ValueError(f"{self.key}: {', '.join(unknown)} is no value{' before ' if name else ''}{name}")
            known |= {name}
        if not all(c.of and c.compares for c in self.conditions) or not (self.conditions or self.claims):
            raise ValueError(f"{self.key}: needs conditions, each with `of` and a limit")
        return self

    @property
    def expected(self) -> str:
        """The criterion in words."""
        from orbitcc.eval.claims.words import criterion

        return criterion(self)

    def check(self, evidence: Evidence) -> tuple[str, bool]:
        """The figures, and whether the criterion is met. Raises Missing for what was not run."""
        if self.claims:
            held = {claim.key: claim.check(evidence)[1] for claim in self.claims}
            return ", ".join(f"{key} {'holds' if ok else 'fails'}" for key, ok in held.items()), all(held.values())
        values: dict[str, Labelled] = {}
        for name, value in self.values.items():
            values[name] = value.evaluate(evidence, values)
        return self.measured.format(**values), all(condition.is_met(values) for condition in self.conditions)

    def judge(self, evidence: Evidence) -> ClaimResult:
        try:
            measured, holds = self.check(evidence)
        except Missing as missing:
            return ClaimResult("–", "undecidable", str(missing))
        if self.closed:
            reason = f"{self.closed} is closed; what stands for it was calibrated on these papers"
            return ClaimResult(measured, "undecidable", reason)
        return ClaimResult(measured, "holds" if holds else "fails")


def split(name: str) -> list[str]:
    """`g[bbr3][6]` -> the name of a value, and levels of it."""
    return name.replace("]", "").split("[")


def looked_up(limit: Limit, values: Values) -> Labelled:
    if isinstance(limit, str):
        name, *levels = split(limit)
        found = values[name]
        for level in levels:
            found = found[level]
        return found
    return Labelled({(("", k),): x for k, x in limit.items()} if isinstance(limit, dict) else {(): limit})
