"""How sure a number is: medians over runs with bootstrap intervals, and differences paired by seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 10_000
_SEED = 20260101
"""Of the resampling: the same values give the same interval, every time."""


MIN_PAIRS = 6
"""Fewer runs that all point the same way still are chance in more than 5 % of cases (sign test: 2 x 0.5^5 = 6 %)."""


@dataclass(frozen=True)
class Estimate:
    """A median over n runs and its percentile bootstrap interval (NaN bounds when a single run allows none)."""

    median: float
    low: float
    high: float
    n: int

    @property
    def has_interval(self) -> bool:
        return self.n > 1


def median_estimate(values: Iterable[float]) -> Estimate:
    """Median and 95 % bootstrap interval; NaN values (a run in which the metric has no meaning) are left out."""
    x = np.asarray(list(values), dtype=np.float64)
    x = x[~np.isnan(x)]
    if x.size == 0:
        return Estimate(float("nan"), float("nan"), float("nan"), 0)
    if x.size == 1:
        return Estimate(float(x[0]), float("nan"), float("nan"), 1)
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
    """Median of `first - second` over the cases both have."""
    return median_estimate(first[case] - second[case] for case in first if case in second)


def pooled(means: Sequence[float], deviations: Sequence[float], counts: Sequence[float]) -> tuple[float, float]:
    """Mean and population standard deviation of samples known by group."""
    n, m, s = (np.asarray(x, dtype=np.float64) for x in (counts, means, deviations))
    known = (n > 0) & ~np.isnan(m)
    n, m, s = n[known], m[known], s[known]
    if n.sum() == 0:
        return float("nan"), float("nan")
    mean = float((n * m).sum() / n.sum())
    return mean, float(np.sqrt((n * (s**2 + (m - mean) ** 2)).sum() / n.sum()))


Verdict = Literal["better", "worse", "tied", "too few runs"]


def verdict(difference: Estimate, better: Literal["higher", "lower"]) -> Verdict:
    """What a paired difference says of its first side: tied if the interval holds zero."""
    if difference.n < MIN_PAIRS:
        return "too few runs"
    if difference.low <= 0 <= difference.high:
        return "tied"
    return "better" if (difference.median > 0) == (better == "higher") else "worse"
