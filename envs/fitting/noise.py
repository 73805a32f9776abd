"""Estimators of random losses and jitter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.description.links import GammaJitter, GilbertElliott
from orbitcc.envs.fitting.changes import MOST_BINS, rate_segments
from orbitcc.envs.fitting.recordings import Array

FEWEST_LOSSES = 5
"""With fewer, run lengths say nothing."""
BLOCK_S = 0.1
"""Mean duration of the blocks in which losses are counted."""
BY_CHANCE, LONGEST_RUN = 0.5, 50
"""Runs of losses that chance makes fewer of are bursts; so are those of LONGEST_RUN packets."""
LEAST_GAP_S, LONGEST_GAP_S = 1e-6, 1.0
"""Packets further apart do not belong to one run."""
LARGEST_SHAPE = 16
MEAN_TAU_MS = 30.0
"""The correlation time where probes are too far apart to show it: the middle of that of published Starlink pings."""
FEWEST_DELAYS = 20
LOW = 0.02
LEAST_JITTER_MS, LEAST_MEDIAN = 0.3, 0.4
"""Where the median is a smaller share of the mean, delays are rare, like those of a queue (exponential: 0.69)."""


@dataclass(frozen=True)
class Losses:
    """Packets that could be lost at random only: when they were sent (s), and which were lost; in order, [N].

    together: whether neighbours in the arrays were sent one after the other, so that runs can be counted. left_s: when
    they left the queue, in order; None: when they were sent.
    """

    sent_s: Array
    lost: NDArray[np.bool_]
    together: NDArray[np.bool_]
    left_s: Array | None = None

    def at_s(self) -> Array:
        """When packets met the losses."""
        return self.sent_s if self.left_s is None else self.left_s

    def near(self) -> NDArray[np.bool_]:
        """Which neighbours can belong to one run, [N - 1]."""
        return self.together[1:] & (np.diff(self.sent_s) < LONGEST_GAP_S)

    def place(self) -> NDArray[np.int64]:
        """The place of each lost packet in its run, from 1; 0 for the others."""
        goes_on = np.append(False, self.lost[1:] & self.lost[:-1] & self.near())
        index = np.arange(self.lost.size)
        first = np.maximum.accumulate(np.where(self.lost & ~goes_on, index, 0))
        return np.where(self.lost, index - first + 1, 0)


@dataclass(frozen=True)
class LossFit:
    """The share of packets lost, its standard error, and the process: a probability or a chain, or steps of either."""

    share: float
    error: float
    model: float | GilbertElliott | list[tuple[float, float]] | list[tuple[float, GilbertElliott]]
    losses: int
    packets: int


def fit_counts(lost: float, packets: float) -> LossFit:
    """Independent losses from counts alone: p = lost / packets, with standard error sqrt(lost) / packets."""
    p = lost / packets if packets else 0.0
    return LossFit(p, max(lost, 1.0) ** 0.5 / max(packets, 1.0), p, round(lost), round(packets))


def fit_losses(several: list[Losses], over_time: Losses | None = None) -> LossFit:
    """Independent losses, or bursts where neighbours are lost together more often than chance would have it.

    over_time: those that first show when the probability changes, if any do. With a probability p of each packet,
    chance gives as many pairs of lost neighbours as the sum of p^2; bursts are assumed from three more plus four
    standard deviations.
    """
    single = fit_counts(sum(int(w.lost.sum()) for w in several), sum(w.lost.size for w in several))
    steps = [(0.0, single.share)] if over_time is None else loss_steps(over_time, several)
    shares = [_at_packets(w) for w in several]
    pairs = sum(int((w.place() > 1).sum()) for w in several)
    chance = sum(float((p[1:] * p[:-1])[w.near()].sum()) for w, p in zip(several, shares, strict=True))
    if single.losses >= FEWEST_LOSSES and pairs > chance + 4 * chance**0.5 + 3:
        length = _longer_than_chance(np.concatenate(shares))
        if any((w.place() >= length).any() for w in several):
            return _bursts(several, single, length, steps)
    return single if len(steps) == 1 else replace(single, model=[(t, round(p, 7)) for t, p in steps])


def _longer_than_chance(shares: Array) -> int:
    """The number of losses in a row that independent losses hardly ever make."""
    return next((k for k in range(2, LONGEST_RUN) if float((shares**k).sum()) < BY_CHANCE), LONGEST_RUN)


def _bursts(several: list[Losses], single: LossFit, length: int, steps: list[tuple[float, float]]) -> LossFit:
    """The two-state chain of Gilbert (1960), sampled when packets are sent.

    In a burst every packet is lost. It lasts on (rate m of ending) until the next packet, d seconds later, with
    probability exp(-m d). m is the most likely one for the packets after the first L = `length` of each run, which
    chance hardly makes: the sum of d over those lost equals that of d / (exp(m d) - 1) over those that end a run. Of
    the bursts that lose a packet, a mean share s of exp(-m D) loses L, over a time D; k runs of L or more are k / s
    bursts. One begins and lasts until the next packet with probability (l / m) (1 - exp(-m d)): the sum over all
    packets gives the rate l. Shorter runs beyond the k / s - k that bursts make are those of the good state.
    """
    gaps, now, then, span = (np.concatenate(v) for v in zip(*(_pairs(w, length) for w in several), strict=True))
    stays, exits = gaps[(now >= length) & (then > 0)], gaps[(now >= length) & (then == 0)]
    held_s = float(stays.sum()) + 0.5 * float(exits.mean() if exits.size else gaps.mean())  # at least half a packet
    low, high = 1e-3, 1e6
    for _ in range(60):
        middle = (low * high) ** 0.5
        too_slow = held_s < float((exits / np.expm1(np.minimum(middle * exits, 700))).sum())
        low, high = (middle, high) if too_slow else (low, middle)
    rate = (low * high) ** 0.5
    runs = int((now == length).sum())
    bursts = runs / float(np.exp(-rate * span[now == 1]).mean())
    short = int((now == 1).sum()) - runs
    alone = max(short - (bursts - runs), 0.0)
    alone = alone if alone > 2 * (bursts - runs) ** 0.5 + 2 else 0.0
    reached = -float(np.expm1(-rate * gaps[now == 0]).sum())
    chain = GilbertElliott(
        good_loss=alone / single.packets, bad_loss=1.0, to_bad_per_s=bursts * rate / reached, to_good_per_s=rate
    )
    error = single.share / (bursts + alone) ** 0.5
    if len(steps) == 1 or not alone:
        return replace(single, error=error, model=chain)
    part = alone / (short + runs)  # of all runs
    return replace(single, error=error, model=[(t, chain.changed(good_loss=round(p * part, 7))) for t, p in steps])


def _pairs(losses: Losses, length: int) -> tuple[Array, NDArray[np.int64], NDArray[np.int64], Array]:
    """Of neighbours that can belong to one run: the time between, both places, and the duration of `length` packets."""
    place, near = losses.place(), losses.near()
    last = np.minimum(np.arange(place.size) + length - 1, place.size - 1)
    span = (losses.sent_s[last] - losses.sent_s)[:-1]
    return np.maximum(np.diff(losses.sent_s)[near], LEAST_GAP_S), place[:-1][near], place[1:][near], span[near]


def _at_packets(losses: Losses) -> Array:
    """The loss probability of each packet, as it changes over time."""
    at, shares = (np.array(v) for v in zip(*loss_steps(losses), strict=True))
    return np.asarray(shares[np.searchsorted(at, losses.at_s(), side="right") - 1])


def loss_steps(losses: Losses, others: Sequence[Losses] = ()) -> list[tuple[float, float]]:
    """The loss probability over time: one step, or more where it changed.

    A run of losses counts once: a burst says no more. The packets after those that arrived are counted in blocks of
    equal size, of 0.1 s on average; `changes.rate_segments` finds where the share of losses among them changes.
    others: of further recordings, which show the times that `losses` says nothing about, as behind a full queue.
    """
    at_s, lost = _tries(losses)
    if lost.sum() < FEWEST_LOSSES:
        return [(0.0, float(lost.mean()) if lost.size else 0.0)]
    blocks = min(max(float(at_s[-1] - at_s[0]) / BLOCK_S, 1.0), MOST_BINS)
    size = math.ceil(lost.size / blocks)
    for other in sorted(others, key=lambda w: -w.lost.size):
        at_s, lost = _with_gaps_filled(at_s, lost, *_tries(other))
    index = np.arange(lost.size)
    stretch = np.maximum.accumulate(np.where(np.append(True, np.diff(at_s) > LONGEST_GAP_S), index, 0))
    first = np.flatnonzero((index - stretch) % size == 0)
    runs, packets = np.add.reduceat(lost.astype(np.float64), first), np.diff(np.append(first, lost.size)).astype(float)
    starts = rate_segments(runs, packets)
    ends = [*starts[1:], first.size]
    begin_s = (at_s[first] + at_s[np.maximum(first - 1, 0)]) / 2  # no packet shows where between
    return [
        (0.0 if a == 0 else round(float(begin_s[a]), 3), float(runs[a:b].sum() / packets[a:b].sum()))
        for a, b in zip(starts, ends, strict=True)
    ]


def _tries(losses: Losses) -> tuple[Array, NDArray[np.bool_]]:
    """Times and losses of the packets after those that arrived."""
    tried = np.append(True, ~(losses.lost[:-1] & losses.near())) if losses.lost.size else losses.lost
    return losses.at_s()[tried], losses.lost[tried]


def _with_gaps_filled(
    at_s: Array, lost: NDArray[np.bool_], more_s: Array, more: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_]]:
    """The packets of one recording, and those of another in gaps of more than BLOCK_S."""
    edges = np.concatenate(([0.0], at_s, [np.inf]))
    past = np.clip(np.searchsorted(edges, more_s, side="right"), 1, edges.size - 1)
    inside = (edges[past] - edges[past - 1] > BLOCK_S) & (more_s < at_s[-1])
    both_s, both = np.append(at_s, more_s[inside]), np.append(lost, more[inside])
    order = np.argsort(both_s, kind="stable")
    return both_s[order], both[order]


def fit_jitter(at_s: Array, excess_ms: Array) -> tuple[GammaJitter | None, float]:
    """The Gamma jitter of one direction from RTTs above some base, and by how much that base is too long, in ms.

    An RTT has the sum of two such delays: a Gamma distribution of twice the shape and the same scale, beyond a shift.
    With standard deviation s and shape K, the mean lies s sqrt(K) above the shift. K is the even number for which the
    distance from the 2nd percentile to the mean, in units of s, comes closest. The longest 1 % count as the 99th
    percentile. The correlation time follows from the correlation r of neighbours, dt apart: tau = -dt / ln(r) if
    r > 0.2, otherwise it is 30 ms. None: jitter is negligible, or rare as in a queue.
    """
    from scipy.special import gammaincinv

    known = ~np.isnan(excess_ms)
    if known.sum() < FEWEST_DELAYS:
        return None, 0.0
    at_s, excess = at_s[known], np.minimum(excess_ms[known], np.nanquantile(excess_ms, 0.99))
    low, mean, sd = float(np.quantile(excess, LOW)), float(excess.mean()), float(excess.std())
    if mean - low < LEAST_JITTER_MS or np.median(excess) - low < LEAST_MEDIAN * (mean - low):
        return None, 0.0
    shapes = np.arange(1, LARGEST_SHAPE + 1)
    both = 2 * shapes
    shape = int(shapes[np.abs((both - gammaincinv(both, LOW)) / both**0.5 - (mean - low) / sd).argmin()])
    each = sd * (2 * shape) ** 0.5 / 2
    jitter = GammaJitter(mean_ms=round(each, 3), shape=shape, tau_ms=round(_correlation_ms(at_s, excess), 1))
    return jitter, 2 * each - mean


def _correlation_ms(at_s: Array, excess_ms: Array) -> float:
    gap_s = float(np.median(np.diff(at_s))) if at_s.size > 1 else 1.0
    near = np.diff(at_s) < 1.5 * gap_s
    one, other = excess_ms[:-1][near], excess_ms[1:][near]
    if near.sum() < 30 or one.std() == 0 or other.std() == 0 or gap_s <= 0:
        return MEAN_TAU_MS
    r = float(np.corrcoef(one, other)[0, 1])
    if r <= 0.2:
        return MEAN_TAU_MS
    return float(np.clip(-gap_s * 1e3 / np.log(min(r, 0.999)), 1.0, 1000.0))
