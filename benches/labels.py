"""Names beside the points of a figure: placed so that they do not overlap, the same way every time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ANGLES = 24
REACHES = (7.0, 10.0, 14.0, 20.0, 28.0, 38.0, 50.0, 65.0, 82.0, 100.0)
"""How far a name may stand from its point, in points (1/72 inch)."""
POINT = 8.0
"""The width and height of a point."""
STARTS, SWEEPS = 6, 5


def reach(offset: Array, size: Array) -> float:
    """The part of the way from a point to the middle of its name at which the name's box begins."""
    inside = min((size / 2) / np.maximum(np.abs(offset), 1e-9))
    return max(0.0, 1.0 - float(inside))


def place(points: Array, sizes: Array, box: Array) -> Array:
    """Middles of names [N, 2] beside their points [N, 2] that overlap neither each other nor the points.

    box: the left, lower, right and upper edge of the area they may use.

    Every name takes the cheapest of `ANGLES` x `REACHES` places, in turn and again, in each of `STARTS` orders; the
    cheapest result counts. The same input gives the same places.
    """
    turn = np.arange(ANGLES) * 2 * np.pi / ANGLES
    offsets = np.array([far * np.array([np.cos(a), np.sin(a)]) for far in REACHES for a in turn])
    # Names are wide: those to the left of a point end there, those to the right begin there.
    sideways = np.clip(offsets[:, :1] / REACHES[0], -1, 1) * (0.5, 0)
    places = points[:, None] + offsets + sideways * sizes[:, None]
    fixed = np.array([alone(i, places[i], points, sizes[i], box) for i in range(len(points))])
    fixed += np.hypot(*offsets.T)
    best, least = np.zeros(len(points), dtype=int), np.inf
    for start in range(STARTS):
        order = np.random.default_rng(start).permutation(len(points))
        chosen = np.full(len(points), -1)
        costs = np.zeros(len(points))
        for _ in range(SWEEPS):
            for i in order:
                others = np.flatnonzero((chosen >= 0) & (np.arange(len(points)) != i))
                middles = places[others, chosen[others]]
                cost = fixed[i] + beside(points[i], places[i], sizes[i], points[others], middles, sizes[others])
                chosen[i] = int(np.argmin(cost))
                costs[i] = cost[chosen[i]]
        if costs.sum() < least:
            best, least = chosen, costs.sum()
    return places[np.arange(len(points)), best]


def alone(i: int, middles: Array, points: Array, size: Array, box: Array) -> Array:
    """What each place of name i costs before any other name has one."""
    rest = np.delete(points, i, axis=0)
    cost = 60 * covered(middles, size, points, np.full(points.shape, POINT))
    cost += 1e4 * outside(middles, size, box)
    cost += 20 * crossed(points[i], middles, rest, np.full(rest.shape, POINT - 2))
    return cost + 30 * ambiguous(points[i], middles, size, rest)


def beside(point: Array, middles: Array, size: Array, points: Array, taken: Array, sizes: Array) -> Array:
    """What each place of a name costs beside the other names: overlaps, lines through names, lines through lines."""
    cost = 60 * covered(middles, size, taken, sizes)
    cost += 20 * crossed(point, middles, taken, sizes)
    # Lines of the others through this name.
    steps = np.linspace(0, 1, 12)[1:-1, None, None]
    way = (points + steps * (taken - points)).reshape(-1, 2)
    inside = (np.abs(way[None] - middles[:, None]) < size / 2).all(axis=-1)
    cost += 20 * inside.reshape(len(middles), 10, -1).any(axis=1).sum(axis=1)
    return cost + 12 * intersections(point, middles, points, taken)


def covered(middles: Array, size: Array, others: Array, sizes: Array) -> Array:
    """How deep boxes of one size at `middles` reach into the other boxes, summed: 0 where they are free."""
    gap = np.abs(middles[:, None, :] - others[None]) - (size + sizes[None]) / 2
    depth = np.minimum(-gap[..., 0], -gap[..., 1])
    return np.where(depth > 0, 1 + depth, 0).sum(axis=1)


def ambiguous(point: Array, middles: Array, size: Array, others: Array) -> Array:
    """How many other points a name at each middle stands as near to as to its own."""
    own, other = (np.maximum(np.abs(middles[:, None, :] - p) - size / 2, 0) for p in (point, others))
    near = np.minimum(np.hypot(own[..., 0], own[..., 1]) + 3, 9)
    return (np.hypot(other[..., 0], other[..., 1]) < near).sum(axis=1)


def outside(middles: Array, size: Array, box: Array) -> Array:
    """How far boxes at `middles` reach out of the area."""
    low, high = middles - size / 2, middles + size / 2
    return np.maximum(0, np.column_stack([box[:2] - low, high - box[2:]])).sum(axis=1)


def crossed(point: Array, middles: Array, others: Array, sizes: Array) -> Array:
    """Through how many boxes the straight line from the point to each middle runs."""
    steps = np.linspace(0, 1, 12)[1:-1, None, None]
    way = point + steps * (middles - point)
    inside = np.abs(way[:, :, None, :] - others) < sizes / 2
    return inside.all(axis=-1).any(axis=0).sum(axis=1)


def intersections(point: Array, middles: Array, points: Array, taken: Array) -> Array:
    """How many of the lines from `points` to `taken` the line from the point to each middle cuts."""

    def side(a: Array, b: Array, c: Array) -> Array:
        ab, ac = b - a, c - a
        return np.sign(ab[..., 0] * ac[..., 1] - ab[..., 1] * ac[..., 0])

    end, q, r = middles[:, None], points[None], taken[None]
    cut = (side(point, end, q) * side(point, end, r) < 0) & (side(q, r, point[None, None]) * side(q, r, end) < 0)
    return cut.sum(axis=1)
