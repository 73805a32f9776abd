"""Bootstrap intervals: of medians over runs, of differences paired by seed, and over training seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orbitcc.common.errors import OrbitccError

Scores = NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 10_000
_BLOCK = 500
"""Resamples per block, which limits memory."""
_SEED = 20260101
"""Seed of the resampling, so that the same values give the same interval."""


MIN_PAIRS = 6
"""Fewer runs have no interval and no verdict.

Five runs that all point the same way are chance in 2 x 0.5^5 = 6 % of cases (sign test), six in 3 %. For the same
reason even the smallest and the largest of five runs have the median between them in 94 % of cases only.
"""


FEWEST = 5
"""Fewer training seeds have no interval.

The percentile interval of the interquartile mean of n normal scores contains their mean in 52, 73, 85, 90 and 91 % of
cases for n = 2, 3, 4, 5 and 10: with few seeds it is too narrow for 95 %.
"""


@dataclass(frozen=True)
class Estimate:
    """A median over n runs and its percentile bootstrap interval (NaN bounds with fewer than `MIN_PAIRS` runs)."""

    median: float
    low: float
    high: float
    n: int

    @property
    def has_interval(self) -> bool:
        return self.n >= MIN_PAIRS


def median(values: Iterable[float]) -> float:
    """The median; NaN values are left out, and NaN if none is left."""
    known = [value for value in values if value == value]
    return float(np.median(known)) if known else float("nan")


def median_estimate(values: Iterable[float]) -> Estimate:
    """Median and 95 % bootstrap interval; NaN values (a run in which the metric has no meaning) are left out.

    Fewer than `MIN_PAIRS` values have no interval.
    """
    x = np.asarray(list(values), dtype=np.float64)
    x = x[~np.isnan(x)]
    if x.size < MIN_PAIRS:
        return Estimate(median(x), float("nan"), float("nan"), int(x.size))
    from scipy.stats import bootstrap  # a slow import, needed only here

    interval = bootstrap(
        (x,),
        np.median,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",  # the bias-corrected form has no value for a median of equal numbers
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return Estimate(float(np.median(x)), float(interval.low), float(interval.high), int(x.size))


def paired_difference(first: Mapping[Any, float], second: Mapping[Any, float]) -> Estimate:
    """Median of `first - second` over the cases both have, in whatever order the runs finished."""
    return median_estimate(first[case] - second[case] for case in sorted(first.keys() & second.keys()))


def mean_of_groups(groups: Sequence[Sequence[float]]) -> Aggregate:
    """The mean over groups of the means of their values, and its 95 % t-interval.

    The variance is that within groups, pooled over them; NaN bounds where no group has two values. `runs` of the result
    counts values, `tasks` groups.
    """
    from scipy.special import stdtrit

    means, sizes = np.array([np.mean(group) for group in groups]), np.array([len(group) for group in groups])
    value, freedom, half = float(means.mean()), int(sizes.sum()) - len(sizes), float("nan")
    if freedom > 0:
        squares = sum(
            float(np.square(np.subtract(group, mean)).sum()) for group, mean in zip(groups, means, strict=True)
        )
        error = np.sqrt(squares / freedom * (1 / sizes).sum()) / len(sizes)
        half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2) * error)
    return Aggregate(value, value - half, value + half, int(sizes.sum()), len(sizes))


def pooled(means: ArrayLike, deviations: ArrayLike, counts: ArrayLike) -> tuple[Scores, Scores]:
    """Mean and population standard deviation of samples known by group: `[..., groups]` -> `[...]`.

    Groups without a mean are left out; NaN if none is left.
    """
    n, m, s = (np.asarray(x, dtype=np.float64) for x in (counts, means, deviations))
    known = (n > 0) & ~np.isnan(m)
    n, m, s = (np.where(known, x, 0.0) for x in (n, m, s))
    total = np.where(n.any(axis=-1), n.sum(axis=-1), np.nan)
    mean = np.asarray((n * m).sum(axis=-1) / total)
    variance = (n * (s**2 + (m - mean[..., None]) ** 2)).sum(axis=-1) / total
    return mean, np.asarray(np.sqrt(variance))


Standing = Literal["better", "worse", "tied", "too few runs"]


def verdict(difference: Estimate, better: Literal["higher", "lower"]) -> Standing:
    """Standing of the first side of a paired difference: tied if the interval contains zero."""
    if difference.n < MIN_PAIRS:
        return "too few runs"
    if difference.low <= 0 <= difference.high:
        return "tied"
    return "better" if (difference.median > 0) == (better == "higher") else "worse"


# -- over training runs (Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS
# 2021): scores are [runs, tasks], a run being a training seed; runs of different tasks have nothing in common ---------


@dataclass(frozen=True)
class Aggregate:
    """A statistic over runs x tasks and its percentile interval from stratified bootstrap resamples.

    NaN bounds with fewer than `FEWEST` runs.
    """

    value: float
    low: float
    high: float
    runs: int
    tasks: int

    @property
    def has_interval(self) -> bool:
        return self.low == self.low


@dataclass(frozen=True)
class Profile:
    """The share of runs x tasks that score more than each threshold, with pointwise intervals; all [thresholds]."""

    thresholds: Scores
    share: Scores
    low: Scores
    high: Scores


def interquartile_mean(scores: Scores) -> Scores:
    """Mean of the middle half of all runs and tasks: `[..., runs, tasks]` -> `[...]`.

    The lowest and the highest `floor(n / 4)` of n scores are left out.
    """
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(axis=-1))


def aggregate(scores: ArrayLike, statistic: Callable[[Scores], Scores] = interquartile_mean) -> Aggregate:
    """A statistic `[..., runs, tasks]` -> `[...]` of scores [runs, tasks] or [runs], and its 95 % interval.

    Raises:
        OrbitccError: no scores, or one that is not finite.
    """
    x = _runs_by_tasks(scores)
    low, high = _interval(_resampled([x], lambda samples: statistic(samples[0])), len(x) >= FEWEST)
    return Aggregate(float(statistic(x)), float(low), float(high), *x.shape)


def probability_of_improvement(first: ArrayLike, second: ArrayLike) -> Aggregate:
    """How likely a run of `first` beats a run of `second` on the same task, mean over tasks; ties count half.

    Mann and Whitney's U over the number of pairs. Both [runs, tasks] or [runs], runs may differ in number.

    Raises:
        OrbitccError: other tasks, no scores, or one that is not finite.
    """
    x, y = _runs_by_tasks(first), _runs_by_tasks(second)
    if x.shape[1] != y.shape[1]:
        raise OrbitccError("second", list(y.shape), f"scores of {x.shape[1]} tasks, as the first")

    def wins(samples: Sequence[Scores]) -> Scores:
        a, b = samples[0][..., :, None, :], samples[1][..., None, :, :]
        return np.asarray(((a > b) + 0.5 * (a == b)).mean(axis=(-3, -2, -1)))

    low, high = _interval(_resampled([x, y], wins), min(len(x), len(y)) >= FEWEST)
    return Aggregate(float(wins([x, y])), float(low), float(high), len(x) + len(y), x.shape[1])


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> Profile:
    """Score distribution of scores [runs, tasks] or [runs]: the share above each threshold, and its 95 % interval.

    Raises:
        OrbitccError: no scores, or one that is not finite.
    """
    x, limits = _runs_by_tasks(scores), np.asarray(thresholds, dtype=np.float64)

    def above(samples: Sequence[Scores]) -> Scores:
        return np.stack([(samples[0] > limit).mean(axis=(-2, -1)) for limit in limits], axis=-1)

    low, high = _interval(_resampled([x], above), len(x) >= FEWEST)
    return Profile(limits, above([x]), low, high)


def _runs_by_tasks(scores: ArrayLike) -> Scores:
    x = np.asarray(scores, dtype=np.float64)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0 or not np.isfinite(x).all():
        raise OrbitccError("scores", np.asarray(scores).tolist(), "finite numbers, [runs] or [runs, tasks]")
    return x


def _resampled(groups: Sequence[Scores], statistic: Callable[[Sequence[Scores]], Scores]) -> Scores:
    """The statistic of every resample, [RESAMPLES, ...]: runs are drawn anew within each task of each group."""
    rng = np.random.default_rng(_SEED)
    parts = []
    for _ in range(RESAMPLES // _BLOCK):
        draws = [rng.integers(len(x), size=(_BLOCK, *x.shape)) for x in groups]
        samples = [np.take_along_axis(x[None], draw, axis=1) for x, draw in zip(groups, draws, strict=True)]
        parts.append(statistic(samples))
    return np.concatenate(parts)


def _interval(resampled: Scores, exists: bool) -> tuple[Scores, Scores]:
    if not exists:
        return np.full(resampled.shape[1:], np.nan), np.full(resampled.shape[1:], np.nan)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], axis=0)
    return low, high
