"""The rate of a path over time: from opportunities to send, or from what a flow carried while packets waited."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import FileContentError
from orbitcc.envs.description.links import MIN_RATE_MBPS
from orbitcc.envs.description.queues import PACKET_BYTES
from orbitcc.envs.fitting import changes
from orbitcc.envs.fitting.flows import BIN_S, HIGH, MeasuredFlow
from orbitcc.envs.fitting.outages import OUTAGE_FACTOR, OUTAGE_S, FoundOutage
from orbitcc.envs.fitting.recordings import Array, Opportunities

OPPORTUNITY_BYTES = 1500
MOST_OPPORTUNITIES = 20_000_000
"""Of a file and its repetitions: 240 Gbit."""
QUANTA = 1.5
"""Standard deviation of the number of packets in a bin, because acknowledgements cover two."""
LEAST_NOISE = 0.005
"""Least noise, as a share of the rate."""
FASTER = 1.1
"""A flow this much faster than the rate that was interpolated shows a higher rate."""
LEAST_SERVED = 0.3
"""A bin with a longer outage shows no rate."""
Steps = tuple[Array, Array]
"""Times [K] from 0 and the values from then on."""


def of_opportunities(
    chances: Opportunities, end_s: float, *, find_outages: bool
) -> tuple[Steps, tuple[FoundOutage, ...]]:
    """Rates in Mbit/s and outages of a file of opportunities, repeated until `end_s`.

    A gap longer than 35 ms and five typical gaps is an outage. The rate of a bin is that of the rest of its time.
    """
    stamps = chances.at_ms / 1e3
    if not stamps[-1] > 0 or np.ceil(end_s / stamps[-1]) * stamps.size > MOST_OPPORTUNITIES:
        allowed = f"opportunities that, repeated for {end_s:g} s, are at most {MOST_OPPORTUNITIES:,}"
        raise FileContentError("file", chances.file, allowed)
    rounds = int(np.ceil(end_s / stamps[-1]))
    at = np.concatenate([stamps + k * stamps[-1] for k in range(rounds)])
    at = at[at < end_s]
    width_s = max(BIN_S, end_s / changes.MOST_BINS)
    edges = np.arange(0, end_s + width_s * 0.999, width_s)
    gaps = np.diff(at, prepend=0.0)
    typical = float(np.median(gaps[gaps > 0]))
    outages: tuple[FoundOutage, ...] = ()
    if find_outages:
        long = np.flatnonzero(gaps > max(OUTAGE_S, OUTAGE_FACTOR * typical))
        outages = tuple(FoundOutage(float(at[k] - gaps[k]) + 1e-3, float(gaps[k]) - 1e-3, "hold") for k in long)
    counts = np.histogram(at, edges)[0]
    served = served_share(edges, outages)
    rates = counts * OPPORTUNITY_BYTES * 8e-6 / width_s / np.maximum(served, 1e-9)
    rates = np.where(served < LEAST_SERVED, np.nan, rates)
    return merged(edges[:-1], np.maximum(changes.filled(rates), MIN_RATE_MBPS)), outages


def of_flow(flow: MeasuredFlow, jitter_sd_ms: float) -> Steps:
    """Rates in Mbit/s while packets waited in the queue, as a piecewise constant curve (`changes.segments`).

    Times between are interpolated; where the flow was clearly faster than that, its own rate counts.
    """
    width_s = float(np.median(np.diff(flow.edges_s)))
    served = served_share(flow.edges_s, flow.outages)
    mbps, t = flow.mbps, flow.edges_s[:-1]
    calm = served == 1
    calm[1:] &= calm[:-1]  # held acknowledgements arrive together
    known = flow.busy & calm
    inner = known & np.append(False, known[:-1]) & np.append(known[1:], False)
    known = inner if inner.any() else known  # the queue was empty for a part of a bin at the edge
    between = _between(flow, known)
    between = _between(flow, known | ((mbps > FASTER * between) & calm))
    middle = float(np.median(between))
    noise = (
        QUANTA * PACKET_BYTES * 8e-6 / width_s,
        LEAST_NOISE * middle,
        2**0.5 * middle * jitter_sd_ms / 1e3 / width_s,
    )
    starts = changes.segments(between, float(np.linalg.norm(noise)))
    ends = [*starts[1:], between.size]
    values = np.array([between[a:b].mean() for a, b in zip(starts, ends, strict=True)])
    return t[starts], np.maximum(values, MIN_RATE_MBPS)


def _between(flow: MeasuredFlow, known: NDArray[np.bool_]) -> Array:
    """The rates where they are known, and interpolated between in each slot; without any, the high ones of the slot."""
    t, found = flow.edges_s[:-1], np.empty(flow.mbps.size)
    edges = changes.slot_edges(flow.phase_s, flow.duration_s) if flow.phase_s is not None else flow.slots_s
    slot = np.searchsorted(edges, t, side="right") - 1
    for k in range(edges.size):
        here = slot == k
        some = here & known
        found[here] = np.interp(t[here], t[some], flow.mbps[some]) if some.any() else np.quantile(flow.mbps[here], HIGH)
    return found


def bound_of_flow(flow: MeasuredFlow) -> Steps:
    """The highest rate that a flow reached which never filled its link: less than the rate of the link."""
    return np.zeros(1), np.array([max(float(np.quantile(flow.mbps, 0.98)), MIN_RATE_MBPS)])


def served_share(edges: Array, outages: tuple[FoundOutage, ...]) -> Array:
    """The share of each bin without outages."""
    down = np.zeros(edges.size)
    for s in outages:
        down += np.clip(edges - s.at_s, 0, s.length_s)
    return 1 - np.diff(down) / np.diff(edges)


def merged(t_s: Array, values: Array) -> Steps:
    """Steps without those that change nothing."""
    new = np.append(True, np.diff(values) != 0)
    return t_s[new], values[new]


def mean(steps: Steps, end_s: float) -> float:
    return float(np.average(steps[1], weights=np.diff(np.append(steps[0], end_s))))
