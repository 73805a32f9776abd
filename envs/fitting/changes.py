"""Change points of a series, and whether they lie on the grid of 15-second slots."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.fitting.recordings import Array

SLOT_S = 15.0
"""Starlink reassigns satellites as often (Tanveer et al. 2023)."""
WINDOW_S, RARE = 0.5, 1e-3
"""Width of the window of the scan test, and its level."""
FEWEST_CHANGES = 4
MOST_BINS = 4000


def segments(values: Array, noise: float) -> list[int]:
    """Where the segments of the best piecewise constant curve start, the first at 0.

    Optimal partitioning (Jackson et al. 2005): the least sum of squares plus 2 `noise`^2 ln n for each segment.
    """
    sums, squares = (np.append(0.0, np.cumsum(v)) for v in (values, values**2))

    def cost(end: int) -> Array:
        return squares[end] - squares[:end] - (sums[end] - sums[:end]) ** 2 / (end - np.arange(end))

    return _partition(values.size, cost, 2 * noise**2 * np.log(max(values.size, 2)))


def rate_segments(events: Array, tries: Array) -> list[int]:
    """Where the segments start in which the share of events among tries is constant, the first at 0.

    As `segments`, with the deviance of a Poisson process, -2 ln L, in place of the sum of squares.
    """
    seen, tried = (np.append(0.0, np.cumsum(v)) for v in (events, tries))

    def cost(end: int) -> Array:
        k, n = seen[end] - seen[:end], np.maximum(tried[end] - tried[:end], 1e-9)
        return -2 * k * np.log(np.maximum(k, 1e-9) / n)

    return _partition(events.size, cost, 2 * np.log(max(events.size, 2)))


def _partition(n: int, cost: Callable[[int], Array], penalty: float) -> list[int]:
    """The starts of the segments with the least sum of costs and penalties.

    cost: of the segments [0, end), [1, end) ... [end - 1, end). The work is of order n^2; n is at most MOST_BINS.
    """
    best = np.full(n + 1, -penalty)
    last = np.zeros(n + 1, np.int64)
    for end in range(1, n + 1):
        total = best[:end] + cost(end) + penalty
        last[end] = total.argmin()
        best[end] = total[last[end]]
    found, end = [], n
    while end > 0:
        end = int(last[end])
        found.append(end)
    return found[::-1]


def step_near(at_s: Array, values: Array, near_s: float, reach_s: float) -> float:
    """The time of a step at most `reach_s` away, where the values before and after it differ most by their means."""
    some = np.flatnonzero(np.abs(at_s - near_s) <= 2 * reach_s)
    before = np.arange(1, some.size)
    left = np.cumsum(values[some])[:-1] / np.maximum(before, 1)
    right = np.cumsum(values[some][::-1])[-2::-1] / np.maximum(some.size - before, 1)
    apart = np.where(
        np.abs(at_s[some[1:]] - near_s) <= reach_s, (left - right) ** 2 * before * (some.size - before), 0.0
    )
    return float(at_s[some[1:]][apart.argmax()]) if apart.any() else near_s


def white_noise(values: Array) -> float:
    """The standard deviation of noise on a piecewise constant curve: that of its steps, by their median."""
    if values.size < 3:
        return 0.0
    return float(np.median(np.abs(np.diff(values)))) / 0.6745 / np.sqrt(2)


def slot_phase(changes_s: Sequence[float] | Array) -> float | None:
    """The phase in [0, 15) s of the slots on whose edges the changes lie; None where they lie anywhere.

    A scan test: m of n changes lie in one window of 0.5 s, modulo 15 s. For changes at any time, this has a probability
    of at most n C(n - 1, m - 1) (0.5 / 15)^(m - 1), which must be below 0.001.
    """
    at = np.sort(np.asarray(changes_s, dtype=np.float64) % SLOT_S)
    n = at.size
    if n < FEWEST_CHANGES:
        return None
    twice = np.append(at, at + SLOT_S)
    inside = np.searchsorted(twice, at + WINDOW_S, side="right") - np.arange(n)
    first = int(inside.argmax())
    m = int(inside[first])
    if m < 2 or n * math.comb(n - 1, m - 1) * (WINDOW_S / SLOT_S) ** (m - 1) > RARE:
        return None
    return float(np.median(twice[first : first + m]) % SLOT_S)


def slot_edges(phase_s: float, end_s: float) -> Array:
    """Edges of slots that cover [0, end_s), from 0; slots at the ends shorter than 0.2 s are joined to others."""
    edges = np.arange(phase_s, end_s, SLOT_S)
    return np.append(0.0, edges[(edges > 0.2) & (edges < end_s - 0.2)])


def by_slot(at_s: Array, values: Array, edges: Array, quantile: float) -> Array:
    """A quantile of the values in each slot; NaN in a slot without any."""
    known = ~np.isnan(values)
    slot = np.searchsorted(edges, at_s[known], side="right") - 1
    order = np.argsort(slot, kind="stable")
    ends, sorted_values = np.searchsorted(slot[order], np.arange(edges.size + 1)), values[known][order]
    found = np.full(edges.size, np.nan)
    for k in range(edges.size):
        here = sorted_values[ends[k] : ends[k + 1]]
        if here.size:
            found[k] = np.quantile(here, quantile)
    return found


def filled(values: Array) -> Array:
    """The values with each NaN replaced by the one before, or the first one after."""
    known = np.flatnonzero(~np.isnan(values))
    return values[known[np.maximum(np.searchsorted(known, np.arange(values.size), side="right") - 1, 0)]]


def runs_of(flags: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First position and length of each run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return edges[::2], edges[1::2] - edges[::2]
