"""Names beside the points of a figure: placed so that they do not overlap, the same way every time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ANGLES = 24
REACHES = (9.0, 13.0, 18.0, 25.0, 34.0, 45.0, 58.0, 73.0, 90.0, 110.0)
"""How far a name may stand from its point, in points (1/72 inch)."""
SWEEPS = 6


def reach(offset: Array, size: Array) -> float:
    """The part of the way from a point to the middle of its name at which the name's box begins."""
    inside = min((size / 2) / np.maximum(np.abs(offset), 1e-9))
    return max(0.0, 1.0 - float(inside))


def place(points: Array, sizes: Array, box: tuple[float, float, float, float]) -> Array:
    """Middles of names [N, 2] beside their points [N, 2] that overlap neither each other nor the points.

    Every name takes the cheapest of `ANGLES` x `REACHES` places, in turn and again: overlaps cost most, then names and
    points that its line crosses, then the distance. The same input gives the same places.
    """
    turn = np.arange(ANGLES) * 2 * np.pi / ANGLES
    unit = np.column_stack([np.cos(turn), np.sin(turn)])
    offsets = np.array([far * u for far in REACHES for u in unit])
    # Names are wide: those to the left of a point end there, those to the right begin there.
    sideways = np.clip(offsets[:, :1] / REACHES[0], -1, 1) * (1, 0)
    middles = np.array(points, dtype=float)
    placed = np.zeros(len(points), dtype=bool)
    crowd = [(np.hypot(*(points - p).T) < 60).sum() for p in points]
    order = sorted(range(len(points)), key=lambda i: (-crowd[i], points[i][1], points[i][0], i))
    for _ in range(SWEEPS):
        for i in order:
            candidates = points[i] + offsets + sideways * sizes[i] / 2
            others, rest = placed & (np.arange(len(points)) != i), np.delete(points, i, axis=0)
            cost = 0.6 * np.hypot(*offsets.T)
            cost += 60 * covered(candidates, sizes[i], middles[others], sizes[others])
            cost += 60 * covered(candidates, sizes[i], points, np.full(sizes.shape, 8.0))
            cost += 1e4 * outside(candidates, sizes[i], box)
            cost += 25 * crossed(points[i], candidates, middles[others], sizes[others])
            cost += 25 * crossed(points[i], candidates, rest, np.full(rest.shape, 6.0))
            middles[i], placed[i] = candidates[int(np.argmin(cost))], True
    return middles


def covered(middles: Array, size: Array, others: Array, sizes: Array) -> Array:
    """How deep boxes of one size at `middles` reach into the other boxes, summed: 0 where they are free."""
    gap = np.abs(middles[:, None, :] - others[None]) - (size + sizes[None]) / 2
    depth = np.minimum(-gap[..., 0], -gap[..., 1])
    return np.where(depth > 0, 1 + depth, 0).sum(axis=1)


def outside(middles: Array, size: Array, box: tuple[float, float, float, float]) -> Array:
    low, high = middles - size / 2, middles + size / 2
    return np.maximum(0, np.column_stack([np.array(box[:2]) - low, high - np.array(box[2:])])).sum(axis=1)


def crossed(point: Array, middles: Array, others: Array, sizes: Array) -> Array:
    """Through how many boxes the straight line from the point to each middle runs."""
    steps = np.linspace(0, 1, 12)[1:-1, None, None]
    way = point + steps * (middles - point)
    inside = np.abs(way[:, :, None, :] - others) < sizes / 2
    return inside.all(axis=-1).any(axis=0).sum(axis=1)
