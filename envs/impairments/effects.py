"""Effects of impairments on a link, and how several of them are combined."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.links import (
    MIN_RATE_MBPS,
    Bernoulli,
    Direction,
    GilbertElliott,
    Handover,
    Jitter,
    Link,
    LoadLoss,
    Loss,
    Outage,
)
from orbitcc.envs.description.model import Kept, Points, points_of
from orbitcc.envs.impairments.series import Series
from orbitcc.envs.orbits.trace import PathTrace

T = TypeVar("T")

GAP_S = 1e-6
"""Gap between an outage and the next one, if the next would begin before its end."""


@dataclass(frozen=True)
class Way:
    """The effect in one direction. None: no such effect.

    rate: a factor on the rate, in steps.
    delay_ms: additional delay.
    loss: an additional, independent loss probability per packet, in steps.
    bursts: additional losses in bursts.
    gate_ms, gate_phase_ms, jitter: as in Direction.
    """

    rate: Series | None = None
    delay_ms: Series | None = None
    loss: Series | None = None
    bursts: GilbertElliott | None = None
    jitter: Jitter | None = None
    gate_ms: float = 0.0
    gate_phase_ms: float = 0.0

    @functools.cached_property
    def loss_alone(self) -> Any:
        """`Direction.loss` if there is no other loss."""
        return _loss(0.0, self)


UNTOUCHED = Way()


@dataclass(frozen=True)
class Effect:
    """The effect on a link. outages: in any order; handovers: in order of time. path: along which it is, if any."""

    forward: Way = UNTOUCHED
    reverse: Way = UNTOUCHED
    outages: Sequence[Outage] = ()
    handovers: Sequence[Handover] = ()
    path: PathTrace | None = None

    def delay_ms_at_start(self) -> float:
        """The delay in ms that is added to the RTT at time 0."""
        return sum(float(w.delay_ms.values[0]) for w in (self.forward, self.reverse) if w.delay_ms is not None)

    @functools.cached_property
    def outages_alone(self) -> tuple[Outage, ...]:
        """`Link.outages` if there are no other outages."""
        return merged(self.outages)

    @functools.cached_property
    def handovers_alone(self) -> tuple[Handover, ...]:
        """`Link.handovers` if there are no other handovers."""
        return _all_handovers(self.handovers)


def along(trace: PathTrace) -> Effect:
    """The delays, outages and handovers of a path as an effect, for a link without its own.

    Also its losses, and the rates of a capacity as factors on their means (`PathTrace.mean_mbps`).
    """
    there = Series(trace.t_s, trace.forward_ms, lines=True)
    same = np.array_equal(trace.forward_ms, trace.reverse_ms)
    back = there if same else Series(trace.t_s, trace.reverse_ms, lines=True)
    forward, reverse = (Way(delay_ms=delay, loss=_lost(trace)) for delay in (there, back))
    if trace.mean_mbps is not None and (own := trace.capacity) is not None:
        there_mbps, back_mbps = trace.mean_mbps
        forward = replace(forward, rate=Series(own.t_s, own.forward_mbps / there_mbps))
        if back_mbps is not None:
            reverse = replace(reverse, rate=Series(own.t_s, own.reverse_mbps / back_mbps))
    return Effect(
        forward=forward,
        reverse=reverse,
        outages=trace.outages(),
        handovers=trace.handovers(),
        path=trace,
    )


def _lost(trace: PathTrace) -> Series | None:
    """The loss of each direction of a trace; None without any."""
    if not any(slot.loss for slot in trace.slots):
        return None
    return Series(np.array([s.start_s for s in trace.slots]), np.array([s.loss for s in trace.slots]))


def joined(effects: Sequence[Effect]) -> Effect:
    """The joint effect of several effects.

    Rates are multiplied, delays are added, and losses are independent. If two outages overlap, the later one starts
    when the earlier one ends. Raises OrbitccError if two effects have bursts, a gate or a jitter in one direction.
    """
    if len(effects) == 1:
        return effects[0]
    forward = _joined_way([e.forward for e in effects], "forward")
    reverse = _joined_way([e.reverse for e in effects], "reverse")
    if all(e.forward.delay_ms is e.reverse.delay_ms for e in effects):
        reverse = replace(reverse, delay_ms=forward.delay_ms)  # stored and compiled once
    return Effect(
        forward,
        reverse,
        merged(o for e in effects for o in e.outages),
        _all_handovers(h for e in effects for h in e.handovers),
        next((e.path for e in effects if e.path is not None), None),
    )


def _joined_way(ways: Sequence[Way], name: str) -> Way:
    gate = _only([w for w in ways if w.gate_ms], lambda w: w.gate_ms, f"{name}.gate_ms")
    return Way(
        rate=_reduced(operator.mul, (w.rate for w in ways)),
        delay_ms=_reduced(operator.add, (w.delay_ms for w in ways)),
        loss=_reduced(_either_strikes, (w.loss for w in ways)),
        bursts=_only([w.bursts for w in ways if w.bursts is not None], repr, f"{name}.bursts"),
        jitter=_only([w.jitter for w in ways if w.jitter is not None], repr, f"{name}.jitter"),
        gate_ms=0.0 if gate is None else gate.gate_ms,
        gate_phase_ms=0.0 if gate is None else gate.gate_phase_ms,
    )


def _reduced(operation: Callable[[Series, Series], Series], several: Iterable[Series | None]) -> Series | None:
    there = [s for s in several if s is not None]
    return functools.reduce(operation, there) if there else None


def _either_strikes(one: Series, other: Series) -> Series:
    """The probability that at least one of two independent losses occurs."""
    both = one + other
    return Series(both.t_s, both.values - (one * other).values)


def _only(found: Sequence[T], shown: Callable[[T], Any], field: str) -> T | None:
    if len(found) > 1:
        raise OrbitccError(field, shown(found[-1]), "at most one per direction")
    return found[0] if found else None


def impaired(link: Link, effects: Sequence[Effect]) -> Link:
    """The link with all these effects, combined as by `joined`.

    Outages of impairments count as handovers only if the effect lists them. Raises OrbitccError as `joined` does, and
    if an effect has a factor on an unlimited rate.
    """
    effect, back = joined(effects), link.backward()
    own = link.path_changes()
    changes = {
        "outages": merged((*link.outages, *effect.outages)) if link.outages else effect.outages_alone,
        "handovers": _all_handovers((*own, *effect.handovers)) if own else effect.handovers_alone,
        "reverse": back.with_trusted(_changes(back, effect.reverse, "reverse")),
    }
    return link.with_trusted(_changes(link, effect.forward, "forward") | changes)


def merged(outages: Iterable[Outage]) -> tuple[Outage, ...]:
    """The outages in order and without overlaps: a later one starts after the end of an earlier one, or is left out."""
    found: list[Outage] = []
    end = -1.0
    for outage in sorted(outages, key=lambda o: o.at_s):
        start, stop = outage.at_s, outage.at_s + outage.duration_ms / 1e3
        if start < end + GAP_S:
            start = end + GAP_S
            if stop <= start + GAP_S:
                continue
            outage = outage.model_copy(update={"at_s": start, "duration_ms": 1e3 * (stop - start)})
        found.append(outage)
        end = stop
    return Kept(found)


def _all_handovers(handovers: Iterable[Handover]) -> tuple[Handover, ...]:
    """The handovers in order of time; of two at the same time, the one listed later."""
    by_time = {h.at_s: h for h in handovers}
    return Kept(by_time[t] for t in sorted(by_time))


def _changes(way: Direction, effect: Way, name: str) -> dict[str, Any]:
    """The fields of `way` that the effect changes."""
    found: dict[str, Any] = {}
    if effect.rate is not None:
        if way.rate_mbps is None:
            raise OrbitccError(f"{name}.rate_mbps", None, "a limited rate, because impairments reduce it")
        rate = way.rate_mbps if isinstance(way.rate_mbps, float) else Series.of(way.rate_mbps)
        found["rate_mbps"] = (effect.rate * rate).at_least(MIN_RATE_MBPS).points()
    if effect.delay_ms is not None:
        delay = effect.delay_ms
        if way.delay_ms != 0.0:
            delay = Series.of(way.delay_ms, way.interpolate_delay) + delay
        found["delay_ms"], found["interpolate_delay"] = delay.as_delay, delay.lines
    if effect.loss is not None or effect.bursts is not None:
        found["loss"] = _loss(way.loss, effect, name) if way.loss != 0.0 else effect.loss_alone
    if effect.jitter is not None:
        found["jitter"] = _only([j for j in (way.jitter, effect.jitter) if j is not None], repr, f"{name}.jitter")
    if effect.gate_ms:
        found["gate_ms"] = _only([g for g in (way.gate_ms, effect.gate_ms) if g], float, f"{name}.gate_ms")
        found["gate_phase_ms"] = effect.gate_phase_ms
    return found


def _loss(loss: Loss | Points, effect: Way, name: str = "") -> Any:
    """`loss` of a direction combined with that of the effect."""
    apart = Series.of(0.0) if effect.loss is None else effect.loss
    own = points_of(loss)
    if effect.bursts is not None and any(isinstance(v, GilbertElliott | LoadLoss) for _, v in own):
        raise OrbitccError(f"{name}.loss", repr(effect.bursts), "at most one loss in bursts or with the load")
    if len(own) == 1:
        times, values = apart.t_s.tolist(), apart.values.tolist()
    else:
        times = sorted({*apart.t_s.tolist(), *(t for t, _ in own)})
        values = apart.at(times).tolist()
    points = []
    for t, p in zip(times, values, strict=True):
        now: Loss = next(v for at, v in reversed(own) if at <= t)
        if effect.bursts is not None:
            now = also(effect.bursts, now.p if isinstance(now, Bernoulli) else now)  # type: ignore[arg-type]
        points.append((t, also(now, p)))
    return points[0][1] if len(points) == 1 else Kept(points)


def also(loss: Loss, p: float) -> Loss:
    """`loss`, and independently of it a loss of each packet with probability p."""
    if p == 0:
        return loss
    if isinstance(loss, GilbertElliott):
        return GilbertElliott.trusted(
            good_loss=_either(loss.good_loss, p),
            bad_loss=_either(loss.bad_loss, p),
            to_bad_per_s=loss.to_bad_per_s,
            to_good_per_s=loss.to_good_per_s,
        )
    if isinstance(loss, LoadLoss):
        idle, full = _either(loss.idle_loss, p), _either(loss.full_loss, p)
        return LoadLoss.trusted(idle_loss=idle, full_loss=full, tau_ms=loss.tau_ms)
    return _either(loss.p if isinstance(loss, Bernoulli) else loss, p)


def _either(p: float, q: float) -> float:
    return p + q - p * q
