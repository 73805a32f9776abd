"""Probes over a link without traffic: samples of the same processes as in the simulator, without a simulation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orbitcc.envs.description.links import (
    Bernoulli,
    Direction,
    GammaJitter,
    GilbertElliott,
    Jitter,
    Link,
    LoadLoss,
    Loss,
    Outage,
)
from orbitcc.envs.description.model import points_of
from orbitcc.envs.impairments.series import Array, Series

KNOTS_PER_TAU = 4
"""As in the simulator, a jitter has a point every tau / 4 and linear interpolation."""

Mask = NDArray[np.bool_]


def probe(link: Link, sent_s: ArrayLike, rng: np.random.Generator) -> Array:
    """RTTs in ms of small probes sent at these increasing times over a link and back; NaN for lost probes.

    Queues are empty, and serialisation takes no time. Outages, losses, delays, jitter and gates are those of the link.
    An outage that flushes all also drops the packets in the pipe.
    """
    t = np.asarray(sent_s, dtype=np.float64)
    there, lost = _through(link, t, link.outages, "forward", rng)
    rtt = np.full(t.shape, np.nan)
    reached = ~lost
    back, lost = _through(link.backward(), there[reached], link.outages, "reverse", rng)
    rtt[np.flatnonzero(reached)[~lost]] = 1e3 * (back - t[reached])[~lost]
    return rtt


def _through(
    way: Direction, t: Array, outages: tuple[Outage, ...], direction: str, rng: np.random.Generator
) -> tuple[Array, Mask]:
    """Arrival times of packets that are sent at t, and which of them are lost."""
    ours = [o for o in outages if o.directions in ("both", direction)]
    leaves, lost = _served(t, ours)
    arrives = leaves + Series.of(way.delay_ms, way.interpolate_delay).at(leaves) / 1e3
    if way.jitter is not None:
        arrives = arrives + jitter_ms(way.jitter, leaves, rng) / 1e3
    if way.gate_ms:
        frame, phase = way.gate_ms / 1e3, way.gate_phase_ms / 1e3
        arrives = phase + frame * np.ceil((arrives - phase) / frame)
    for outage in ours:
        if outage.flush == "all":
            lost |= (leaves <= outage.at_s) & (arrives > outage.at_s)
    lost |= _strikes(way, t if way.loss_at == "ingress" else leaves, rng)
    if way.ordering == "fifo":
        np.maximum.accumulate(np.where(lost, -np.inf, arrives), out=arrives)
    return arrives, lost


def _served(t: Array, outages: list[Outage]) -> tuple[Array, Mask]:
    """Times at which packets leave the queue, and which are dropped by an outage."""
    leaves, lost = t.copy(), np.zeros(t.shape, dtype=bool)
    if outages:
        start = np.array([o.at_s for o in outages])
        end = start + np.array([o.duration_ms for o in outages]) / 1e3
        drops = np.array([o.mode == "drop" for o in outages])
        which = np.searchsorted(start, t, side="right") - 1
        inside = (which >= 0) & (t < end[which])
        lost = inside & drops[which]
        leaves[inside] = end[which][inside]
    return leaves, lost


def _strikes(way: Direction, t: Array, rng: np.random.Generator) -> Mask:
    points = points_of(way.loss)
    edges = np.searchsorted(t, [*(at for at, _ in points[1:]), math.inf])
    struck = np.zeros(t.shape, dtype=bool)
    begin = 0
    for (at, loss), end in zip(points, edges, strict=True):
        if end > begin and loss:
            struck[begin:end] = rng.random(end - begin) < _probability(loss, t[begin:end], at, rng)
        begin = end
    return struck


def _probability(loss: Loss, t: Array, since_s: float, rng: np.random.Generator) -> Array | float:
    """The loss probability of each packet at t; a two-state loss starts in the good state at since_s."""
    if isinstance(loss, Bernoulli):
        return loss.p
    if isinstance(loss, LoadLoss):
        return loss.idle_loss
    if not isinstance(loss, GilbertElliott):
        return float(loss)
    if loss.to_bad_per_s == 0:
        return loss.good_loss
    means = np.array([1 / loss.to_bad_per_s, 1 / loss.to_good_per_s])
    ends = [np.array([since_s])]
    while ends[-1][-1] < t[-1]:
        rounds = 16 + int(1.1 * (t[-1] - ends[-1][-1]) / means.sum())
        ends.append(ends[-1][-1] + np.cumsum(rng.exponential(1.0, (rounds, 2)) * means))
    bad = np.searchsorted(np.concatenate(ends), t, side="right") % 2 == 0
    return np.where(bad, loss.bad_loss, loss.good_loss)


def jitter_ms(jitter: Jitter, t: Array, rng: np.random.Generator) -> Array:
    """One realisation of the jitter, in ms at the increasing times t."""
    from scipy.signal import lfilter

    tau = (jitter.tau_ms if isinstance(jitter, GammaJitter) else jitter.ar_tau_ms) / 1e3
    knots = np.arange(int(t[-1] / tau * KNOTS_PER_TAU) + 2) * tau / KNOTS_PER_TAU if t.size else np.zeros(1)

    def gaussian(per_step: float) -> Array:
        keep = math.exp(-per_step)
        noise = rng.standard_normal(knots.size)
        noise[1:] *= math.sqrt(1 - keep * keep)
        return np.asarray(lfilter([1.0], [1.0, -keep], noise))

    if isinstance(jitter, GammaJitter):
        squares = sum(gaussian(0.5 / KNOTS_PER_TAU) ** 2 for _ in range(2 * jitter.shape))
        values = jitter.mean_ms / (2 * jitter.shape) * squares
    else:
        phase = 2 * math.pi * rng.random()
        sine = math.sqrt(2) * jitter.sine_sd_ms * np.sin(2 * math.pi * knots / jitter.sine_period_s + phase)
        values = np.maximum(jitter.mean_ms + sine + jitter.ar_sd_ms * gaussian(1 / KNOTS_PER_TAU), 0.0)
    return np.interp(t, knots, values)
