"""The runs that are judged, and numbers with labels made from them.

Every number is an array: the measured value first, then its values in bootstrap resamples of the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from orbitcc.eval.results import value_of
from orbitcc.eval.statistics import pooled

if TYPE_CHECKING:
    from orbitcc.eval.contenders import Contender
    from orbitcc.eval.results import Results

Labels = tuple[tuple[str, Any], ...]
"""Factor and level, for every factor."""

Array = NDArray[Any]

RESAMPLES = 2_000
TAIL = 2.5
"""Percent of the resamples on either side of a 95 % interval."""
_SEED = 20260101
"""Seed of the resampling, so that the same runs give the same verdict."""


NO_ASTRAEA = "needs a policy with the observation astraea, e.g. the released one (orbitcc import astraea)"


class Missing(Exception):
    """What a claim asks for is not there: runs, or something to run; the text says what."""


class NoNumberError(Missing):
    """A figure of a claim is NaN."""


@dataclass(frozen=True)
class Labelled:
    """Numbers by labels; `value["bbr3"]` selects a level, formats list every number with its labels.

    The factor "" stands for any factor that has the level. Arrays of length 1 are without resamples.
    """

    numbers: Mapping[Labels, Array]

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
        """Numbers by the format; `cubic 0.61, satcp 0.66` where they have labels.

        Where there are resamples, a number with decimals or without (`f`) is followed by half its 95 % interval.
        """
        return ", ".join(
            " ".join(("/".join(shown(level) for _, level in labels), _with_interval(number, spec))).strip()
            for labels, number in self.numbers.items()
        )

    def combine(self, other: Labelled, operation: Callable[[Array, Array], Array]) -> Labelled:
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

    def change(self, operation: Callable[[Array], Array]) -> Labelled:
        return Labelled({labels: operation(number) for labels, number in self.numbers.items()})

    def groups(self, factors: Sequence[str]) -> dict[Labels, dict[Labels, Array]]:
        """The numbers that differ in these factors alone: the other labels -> these labels -> number."""
        found: dict[Labels, dict[Labels, Array]] = {}
        for labels, number in self.numbers.items():
            rest = tuple(x for x in labels if x[0] not in factors)
            found.setdefault(rest, {})[tuple(x for x in labels if x[0] in factors)] = number
        return found


def shown(level: Any) -> str:
    return f"{level:g}" if isinstance(level, int | float) else str(level)


def _with_interval(number: Array, spec: str) -> str:
    measured = format(number[0], spec)
    if len(number) == 1 or not spec.endswith("f"):
        return measured
    low, high = np.percentile(number[1:], [TAIL, 100 - TAIL])
    return f"{measured} ± {format((high - low) / 2, spec.lstrip('+'))}"


class Evidence:
    """The runs of several suites, asked by controller name.

    resamples: bootstrap resamples of the runs. Run k of a suite is one repetition of it, for every contender and at
    every point, so a resample draws whole repetitions.
    least_runs: of everything that was asked for so far, the smallest number of runs. gaps: who lacked a value in runs.
    """

    def __init__(self, all_results: Mapping[str, Results], resamples: int = 0) -> None:
        self.all_results, self.resamples = all_results, resamples
        self.least_runs = np.inf
        self.gaps: dict[str, None] = {}

    def results(self, suite: str) -> Results:
        if suite not in self.all_results or not self.all_results[suite].rows:
            raise Missing(f"needs the suite {suite}")
        return self.all_results[suite]

    def contender(self, suite: str, who: str) -> Contender:
        """The first contender that is the controller `who`; `astraea`: the first policy with Astraea's observation."""
        entered = self.results(suite).contenders
        if who == "astraea":
            found = [c for c in entered if c.family == who]
        else:
            found = [c for c in entered if c.controller == who]
        if not found:
            raise Missing(NO_ASTRAEA if who == "astraea" else f"needs {who} among the contenders")
        return found[0]

    def runs(self, suite: str, who: str, metrics: Sequence[str], factors: Mapping[str, Any]) -> np.ndarray:
        """Metrics of every run that has all of them, at the point with these factors: `[metrics, 1 + resamples, runs]`.

        The first row are the runs themselves.
        """
        rows = self.results(suite).runs_of(self.contender(suite, who), **factors)
        rows.sort(key=lambda row: row["seed"])
        every = np.array([[value_of(row, metric) for row in rows] for metric in metrics])
        values = every[:, ~np.isnan(every).any(axis=0)]
        if values.size < every.size:
            self.gaps[f"{who} in {values.shape[1]} of {every.shape[1]} runs"] = None
        if not values.size:
            where = " at " * bool(factors) + ", ".join(f"{k} = {v}" for k, v in factors.items())
            if rows:
                raise Missing(f"no run of {suite}{where} has a value of {metrics[0]}")
            raise Missing(f"needs runs of {suite}{where} (a larger profile)")
        self.least_runs = min(self.least_runs, values.shape[1])
        return values[:, draws(values.shape[1], self.resamples)]

    def levels(self, suite: str, factor: str) -> Iterator[Any]:
        """The values of a factor among the points of the results."""
        return iter(dict.fromkeys(p[factor] for p in self.results(suite).points() if factor in p))


@cache
def draws(runs: int, resamples: int) -> Array:
    """Numbers of runs `[1 + resamples, runs]`: every run once, then with replacement."""
    drawn = np.random.default_rng([_SEED, runs]).integers(runs, size=(resamples, runs))
    return np.concatenate((np.arange(runs)[None], drawn))


def t_test(first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Student's t of the difference of means (equal variances, as the GEO papers), its p, and Cohen's d.

    `[..., runs]` -> `[...]` each.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n, m = a.shape[-1], b.shape[-1]
    spread = np.sqrt(((n - 1) * a.var(axis=-1, ddof=1) + (m - 1) * b.var(axis=-1, ddof=1)) / (n + m - 2))
    difference = a.mean(axis=-1) - b.mean(axis=-1)
    t = difference / (spread * np.sqrt(1 / n + 1 / m))
    return t, 2 * stats.t.sf(np.abs(t), n + m - 2), np.abs(difference) / spread


def ellipse(x: Array, y: Array) -> Array:
    """Area of the ellipse of one standard deviation: `[..., runs]` -> `[...]`."""
    dx, dy = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    xx, yy, xy = ((a * b).sum(axis=-1) / (x.shape[-1] - 1) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    return np.asarray(np.pi * np.sqrt(np.maximum(xx * yy - xy**2, 0.0)))


@dataclass(frozen=True)
class RunStatistic:
    """A number from runs: `[..., runs]` -> `[...]`.

    metrics: suffixes of what else it reads of each run. against: needs a second contender.
    """

    words: str
    of: Callable[..., Any]
    metrics: tuple[str, ...] = ()
    against: bool = False


STATISTICS: Mapping[str, RunStatistic] = {
    "median": RunStatistic("median", lambda x: np.median(x, axis=-1)),
    "mean": RunStatistic("mean", lambda x: x.mean(axis=-1)),
    "sd": RunStatistic("standard deviation over runs of", lambda x: x.std(axis=-1, ddof=1)),
    # Over the seconds of all runs.
    "pooled": RunStatistic("mean", lambda *samples: pooled(*samples)[0], ("{}_sd", "seconds")),
    "pooled_sd": RunStatistic("standard deviation of", lambda *samples: pooled(*samples)[1], ("{}_sd", "seconds")),
    "runs": RunStatistic("", lambda x: x),
    "ellipse": RunStatistic("area of the ellipse of goodput and", ellipse, ("goodput_share",)),
    "t": RunStatistic("t of", lambda a, b: t_test(a, b)[0], against=True),
    "p": RunStatistic("p of", lambda a, b: t_test(a, b)[1], against=True),
    "d": RunStatistic("Cohen's d of", lambda a, b: t_test(a, b)[2], against=True),
}


def rank_correlation(levels: Sequence[Labels], numbers: Array) -> Array:
    """Spearman's, of the level of the only factor and the number."""
    if len(levels) < 3:
        raise Missing("needs more RTTs (a larger profile)")
    x = stats.rankdata([labels[0][1] for labels in levels])[:, None]
    y = stats.rankdata(numbers, axis=0)
    dx, dy = x - x.mean(), y - y.mean(axis=0)
    return np.asarray((dx * dy).sum(axis=0) / np.sqrt((dx**2).sum() * (dy**2).sum(axis=0)))


@dataclass(frozen=True)
class Reduction:
    """One number from several with labels: labels and `[numbers, ...]` -> `[...]`.

    words: with {} for the factors, and for the numbers.
    """

    words: str
    of: Callable[[Sequence[Labels], Array], Array]


REDUCTIONS: Mapping[str, Reduction] = {
    "mean": Reduction("mean over {} of {}", lambda _, x: x.mean(axis=0)),
    "median": Reduction("median over {} of {}", lambda _, x: np.median(x, axis=0)),
    "min": Reduction("smallest over {} of {}", lambda _, x: x.min(axis=0)),
    "max": Reduction("largest over {} of {}", lambda _, x: x.max(axis=0)),
    "count": Reduction("number of {} with ({})", lambda _, x: x.sum(axis=0).astype(int)),
    "share": Reduction("share of {} with ({})", lambda _, x: x.mean(axis=0)),
    "size": Reduction("number of {} of {}", lambda _, x: np.full(x.shape[1], len(x))),
    "rank_correlation": Reduction("rank correlation of {} and {}", rank_correlation),
}
