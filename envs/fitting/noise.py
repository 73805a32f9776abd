"""Estimators of random losses and jitter."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.description.links import GammaJitter, GilbertElliott
from orbitcc.envs.fitting.changes import MOST_BINS, segments
from orbitcc.envs.fitting.recordings import Array

FEWEST_LOSSES = 5
"""With fewer, run lengths say nothing."""
PER_BLOCK = 10
"""Losses in a block on average."""
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

    together: whether neighbours in the arrays were sent one after the other, so that runs can be counted.
    """

    sent_s: Array
    lost: NDArray[np.bool_]
    together: NDArray[np.bool_]

    def near(self) -> NDArray[np.bool_]:
        """Which neighbours can belong to one run, [N - 1]."""
        return self.together[1:] & (np.diff(self.sent_s) < LONGEST_GAP_S)


@dataclass(frozen=True)
class LossFit:
    """The share of packets lost, its standard error, and the process: a probability, steps of it, or a chain."""

    share: float
    error: float
    model: float | GilbertElliott | list[tuple[float, float]]
    losses: int
    packets: int


def fit_counts(lost: float, packets: float) -> LossFit:
    """Independent losses from counts alone: p = lost / packets, with standard error sqrt(lost) / packets."""
    p = lost / packets if packets else 0.0
    return LossFit(p, max(lost, 1.0) ** 0.5 / max(packets, 1.0), p, round(lost), round(packets))


def fit_losses(several: list[Losses]) -> LossFit:
    """Independent losses, or bursts where neighbours are lost together more often than chance would have it.

    With n pairs of neighbours and a share p, chance gives n p^2 pairs of lost ones (summed over blocks, in which p may
    differ); bursts are assumed from three more than that plus four standard deviations.
    """
    lost = sum(int(w.lost.sum()) for w in several)
    packets = sum(w.lost.size for w in several)
    single = fit_counts(lost, packets)
    adjacent = sum(int((w.lost[1:] & w.lost[:-1] & w.near()).sum()) for w in several)
    chance = sum(_pairs_by_chance(w, single.share) for w in several)
    if lost < FEWEST_LOSSES or adjacent <= chance + 4 * chance**0.5 + 3:
        return single
    return _bursts(several, single)


def _bursts(several: list[Losses], single: LossFit) -> LossFit:
    """The two-state chain of Gilbert (1960), sampled when packets are sent.

    In a burst every packet is lost. It lasts on (rate m of ending) until the next packet, d seconds later, with
    probability exp(-m d). m is the most likely one for the packets after the second of each run, which chance hardly
    makes: the sum of d over those lost equals that of d / (exp(m d) - 1) over those that end a run. Of the bursts that
    lose a packet, a mean share s of exp(-m d) loses a second; k runs of two or more are k / s bursts. One begins and
    lasts until the next packet with probability (l / m) (1 - exp(-m d)): the sum over all packets gives the rate l.
    Losses alone beyond the k / s - k that bursts make are those of the good state.
    """
    gaps = np.maximum(np.concatenate([np.diff(w.sent_s)[w.near()] for w in several]), LEAST_GAP_S)
    now, then = (np.concatenate([w.lost[s][w.near()] for w in several]) for s in (slice(None, -1), slice(1, None)))
    before = np.concatenate([np.append(False, w.lost[:-2] & w.near()[:-1])[w.near()] for w in several])
    later, first = now & before, now & ~before
    stays, exits = gaps[later & then], gaps[later & ~then]
    held_s = float(stays.sum()) + 0.5 * float(exits.mean())  # at least half a packet
    low, high = 1e-3, 1e6
    for _ in range(60):
        middle = (low * high) ** 0.5
        too_slow = held_s < float((exits / np.expm1(np.minimum(middle * exits, 700))).sum())
        low, high = (middle, high) if too_slow else (low, middle)
    rate = (low * high) ** 0.5
    runs = int((first & then).sum())
    bursts = runs / float(np.exp(-rate * gaps[first]).mean())
    alone = max(int((first & ~then).sum()) - (bursts - runs), 0.0)
    reached = -float(np.expm1(-rate * gaps[~now]).sum())
    model = GilbertElliott(
        good_loss=alone / single.packets if alone > 2 * (bursts - runs) ** 0.5 + 2 else 0.0,
        bad_loss=1.0,
        to_bad_per_s=bursts * rate / reached,
        to_good_per_s=rate,
    )
    error = single.share / (bursts + alone) ** 0.5
    return LossFit(single.share, error, model, single.losses, single.packets)


def _blocks(losses: Losses, share: float) -> tuple[Array, Array, int]:
    """Packets in blocks of equal size: time of the first packet, losses in each, size."""
    size = max(math.ceil(PER_BLOCK / max(share, 1e-9)), losses.lost.size // MOST_BINS + 1)
    starts = np.arange(0, max(losses.lost.size - size // 2, 1), size)
    return losses.sent_s[starts], np.add.reduceat(losses.lost.astype(np.float64), starts), size


def _pairs_by_chance(losses: Losses, share: float) -> float:
    """How many neighbours are both lost if losses are independent, with a probability that may change over time."""
    if not losses.lost.any():
        return 0.0
    _, lost, size = _blocks(losses, share)
    return float((lost**2).sum() / size)


def loss_steps(losses: Losses) -> list[tuple[float, float]]:
    """The loss probability over time: one step, or more where it changed.

    The packets are counted in blocks of equal size with ten losses on average. 2 sqrt(losses + 3/8) has a standard
    deviation of 1 (Anscombe 1948), whatever the probability; `changes.segments` finds where its mean changes.
    """
    share = float(losses.lost.mean()) if losses.lost.size else 0.0
    if losses.lost.sum() < 3 * PER_BLOCK:
        return [(0.0, share)]
    t, lost, size = _blocks(losses, share)
    starts = segments(2 * np.sqrt(lost + 0.375), 1.0)
    cuts = [*starts, lost.size]
    means = [float(lost[a:b].sum()) / (size * (b - a)) for a, b in itertools.pairwise(cuts)]
    return [(0.0 if a == 0 else round(float(t[a]), 3), p) for a, p in zip(starts, means, strict=True)]


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
