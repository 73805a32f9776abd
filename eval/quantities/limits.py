"""Quantities read from the runs of suites, and the limits that they have to meet, as data.

A limit is a number, a multiple of a value by its name (`g[bbr3]`, `0.25 * g[bbr3]`), or a number for each level. Of the
limits in a list, meeting one is enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from orbitcc.eval import suites
from orbitcc.eval.quantities.evidence import (
    REDUCTIONS,
    STATISTICS,
    Array,
    Evidence,
    Labelled,
    Missing,
    NoNumberError,
    shown,
)


def _number(limit: float) -> float:
    if limit != limit:
        raise ValueError("NaN is no limit")
    return limit


Number = Annotated[float, AfterValidator(_number)]
Limit = Number | Annotated[str, Field(pattern=r"^(\d+(\.\d+)? \* )?[^*]+$")] | dict[str, Number]
Either = Limit | list[Limit]
Values = Mapping[str, Labelled]

COMPARISONS = {"above": np.greater, "at_least": np.greater_equal, "below": np.less, "at_most": np.less_equal}
UPPER = ("below", "at_most")


class Data(BaseModel):
    """What a file declares, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class LevelRange(Data):
    """Those levels of a factor that the results have, from one on, up to one."""

    low: float = Field(default=-np.inf, alias="from")
    high: float = Field(default=np.inf, alias="to")


class Limits(Data):
    """What a quantity has to be.

    near: within so many percent or within `by` of it, whichever is more. highest, lowest: the level with that end.
    """

    above: Either | None = None
    at_least: Either | None = None
    below: Either | None = None
    at_most: Either | None = None
    near: Limit | None = None
    percent: float = 0.0
    by: float = 0.0
    highest: str = ""
    lowest: str = ""

    @property
    def limits(self) -> dict[str, list[Limit]]:
        """The limits of each comparison."""
        given = {name: limit for name in COMPARISONS if (limit := getattr(self, name)) is not None}
        return {name: limit if isinstance(limit, list) else [limit] for name, limit in given.items()}

    @property
    def compares(self) -> bool:
        return bool(self.limits or self.near is not None or self.highest or self.lowest)

    @property
    def uses(self) -> list[str]:
        """The names of the values that it reads."""
        return [split(x)[0] for x in itertools.chain([self.near], *self.limits.values()) if isinstance(x, str)]

    def compare(self, quantity: Labelled, values: Values) -> Labelled:
        """1 where the limits are met, else 0."""
        parts = [quantity.combine(self._bound(name, values), COMPARISONS[name]) for name in self.limits]
        if self.near is not None:
            parts.append(quantity.combine(looked_up(self.near, values), self._is_near))
        for level, end in ((self.highest, np.argmax), (self.lowest, np.argmin)):
            if level:
                factor = next((f for labels in quantity.numbers for f, own in labels if shown(own) == level), None)
                if factor is None:
                    raise Missing(f"needs the level {level}")
                found = {}
                for rest, numbers in quantity.groups([factor]).items():
                    place = [shown(labels[0][1]) for labels in numbers].index(level)
                    found[rest] = end(list(numbers.values()), axis=0) == place
                parts.append(Labelled(found))
        met, *further = parts
        for part in further:
            met = met.combine(part, np.logical_and)
        return met.change(lambda x: x.astype(int))

    def _is_near(self, a: Array, b: Array) -> Array:
        return (np.abs(a - b) <= self.by) | (np.abs(np.divide(a, b) - 1) <= self.percent / 100)

    def _bound(self, name: str, values: Values) -> Labelled:
        """The limit of a comparison; of several, the one that is easiest to meet."""
        first, *others = [looked_up(x, values) for x in self.limits[name]]
        for other in others:
            first = first.combine(other, np.fmax if name in UPPER else np.fmin)
        return first

    def excess(self, quantity: Labelled, values: Values) -> Labelled:
        """The quantity relative to its only limit, as a factor: 1 at the limit, larger is worse."""
        (name,) = self.limits

        def factor(value: Array, limit: Array) -> Array:
            above, below = (value, limit) if name in UPPER else (np.maximum(limit, 1e-9), value)
            return above / np.maximum(below, 1e-9)

        return quantity.combine(self._bound(name, values), factor)


class Comparison(Limits):
    """Whether a quantity (`of`, minus or per another) meets its limits, at all of its labels."""

    of: str = ""
    minus: Limit | None = None
    per: Limit | None = None

    @property
    def uses(self) -> list[str]:
        return [split(x)[0] for x in (self.of, self.minus, self.per) if isinstance(x, str) and x] + super().uses

    def quantity(self, values: Values) -> Labelled:
        found = looked_up(self.of, values)
        if self.minus is not None:
            found = found.combine(looked_up(self.minus, values), lambda a, b: a - b)
        if self.per is not None:
            found = found.combine(looked_up(self.per, values), np.divide)
        return found

    def is_met(self, values: Values) -> Array:
        """For the runs, and for each resample. Raises NoNumberError where one side is NaN."""
        quantity = self.quantity(values)
        limits = [looked_up(x, values) for x in itertools.chain(*self.limits.values(), [self.near]) if x is not None]
        if any(np.isnan(number[0]) for side in (quantity, *limits) for number in side.numbers.values()):
            raise NoNumberError(f"{self.of} is no number in these runs")
        return np.logical_and.reduce(list(self.compare(quantity, values).numbers.values()))


class Value(Comparison):
    """A quantity: read from the runs of a suite, given as numbers, or made from quantities before it (`of`).

    Then, in this order: minus, per, times, plus, absolute, a comparison (1 where it is met, else 0), reduce.

    at: levels of factors; a single level adds no label. "all": every level of the full profile.
    least_runs: fewer runs decide nothing. over: the factors that are reduced; by default all but the contender.
    """

    suite: str = ""
    metric: str = ""
    who: str | list[str] = ""
    at: dict[str, float | str | list[float | str] | LevelRange] = Field(default_factory=dict)
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
            if unknown := sorted(set(given) - set(allowed)):
                raise ValueError(f"{name}: {', '.join(unknown)} is unknown; allowed: {', '.join(allowed) or 'none'}")
        if bool(self.against) != STATISTICS[self.statistic].against:
            raise ValueError(f"against: the statistic {self.statistic} compares {1 + (not self.against)} contender(s)")
        return self

    @property
    def listed(self) -> list[str]:
        """The factors that label what is read."""
        several = [f for f, levels in self.at.items() if levels == "all" or isinstance(levels, list | LevelRange)]
        return ["contender"] * isinstance(self.who, list) + several + ["run"] * (self.statistic == "runs")

    def evaluate(self, evidence: Evidence, values: Values) -> Labelled:
        """Raises Missing for runs that are not there."""
        if self.numbers:
            return looked_up(self.numbers, values)
        found = self.quantity(values if self.of else {"": self.read(evidence), **values})
        found = found.change(lambda x: x * self.times + self.plus)
        found = found.change(np.abs) if self.absolute else found
        found = self.compare(found, values) if self.compares else found
        if not self.reduce:
            return found
        factors = {factor for labels in found.numbers for factor, _ in labels}
        groups = found.groups(self.over or sorted(factors - {"contender"})).items()
        of = REDUCTIONS[self.reduce].of
        return Labelled({rest: of(list(x), np.array(list(x.values()))) for rest, x in groups})

    def read(self, evidence: Evidence) -> Labelled:
        whos = [self.who] if isinstance(self.who, str) else self.who
        factors = {"contender": whos, **{factor: self._levels(evidence, factor) for factor in self.at}}
        found: dict[Any, Array] = {}
        for levels in itertools.product(*factors.values()):
            point = dict(zip(factors, levels, strict=True))
            labels = tuple((factor, level) for factor, level in point.items() if factor in self.listed)
            who = point.pop("contender")
            samples = [x for name in (who, self.against) if name for x in self._samples(evidence, name, point)]
            result = STATISTICS[self.statistic].of(*samples)
            if self.statistic == "runs":
                found |= {(*labels, ("run", i)): x for i, x in enumerate(result.T)}
            else:
                found[labels] = result
        return Labelled(found)

    def _samples(self, evidence: Evidence, who: str, point: Mapping[str, Any]) -> Array:
        metrics = [self.metric, *(name.format(self.metric) for name in STATISTICS[self.statistic].metrics)]
        samples = evidence.runs(self.suite, who, metrics, point)
        if samples.shape[-1] < self.least_runs:
            raise Missing(f"needs {self.least_runs} downloads each (the full profile)")
        return samples

    def _levels(self, evidence: Evidence, factor: str) -> list[Any]:
        levels = self.at[factor]
        if levels == "all":
            return list(dict.fromkeys(p[factor] for p in evidence.results(self.suite).suite.points("full")))
        if not isinstance(levels, LevelRange):
            return levels if isinstance(levels, list) else [levels]
        found = [x for x in evidence.levels(self.suite, factor) if levels.low <= x <= levels.high]
        if not found:
            raise Missing(f"needs runs of {self.suite} with another {factor} (a larger profile)")
        return found


class CriterionWords(Data):
    """Words of criteria. factors: of one level, with {} for it, and of several."""

    suites: dict[str, str] = Field(default_factory=dict)
    metrics: dict[str, str]
    factors: dict[str, tuple[str, str]]


class ClaimCriterion(Data):
    """What has to be met: every condition, on values by name."""

    values: dict[str, Value] = Field(default_factory=dict)
    conditions: list[Comparison] = Field(default_factory=list)
    words: CriterionWords

    def check(self, evidence: Evidence) -> tuple[dict[str, Labelled], Array]:
        """The values, and whether the criterion is met, for the runs and in each resample of them.

        Raises Missing for what was not run.
        """
        values: dict[str, Labelled] = {}
        with np.errstate(divide="ignore", invalid="ignore"):
            for name, value in self.values.items():
                values[name] = value.evaluate(evidence, values)
            met = [condition.is_met(values) for condition in self.conditions]
        return values, np.logical_and.reduce(np.broadcast_arrays(*met))


def split(name: str) -> list[str]:
    """`0.5 * g[bbr3][6]` -> the name of a value, and levels of it."""
    return name.rpartition(" * ")[2].replace("]", "").split("[")


def multiple(name: str) -> float:
    """`0.5 * g[bbr3][6]` -> 0.5."""
    return float(name.rpartition(" * ")[0] or 1)


def looked_up(limit: Limit, values: Values) -> Labelled:
    if isinstance(limit, str):
        name, *levels = split(limit)
        found, times = values[name], multiple(limit)
        for level in levels:
            found = found[level]
        return found if times == 1 else found.change(lambda x: x * times)
    numbers = limit if isinstance(limit, dict) else {}
    given = {(("", k),): x for k, x in numbers.items()} if numbers else {(): limit}
    return Labelled({labels: np.array([x], dtype=float) for labels, x in given.items()})
