"""Interruptions of a path, as the acknowledgements of a flow show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.fitting import changes
from orbitcc.envs.fitting.recordings import Array, Packets

STALL_S, STALL_FACTOR = 0.035, 5.0
"""Gaps longer than this, and than as many typical gaps, are interruptions."""
FEWEST_DUE, NEIGHBOURS = 4, 20
"""In a gap with fewer outstanding packets, the receiver has delayed an acknowledgement. The RTT that packets were due
after is the least of as many neighbours."""
FEWEST_LOST, ALL_LOST = 3, 0.8
"""A gap in which at least as many packets and such a share of them were lost."""
MOST_PER_S, LONGER = 0.3, 2.0
"""With more stalls per second, the link serves in bursts; only stalls longer than as many usual ones count then."""
GRID_S = 0.5
"""A time this close to the edge of a slot belongs to it."""
BESIDE_S = (-0.25, 0.75)
"""The base RTT before and after an interruption is that of these times."""
EDGE_S = 0.02
"""Packets this close to an interruption say nothing of queue and losses."""
FIRST_S = 0.025
"""The fate of packets sent in this time after the start of an interruption tells whether it loses packets."""
LEAST_WAIT_S = 0.005
"""Packets that waited longer were in a queue."""
LEAST_DROPPED = 0.3
"""Where losses end earlier in the interruption than that and later packets arrive, a full queue made them."""
RECOVERY_S = 0.75


@dataclass(frozen=True)
class Stall:
    """An interruption: start at the queue and length in s; packets wait, or are lost, the queue with them or not.

    queued: whether there was a queue that could be lost.
    """

    at_s: float
    length_s: float
    mode: Literal["hold", "drop"]
    flush: Literal["none", "queue"] = "none"
    queued: bool = False


def find(packets: Packets, rtt_s: Array, end_s: float) -> tuple[list[Stall], float | None]:
    """The interruptions in time of the acknowledgements, and the phase of the 15-second slots, if there are any.

    The phase is that of the longest ones, one for each slot that the capture lasts.
    """
    held, dropped = _gaps(packets, rtt_s)
    longest = sorted((*held, *dropped), key=lambda s: -s.length_s)[: max(4, round(end_s / changes.SLOT_S) + 1)]
    phase = changes.slot_phase([s.at_s for s in longest])
    return [*_rare(held, phase, end_s), *_on_grid(dropped, phase)], phase


def at_queue(stall: Stall, packets: Packets, rtt_s: Array, before_s: float, after_s: float) -> Stall | None:
    """A stall seen in acknowledgements, at the time at which it stopped the queue; None if it was a longer path alone.

    before_s, after_s: base RTT. If most packets of a short time soon after the start were lost, the stall loses them,
    at least until the last one that was lost: what follows may be the timeout of the sender. Otherwise packets wait.
    The last acknowledgement left the queue a base RTT before, or half of one if both directions were interrupted. A
    queue that is lost begins to be lost by its waiting time before the start.
    """
    at_s, latest_s = max(stall.at_s - before_s, 0.0), max(stall.at_s - before_s / 2, 0.0)
    known = np.flatnonzero(~np.isnan(rtt_s))
    acked = packets.acked_s[known]
    later, earlier = known[acked > stall.at_s + 1e-6], known[acked <= stall.at_s]
    first = later[np.argmin(packets.acked_s[later])] if later.size else known[-1]
    waited_s = max(float(rtt_s[earlier[-1]]) - before_s, 0.0) if earlier.size else 0.0
    length_s = stall.length_s - max(after_s - before_s, 0.0)
    near = (packets.sent_s > at_s - waited_s - EDGE_S) & (packets.sent_s < latest_s + stall.length_s)
    sent_s, lost = packets.sent_s[near], packets.lost[near]
    waits = bool(rtt_s[first] - after_s >= 0.5 * stall.length_s)
    if lost.sum() < FEWEST_LOST or not _lost_soon(sent_s, lost, at_s, latest_s):
        return Stall(at_s, stall.length_s if waits else length_s, "hold") if waits or length_s > STALL_S else None
    starts, lengths = changes.runs_of(lost)
    begin_s = float(sent_s[starts[lengths.argmax()]])
    until_s = float(sent_s[lost].max())
    survived = int((~lost & (sent_s > until_s)).sum())
    if until_s - begin_s < LEAST_DROPPED * length_s and survived >= FEWEST_LOST:
        return Stall(at_s, length_s, "hold")
    start_s = float(np.clip(begin_s + waited_s, at_s, latest_s))
    queued = waited_s > LEAST_WAIT_S
    flush: Literal["none", "queue"] = "queue" if queued and begin_s < start_s - LEAST_WAIT_S else "none"
    return Stall(start_s, max(min(length_s, until_s - start_s), 1e-3), "drop", flush, queued)


def _lost_soon(sent_s: Array, lost: NDArray[np.bool_], at_s: float, latest_s: float) -> bool:
    """Whether most packets of FIRST_S were lost, from some time between the two on."""
    for start_s in np.linspace(at_s, latest_s, 5):
        here = lost[(sent_s > start_s) & (sent_s < start_s + FIRST_S)]
        if here.size >= FEWEST_LOST and here.mean() >= ALL_LOST:
            return True
    return False


def apart(found: Sequence[Stall]) -> tuple[Stall, ...]:
    """The stalls in order, without those that follow one with losses so closely that they belong to its recovery."""
    kept: list[Stall] = []
    for s in sorted(found, key=lambda s: s.at_s):
        if not kept or kept[-1].mode == "hold" or s.at_s > kept[-1].at_s + kept[-1].length_s + RECOVERY_S:
            kept.append(s)
    return tuple(kept)


def away_from(stalls: Sequence[Stall], sent_s: Array, rtt_s: Array) -> NDArray[np.bool_]:
    """Which packets were acknowledged before an interruption, or sent after it. A lost one: as the one before it."""
    away = np.ones(sent_s.size, dtype=bool)
    for s in stalls:
        away &= (sent_s + rtt_s < s.at_s - EDGE_S) | (sent_s > s.at_s + s.length_s + EDGE_S)
    return away


def _gaps(packets: Packets, rtt_s: Array) -> tuple[list[Stall], list[Stall]]:
    """Gaps between acknowledgements that packets waited for, and gaps in which all packets were lost.

    In the first, the RTT rises by more than half of the gap. Times are those of acknowledgements.
    """
    order = np.argsort(packets.acked_s, kind="stable")
    order = order[~np.isnan(packets.acked_s[order])]
    at, rtt, then = packets.acked_s[order], changes.filled(rtt_s[order]), changes.filled(rtt_s[order][::-1])[::-1]
    gaps = np.diff(at)
    typical = np.median(gaps[gaps > 0])
    held, dropped = [], []
    for k in np.flatnonzero(gaps > max(STALL_S, STALL_FACTOR * typical)).tolist():
        gap = float(gaps[k])
        usual = float(rtt[max(k - NEIGHBOURS, 0) : k + 1].min())
        due = np.searchsorted(packets.sent_s, at[k + 1] - usual) - k - 1  # sent, and not yet acknowledged
        if then[k + 1] - rtt[k] >= 0.5 * gap and due >= FEWEST_DUE:
            held.append(Stall(float(at[k]), gap, "hold"))
            continue
        meant = at[k] - rtt[k]  # when the last packet before the gap was sent
        inside = (packets.sent_s > meant) & (packets.sent_s < meant + gap)
        if inside.sum() >= FEWEST_LOST and packets.lost[inside].mean() >= ALL_LOST:
            dropped.append(Stall(float(at[k]), gap, "drop"))
    return held, dropped


def _rare(held: Sequence[Stall], phase: float | None, end_s: float) -> list[Stall]:
    """The stalls; of a link that serves in bursts, only those on edges of slots or longer than usual."""
    if len(held) <= MOST_PER_S * end_s:
        return list(held)
    usual = float(np.median([s.length_s for s in held]))
    at_edges = _on_grid(held, phase)
    return [s for s in held if s.length_s > (usual if s in at_edges else LONGER * usual)]


def _on_grid(dropped: Sequence[Stall], phase: float | None) -> list[Stall]:
    """Those on edges of slots. Gaps with losses elsewhere are bursts of losses."""
    if phase is None:
        return []
    return [s for s in dropped if not off_grid(np.array(s.at_s), phase)]


def off_grid(t_s: Array, phase: float) -> Any:
    """Which times are not close to an edge of a slot."""
    return np.abs((t_s - phase + changes.SLOT_S / 2) % changes.SLOT_S - changes.SLOT_S / 2) > GRID_S
