"""What a flow that loads its path shows of it, from its packets or the intervals of a log."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from orbitcc.envs.fitting import changes, outages, queue
from orbitcc.envs.fitting.noise import Losses
from orbitcc.envs.fitting.outages import FoundOutage
from orbitcc.envs.fitting.queue import Drop
from orbitcc.envs.fitting.recordings import Array, Intervals, Packets

BIN_S = 0.1
NEAR_S = 5.0
"""The rate of a bin is compared with the high ones at most this far away."""
HIGH, BELOW = 0.9, 0.85
"""A bin below BELOW times the quantile HIGH of its neighbours was not limited by the link."""
UNLOADED_CORRELATION, UNLOADED_RISE = 0.4, 0.25
"""A flow had no queue if its RTT and its data in flight correlate less, and the RTT rises by a smaller share."""
LEAST_QUEUE_MS = 1.0
"""A smaller delay is no queue."""
LOW_QUEUE, SOME_QUEUE = 0.7, 0.1
"""Shares of the largest queue: losses in intervals below LOW_QUEUE are random; above SOME_QUEUE the link is busy."""
SURE_QUEUE_S = 0.02
"""A queue that takes longer to leave needs no such share: it may be small beside a queue of seconds."""
SAME_MS, SAME = 1.0, 0.03
"""Base RTTs that differ by less than 1 ms or 3 % are the same."""
COVERED = 0.9
"""Probes that last a smaller share of the time of a flow do not show its base RTT."""
MOST_LOST = 0.02
"""Where chance takes a larger share, what arrives is clearly less than what the link carried."""
SURE_SD = 3.0
"""Standard deviations by which the losses at a large queue must exceed chance."""


@dataclass(frozen=True, eq=False)
class MeasuredFlow:
    """A flow in bins between edges_s [T + 1], by the time at which packets left the queue.

    mbps: [T] rate on the wire. rtt_ms: [T] least RTT, NaN without one. sent, lost: [T] packets by time of sending.
    busy: [T] whether packets waited in a queue, so that the rate is that of the link. loaded: whether they ever did.
    slots_s, base_ms: [S] starts of slots and their base RTT; phase_s: of the 15-second slots, or None.
    own_base_ms: mean base RTT, as this flow alone shows it.
    queue_bytes: the largest queue; overflowed: whether it lost packets, so that this is its size; drop: which ones, or
    None if that does not show.
    losses: packets that only chance could lose; None where only counts are known, (lost, packets).
    excess: times in s and RTTs above the base in ms, of single packets where they are known.
    """

    file: str
    edges_s: Array
    mbps: Array
    rtt_ms: Array
    sent: Array
    lost: Array
    busy: Array
    loaded: bool
    slots_s: Array
    base_ms: Array
    own_base_ms: float
    phase_s: float | None
    outages: tuple[FoundOutage, ...]
    queue_bytes: float
    drop: Drop | None
    overflowed: bool
    losses: Losses | None
    counts: tuple[float, float]
    goodput_mbps: float
    excess: tuple[Array, Array] | None = None

    @property
    def duration_s(self) -> float:
        return float(self.edges_s[-1])

    def base_at(self, t_s: Array) -> Array:
        return at_slots(self.slots_s, self.base_ms, t_s)


@dataclass(frozen=True, eq=False)
class KnownBase:
    """Starts of slots and their base RTT, as probes show them until end_s."""

    slots_s: Array
    base_ms: Array
    end_s: float


def at_slots(slots_s: Array, values: Array, t_s: Any) -> Any:
    return values[np.maximum(np.searchsorted(slots_s, t_s, side="right") - 1, 0)]


def from_packets(
    packets: Packets,
    jitter_ms: float = 0.0,
    probed: KnownBase | None = None,
    size: tuple[Drop | None, float] | None = None,
) -> MeasuredFlow:
    """The flow of a capture.

    jitter_ms: a delay that is not a queue, as other recordings of the path show it; probed, size: of the base RTT and
    the queue, likewise.
    """
    once, acked = packets.once, ~np.isnan(packets.acked_s)
    rtt_s = np.where(once, packets.acked_s - packets.sent_s, np.nan)
    end_s = float(packets.acked_s[acked].max())
    width_s = max(BIN_S, end_s / changes.MOST_BINS)
    edges = np.arange(0, end_s + width_s, width_s)
    order = np.flatnonzero(acked)[np.argsort(packets.acked_s[acked], kind="stable")]
    stamps, carried = packets.acked_s[order], np.append(0.0, np.cumsum(packets.wire_bytes[order]))

    def delivered(t_s: Array) -> Array:
        return carried[np.searchsorted(stamps, t_s, side="right")]

    mbps = np.diff(delivered(edges)) * 8e-6 / width_s
    rtt_ms = _least(packets.acked_s[once], rtt_s[once] * 1e3, edges)
    gaps, phase = outages.find(packets, rtt_s, end_s)
    loaded = _is_loaded(edges, mbps, rtt_ms, float(packets.wire_bytes[0]), jitter_ms)
    own = _base(edges, mbps, rtt_ms, phase, loaded)
    seen, base = _as_probed(own, probed, edges, rtt_ms, phase)
    beside = [[at_slots(seen, base, s.at_s + d) / 1e3 for d in outages.BESIDE_S] for s in gaps]
    found = [(gap, outages.at_queue(gap, packets, rtt_s, *rtts)) for gap, rtts in zip(gaps, beside, strict=True)]
    # Without slots and changes of the path, gaps in which packets are lost are bursts of losses.
    moved = seen if seen is not own[0] else seen[:1]  # without probes, it is not known when the path changed
    near = [~outages.away_from_changes(np.array(gap.at_s), moved) for gap, _ in found]
    found = [
        (gap, s)
        for (gap, s), change in zip(found, near, strict=True)
        if s is not None and (s.mode == "hold" or phase is not None or change)
    ]
    quiet = outages.away_from([gap for gap, _ in found], packets.sent_s, changes.filled(rtt_s))
    if phase is not None:
        quiet &= outages.off_grid(packets.sent_s, phase)
    quiet &= outages.away_from_changes(packets.sent_s, moved)
    # From here on, times are those at which packets left the queue: the sender learns of them a base RTT later.
    slots = np.append(0.0, np.maximum(seen[1:] - base[:-1] / 1e3, 1e-3))
    mbps = np.diff(delivered(edges + at_slots(slots, base, edges) / 1e3)) * 8e-6 / width_s
    base_s = at_slots(slots, base, packets.sent_s) / 1e3
    queued = queue.estimate(packets, rtt_s, delivered, base_s, quiet, size)
    loaded |= queued.overflowed and size is None
    out_s = (packets.acked_s - base_s)[once]
    middle = _median(out_s, queued.ahead[once], edges)
    rtt_ms = _least(out_s, rtt_s[once] * 1e3, edges)
    with np.errstate(invalid="ignore"):
        waited = rtt_ms - at_slots(slots, base, edges[:-1]) > max(LEAST_QUEUE_MS, 2 * jitter_ms)
    kept = np.flatnonzero(queued.safe)
    left_s = np.maximum.accumulate(packets.sent_s + np.maximum(changes.filled(rtt_s) - base_s, 0))
    enough = np.minimum(SOME_QUEUE * queued.size_bytes, SURE_QUEUE_S * mbps * 125e3)
    gone = queued.safe & packets.lost
    gone_mbps = np.histogram(left_s[gone], edges, weights=packets.wire_bytes[gone])[0] * 8e-6 / width_s
    busy = loaded & waited & (mbps > 0) & (middle >= enough) & (gone_mbps <= MOST_LOST * mbps)
    return MeasuredFlow(
        packets.file, edges, mbps, rtt_ms,
        sent=np.histogram(packets.sent_s, edges)[0].astype(float),
        lost=np.histogram(packets.sent_s[packets.lost], edges)[0].astype(float),
        busy=busy, loaded=loaded,
        slots_s=slots, base_ms=base, own_base_ms=float(at_slots(*own, edges).mean()),
        phase_s=None if phase is None else (phase - float(np.median(base)) / 1e3) % changes.SLOT_S,
        outages=outages.apart([s for _, s in found if s is not None]),
        queue_bytes=queued.size_bytes, drop=queued.drop, overflowed=queued.overflowed,
        losses=Losses(packets.sent_s[kept], packets.lost[kept], np.append(False, np.diff(kept) == 1), left_s[kept]),
        counts=(float(packets.lost[kept].sum()), float(kept.size)),
        goodput_mbps=packets.payload_bytes * 8e-6 / end_s,
        excess=(packets.sent_s[once], (rtt_s - base_s)[once] * 1e3),
    )  # fmt: skip


def from_intervals(log: Intervals, jitter_ms: float = 0.0, probed: KnownBase | None = None) -> MeasuredFlow:
    """The flow of a log of iperf3, in its intervals. Losses while the smoothed RTT was low are taken for random."""
    edges = np.append(0.0, log.end_s)
    mbps = log.wire_bytes * 8e-6 / np.diff(edges)
    size = float(log.wire_bytes.sum() / max(log.packets.sum(), 1))
    loaded = _is_loaded(edges, mbps, log.rtt_ms, size, jitter_ms)
    own = _base(edges, mbps, log.rtt_ms, None, loaded)
    slots, base = _as_probed(own, probed, edges, log.rtt_ms, None)
    excess = changes.filled(log.rtt_ms) - at_slots(slots, base, edges[:-1])
    queue = np.maximum(excess, 0) * mbps * 125
    largest = float(queue.max())
    full = (queue >= LOW_QUEUE * largest) & loaded
    full[1:] |= full[:-1]  # a loss shows after the queue was full
    expected = log.resent[~full].sum() / max(log.packets[~full].sum(), 1) * log.packets[full].sum()
    overflowed = bool(loaded and log.resent[full].sum() > expected + SURE_SD * (expected + 1) ** 0.5)
    if not overflowed:
        full[:] = False
    busy = loaded & (queue >= SOME_QUEUE * largest) & (excess > max(LEAST_QUEUE_MS, 2 * jitter_ms))
    counts = (float(log.resent[~full].sum()), float(log.packets[~full].sum()))
    return MeasuredFlow(
        log.file, edges, mbps, log.rtt_ms, log.packets, log.resent, busy, loaded, slots, base,
        float(at_slots(*own, edges).mean()), None, (), largest, None, overflowed, None, counts,
        log.payload_bytes * 8e-6 / float(log.end_s[-1]),
    )  # fmt: skip


def _least(at_s: Array, values: Array, edges: Array) -> Array:
    """The least value in each bin; NaN in a bin without any."""
    found = np.full(edges.size - 1, np.inf)
    bins = np.minimum(np.searchsorted(edges, at_s, side="right") - 1, found.size - 1)
    np.minimum.at(found, bins, values)
    return np.where(np.isinf(found), np.nan, found)


def _median(at_s: Array, values: Array, edges: Array) -> Array:
    """The median value in each bin; 0 in a bin without any."""
    bins = np.searchsorted(edges, at_s, side="right") - 1
    order = np.argsort(bins, kind="stable")
    bins, values = bins[order], values[order]
    starts = np.searchsorted(bins, np.arange(edges.size))
    return np.array([np.median(values[a:b]) if b > a else 0.0 for a, b in itertools.pairwise(starts)])


def _is_loaded(edges: Array, mbps: Array, rtt_ms: Array, size: float, jitter_ms: float) -> bool:
    """Whether the flow built up a queue: the least RTTs of its bins rise by more than two packets and the jitter.

    Without any known jitter, they must rise by a quarter of the base RTT, or together with the data in flight.
    """
    known = ~np.isnan(rtt_ms) & (mbps > 0)
    if known.sum() < 3:
        return False
    windows = changes.slot_edges(0.0, float(edges[-1]))
    least = changes.filled(changes.by_slot(edges[:-1], rtt_ms, windows, 0.0))
    excess = (rtt_ms - at_slots(windows, least, edges[:-1]))[known]
    rise = float(np.quantile(excess, HIGH))
    if rise < LEAST_QUEUE_MS + 3 * jitter_ms + 2 * size * 8e-3 / float(np.quantile(mbps[known], HIGH)):
        return False
    flight = mbps[known] * rtt_ms[known]
    together = bool(flight.std() > 0 and np.corrcoef(excess, flight)[0, 1] > UNLOADED_CORRELATION)
    return jitter_ms > 0 or rise > UNLOADED_RISE * float(least.min()) or together


def _base(edges: Array, mbps: Array, rtt_ms: Array, phase: float | None, loaded: bool) -> tuple[Array, Array]:
    """Starts of slots, and the base RTT in each: the least RTT, where the flow did not fill the link at that time.

    Otherwise the queue may never have been empty, and the slot has the base RTT of the one before, or the least RTT if
    this is shorter. Slots with nearly the same base RTT are joined.
    """
    slots = changes.slot_edges(phase or 0.0, float(edges[-1]))
    if phase is not None:
        rtt_ms = np.where(outages.off_grid(edges[:-1], phase), rtt_ms, np.nan)
    least = changes.by_slot(edges[:-1], rtt_ms, slots, 0.0)
    base = least.copy()
    if loaded:
        high = _high(mbps, float(np.median(np.diff(edges))))
        shown = np.where(mbps < BELOW * high, rtt_ms, np.nan)
        free = changes.by_slot(edges[:-1], shown, slots, 0.0)
        with np.errstate(invalid="ignore"):
            base = np.where(free <= 1.02 * least + 0.5, least, np.nan)
        base[0] = least[0]  # the flow began without a queue of its own
        for k in range(1, base.size):
            if np.isnan(base[k]):
                base[k] = np.fmin(base[k - 1], least[k])
    base = changes.filled(base)
    return joined(slots, base)


def _as_probed(
    own: tuple[Array, Array], probed: KnownBase | None, edges: Array, rtt_ms: Array, phase: float | None
) -> tuple[Array, Array]:
    """The slots of probes, as the sender sees them, and their base RTT; where that of the flow is nearly the same, its.

    Packets of data take longer than those of ping. Slots start at an edge of the slots of the flow, if one is close.
    own: of the flow, if there are no probes, they end before it, or are of another time: it has shorter RTTs in a slot.
    """
    if probed is None or probed.end_s < COVERED * edges[-1]:
        return own
    slots = np.append(0.0, probed.slots_s[1:] + probed.base_ms[:-1] / 1e3)
    if phase is not None:
        off_s = (slots - phase + changes.SLOT_S / 2) % changes.SLOT_S - changes.SLOT_S / 2
        slots[1:] -= np.where(np.abs(off_s) <= outages.GRID_S, off_s, 0.0)[1:]
    slots = np.maximum.accumulate(slots)
    apart = outages.away_from_changes(edges[:-1], slots)
    longer = changes.by_slot(edges[:-1], np.where(apart, rtt_ms, np.nan), slots, 0.0) - probed.base_ms
    nearly = np.maximum(SAME_MS, SAME * probed.base_ms)
    if (longer < -nearly).any():
        return own
    return slots, probed.base_ms + np.where(longer < nearly, longer, 0.0)


def joined(slots: Array, base_ms: Array) -> tuple[Array, Array]:
    """Neighbouring slots whose base RTTs are the same as one, with the least of them."""
    starts, values = [float(slots[0])], [float(base_ms[0])]
    for t, value in zip(slots[1:].tolist(), base_ms[1:].tolist(), strict=True):
        if abs(value - values[-1]) < max(SAME_MS, SAME * values[-1]):
            values[-1] = min(values[-1], value)
        else:
            starts.append(t)
            values.append(value)
    return np.array(starts), np.array(values)


def _high(mbps: Array, width_s: float) -> Array:
    """The quantile HIGH of the rates at most NEAR_S away."""
    reach = max(round(NEAR_S / width_s), 2)
    padded = np.pad(mbps, reach, mode="reflect") if mbps.size > reach else np.pad(mbps, reach, mode="edge")
    return np.asarray(np.quantile(sliding_window_view(padded, 2 * reach + 1), HIGH, axis=1))
