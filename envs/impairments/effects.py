"""What an impairment does to a link, and a link with several of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.impairments.series import Series
from orbitcc.envs.links import (
    MIN_RATE_MBPS,
    Bernoulli,
    Direction,
    GilbertElliott,
    Handover,
    Jitter,
    Link,
    Loss,
    Outage,
)
from orbitcc.envs.model import points_of

GAP_S = 1e-6
"""Between an outage and the next one that would have begun before its end."""


@dataclass(frozen=True, slots=True)
class Way:
    """In one direction. None: nothing of the kind.

    rate: a factor, in steps. delay_ms: added. loss: a probability per packet in steps, independent of all others.
    bursts: losses in bursts. gate_ms, gate_phase_ms, jitter: as in Direction.
    """

    rate: Series | None = None
    delay_ms: Series | None = None
    loss: Series | None = None
    bursts: GilbertElliott | None = None
    jitter: Jitter | None = None
    gate_ms: float = 0.0
    gate_phase_ms: float = 0.0


UNTOUCHED = Way()


@dataclass(frozen=True, slots=True)
class Effect:
    """On a link. outages: in any order; handovers: in order, None for none to tell of."""

    forward: Way = UNTOUCHED
    reverse: Way = UNTOUCHED
    outages: Sequence[Outage] = ()
    handovers: Sequence[Handover] = ()


def impaired(link: Link, effects: Sequence[Effect]) -> Link:
    """The link with all these effects on it.

    Rates are multiplied, delays added, losses independent. Of two outages at once the later one starts when the earlier
    one ends. Outages of impairments are no handovers unless they say so. Raises OrbitccError when two effects want a
    gate or a jitter in one direction, or one a share of an unlimited rate.
    """
    back = link.backward()
    handovers = {h.at_s: h for h in (*link.path_changes(), *(h for e in effects for h in e.handovers))}
    return Link.trusted(
        **{name: getattr(link, name) for name in Direction.model_fields}
        | _with(link, [e.forward for e in effects], "forward"),
        name=link.name,
        outages=merged((*link.outages, *(o for e in effects for o in e.outages))),
        handovers=tuple(handovers[t] for t in sorted(handovers)),
        reverse=Direction.trusted(
            **{name: getattr(back, name) for name in Direction.model_fields}
            | _with(back, [e.reverse for e in effects], "reverse")
        ),
    )


def merged(outages: Iterable[Outage]) -> tuple[Outage, ...]:
    """Outages in order that do not overlap: a later one starts when an earlier one has ended, or not at all."""
    found: list[Outage] = []
    end = 0.0
    for outage in sorted(outages, key=lambda o: o.at_s):
        start, stop = outage.at_s, outage.at_s + outage.duration_ms / 1e3
        if found and start < end + GAP_S:
            start = end + GAP_S
            if stop <= start + GAP_S:
                continue
            outage = outage.model_copy(update={"at_s": start, "duration_ms": 1e3 * (stop - start)})
        found.append(outage)
        end = stop
    return tuple(found)


def _with(way: Direction, effects: Sequence[Way], name: str) -> dict[str, Any]:
    """The fields of `way` that these effects change."""
    found: dict[str, Any] = {}
    rates = [e.rate for e in effects if e.rate is not None]
    if rates:
        if way.rate_mbps is None:
            raise OrbitccError(f"{name}.rate_mbps", None, "a rate, for impairments take a share of it")
        rate = Series.of(way.rate_mbps)
        for factor in rates:
            rate = rate * factor
        found["rate_mbps"] = Series(rate.t_s, np.maximum(rate.values, MIN_RATE_MBPS)).points()
    delays = [e.delay_ms for e in effects if e.delay_ms is not None]
    if delays:
        delay = Series.of(way.delay_ms, way.interpolate_delay)
        for extra in delays:
            delay = delay + extra
        found["delay_ms"] = Series(delay.t_s, np.maximum(delay.values, 0.0)).points()
        found["interpolate_delay"] = delay.lines
    if any(e.loss is not None or e.bursts is not None for e in effects):
        found["loss"] = _loss(way, effects, name)
    for field in ("jitter", "gate_ms"):
        wanted = [e for e in effects if getattr(e, field)]
        if len(wanted) + bool(getattr(way, field)) > 1:
            raise OrbitccError(f"{name}.{field}", getattr(wanted[-1], field), f"one {field.partition('_')[0]} at most")
        for effect in wanted:
            found[field] = getattr(effect, field)
            if field == "gate_ms":
                found["gate_phase_ms"] = effect.gate_phase_ms
    return found


def _loss(way: Direction, effects: Sequence[Way], name: str) -> Any:
    apart = functools.reduce(_joined, (e.loss for e in effects if e.loss is not None), Series.of(0.0))
    bursts = [e.bursts for e in effects if e.bursts is not None]
    if not bursts and apart.t_s.size == 1 and not isinstance(way.loss, tuple):
        return also(way.loss, float(apart.values[0]))
    own = points_of(way.loss)
    if len(bursts) + any(isinstance(v, GilbertElliott) for _, v in own) > 1:
        raise OrbitccError(f"{name}.loss", bursts[-1], "one loss in bursts at most")
    times = sorted({*apart.t_s.tolist(), *(t for t, _ in own)})
    points = []
    for t, p in zip(times, apart.at(times).tolist(), strict=True):
        loss: Loss = next(v for at, v in reversed(own) if at <= t)
        for burst in bursts:
            loss = also(burst, loss.p if isinstance(loss, Bernoulli) else loss)  # type: ignore[arg-type]
        points.append((t, also(loss, p)))
    return points[0][1] if len(points) == 1 else tuple(points)


def _joined(one: Series, other: Series) -> Series:
    """The probability that either strikes."""
    both = one + other
    return Series(both.t_s, both.values - (one * other).values)


def also(loss: Loss, p: float) -> Loss:
    """`loss`, and independently of it each packet with probability p."""
    if p == 0:
        return loss
    if isinstance(loss, GilbertElliott):
        return GilbertElliott.trusted(
            good_loss=_either(loss.good_loss, p),
            bad_loss=_either(loss.bad_loss, p),
            to_bad_per_s=loss.to_bad_per_s,
            to_good_per_s=loss.to_good_per_s,
        )
    return _either(loss.p if isinstance(loss, Bernoulli) else loss, p)


def _either(p: float, q: float) -> float:
    return p + q - p * q
