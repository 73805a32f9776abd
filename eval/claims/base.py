"""A claim of a paper, and how to tell from the results' runs whether it holds."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import stats

from orbitcc.eval.statistics import pooled

if TYPE_CHECKING:
    from orbitcc.eval.contenders import Contender
    from orbitcc.eval.results import Results

ClaimVerdict = Literal["holds", "fails", "undecidable"]


class Missing(Exception):
    """What a claim asks for is not there: runs, or something to run; the text says what.

    measured: figures that are there, but decide nothing.
    """

    def __init__(self, reason: str, measured: str = "–") -> None:
        super().__init__(reason)
        self.measured = measured


@dataclass(frozen=True)
class ClaimResult:
    """measured: the figures, as people read them. verdict, and why if it is undecidable."""

    measured: str
    verdict: ClaimVerdict
    reason: str = ""


@dataclass(frozen=True)
class Claim:
    """One row of the reproduction.

    claim: in our words. source: section or table. expected: the criterion, in words. check: gives the figures and
    whether the criterion is met; raises Missing for what was not run.
    """

    key: str
    statement: str
    source: str
    expected: str
    check: Check = field(repr=False)

    def judge(self, evidence: Evidence) -> ClaimResult:
        try:
            measured, holds = self.check(evidence)
        except Missing as missing:
            return ClaimResult(missing.measured, "undecidable", str(missing))
        return ClaimResult(measured, "holds" if holds else "fails")


Check = Callable[["Evidence"], tuple[str, bool]]
"""The figures, and whether the criterion is met."""


def load(name: str, checks: Mapping[str, Check]) -> tuple[Claim, ...]:
    """The claims of a file beside this module, each with its check."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return tuple(Claim(**row, check=checks[row["key"]]) for row in tomllib.loads(text)["claim"])


class Evidence:
    """The runs of several suites, asked by controller name."""

    def __init__(self, all_results: Mapping[str, Results]) -> None:
        self.all_results = all_results

    def results(self, suite: str) -> Results:
        if suite not in self.all_results or not self.all_results[suite].rows:
            raise Missing(f"needs the suite {suite}")
        return self.all_results[suite]

    def contender(self, suite: str, who: str) -> Contender:
        """The first contender that is the controller `who`; `astraea` is a policy of that name."""
        found = [c for c in self.results(suite).contenders if who in (c.controller, c.label.split(" ")[0])]
        if not found:
            raise Missing("needs a trained Astraea" if who == "astraea" else f"needs {who} among the contenders")
        return found[0]

    def values(self, suite: str, who: str, metric: str, **factors: Any) -> np.ndarray:
        """The metric of every run at the points with these factors."""
        return self.together(suite, who, (metric,), **factors)[0]

    def together(self, suite: str, who: str, metrics: Sequence[str], **factors: Any) -> np.ndarray:
        """Several metrics of every run that has all of them: `[metrics, runs]`."""
        results, contender = self.results(suite), self.contender(suite, who)
        values = np.array([list(results.by_case(contender, metric, **factors).values()) for metric in metrics])
        values = values[:, ~np.isnan(values).any(axis=0)]
        if not values.size:
            where = ", ".join(f"{k} = {v}" for k, v in factors.items())
            raise Missing(f"needs runs of {suite}{' at ' + where if where else ''} (a larger profile)")
        return values

    def mean(self, suite: str, who: str, metric: str, **factors: Any) -> float:
        return float(self.values(suite, who, metric, **factors).mean())

    def median(self, suite: str, who: str, metric: str, **factors: Any) -> float:
        return float(np.median(self.values(suite, who, metric, **factors)))

    def pooled(self, suite: str, who: str, metric: str, **factors: Any) -> tuple[float, float]:
        """Mean and standard deviation over the seconds of all runs."""
        means, deviations, seconds = self.together(suite, who, (metric, f"{metric}_sd", "seconds"), **factors).tolist()
        return pooled(means, deviations, seconds)

    def levels(self, suite: str, factor: str, **factors: Any) -> list[Any]:
        """The values of a factor among the points with these other factors."""
        points = [p for p in self.results(suite).points() if all(p.get(k) == v for k, v in factors.items())]
        return list(dict.fromkeys(p[factor] for p in points if factor in p))

    def cells(self, suite: str, *names: str) -> list[dict[str, Any]]:
        """The combinations of some factors that the results have."""
        points = self.results(suite).points()
        return [dict(t) for t in dict.fromkeys(tuple((n, p[n]) for n in names) for p in points)]


def listed(values: Mapping[Any, float], decimals: int = 2) -> str:
    """`cubic 0.61, satcp 0.66`."""
    return ", ".join(f"{name} {value:.{decimals}f}" for name, value in values.items())


def within(value: float, low: float, high: float) -> bool:
    return low <= value <= high


def t_test(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
    """Student's t of the difference of means (equal variances, as the GEO papers), its p, and Cohen's d."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    test = stats.ttest_ind(a, b)
    spread = np.sqrt(((a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)) / (a.size + b.size - 2))
    d = abs(a.mean() - b.mean()) / spread if spread > 0 else float("inf")
    return float(test.statistic), float(test.pvalue), float(d)
