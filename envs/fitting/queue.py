"""The queue of a path: its size, what it drops, and which packets only chance could lose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.fitting import changes
from orbitcc.envs.fitting.recordings import Array, Packets

Flags = NDArray[np.bool_]
Drop = Literal["tail", "front"]

SURE = 8.0
"""The gain in the log-likelihood from which on losses depend on the queue. (A gain of 6.6 is twice as much as the 0.1 %
level of one parameter; the best of many levels needs more.)"""
LEAST_LEVEL = 0.3
"""The level of overflow is at least this share of the 99th percentile: nothing can be queued beyond it for long."""
LOW = 0.7
"""Packets that met a smaller share of the level cannot have been lost by the queue."""
NEAR_RTTS = 2.0
"""Where the front is dropped, neither can packets sent as many RTTs away from a full queue."""
FRONT = 0.7
"""The bytes behind vary clearly less than the bytes ahead if their spread is below FRONT times that."""
BEYOND, OFTEN = 1.1, 0.05
"""The tail is not dropped if more than the share OFTEN of what arrived met more than BEYOND times its size."""
SPREAD = 0.1
"""Bytes that vary by a smaller share vary little; sizes that differ by less and vary little cannot be told apart."""


@dataclass(frozen=True, eq=False)
class Queue:
    """ahead: [N] bytes that each packet met. size_bytes: of the queue if it overflowed, else the most that was queued.

    drop: None if the losses do not show it. safe: [N] packets that a full queue cannot have lost.
    """

    ahead: Array
    size_bytes: float
    drop: Drop | None
    overflowed: bool
    safe: Flags


def estimate(
    packets: Packets,
    rtt_s: Array,
    delivered: Callable[[Array], Array],
    base_s: Array,
    quiet: Flags,
    size: tuple[Drop | None, float] | None = None,
) -> Queue:
    """The queue that the packets of a flow met.

    rtt_s: [N], NaN where not known. delivered: bytes acknowledged until a time. base_s: [N] base RTT. quiet: [N]
    packets away from outages, which alone count. size: of the queue, as another flow shows it.
    """
    known = ~np.isnan(rtt_s) & quiet
    ahead, behind = (changes.filled(np.where(known, queue, np.nan)) for queue in _queues(packets, delivered, base_s))
    either = np.maximum(ahead, behind)
    if size is None:
        peak = _largest_within(packets.sent_s, either, changes.filled(rtt_s))
        level = _overflow_level(peak[quiet], packets.lost[quiet])
        if level is None:
            return Queue(ahead, float(np.quantile(ahead, 0.999)), None, False, quiet)
        size = _size(ahead[quiet], behind[quiet], packets.lost[quiet], peak[quiet] >= level)
        limit = LOW * min(level, size[1])
    else:
        limit = LOW * size[1]
    full = (either if size[0] == "front" else ahead) >= limit
    if size[0] == "front":
        full = _near(full, packets.sent_s, NEAR_RTTS * float(np.nanmedian(rtt_s)))
    overflowed = bool((packets.lost & full & quiet).any())
    return Queue(ahead, size[1], size[0], overflowed, quiet & ~full)


def _queues(packets: Packets, delivered: Callable[[Array], Array], r_s: Array) -> tuple[Array, Array]:
    """Bytes in the queue ahead of each packet when it came, and behind it when it left; NaN without an RTT.

    A packet sent at s and acknowledged at a, with a base RTT of r, waited for a - s - r. Ahead of it was what left in
    this time: what was acknowledged between s + r and a. Behind it is what was sent in this time.
    """
    with np.errstate(invalid="ignore"):
        wait_s = np.maximum(packets.acked_s - packets.sent_s - r_s, 0)
        ahead = delivered(packets.acked_s) - delivered(packets.sent_s + r_s)
    again = ~np.isnan(packets.again_s)
    at = np.concatenate((packets.sent_s, packets.again_s[again]))
    order = np.argsort(at, kind="stable")
    carried = np.append(0.0, np.cumsum(np.concatenate((packets.wire_bytes, packets.wire_bytes[again]))[order]))
    until = carried[np.searchsorted(at[order], packets.sent_s + np.nan_to_num(wait_s), side="right")]
    behind = until - carried[np.searchsorted(at[order], packets.sent_s, side="right")]
    return ahead, np.where(np.isnan(wait_s), np.nan, behind + packets.wire_bytes)


def _largest_within(sent_s: Array, queue: Array, rtt_s: Array) -> Array:
    """For each packet, the largest queue that the packets met which were sent within one RTT from it on.

    A queue that drops from the front loses a packet because of those behind it. The maxima are looked up in a table of
    the maxima over 1, 2, 4 ... packets.
    """
    count = np.maximum(np.searchsorted(sent_s, sent_s + rtt_s, side="right") - np.arange(sent_s.size), 1)
    power = np.floor(np.log2(count)).astype(np.int64)
    found, table = queue.copy(), queue
    for k in range(int(power.max()) + 1):
        here = np.flatnonzero(power == k)
        found[here] = np.maximum(table[here], table[np.maximum(here + count[here] - 2**k, here)])
        table = np.maximum(table, np.append(table[2**k :], table[-1:].repeat(min(2**k, table.size))))
    return found


def _near(full: NDArray[np.bool_], sent_s: Array, reach_s: float) -> NDArray[np.bool_]:
    """Which packets were sent at most `reach_s` before or after one that met a full queue."""
    count = np.append(0, np.cumsum(full))
    first, past = (np.searchsorted(sent_s, sent_s + d, side=s) for d, s in ((-reach_s, "left"), (reach_s, "right")))  # type: ignore[call-overload]
    return np.asarray(count[past] > count[first])


def _overflow_level(peak: Array, lost: NDArray[np.bool_]) -> float | None:
    """The queue from which on packets are lost more often; None when losses do not depend on the queue.

    Of all levels, the one that makes the runs of losses likeliest if they have one probability below and a higher one
    above; the gain in the log-likelihood must exceed SURE.
    """
    events = lost & ~np.append(False, lost[:-1])
    order = np.argsort(peak, kind="stable")
    total, n = int(events.sum()), events.size
    if total == 0:
        return None
    below = np.append(0, np.cumsum(events[order]))
    split = np.unique((np.append(np.linspace(0, 0.99, 100), [0.995, 0.998, 0.999, 0.9995]) * n).astype(np.int64))[1:]
    split = np.searchsorted(peak[order], peak[order][split - 1], side="right")  # equal values stay together
    split = split[(split > 0) & (split < n)]
    split = split[peak[order][split] >= LEAST_LEVEL * np.quantile(peak, 0.99)]
    if not split.size:
        return None
    few, many = below[split], total - below[split]
    gain = _likelihood(few, split) + _likelihood(many, n - split) - _likelihood(np.array(total), np.array(n))
    gain = np.where(many / (n - split) > few / split, gain, 0.0)
    best = int(gain.argmax())
    return float(peak[order][split[best]]) if gain[best] > SURE else None


def _size(ahead: Array, behind: Array, lost: NDArray[np.bool_], high: NDArray[np.bool_]) -> tuple[Drop | None, float]:
    """Which packets a full queue drops, and its size: half of the losses in `high`, beyond chance, met a smaller queue.

    At a loss, the bytes ahead are the size of a queue that drops from the tail, the bytes behind that of one that drops
    from the front. The front is dropped if the bytes behind vary little or no more, and packets that arrived met more
    than the bytes ahead of half of the losses if these vary clearly more, otherwise of three quarters: in a slow start,
    the bytes ahead are constantly half of the queue. None: both sizes fit.
    """
    chance = float(lost[~high].mean()) if not high.all() else 0.0
    sizes, tops, spreads = [], [], []
    for queue in (ahead, behind):
        order = np.argsort(queue[high], kind="stable")
        beyond = np.cumsum(lost[high][order] - chance)
        low, middle, top = (float(queue[high][order][np.argmax(beyond >= q * beyond[-1])]) for q in (0.25, 0.5, 0.75))
        sizes.append(middle)
        tops.append(top)
        spreads.append((top - low) / middle if middle else np.inf)
    tail, front = sizes
    most = tail if spreads[1] < FRONT * spreads[0] else tops[0]
    arrived = ahead[high & ~lost]
    if spreads[1] <= max(spreads[0], SPREAD) and (arrived > BEYOND * most).sum() > OFTEN * arrived.size:
        return "front", front
    alike = abs(front - tail) <= SPREAD * tail and max(spreads) <= SPREAD
    return (None if alike else "tail"), tail


def _likelihood(events: Any, packets: Any) -> Any:
    """The largest log-likelihood of a Poisson process with as many events in as many packets."""
    return events * np.log(np.maximum(events, 1e-300) / packets) - events
