"""Traces of a path over time: delays, slots, capacity and loss."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orbitcc.common.errors import OrbitccError
from orbitcc.common.numbers import checked_number
from orbitcc.envs.description.links import MAX_DELAY_MS, MAX_RATE_MBPS, MIN_RATE_MBPS, Direction, Handover, Link, Outage
from orbitcc.envs.description.model import MAX_TIME_S, Points
from orbitcc.envs.description.queues import Queue

Array = NDArray[np.float64]
Times = float | Sequence[float] | Array

JUMP_S = 1e-6
"""A jump of the delay is two points this far apart."""
_LEAST_S = JUMP_S / 2
_STEP_S = 0.011
"""Points of a file that are less far apart are a step, too: it is written as two rows at most 10 ms apart."""
"""Points that are closer may have the same time after a shift: where a trace is cut, one of them stays."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A time during which the route does not change; it lasts until the next slot starts.

    access_fwd_change, access_rev_change: the hop at the sender's (receiver's) end differs from the one before.
    mid_change: a hop between them differs from before.
    outage: there is no route.
    interruption_ms: length of the outage at the start; None: not known, which counts as none.
    interruption_mode: whether packets are lost during the outage, or wait.
    loss: share of packets lost in each direction.
    nodes: names of the nodes of the route.
    """

    start_s: float
    access_fwd_change: bool = False
    access_rev_change: bool = False
    mid_change: bool = False
    outage: bool = False
    interruption_ms: float | None = None
    interruption_mode: Literal["drop", "hold"] = "drop"
    loss: float = 0.0
    nodes: tuple[str, ...] = ()

    @property
    def access_change(self) -> bool:
        return self.access_fwd_change or self.access_rev_change

    @property
    def change(self) -> bool:
        """Whether the route differs from the one before; false without a route."""
        return self.access_change or self.mid_change

    def after(self, before: Sequence[str]) -> Slot:
        """The slot with its flags set for a change from the route `before`."""
        return replace(
            self,
            access_fwd_change=self.nodes[:2] != tuple(before[:2]),
            access_rev_change=self.nodes[-2:] != tuple(before[-2:]),
            mid_change=_inner_hops(self.nodes) != _inner_hops(before),
        )


def _inner_hops(nodes: Sequence[str]) -> set[tuple[str, str]]:
    return set(itertools.pairwise(nodes[1:-1]))


def slots_since(slots: Sequence[Slot], start_s: float) -> tuple[Slot, ...]:
    """The slots from this time on, which is the new 0. The first goes on from before: it is no change of the route."""
    latest_s = start_s + _LEAST_S
    now = next(slot for slot in reversed(slots) if slot.start_s <= latest_s)
    first, left_ms = now, now.interruption_ms
    if now.start_s < start_s:
        left_ms = None if left_ms is None else max(0.0, left_ms - 1e3 * (start_s - now.start_s)) or None
        first = Slot(0.0, outage=now.outage, loss=now.loss, nodes=now.nodes)
    first = replace(first, start_s=0.0, interruption_ms=left_ms, interruption_mode=now.interruption_mode)
    return (first, *(replace(s, start_s=s.start_s - start_s) for s in slots if s.start_s > latest_s))


@dataclass(frozen=True, eq=False)
class Capacity:
    """Rates in steps at increasing times from 0 on; 0: no packet passes. t_s, forward_mbps and reverse_mbps are [C]."""

    t_s: Array
    forward_mbps: Array
    reverse_mbps: Array

    def __post_init__(self) -> None:
        _freeze(self, ("t_s", "forward_mbps", "reverse_mbps"))
        for name in ("forward_mbps", "reverse_mbps"):
            _check_values(name, getattr(self, name), self.t_s, MAX_RATE_MBPS, "Mbit/s")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Capacity) and _same_arrays(self, other, ("t_s", "forward_mbps", "reverse_mbps"))

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class PathTrace:
    """One-way delays, slots and, where known, rates of a path, from 0 to its end.

    t_s: increasing times from 0 to the end, [K].
    forward_ms, reverse_ms: one-way delays at these times, interpolated linearly between them, [K]. A jump is two times
    JUMP_S apart, so that the delays fit `Link.delay_ms` with `interpolate_delay`. The delay during an outage, which no
    packet meets, is that before the outage, or after it at the start.
    slots: the first slot starts at 0.
    Raises OrbitccError that names a wrong field.
    """

    name: str
    t_s: Array
    forward_ms: Array
    reverse_ms: Array
    slots: tuple[Slot, ...] = field(default=(Slot(0.0),))
    capacity: Capacity | None = None

    def __post_init__(self) -> None:
        _freeze(self, ("t_s", "forward_ms", "reverse_ms"))
        for name in ("forward_ms", "reverse_ms"):
            _check_values(name, getattr(self, name), self.t_s, MAX_DELAY_MS, "ms")
        if self.t_s.size < 2:
            raise OrbitccError("t_s", self.t_s.tolist(), "at least two times, from 0 to the end")
        _check_slots(self.slots, self.duration_s)
        if self.capacity is not None and self.capacity.t_s[-1] >= self.duration_s:
            raise OrbitccError("capacity.t_s", float(self.capacity.t_s[-1]), f"before the end, {self.duration_s:g} s")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PathTrace)
            and (self.name, self.slots, self.capacity) == (other.name, other.slots, other.capacity)
            and _same_arrays(self, other, ("t_s", "forward_ms", "reverse_ms"))
        )

    __hash__ = None  # type: ignore[assignment]

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def duration_s(self) -> float:
        return float(self.t_s[-1])

    def delays_ms(self, t_s: Times) -> tuple[Array, Array]:
        """The one-way delays forward and reverse at these times, in ms."""
        at = np.asarray(t_s)
        return np.interp(at, self.t_s, self.forward_ms), np.interp(at, self.t_s, self.reverse_ms)

    def base_rtt_ms(self, t_s: Times) -> Array:
        """The RTT without queues at these times, in ms."""
        return np.interp(np.asarray(t_s), self.t_s, self.forward_ms + self.reverse_ms)

    @functools.cached_property
    def mean_mbps(self) -> tuple[float, float | None] | None:
        """The mean rate forward and reverse over time; None without a capacity, and for a reverse rate that equals the
        forward one, because it was not measured. At least the least rate of a link."""
        own = self.capacity
        if own is None:
            return None
        lengths = np.diff(np.append(own.t_s, self.duration_s))
        there, back = (
            max(float(np.average(r, weights=lengths)), MIN_RATE_MBPS) for r in (own.forward_mbps, own.reverse_mbps)
        )
        return there, None if np.array_equal(own.forward_mbps, own.reverse_mbps) else back

    @property
    def has_delays(self) -> bool:
        """Whether any delay is above 0: those of a measured path are 0 if only its rates were measured."""
        return bool(self.forward_ms.any() or self.reverse_ms.any())

    def slot_at(self, t_s: float) -> Slot:
        """The slot at time t_s."""
        return next(slot for slot in reversed(self.slots) if slot.start_s <= max(t_s, 0.0))

    def ends_s(self) -> list[float]:
        """The end of each slot."""
        return [slot.start_s for slot in self.slots[1:]] + [self.duration_s]

    def statistics(self) -> Statistics:
        """Statistics of the whole trace, without outages."""
        return _statistics(self)

    # -- variants ---------------------------------------------------------------------------------------------------

    def with_rtt(self, rtt_ms: float) -> PathTrace:
        """The trace with this RTT added, half of it in each direction."""
        return replace(self, forward_ms=self.forward_ms + rtt_ms / 2, reverse_ms=self.reverse_ms + rtt_ms / 2)

    def with_interruptions(self, draw_ms: Callable[[], float]) -> PathTrace:
        """The trace with an outage at every access change for which none is known.

        A length is drawn for each end that changes, in order of time; the longer one counts.
        """
        slots = []
        for slot in self.slots:
            if slot.access_change and slot.interruption_ms is None and not slot.outage:
                drawn = [float(draw_ms()) for change in (slot.access_fwd_change, slot.access_rev_change) if change]
                slot = replace(slot, interruption_ms=max(drawn))
            slots.append(slot)
        return replace(self, slots=tuple(slots))

    def holding(self, hold: bool) -> PathTrace:
        """The trace whose outages hold packets, or lose them."""
        mode: Literal["drop", "hold"] = "hold" if hold else "drop"
        return replace(self, slots=tuple(replace(s, interruption_mode=mode) for s in self.slots))

    def lasting(self, duration_s: float) -> PathTrace:
        """The trace cut to this length, or repeated from its start until the length is reached."""
        rounds = [self._until(min(duration_s, self.duration_s))]
        while (missing := duration_s - sum(r.duration_s for r in rounds)) > 10 * JUMP_S:
            rounds.append(self._until(min(missing, self.duration_s)))
        return functools.reduce(PathTrace._then, rounds)

    def since(self, start_s: float) -> PathTrace:
        """The trace from this time on, which is the new 0."""
        if start_s == 0:
            return self
        latest_s, capacity = start_s + _LEAST_S, self.capacity
        n = int(np.searchsorted(self.t_s, latest_s, side="right"))
        forward, reverse = self.delays_ms(max(start_s, float(self.t_s[n - 1])))
        if capacity is not None:
            m = int(np.searchsorted(capacity.t_s, latest_s, side="right"))
            rest = np.append(0.0, capacity.t_s[m:] - start_s)
            capacity = Capacity(rest, capacity.forward_mbps[m - 1 :], capacity.reverse_mbps[m - 1 :])
        return PathTrace(
            self.name,
            np.append(0.0, self.t_s[n:] - start_s),
            np.append(forward, self.forward_ms[n:]),
            np.append(reverse, self.reverse_ms[n:]),
            slots_since(self.slots, start_s),
            capacity,
        )

    def _until(self, end_s: float) -> PathTrace:
        if end_s == self.duration_s:
            return self
        forward, reverse = self.delays_ms(end_s)
        earliest_s, capacity = end_s - _LEAST_S, self.capacity
        n = int(np.searchsorted(self.t_s, earliest_s))
        if capacity is not None:
            m = int(np.searchsorted(capacity.t_s, earliest_s))
            capacity = Capacity(capacity.t_s[:m], capacity.forward_mbps[:m], capacity.reverse_mbps[:m])
        return PathTrace(
            self.name,
            np.append(self.t_s[:n], end_s),
            np.append(self.forward_ms[:n], forward),
            np.append(self.reverse_ms[:n], reverse),
            tuple(s for s in self.slots if s.start_s < earliest_s),
            capacity,
        )

    def _then(self, later: PathTrace) -> PathTrace:
        end = self.duration_s
        first = self._until(end - JUMP_S)
        head = later.slots[0].after(_last_route(first.slots)) if later.slots[0].nodes else later.slots[0]
        capacity = first.capacity
        if capacity is not None and later.capacity is not None:
            capacity = Capacity(
                np.append(capacity.t_s, later.capacity.t_s + end),
                np.append(capacity.forward_mbps, later.capacity.forward_mbps),
                np.append(capacity.reverse_mbps, later.capacity.reverse_mbps),
            )
        return PathTrace(
            self.name,
            np.append(first.t_s, later.t_s + end),
            np.append(first.forward_ms, later.forward_ms),
            np.append(first.reverse_ms, later.reverse_ms),
            (*first.slots, *(replace(s, start_s=s.start_s + end) for s in (head, *later.slots[1:]))),
            capacity,
        )

    # -- as a link --------------------------------------------------------------------------------------------------

    @functools.cached_property
    def delay_points(self) -> tuple[Points, Points]:
        """The delays forward and reverse as schedules of `Direction.delay_ms` with `interpolate_delay`."""
        t = self.t_s.tolist()
        return (
            tuple(zip(t, self.forward_ms.tolist(), strict=True)),
            tuple(zip(t, self.reverse_ms.tolist(), strict=True)),
        )

    @functools.cached_property
    def loss_points(self) -> float | Points:
        """The loss of each direction as a schedule of `Direction.loss`."""
        if not any(s.loss for s in self.slots):
            return 0.0
        return tuple((s.start_s, s.loss) for s in self.slots)

    @functools.cached_property
    def rate_points(self) -> tuple[Points, Points] | None:
        """The rates forward and reverse as schedules of `Direction.rate_mbps`; None without a capacity.

        A rate of 0 becomes the smallest rate of a link, 1 kbit/s: the packet in service continues when the rate
        returns.
        """
        if self.capacity is None:
            return None
        t = self.capacity.t_s.tolist()
        forward, reverse = (
            np.maximum(r, MIN_RATE_MBPS) for r in (self.capacity.forward_mbps, self.capacity.reverse_mbps)
        )
        return tuple(zip(t, forward.tolist(), strict=True)), tuple(zip(t, reverse.tolist(), strict=True))

    def handovers(self) -> tuple[Handover, ...]:
        """All route changes after the start, slots without a route and outages, as they are reported to controllers."""
        return tuple(
            Handover.trusted(
                at_s=s.start_s, duration_ms=1e3 * (end - s.start_s) if s.outage else s.interruption_ms or 0.0
            )
            for s, end in zip(self.slots, self.ends_s(), strict=True)
            if s.start_s > 0 and (s.change or s.outage or s.interruption_ms)
        )

    def outages(self, flush: Literal["none", "queue", "all"] = "queue") -> tuple[Outage, ...]:
        """Outages, and slots without a route, in order. Of two that overlap, one is made or the earlier is cut.

        flush: packets that are lost when an outage that drops packets starts; one that holds them loses none.
        """
        spans: list[tuple[float, float, Literal["drop", "hold"]]] = []  # start in s, length in ms
        for slot, end in zip(self.slots, self.ends_s(), strict=True):
            if not (slot.outage or slot.interruption_ms):
                continue
            mode = "drop" if slot.outage else slot.interruption_mode
            at, length_ms = slot.start_s, 1e3 * (end - slot.start_s) if slot.outage else slot.interruption_ms or 0.0
            if spans and spans[-1][0] + spans[-1][1] / 1e3 >= at:
                start, _, before = spans.pop()
                if before == mode:
                    at, length_ms = start, length_ms + 1e3 * (at - start)
                else:
                    spans.append((start, 1e3 * (at - JUMP_S - start), before))
            spans.append((at, length_ms, mode))
        found = (
            Outage.trusted(at_s=at, duration_ms=ms, mode=mode, flush=flush if mode == "drop" else "none")
            for at, ms, mode in spans
        )
        return tuple(found)

    def link(
        self,
        name: str = "path",
        *,
        rate_mbps: float | None = None,
        return_rate_mbps: float | None = None,
        queue: Queue | None = None,
        return_queue: Queue | None = None,
        ordering: Literal["fifo", "overtaking"] = "overtaking",
        flush: Literal["none", "queue", "all"] = "queue",
    ) -> Link:
        """The path as one link: a queue, and the delays, losses, handovers and outages of the path.

        rate_mbps: has priority over the rate of the trace; without both, the rate is unlimited.
        return_rate_mbps, return_queue: None: as forward.
        Raises OrbitccError that names a wrong value.
        """
        own = self.rate_points or (None, None)
        forward, reverse = self.delay_points
        given: dict[str, Any] = {} if queue is None else {"queue": queue}
        way = Direction(rate_mbps=rate_mbps, **given)
        back = Direction(rate_mbps=return_rate_mbps, queue=way.queue if return_queue is None else return_queue)
        shared: dict[str, Any] = {"interpolate_delay": True, "ordering": ordering, "loss": self.loss_points}
        return Link.trusted(
            name=name,
            rate_mbps=own[0] if way.rate_mbps is None else way.rate_mbps,
            delay_ms=forward,
            queue=way.queue,
            **shared,
            outages=self.outages(flush),
            handovers=self.handovers(),
            reverse=Direction.trusted(
                rate_mbps=_first(back.rate_mbps, way.rate_mbps, own[1]), delay_ms=reverse, queue=back.queue, **shared
            ),
        )


@dataclass(frozen=True)
class Statistics:
    """Statistics of a trace: base RTT at whole seconds, route changes, and the RTT at and between changes.

    rtt_ms: minimum, 5 %, median, 95 % and maximum.
    jump_ms: median, 90 % and maximum of the RTT steps at changes.
    slope_ms_per_s: median, 95 % and maximum of |slope| within slots.
    mean_interval_s: duration divided by the number of changes.
    hops: fewest and most hops; None if the trace names no nodes.
    """

    rtt_ms: tuple[float, float, float, float, float]
    rtt_mean_ms: float
    rtt_sd_ms: float
    changes: int
    access_changes: int
    mean_interval_s: float
    jump_ms: tuple[float, float, float]
    slope_ms_per_s: tuple[float, float, float]
    hops: tuple[int, int] | None
    outage_share: float


def _statistics(trace: PathTrace) -> Statistics:
    ends = trace.ends_s()
    routed = [(s.start_s, end) for s, end in zip(trace.slots, ends, strict=True) if not s.outage]
    seconds = np.arange(0.0, trace.duration_s, 1.0)
    inside = [seconds[(seconds >= start) & (seconds < end)] for start, end in routed]
    rtt = trace.base_rtt_ms(np.concatenate(inside)) if routed else np.array([])
    slopes = [np.abs(np.diff(trace.base_rtt_ms(t))) for t in inside]
    at = np.array([s.start_s for s in trace.slots if s.change and s.start_s > 0 and not s.outage])
    before = trace.t_s[np.searchsorted(trace.t_s, at - _LEAST_S, side="right") - 1]
    jumps = np.abs(trace.base_rtt_ms(at) - trace.base_rtt_ms(np.where(at - before < _STEP_S, before, at - JUMP_S)))
    hops = [len(s.nodes) - 1 for s in trace.slots if s.nodes]
    least, low, median, high, most = _quantiles(rtt, (0, 5, 50, 95, 100))
    return Statistics(
        rtt_ms=(least, low, median, high, most),
        rtt_mean_ms=float(rtt.mean()) if rtt.size else float("nan"),
        rtt_sd_ms=float(rtt.std()) if rtt.size else float("nan"),
        changes=at.size,
        access_changes=sum(s.access_change and s.start_s > 0 and not s.outage for s in trace.slots),
        mean_interval_s=trace.duration_s / at.size if at.size else float("inf"),
        jump_ms=_quantiles(jumps, (50, 90, 100)),  # type: ignore[arg-type]
        slope_ms_per_s=_quantiles(np.concatenate(slopes) if slopes else rtt, (50, 95, 100)),  # type: ignore[arg-type]
        hops=(min(hops), max(hops)) if hops else None,
        outage_share=1 - sum(end - start for start, end in routed) / trace.duration_s,
    )


def steps(t_s: ArrayLike, *values: ArrayLike, end_s: float) -> tuple[Array, ...]:
    """Points for values that are constant from each time to the next: times, then the values. The first time is 0."""
    t = np.asarray(t_s, dtype=np.float64)
    rows = np.array(values, dtype=np.float64)
    moved = np.append(True, np.any(np.diff(rows, axis=1) != 0, axis=0))
    t, rows = t[moved], rows[:, moved]
    knots = np.concatenate((t[:1], np.column_stack((t[1:] - JUMP_S, t[1:])).ravel(), [end_s]))
    return knots, *(np.repeat(row, 2) for row in rows)


def _quantiles(values: Array, percent: Sequence[float]) -> tuple[float, ...]:
    if not values.size:
        return (float("nan"),) * len(percent)
    return tuple(float(v) for v in np.percentile(values, percent))


def _last_route(slots: Sequence[Slot]) -> tuple[str, ...]:
    return next((s.nodes for s in reversed(slots) if not s.outage), ())


def _first(*values: Any) -> Any:
    return next((v for v in values if v is not None), None)


def _freeze(owner: Any, names: Sequence[str]) -> None:
    for name in names:
        values = np.array(getattr(owner, name), dtype=np.float64)
        values.setflags(write=False)
        object.__setattr__(owner, name, values)


def _same_arrays(one: Any, other: Any, names: Sequence[str]) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _check_values(name: str, values: Array, t_s: Array, high: float, unit: str) -> None:
    """Check that times increase from 0 on, and that there are as many values in [0, high]."""
    if t_s.ndim != 1 or not t_s.size or t_s[0] != 0:
        raise OrbitccError("t_s", t_s.tolist()[:1], "times from 0 on")
    late = np.flatnonzero(~(np.diff(t_s) > 0) | (t_s[1:] > MAX_TIME_S))
    if late.size:
        k = int(late[0]) + 1
        raise OrbitccError(f"t_s.{k}", float(t_s[k]), f"later than {t_s[k - 1]:g} s, at most {MAX_TIME_S:g} s")
    if values.shape != t_s.shape:
        raise OrbitccError(name, f"{values.size} values", f"{t_s.size}, one per time")
    wrong = np.flatnonzero(~((values >= 0) & (values <= high)))
    if wrong.size:
        k = int(wrong[0])
        raise OrbitccError(f"{name}.{k}", float(values[k]), f"a number in [0, {high:g}] {unit}")


def _check_slots(slots: tuple[Slot, ...], end_s: float) -> None:
    if not slots or slots[0].start_s != 0:
        raise OrbitccError("slots", [s.start_s for s in slots[:1]], "slots from 0 on")
    before = -1.0
    for i, slot in enumerate(slots):
        if not before < slot.start_s < end_s:
            raise OrbitccError(f"slots.{i}.start_s", slot.start_s, f"later than {before:g} s, before {end_s:g} s")
        try:
            checked_number(slot.loss, 0, 1)
        except OrbitccError as error:
            raise error.at(f"slots.{i}.loss") from None
        try:
            checked_number(slot.interruption_ms, 0, MAX_TIME_S * 1e3, "ms", optional=True)
        except OrbitccError as error:
            raise error.at(f"slots.{i}.interruption_ms") from None
        before = slot.start_s
