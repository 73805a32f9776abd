"""The runs that claims are judged by, and numbers with labels made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from orbitcc.eval.statistics import pooled

if TYPE_CHECKING:
    from orbitcc.eval.contenders import Contender
    from orbitcc.eval.results import Results

Labels = tuple[tuple[str, Any], ...]
"""Factor and level, for every factor."""


class Missing(Exception):
    """What a claim asks for is not there: runs, or something to run; the text says what."""


@dataclass(frozen=True)
class Labelled:
    """Numbers by labels; `value["bbr3"]` selects a level, formats list every number with its labels.

    The factor "" stands for any factor that has the level.
    """

    numbers: Mapping[Labels, float]

    def __getitem__(self, level: str | int) -> Labelled:
        """Those with this level, as `shown` writes it. Raises KeyError if there are none."""
        found = {
            tuple(x for x in labels if shown(x[1]) != str(level)): number
            for labels, number in self.numbers.items()
            if str(level) in (shown(own) for _, own in labels)
        }
        if not found:
            raise KeyError(level)
        return Labelled(found)

    def __format__(self, spec: str) -> str:
        """Numbers by the format; `cubic 0.61, satcp 0.66` where they have labels."""
        return ", ".join(
            " ".join(("/".join(shown(level) for _, level in labels), format(number, spec))).strip()
            for labels, number in self.numbers.items()
        )

    def combine(self, other: Labelled, operation: Callable[[float, float], Any]) -> Labelled:
        """The operation on every pair of numbers whose labels agree."""
        found = {}
        for labels, a in self.numbers.items():
            own = dict(labels)
            levels = {shown(level) for level in own.values()}
            for others, b in other.numbers.items():
                if all(shown(level) in levels if factor == "" else own.get(factor, level) == level
                       for factor, level in others):  # fmt: skip
                    both = own | {factor: level for factor, level in others if factor}
                    found[tuple(both.items())] = operation(a, b)
        return Labelled(found)

    def change(self, operation: Callable[[float], Any]) -> Labelled:
        return Labelled({labels: operation(number) for labels, number in self.numbers.items()})

    def groups(self, factors: Sequence[str]) -> dict[Labels, dict[Labels, float]]:
        """The numbers that differ in these factors alone: the other labels -> these labels -> number."""
        found: dict[Labels, dict[Labels, float]] = {}
        for labels, number in self.numbers.items():
            rest = tuple(x for x in labels if x[0] not in factors)
            found.setdefault(rest, {})[tuple(x for x in labels if x[0] in factors)] = number
        return found


def shown(level: Any) -> str:
    return f"{level:g}" if isinstance(level, int | float) else str(level)


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

    def runs(self, suite: str, who: str, metrics: Sequence[str], factors: Mapping[str, Any]) -> np.ndarray:
        """Metrics of every run that has all of them, at the points with these factors: `[metrics, runs]`."""
        results, contender = self.results(suite), self.contender(suite, who)
        values = np.array([list(results.by_case(contender, metric, **factors).values()) for metric in metrics])
        values = values[:, ~np.isnan(values).any(axis=0)]
        if not values.size:
            where = ", ".join(f"{k} = {v}" for k, v in factors.items())
            raise Missing(f"needs runs of {suite}{' at ' + where if where else ''} (a larger profile)")
        return values

    def levels(self, suite: str, factor: str) -> Iterator[Any]:
        """The values of a factor among the points of the results."""
        return iter(dict.fromkeys(p[factor] for p in self.results(suite).points() if factor in p))


def t_test(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
    """Student's t of the difference of means (equal variances, as the GEO papers), its p, and Cohen's d."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    test = stats.ttest_ind(a, b)
    spread = np.sqrt(((a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)) / (a.size + b.size - 2))
    d = abs(a.mean() - b.mean()) / spread if spread > 0 else float("inf")
    return float(test.statistic), float(test.pvalue), float(d)


def ellipse(x: np.ndarray, y: np.ndarray) -> float:
    """Area of the ellipse of one standard deviation."""
    return float(np.pi * np.sqrt(max(np.linalg.det(np.cov([x, y])), 0.0)))


@dataclass(frozen=True)
class Statistic:
    """A number from runs. metrics: suffixes of what else it reads of each run. against: needs a second contender."""

    words: str
    of: Callable[..., Any]
    metrics: tuple[str, ...] = ()
    against: bool = False


STATISTICS: Mapping[str, Statistic] = {
    "median": Statistic("median", np.median),
    "mean": Statistic("mean", np.mean),
    "max": Statistic("largest", np.max),
    "sd": Statistic("standard deviation over runs of", lambda x: x.std(ddof=1)),
    # Over the seconds of all runs.
    "pooled": Statistic("mean", lambda *samples: pooled(*samples)[0], ("{}_sd", "seconds")),
    "pooled_sd": Statistic("standard deviation of", lambda *samples: pooled(*samples)[1], ("{}_sd", "seconds")),
    "runs": Statistic("", lambda x: x),
    "ellipse": Statistic("area of the ellipse of goodput and", ellipse, ("goodput_share",)),
    "t": Statistic("t of", lambda a, b: t_test(a, b)[0], against=True),
    "p": Statistic("p of", lambda a, b: t_test(a, b)[1], against=True),
    "d": Statistic("Cohen's d of", lambda a, b: t_test(a, b)[2], against=True),
}


def rank_correlation(numbers: Mapping[Labels, float]) -> float:
    """Spearman's, of the level of the only factor and the number."""
    if len(numbers) < 3:
        raise Missing("needs more RTTs (a larger profile)")
    return float(stats.spearmanr([labels[0][1] for labels in numbers], list(numbers.values())).statistic)


@dataclass(frozen=True)
class Reduction:
    """One number from several with labels. words: with {} for the factors, and for the numbers."""

    words: str
    of: Callable[[Mapping[Labels, float]], float]


REDUCTIONS: Mapping[str, Reduction] = {
    "mean": Reduction("mean over {} of {}", lambda x: float(np.mean(list(x.values())))),
    "median": Reduction("median over {} of {}", lambda x: float(np.median(list(x.values())))),
    "min": Reduction("smallest over {} of {}", lambda x: min(x.values())),
    "max": Reduction("largest over {} of {}", lambda x: max(x.values())),
    "count": Reduction("number of {} with ({})", lambda x: int(sum(x.values()))),
    "share": Reduction("share of {} with ({})", lambda x: float(np.mean(list(x.values())))),
    "size": Reduction("number of {} of {}", len),
    "rank_correlation": Reduction("rank correlation of {} and {}", rank_correlation),
}
