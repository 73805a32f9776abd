"""What a search may choose: points of a distribution's declared ranges, and bounded changes of rate, delay and loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.description.flows import ControllerSpec, Flow
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.queues import PACKET_BYTES, DropTailBytes
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios.distribution import Mixture, PathDistribution

if TYPE_CHECKING:
    from orbitcc.eval.contenders import Contender

CHANGES = 3
EVERY_S = 10.0
DURATION_S = EVERY_S * (CHANGES + 1)
"""A world has four quarters of 10 s: rate, delay and loss may be others in each."""
BUFFER_PACKETS = 10

Values = Mapping[str, float]
"""One world: parameter -> value."""


class Trial(Protocol):
    """Of Optuna's trial what is used here."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = ...) -> float: ...


@dataclass(frozen=True)
class Parameter:
    """A number with its declared range and what it shrinks towards. change: of which quarter; 0: of all."""

    name: str
    span: Span
    default: float
    unit: str = ""
    change: int = 0


@dataclass(frozen=True)
class Space:
    """name: of the distribution. parameters: in the order in which they are suggested and shrunk."""

    name: str
    parameters: Sequence[Parameter]

    def suggest(self, trial: Trial) -> dict[str, float]:
        """A world for a trial."""
        return {
            p.name: p.span.low if p.span.low == p.span.high else
            trial.suggest_float(p.name, p.span.low, p.span.high, log=p.span.log)
            for p in self.parameters
        }  # fmt: skip

    def defaults(self) -> dict[str, float]:
        return {p.name: p.default for p in self.parameters}

    def scenario(self, values: Values, flows: Sequence[Flow], seed: int) -> Scenario:
        """The world these values stand for."""
        v = {**self.defaults(), **values}
        quarters = range(CHANGES + 1)
        rates = [v["rate_mbps"] * (v.get(f"rate_factor_{k}", 1.0) if k else 1.0) for k in quarters]
        rtts, losses = [v["base_rtt_ms"]], [v.get("loss", 0.0)]
        for k in quarters[1:]:
            # A change of 0 keeps what was.
            rtts.append(v.get(f"base_rtt_ms_{k}", 0.0) or rtts[-1])
            losses.append(v.get(f"loss_{k}", losses[0]))
        delay = _steps([rtt / 2 for rtt in rtts])
        buffer = max(int(v["buffer_bdp"] * rates[0] * rtts[0] * 125), BUFFER_PACKETS * PACKET_BYTES)
        link = Link(
            name="bottleneck",
            rate_mbps=_steps(rates),
            delay_ms=delay,
            loss=_steps(losses),
            queue=DropTailBytes(limit_bytes=buffer),
            handovers=(),
            reverse=Direction(delay_ms=delay),
        )
        return Scenario(name="found", duration_s=DURATION_S, seed=seed, links=(link,), flows=tuple(flows))


def space_of(name: str) -> Space:
    """The ranges of a distribution: rate, RTT, buffer, loss; and those of its slots, if it has any.

    Of a mixture, the widest of its parts' ranges. Raises OrbitccError for what declares no ranges.
    """
    found = scenarios.load(name)
    parts = found.parts if isinstance(found, Mixture) else (found,)
    paths = [part for part in parts if isinstance(part, PathDistribution)]
    if not paths:
        raise OrbitccError("--scenario", name, "a distribution that declares ranges (`orbitcc list scenarios`)")
    rate, buffer = (_union([getattr(p, key) for p in paths]) for key in ("rate_mbps", "buffer_bdp"))
    rtt = _union([_rtt(p) for p in paths if p.paths is None] or [paths[0].base_rtt_ms])
    lossy = [p.loss.p for p in paths if p.loss is not None]
    slots = [p.slots for p in paths if p.slots is not None]
    loss = Span(low=0.0, high=max((s.high for s in lossy), default=0.0))
    chosen = [
        Parameter("rate_mbps", rate, _middle(rate, 50.0), "Mbit/s"),
        Parameter("base_rtt_ms", rtt, _middle(rtt, 50.0), "ms"),
        Parameter("buffer_bdp", buffer, _middle(buffer, 1.0), "BDP"),
        Parameter("loss", loss, 0.0),
    ]
    if slots:
        factor = _union([s.rate_factor for s in slots])
        for k in range(1, CHANGES + 1):
            chosen.append(Parameter(f"rate_factor_{k}", factor, _middle(factor, 1.0), "×", k))
            chosen.append(Parameter(f"base_rtt_ms_{k}", rtt, 0.0, "ms", k))
    return Space(found.name, chosen)


def candidates(objective: str, against: Sequence[Contender]) -> list[Flow]:
    """The flows of a world: one of the target; two for fairness; beside one of the reference for starvation."""
    external = ControllerSpec(name="external")
    first = Flow(name="target", controller=external)
    if objective == "fairness":
        return [first, Flow(name="target-2", controller=external, start_s=5.0)]
    if objective == "starvation":
        rival = ControllerSpec(name=against[0].controller, params=dict(against[0].params))
        return [first, Flow(name="rival", controller=rival)]
    return [first]


def _steps(values: Sequence[float]) -> Any:
    """One value, or a schedule of those that differ from the one before."""
    points = [(k * EVERY_S, value) for k, value in enumerate(values) if k == 0 or value != values[k - 1]]
    return points[0][1] if len(points) == 1 else tuple(points)


def _union(spans: Sequence[Span]) -> Span:
    return Span(low=min(s.low for s in spans), high=max(s.high for s in spans), log=any(s.log for s in spans))


def _rtt(part: PathDistribution) -> Span:
    """The RTT without queues: also what an access network always adds to it."""
    spans = [part.base_rtt_ms]
    if part.access is not None:
        spans += [part.access.processing_rtt_ms, part.access.terrestrial_rtt_ms]
    return Span(low=sum(s.low for s in spans), high=sum(s.high for s in spans), log=part.base_rtt_ms.log)


def _middle(span: Span, usual: float) -> float:
    """What is usual, if the range holds it, or else its middle."""
    if span.low <= usual <= span.high:
        return usual
    return math.sqrt(span.low * span.high) if span.log else (span.low + span.high) / 2
