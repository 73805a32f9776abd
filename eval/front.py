"""The Pareto front of goodput against delay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from orbitcc.eval.results import Results
from orbitcc.eval.statistics import MIN_PAIRS, median_estimate
from orbitcc.eval.suites.base import Metric

TIE = 0.005
"""Share of the range of a metric within which values count as equal."""
USES_THE_LINK = 0.8
"""Below this part of the largest goodput a contender leaves the link idle, and low delay is no merit."""

SHARES = ("goodput_share", "goodput_over_optimal", "utilisation")
"""Metrics that say which share of the link is used; a suite has one of them, or none."""


def pareto(values: Mapping[str, Sequence[float]], metrics: Sequence[Metric]) -> set[str]:
    """Contenders on the Pareto front: no other is at least as good in all metrics and better in one."""
    away = {
        name: [m.ideal - v if m.better == "higher" else v - m.ideal for v, m in zip(row, metrics, strict=True)]
        for name, row in values.items()
    }
    table = np.array(list(away.values()))
    tie = TIE * (np.nanmax(table, axis=0) - np.nanmin(table, axis=0))

    def beats(one: np.ndarray, other: np.ndarray) -> bool:
        return bool((one <= other + tie).all() and (one < other - tie).any())

    rows = {name: np.nan_to_num(np.array(row), nan=np.inf) for name, row in away.items()}
    return {name for name, row in rows.items() if not any(beats(other, row) for other in rows.values())}


def trade(results: Results) -> tuple[Metric, Metric] | None:
    """The metrics of goodput and delay, if the suite has both."""
    if results.suite.trade is None:
        return None
    known = {metric.key: metric for metric in results.suite.metrics}
    goodput, delay = results.suite.trade
    return known[goodput], known[delay]


def front(results: Results) -> list[str]:
    """Contenders on the front of goodput against delay by their medians, in order.

    Nobody where the suite does not measure both, or where runs are too few to tell contenders apart. Contenders
    without a value in some run are left out.
    """
    metrics = trade(results)
    if metrics is None:
        return []
    out = {label for metric in metrics for label in results.gaps(metric.key)}
    among = [c for c in results.contenders if c.label not in out]
    runs = {c.label: [list(results.by_case(c, m.key).values()) for m in metrics] for c in among}
    if len(runs) < 2 or min(len(own[0]) for own in runs.values()) < MIN_PAIRS:
        return []
    found = pareto({label: [float(np.nanmedian(v)) for v in own] for label, own in runs.items()}, metrics)
    return [label for label in runs if label in found]


def idle(results: Results, **factors: Any) -> set[str]:
    """Contenders with less than `USES_THE_LINK` of the largest median goodput, or of the link (`idle_by_share`).

    factors: only at points with these.
    """
    metrics = trade(results)
    if metrics is None:
        return set()
    if idle_by_share(results):
        return set(unused(results, **factors))
    goodput = {c.label: results.by_case(c, metrics[0].key, **factors) for c in results.contenders}
    medians = {label: median_estimate(runs.values()).median for label, runs in goodput.items()}
    most = max(medians.values(), default=0.0)
    return {label for label, median in medians.items() if median < USES_THE_LINK * most}


def idle_by_share(results: Results) -> bool:
    """Does the use of the link, not the largest goodput, say who leaves the link idle?"""
    measured = {metric.key for metric in results.suite.metrics}
    trades = results.suite.trade
    return trades is not None and trades[0] not in SHARES and bool(measured & set(SHARES))


def unused(results: Results, **factors: Any) -> dict[str, float]:
    """Label -> median share of the link that the flows use, for contenders that leave a fifth or more of it unused.

    Fair shares and short queues are no merit there. Nobody where the suite does not measure the share. factors: only at
    points with these.
    """
    found = {}
    for contender in results.contenders:
        share = low_share({key: list(results.by_case(contender, key, **factors).values()) for key in SHARES})
        if share is not None:
            found[contender.label] = share
    return found


def low_share(runs: Mapping[str, Sequence[float]]) -> float | None:
    """The median share of the link that is used, if it is measured and leaves a fifth or more unused.

    runs: metric of `SHARES` -> its value in each run.
    """
    for key in SHARES:
        used = median_estimate(runs[key])
        if used.n:
            return used.median if used.median < USES_THE_LINK else None
    return None
