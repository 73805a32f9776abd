"""Distributions of scenarios, declared as ranges, from which training worlds are drawn.

The ranges are checked once. Sampling then builds scenarios without further checks, so it is cheap between episodes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.controllers import EXTERNAL
from orbitcc.envs.description.flows import ControllerChoice, ControllerSpec, Flow
from orbitcc.envs.description.links import MAX_DELAY_MS, MAX_RATE_MBPS, Direction, Link, Outage
from orbitcc.envs.description.model import MAX_TIME_S, Model, number
from orbitcc.envs.description.queues import PACKET_BYTES, DropTailBytes, DropTailPackets, Queue, Viasat
from orbitcc.envs.description.ranges import Draws, Random, Span, span
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.impairments import hotspots
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.access_cycle import AccessCycle, under_cycle
from orbitcc.envs.impairments.effects import Effect, along, impaired, joined
from orbitcc.envs.impairments.geo import GeoImpairments
from orbitcc.envs.impairments.hotspots import Hotspot, Hotspots
from orbitcc.envs.impairments.series import Series
from orbitcc.envs.impairments.weather import Weather
from orbitcc.envs.orbits.pool import PathPool, TracePool, pool
from orbitcc.envs.orbits.trace import Slot
from orbitcc.envs.scenarios.folder import Folder

_DISTURBANCES = 0x0D15
"""Part of the seed of disturbances, which keeps them independent of the episodes."""

MOST_WINDOWS = 64
"""Windows of measured paths that a distribution keeps: one of 30 s in steps of 10 ms takes about 1 MB."""
_T = TypeVar("_T")

_RETURN_QUEUE = DropTailPackets(limit_packets=1000)

_share = span(0, 1)
_probability = number(0, 1)


class Slots(Model):
    """Changes at the edges of reconfiguration slots: a new rate, a new RTT, and an outage.

    The delay changes when the outage starts, the rate when it ends (reconfiguration model of Mazilu et al.).
    """

    length_s: Annotated[Span, span(1, 1e4, "s")] = Span(low=15, high=15)
    odd_length_s: Annotated[Span, span(1, 1e4, "s")] = Span(low=3, high=30)
    odd_length_probability: Annotated[float, _probability] = 0.0
    rate_factor: Annotated[Span, span(0.01, 100)] = Span(low=0.5, high=1.0)
    redraw_rtt_probability: Annotated[float, _probability] = 1.0
    rtt_jump_ms: Annotated[Span, span(-1e4, 1e4, "ms")] = Span(low=-20, high=20)
    interruption_ms: Annotated[Span, span(0, 1e3, "ms")] = Span(low=45, high=120)
    long_interruption_ms: Annotated[Span, span(0, 1e3, "ms")] = Span(low=150, high=750)
    long_interruption_probability: Annotated[float, _probability] = 0.0


class RandomLoss(Model):
    """Independent packet loss in the data direction, with a new probability in each slot."""

    none_probability: Annotated[float, _probability] = 0.4
    p: Annotated[Span, _share] = Span(low=1e-5, high=2e-2, log=True)


class Rivals(Model):
    """One flow with a classical controller on the whole path, which starts in the first half of the run."""

    probability: Annotated[float, _probability] = 0.2
    controllers: tuple[ControllerChoice, ...] = Field(
        default=("cubic", "bbr3", "reno"), min_length=1, validate_default=True, description="one of these is drawn"
    )


class AckPath(Model):
    """The return direction: ratio of forward to return rate, and independent loss of acknowledgements."""

    rate_ratio: Annotated[Span, span(0.1, 1000)] = Span(low=1, high=50, log=True)
    loss: Annotated[Span, _share] = Span(low=0, high=0.02)


class PathDistribution(ScenarioDistribution):
    """A path with one or several bottlenecks. Rate, RTT, buffer, impairments and learning flows are drawn.

    Learning flows have the controller `external`. The first one starts at 0 and stays to the end. With several
    bottlenecks the first flow crosses all of them and every other flow one; all have the same base RTT.
    """

    kind: Literal["paths"] = "paths"
    duration_s: Annotated[float, number(1, MAX_TIME_S, "s")] = 60.0
    rate_mbps: Annotated[Span, span(0.1, MAX_RATE_MBPS, "Mbit/s")]
    base_rtt_ms: Annotated[Span, span(0.1, MAX_DELAY_MS, "ms")]
    buffer_bdp: Annotated[Span, span(0.001, 1e3)]
    min_buffer_packets: Annotated[int, number(1, 1e6, "packets", whole=True)] = 10
    viasat_probability: Annotated[float, _probability] = Field(
        default=0.0,
        description="share of worlds with the Viasat queue, which drops above 1 s of the rate and is full at 2 s",
    )
    overtaking_probability: Annotated[float, _probability] = 0.0

    flows: Annotated[Span, span(1, 1000)] = Field(
        description="number of learning flows with one bottleneck; flows that would start after the end are left out"
    )
    mean_gap_s: Annotated[float | None, number(0, MAX_TIME_S, "s", optional=True)] = Field(
        default=None,
        description="mean of the exponential gaps between starts; None: starts are uniform over half the run",
    )
    lifetime_share: Annotated[Span, _share] = Field(
        default=Span(low=0.25, high=1.0), description="lifetime as a share of the remaining run"
    )
    own_rtt_probability: Annotated[float, _probability] = Field(
        default=0.0,
        description="share of worlds in which each flow has its own extra delay, up to the highest base RTT",
    )

    delay_preference: Annotated[Span, span(0.01, 1)] = Field(
        default=Span(low=1, high=1),
        description="how much delay counts for the learning flows of a world, relative to the weight in the reward",
    )
    delay_preference_probability: Annotated[float, _probability] = Field(
        default=1.0, description="share of worlds whose learning flows ask for it; the others leave it to the policy"
    )

    rivals: Rivals | None = None

    one_bottleneck_probability: Annotated[float, _probability] = 1.0
    bottlenecks: Annotated[Span, span(2, 100)] = Span(low=2, high=6)
    cross_flows: Annotated[Span, span(1, 100)] = Span(low=1, high=2)
    hop_rate_factor: Annotated[Span, span(0.01, 100)] = Span(low=0.5, high=1.5)

    slots: Slots | None = None
    static_probability: Annotated[float, _probability] = Field(
        default=0.0, description="share of worlds without slots, with constant rate and delay"
    )
    loss: RandomLoss | None = None
    paths: Annotated[PathPool | TracePool | None, BeforeValidator(pool)] = Field(
        default=None,
        description="paths over satellites with one bottleneck, or windows of measured paths; their delays replace "
        "base_rtt_ms and their rates rate_mbps, except for what was not measured",
    )
    access: AccessOverlay | None = Field(default=None, description="an access network on the first bottleneck")
    access_cycle: AccessCycle = Field(
        default_factory=AccessCycle,
        description="effects measured since 2024, which replace parts of the access network",
    )
    access_cycle_probability: Annotated[float, _probability] = Field(
        default=0.0, description="share of worlds with access in which access_cycle applies"
    )
    weather: Weather | None = Field(default=None, description="rain on the first bottleneck")
    geo: GeoImpairments | None = Field(default=None, description="impairments of the first bottleneck, a GEO link")
    pool_size: Annotated[int, number(1, 1e6, whole=True)] = Field(
        default=2048,
        description="number of different draws of paths, access, weather and geo together (with paths, also of rate "
        "and return path); each is made at its first use and kept",
    )
    ack_path: AckPath | None = None
    hotspots: Hotspots | None = Field(default=None, description="one process for the path; each hotspot is on one hop")

    @model_validator(mode="after")
    def _one_source_of_delays(self) -> PathDistribution:
        if self.paths is not None and self.slots is not None:
            raise OrbitccError("slots", "a table", "no table, because slots and delays come from the paths")
        if self.paths is not None and self.one_bottleneck_probability < 1:
            raise OrbitccError("one_bottleneck_probability", self.one_bottleneck_probability, "1 with paths")
        if isinstance(self.paths, TracePool) and self.paths.duration_s < self.duration_s:
            allowed = f"{self.paths.duration_s:g} s at most, the length of the windows (paths.duration_s)"
            raise OrbitccError("duration_s", self.duration_s, allowed)
        return self

    @property
    def max_agents(self) -> int:
        crowd = (
            1 + int(self.bottlenecks.high) * int(self.cross_flows.high) if self.one_bottleneck_probability < 1 else 0
        )
        return max(int(self.flows.high), crowd)

    def _draw(self, rng: np.random.Generator) -> Scenario:
        return _Draw(self, rng).scenario()

    def held_out(self) -> PathDistribution:
        """The worlds on which policies are compared during a training on these: of a trace set, its validation part."""
        return self.changed(paths=self.paths.held_out()) if isinstance(self.paths, TracePool) else self

    @property
    def is_disturbed(self) -> bool:
        return any(part is not None for part in (self.paths, self.access, self.weather, self.geo))

    def disturbance(self, i: int) -> Effect:
        """The effect of path, access network, weather and GEO link number i on a bottleneck; depends on i only."""
        return self._kept(self._disturbances, i, self._disturb)

    @functools.cached_property
    def _disturbances(self) -> dict[int, Effect]:
        return {}

    def _kept(self, kept: dict[int, _T], i: int, make: Callable[[int], _T]) -> _T:
        """Entry i, made at its first use. Of windows of measured paths, which are long, only the last ones are kept."""
        if i not in kept:
            if isinstance(self.paths, TracePool) and len(kept) >= MOST_WINDOWS:
                del kept[next(iter(kept))]
            kept[i] = make(i)
        return kept[i]

    @property
    def is_pooled(self) -> bool:
        """Whether the bottleneck, except for its queue, depends only on the number of its disturbance."""
        return self.paths is not None and self.loss is None and self.overtaking_probability == 0

    def bottleneck(self, i: int) -> tuple[float, Link]:
        """Rate in Mbit/s and link number i of a pooled distribution; the caller sets its queue."""
        return self._kept(self._bottlenecks, i, self._bottleneck)

    def _bottleneck(self, i: int) -> tuple[float, Link]:
        rng, disturbance = np.random.default_rng((_DISTURBANCES, i, 1)), self.disturbance(i)
        rate, back = self.measured(disturbance, self.rate_mbps.draw(rng))
        link = Link.trusted(name="hop-0", rate_mbps=rate, delay_ms=0.0, reverse=self.return_path(rate, rng, back))
        return rate, impaired(link, [disturbance])

    @staticmethod
    def measured(disturbance: Effect | None, rate: float) -> tuple[float, float | None]:
        """The mean rates of a path forward and reverse where they were measured; otherwise the given one, and None."""
        path = None if disturbance is None else disturbance.path
        return (rate, None) if path is None or path.mean_mbps is None else path.mean_mbps

    @functools.cached_property
    def _bottlenecks(self) -> dict[int, tuple[float, Link]]:
        return {}

    def return_path(self, rate: float, rng: Random, measured_mbps: float | None = None) -> Direction:
        """The return direction of a bottleneck with this rate, without delay. measured_mbps: its own mean rate."""
        ratio, loss = 1.0, 0.0
        if self.ack_path is not None:
            ratio, loss = self.ack_path.rate_ratio.draw(rng), self.ack_path.loss.draw(rng)
        back = rate / ratio if measured_mbps is None else measured_mbps
        return Direction.trusted(rate_mbps=back, loss=loss, queue=_RETURN_QUEUE)

    def _disturb(self, i: int) -> Effect:
        rng = np.random.default_rng((_DISTURBANCES, i))
        effects: list[Effect] = []
        slots: Sequence[Slot] | None = None
        if self.paths is not None:
            trace = self.paths.path(i % self.paths.size)
            if not trace.has_delays:
                trace = trace.with_rtt(self.base_rtt_ms.draw(np.random.default_rng((_DISTURBANCES, i, 2))))
            effects.append(along(trace))
            slots = trace.slots
        if self.access is not None:
            mean_mbps = math.sqrt(self.rate_mbps.low * self.rate_mbps.high)
            if self.access_cycle_probability > 0 and rng.random() < self.access_cycle_probability:
                there = self.access.own_slots(rng, self.duration_s) if slots is None else slots
                effects.append(under_cycle(self.access, self.access_cycle, rng, self.duration_s, mean_mbps, there))
            else:
                effects.append(self.access.draw(rng, self.duration_s, mean_mbps, slots))
        if self.weather is not None:
            effects.append(self.weather.draw(rng, self.duration_s))
        if self.geo is not None:
            effects += self.geo.draw(rng, self.duration_s)
        return joined(effects)


class Mixture(ScenarioDistribution):
    """For each episode, one of several distributions is drawn by weight."""

    kind: Literal["mixture"] = "mixture"
    weights: tuple[Annotated[float, number(0, 1e6)], ...]
    parts: tuple[Annotated[PathDistribution | Folder, Field(discriminator="kind")], ...]

    @model_validator(mode="after")
    def _consistent(self) -> Mixture:
        if len(self.weights) != len(self.parts) or sum(self.weights) <= 0:
            raise OrbitccError("weights", list(self.weights), f"{len(self.parts)} numbers, one per part, not all 0")
        if not any(w > 0 and isinstance(p, PathDistribution) for w, p in zip(self.weights, self.parts, strict=True)):
            raise OrbitccError("parts", [part.name for part in self.parts], "not folders alone: they are not held out")
        return self

    @property
    def max_agents(self) -> int:
        return max(part.max_agents for part in self.parts)

    def held_out(self) -> Mixture:
        """As :meth:`PathDistribution.held_out`, of each part. Scenarios of folders are for training alone."""
        drawn = [(w, p) for w, p in zip(self.weights, self.parts, strict=True) if isinstance(p, PathDistribution)]
        parts = tuple(part.held_out() for _, part in drawn)
        if len(parts) == len(self.parts) and all(a is b for a, b in zip(parts, self.parts, strict=True)):
            return self
        return self.changed(weights=tuple(weight for weight, _ in drawn), parts=parts)

    def _draw(self, rng: np.random.Generator) -> Scenario:
        at = np.searchsorted(np.cumsum(self.weights), rng.random() * sum(self.weights), side="right")
        return self.parts[int(at)].sample(rng)


def written(worlds: Scenario | ScenarioDistribution) -> list[Scenario]:
    """The scenarios among these worlds that are not drawn: a single one, or those of folders."""
    parts = worlds.parts if isinstance(worlds, Mixture) else (worlds,)
    folders = [part.scenarios for part in parts if isinstance(part, Folder)]
    return [worlds] if isinstance(worlds, Scenario) else [world for folder in folders for world in folder]


class _Draw:
    """Draws one scenario. The order of the draws is part of the distribution: it determines the result of a seed."""

    def __init__(self, dist: PathDistribution, rng: np.random.Generator) -> None:
        self.dist, self.generator, self.rng = dist, rng, Draws(rng)
        self.rate = dist.rate_mbps.draw(self.rng)
        self.rtt = dist.base_rtt_ms.draw(self.rng)
        self.buffer_bdp = dist.buffer_bdp.draw(self.rng)
        several = dist.one_bottleneck_probability < 1 and self.rng.random() >= dist.one_bottleneck_probability
        self.hops = dist.bottlenecks.draw_whole(self.rng) if several else 1
        self.ordering = "overtaking" if self.rng.random() < dist.overtaking_probability else "fifo"
        self.viasat = self.rng.random() < dist.viasat_probability
        self.disturbance = self.pooled = self.back = None
        if dist.is_disturbed:
            number = self.rng.integers(0, dist.pool_size)
            self.disturbance = dist.disturbance(number)
            if dist.is_pooled:
                self.rate, self.pooled = dist.bottleneck(number)
            else:
                self.rate, self.back = dist.measured(self.disturbance, self.rate)
        if dist.paths is not None:
            self.rtt = 0.0  # all of it comes from the path
        self.edges = self._slot_edges()
        # The parts that all hops share are made once.
        self.delay = _scheduled([(t, rtt / (2 * self.hops)) for t, rtt in self._rtts()])
        self.outages = tuple(
            Outage.trusted(at_s=t, duration_ms=cut_ms, mode="drop", flush="queue")
            for t, cut_ms in self.edges
            if cut_ms >= 1
        )
        if self.disturbance is not None:
            self.rtt += self.disturbance.delay_ms_at_start()
        self.crowds: list[list[Hotspot]] = [[] for _ in range(self.hops)]
        for crowd in dist.hotspots.draw(self.rng, dist.duration_s) if dist.hotspots is not None else ():
            self.crowds[self.rng.integers(0, self.hops)].append(crowd)

    def scenario(self) -> Scenario:
        links, udp = [], []
        for hop in range(self.hops):
            link, flows = self._link(hop)
            links.append(link)
            udp.extend(flows)
        flows = self._learners() + self._rivals() + udp
        seed = self.rng.integers(0, 2**53)
        return Scenario.trusted(
            name=self.dist.name,
            duration_s=self.dist.duration_s,
            seed=seed,
            links=tuple(links),
            flows=tuple(flows),
        )

    def _slot_edges(self) -> list[tuple[float, float]]:
        """(time in s, length of the outage in ms) for every slot edge after the start."""
        slots, rng = self.dist.slots, self.rng
        if slots is None or (self.dist.static_probability > 0 and rng.random() < self.dist.static_probability):
            return []
        odd = rng.random() < slots.odd_length_probability
        length = (slots.odd_length_s if odd else slots.length_s).draw(rng)
        edges = []
        for k in range(1, math.ceil(self.dist.duration_s / length)):
            long = rng.random() < slots.long_interruption_probability
            cut_ms = (slots.long_interruption_ms if long else slots.interruption_ms).draw(rng)
            edges.append((k * length, cut_ms))
        return edges

    def _rtts(self) -> list[tuple[float, float]]:
        """The base RTT over time."""
        slots, rng, span = self.dist.slots, self.rng, self.dist.base_rtt_ms
        points = [(0.0, self.rtt)]
        if slots is not None:
            for t, _ in self.edges:
                if rng.random() < slots.redraw_rtt_probability:
                    rtt = span.draw(rng)
                else:
                    rtt = min(max(points[-1][1] + slots.rtt_jump_ms.draw(rng), span.low), span.high)
                points.append((t, rtt))
        return points

    def _link(self, hop: int) -> tuple[Link, list[Flow]]:
        dist, rng = self.dist, self.rng
        rate = self.rate * (dist.hop_rate_factor.draw(rng) if self.hops > 1 else 1.0)
        rates = [(0.0, rate)]
        if dist.slots is not None:
            rates += [(t + cut_ms / 1e3, rate * dist.slots.rate_factor.draw(rng)) for t, cut_ms in self.edges]
        udp: list[Flow] = []
        factor = None
        if self.crowds[hop]:
            udp = hotspots.traffic(self.crowds[hop], hop, rate, dist.duration_s)
            factor = hotspots.rate_factor(self.crowds[hop])
        if self.pooled is not None:
            changes: dict[str, Any] = {"queue": self._queue(rate)}
            if factor is not None:
                changes["rate_mbps"] = (Series.of(self.pooled.rate_mbps) * factor).points()
            return self.pooled.with_trusted(changes), udp
        link = Link.trusted(
            name=f"hop-{hop}",
            rate_mbps=_scheduled(rates) if factor is None else (Series.of(_scheduled(rates)) * factor).points(),
            delay_ms=self.delay,
            loss=self._loss(),
            queue=self._queue(rate),
            ordering=self.ordering,
            outages=self.outages,
            reverse=dist.return_path(rate, rng, self.back).with_trusted(
                {"delay_ms": self.delay, "ordering": self.ordering}
            ),
        )
        if hop == 0 and self.disturbance is not None:
            link = impaired(link, [self.disturbance])
        return link, udp

    def _queue(self, rate: float) -> Queue:
        second = int(rate * 1e6 / 8)
        if self.viasat:
            return Viasat.trusted(limit_bytes=2 * second, threshold_bytes=second)
        least = self.dist.min_buffer_packets * PACKET_BYTES
        return DropTailBytes.trusted(limit_bytes=max(int(self.buffer_bdp * rate * self.rtt * 125), least))

    def _loss(self) -> Any:
        dist, rng = self.dist, self.rng
        if dist.loss is None or rng.random() < dist.loss.none_probability:
            return 0.0
        share = dist.loss.p
        return _scheduled([(t, share.draw(rng) / self.hops) for t in (0.0, *(t for t, _ in self.edges))])

    def _learners(self) -> list[Flow]:
        dist, rng, duration = self.dist, self.rng, self.dist.duration_s
        paths: list[tuple[int, ...] | None]
        if self.hops == 1:
            paths = [None] * dist.flows.draw_whole(rng)
        else:
            paths = [None, *((hop,) for hop in range(self.hops) for _ in range(dist.cross_flows.draw_whole(rng)))]
        own_rtts = rng.random() < dist.own_rtt_probability
        preference, asks = dist.delay_preference, dist.delay_preference_probability
        asked = preference.draw(rng) if preference.low < 1 else 0.0
        if asks < 1 and rng.random() >= asks:
            asked = 0.0
        flows: list[Flow] = []
        start = 0.0
        for i, path in enumerate(paths):
            stop = None
            if i > 0:
                gap = dist.mean_gap_s
                start = start + rng.exponential(gap) if gap is not None else rng.random() * duration / 2
                life = dist.lifetime_share.draw(rng) * (duration - start)
                if life < 1.0:  # too short to decide anything
                    continue
                stop = float(start + life) if start + life < duration - 1e-9 else None
            extra = self.rtt * (1 - 1 / self.hops) if path is not None else 0.0
            if own_rtts and i > 0:
                extra += rng.random() * max(dist.base_rtt_ms.high - self.rtt, 0.0)
            flows.append(
                Flow.trusted(
                    name=f"flow-{i}",
                    controller=ControllerSpec(name=EXTERNAL),
                    delay_preference=asked,
                    path=path,
                    start_s=float(start),
                    stop_s=stop,
                    uplink_delay_ms=float(extra),
                )
            )
        return flows

    def _rivals(self) -> list[Flow]:
        rivals, rng, duration = self.dist.rivals, self.rng, self.dist.duration_s
        if rivals is None or rng.random() >= rivals.probability:
            return []
        controller = rivals.controllers[rng.integers(0, len(rivals.controllers))]
        start = rng.random() * duration / 2
        life = self.dist.lifetime_share.draw(rng) * (duration - start)
        stop = float(start + life) if start + life < duration - 1e-9 else None
        return [Flow.trusted(name="rival", controller=controller, start_s=float(start), stop_s=stop)]


def _scheduled(points: list[tuple[float, float]]) -> Any:
    return points[0][1] if len(points) == 1 else tuple(points)
