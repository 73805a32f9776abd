"""Outages of a path, as the acknowledgements of a flow show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.fitting import changes
from orbitcc.envs.fitting.recordings import Array, Packets

OUTAGE_S, OUTAGE_FACTOR = 0.035, 5.0
"""Gaps longer than this, and than as many typical gaps, are outages."""
FEWEST_DUE, NEIGHBOURS = 4, 20
"""In a gap with fewer outstanding packets, the receiver has delayed an acknowledgement. The RTT that packets were due
after is the least of as many neighbours."""
FEWEST_LOST, ALL_LOST = 3, 0.8
"""A gap in which at least as many packets and such a share of them were lost."""
MOST_PER_S, LONGER = 0.3, 2.0
"""With more outages per second, the link serves in bursts; only outages longer than as many usual ones count then."""
GRID_S = 0.5
"""A time this close to the edge of a slot belongs to it."""
BESIDE_S = (-0.25, 0.75)
"""The base RTT before and after an outage is that of these times."""
EDGE_S = 0.02
"""Packets this close to an outage say nothing of queue and losses."""
FIRST_S = 0.025
"""The fate of packets sent in this time after the start of an outage tells whether it loses packets."""
LEAST_WAIT_S = 0.005
"""Packets that waited longer were in a queue."""
LEAST_DROPPED = 0.3
"""Where losses end earlier in the outage than that and later packets arrive, a full queue made them."""
RECOVERY_S = 0.75


@dataclass(frozen=True)
class FoundOutage:
    """An outage: start at the queue and length in s; packets wait, or are lost, the queue with them or not.

    queued: whether there was a queue that could be lost.
    """

    at_s: float
    length_s: float
    mode: Literal["hold", "drop"]
    flush: Literal["none", "queue"] = "none"
    queued: bool = False


def find(packets: Packets, rtt_s: Array, end_s: float) -> tuple[list[FoundOutage], float | None]:
    """The outages in time of the acknowledgements, and the phase of the 15-second slots, if there are any.

    The phase is that of the longest ones, one for each slot that the capture lasts.
    """
    held, dropped = _gaps(packets, rtt_s)
    longest = sorted((*held, *dropped), key=lambda s: -s.length_s)[: max(4, round(end_s / changes.SLOT_S) + 1)]
    phase = changes.slot_phase([s.at_s for s in longest])
    return [*_rare(held, phase, end_s), *_on_grid(dropped, phase)], phase


def at_queue(
    outage: FoundOutage, packets: Packets, rtt_s: Array, before_s: float, after_s: float
) -> FoundOutage | None:
    """An outage seen in acknowledgements, at the time at which it stopped the queue; None if only the path was longer.

    before_s, after_s: base RTT. If most packets of a short time soon after the start were lost, the outage loses them,
    at least until the last one that was lost: what follows may be the timeout of the sender. Otherwise packets wait.
    The last acknowledgement left the queue a base RTT before, or half of one if both directions were interrupted. A
    queue that is lost begins to be lost by its waiting time before the start.
    """
    at_s, latest_s = max(outage.at_s - before_s, 0.0), max(outage.at_s - before_s / 2, 0.0)
    known = np.flatnonzero(~np.isnan(rtt_s))
    acked = packets.acked_s[known]
    later, earlier = known[acked > outage.at_s + 1e-6], known[acked <= outage.at_s]
    first = later[np.argmin(packets.acked_s[later])] if later.size else known[-1]
    waited_s = max(float(rtt_s[earlier[-1]]) - before_s, 0.0) if earlier.size else 0.0
    length_s = outage.length_s - max(after_s - before_s, 0.0)
    near = (packets.sent_s > at_s - waited_s - EDGE_S) & (packets.sent_s < latest_s + outage.length_s)
    sent_s, lost = packets.sent_s[near], packets.lost[near]
    waits = bool(rtt_s[first] - after_s >= 0.5 * outage.length_s)
    if lost.sum() < FEWEST_LOST or not _lost_soon(sent_s, lost, at_s, latest_s):
        return (
            FoundOutage(at_s, outage.length_s if waits else length_s, "hold") if waits or length_s > OUTAGE_S else None
        )
    starts, lengths = changes.runs_of(lost)
    begin_s = float(sent_s[starts[lengths.argmax()]])
    until_s = float(sent_s[lost].max())
    survived = int((~lost & (sent_s > until_s)).sum())
    if until_s - begin_s < LEAST_DROPPED * length_s and survived >= FEWEST_LOST:
        return FoundOutage(at_s, length_s, "hold")
    start_s = float(np.clip(begin_s + waited_s, at_s, latest_s))
    queued = waited_s > LEAST_WAIT_S
    flush: Literal["none", "queue"] = "queue" if queued and begin_s < start_s - LEAST_WAIT_S else "none"
    return FoundOutage(start_s, max(min(length_s, until_s - start_s), 1e-3), "drop", flush, queued)


def _lost_soon(sent_s: Array, lost: NDArray[np.bool_], at_s: float, latest_s: float) -> bool:
    """Whether most packets of FIRST_S were lost, from some time between the two on."""
    for start_s in np.linspace(at_s, latest_s, 5):
        here = lost[(sent_s > start_s) & (sent_s < start_s + FIRST_S)]
        if here.size >= FEWEST_LOST and here.mean() >= ALL_LOST:
            return True
    return False


def apart(found: Sequence[FoundOutage]) -> tuple[FoundOutage, ...]:
    """The outages in order, without those that follow one with losses so closely that they belong to its recovery."""
    kept: list[FoundOutage] = []
    for s in sorted(found, key=lambda s: s.at_s):
        if not kept or kept[-1].mode == "hold" or s.at_s > kept[-1].at_s + kept[-1].length_s + RECOVERY_S:
            kept.append(s)
    return tuple(kept)


def away_from(outages: Sequence[FoundOutage], sent_s: Array, rtt_s: Array) -> NDArray[np.bool_]:
    """Which packets were acknowledged before an outage, or sent after it. A lost one: as the one before it."""
    away = np.ones(sent_s.size, dtype=bool)
    for s in outages:
        away &= (sent_s + rtt_s < s.at_s - EDGE_S) | (sent_s > s.at_s + s.length_s + EDGE_S)
    return away


def _gaps(packets: Packets, rtt_s: Array) -> tuple[list[FoundOutage], list[FoundOutage]]:
    """Gaps between acknowledgements that packets waited for, and gaps in which all packets were lost.

    In the first, the RTT rises by more than half of the gap. Times are those of acknowledgements.
    """
    order = np.argsort(packets.acked_s, kind="stable")
    order = order[~np.isnan(packets.acked_s[order])]
    at, rtt, then = packets.acked_s[order], changes.filled(rtt_s[order]), changes.filled(rtt_s[order][::-1])[::-1]
    gaps = np.diff(at)
    typical = np.median(gaps[gaps > 0])
    held, dropped = [], []
    for k in np.flatnonzero(gaps > max(OUTAGE_S, OUTAGE_FACTOR * typical)).tolist():
        gap = float(gaps[k])
        usual = float(rtt[max(k - NEIGHBOURS, 0) : k + 1].min())
        due = np.searchsorted(packets.sent_s, at[k + 1] - usual) - k - 1  # sent, and not yet acknowledged
        if then[k + 1] - rtt[k] >= 0.5 * gap and due >= FEWEST_DUE:
            held.append(FoundOutage(float(at[k]), gap, "hold"))
            continue
        meant = at[k] - rtt[k]  # when the last packet before the gap was sent
        inside = (packets.sent_s > meant) & (packets.sent_s < meant + gap)
        if inside.sum() >= FEWEST_LOST and packets.lost[inside].mean() >= ALL_LOST:
            dropped.append(FoundOutage(float(at[k]), gap, "drop"))
    return held, dropped


def _rare(held: Sequence[FoundOutage], phase: float | None, end_s: float) -> list[FoundOutage]:
    """The outages; of a link that serves in bursts, only those on edges of slots or longer than usual."""
    if len(held) <= MOST_PER_S * end_s:
        return list(held)
    usual = float(np.median([s.length_s for s in held]))
    at_edges = _on_grid(held, phase)
    return [s for s in held if s.length_s > (usual if s in at_edges else LONGER * usual)]


def _on_grid(dropped: Sequence[FoundOutage], phase: float | None) -> list[FoundOutage]:
    """Those on edges of slots. Gaps with losses elsewhere are bursts of losses."""
    if phase is None:
        return []
    return [s for s in dropped if not off_grid(np.array(s.at_s), phase)]


def away_from_changes(t_s: Array, slots_s: Array) -> Any:
    """Which times are not close to the start of a slot, but for the first."""
    edges = np.concatenate(([-np.inf], slots_s[1:], [np.inf]))
    after = np.searchsorted(edges, t_s)
    return np.minimum(t_s - edges[after - 1], edges[after] - t_s) > GRID_S


def off_grid(t_s: Array, phase: float) -> Any:
    """Which times are not close to an edge of a slot."""
    return np.abs((t_s - phase + changes.SLOT_S / 2) % changes.SLOT_S - changes.SLOT_S / 2) > GRID_S
