"""Compiles a scenario for the simulator: integer nanoseconds, bits per second and bytes."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import controllers
from orbitcc.envs.description.flows import (
    Bulk,
    Bytes,
    Cbr,
    ControllerSpec,
    Flow,
    Objects,
    OnOff,
    Quic,
    Receiver,
    Reroute,
    Stretch,
)
from orbitcc.envs.description.links import Direction, GammaJitter, Handover, Jitter, Link, LoadLoss, Loss, Outage
from orbitcc.envs.description.model import Kept, Points, mean_over, points_of, value_at
from orbitcc.envs.description.queues import (
    Codel,
    DropTailBytes,
    DropTailPackets,
    DualPi2,
    FqCodel,
    Pie,
    Queue,
    Red,
    Viasat,
)
from orbitcc.envs.description.sim_settings import SimSettings

NS_PER_S, NS_PER_MS, BPS_PER_MBPS = 1e9, 1e6, 1e6


def ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


def _ns_of_ms(ms: float) -> int:
    return round(ms * NS_PER_MS)


def _bps(mbps: float) -> int:
    return round(mbps * BPS_PER_MBPS)


CompiledNetwork = dict[str, Any]
"""The native description of a network (`spec/` in sim/core), which the caller may still change."""


class Compilable(Protocol):
    """The parts of a scenario that are compiled."""

    seed: int
    duration_s: float
    links: tuple[Link, ...]
    flows: tuple[Flow, ...]
    sim: SimSettings

    def positions(self, path: Sequence[int | str] | None) -> list[int]: ...

    def directions_of(self, way: Flow | Reroute) -> list[Direction]: ...

    def first_connection(self, flow_index: int) -> int | None: ...


def compile_network(scenario: Compilable) -> CompiledNetwork:
    """The native description of a scenario. Raises OrbitccError if a controller is unknown."""
    return _Compiler(scenario).network()


_READY = secrets.token_hex(16)
"""A placeholder for ready text while JSON is made; no name that a user gives can equal it."""


class Ready:
    """A compiled part that many networks share, as JSON text. False if it is empty."""

    def __init__(self, part: Any) -> None:
        self.text, self._full = as_text(part), bool(part)

    def __bool__(self) -> bool:
        return self._full


def start_jitter_s(scenario: Compilable) -> float:
    """By how much flows start late at most."""
    return _Compiler(scenario).noise()["start_jitter"] / 1e9


def as_text(network: Any) -> str:
    """The JSON text of a network for `orbitcc._sim`, or of a part of one."""
    ready: list[str] = []

    def stand_in(part: Ready) -> str:
        ready.append(part.text)
        return _READY

    first, *rest = to_json(network, inf_nan_mode="constants", fallback=stand_in).decode().split(f'"{_READY}"')
    return first + "".join(itertools.chain.from_iterable(zip(ready, rest, strict=True)))


class _Compiler:
    """Compiles one scenario.

    Parts that occur several times in a scenario (a path, a schedule, outages) are converted once. Parts that several
    scenarios share (`Kept`) are converted once for all of them, because worlds are compiled between training episodes.
    """

    def __init__(self, scenario: Compilable) -> None:
        self.scenario = scenario
        self._paths: dict[Any, list[int]] = {}
        self._shared: dict[tuple[int, Callable[[Any], Any]], Any] = {}

    def network(self) -> CompiledNetwork:
        scenario, sim = self.scenario, self.scenario.sim
        header = sim.packet_bytes - sim.mss_bytes
        return {
            "seed": scenario.seed,
            "duration": ns(scenario.duration_s),
            "tcp": {
                "kernel": sim.kernel,
                "mss": sim.mss_bytes,
                "header_bytes": header,
                "ack_bytes": header,
                "initial_cwnd": sim.initial_cwnd_packets,
                "hz": sim.hz,
                "wmem": sim.wmem_bytes,
                "moderate_rcvbuf": sim.moderate_rcvbuf,
                "slow_start_after_idle": sim.slow_start_after_idle,
                "gro_segments": sim.gro_segments,
                **({} if sim.rmem_bytes is None else {"rmem": sim.rmem_bytes}),
                **({} if sim.ssthresh_cache == "kernel" else {"ssthresh_cache": sim.ssthresh_cache}),
                **({} if sim.ecn == "off" else {"ecn": sim.ecn}),
            },
            "noise": self.noise(),
            **({"exact": True} if sim.exact else {}),
            "links": [self._link(link) for link in scenario.links],
            "flows": [self._flow(i) for i in range(len(scenario.flows))],
        }

    def _once(self, part: Any, compiled: Callable[[Any], Any]) -> Any:
        """The compiled form of `part`, computed once."""
        if type(part) is Kept:
            if part.compiled is None:
                part.compiled = Ready(compiled(part))
            return part.compiled
        key = id(part), compiled
        if key not in self._shared:
            self._shared[key] = compiled(part)
        return self._shared[key]

    def noise(self) -> dict[str, int]:
        scenario, sim = self.scenario, self.scenario.sim
        if not sim.noise:
            return {"send_jitter": 0, "start_jitter": 0}
        send_ms, start_ms = sim.send_jitter_ms, sim.start_jitter_ms
        if send_ms is None:
            paths = {flow.path for flow in scenario.flows} | {r.path for flow in scenario.flows for r in flow.reroutes}
            passed = {position for path in paths for position in self._path(path)}
            rates = [scenario.links[position].rate_mbps for position in passed]
            slowest = min((mean_over(r, scenario.duration_s) for r in rates if r is not None), default=math.inf)
            send_ms = sim.packet_bytes * 8 / (slowest * 1e3)
        if start_ms is None:
            start_ms = min(self._base_rtts_ms())
        return {"send_jitter": _ns_of_ms(send_ms), "start_jitter": _ns_of_ms(start_ms)}

    def _base_rtts_ms(self) -> Iterator[float]:
        """The base RTT of every flow at its start (as `Scenario.base_rtt_ms`)."""
        ways: dict[Any, tuple[float, list[tuple[float | Points, bool, int]]]] = {}
        for flow in self.scenario.flows:
            path = flow.path, flow.return_path
            if path not in ways:
                delays = self._delays_along(flow)
                fixed = sum(times * d for d, _, times in delays if not isinstance(d, tuple))
                ways[path] = fixed, [d for d in delays if isinstance(d[0], tuple)]
            total, moving = ways[path]
            total += flow.uplink_delay_ms
            for delay_ms, interpolate, times in moving:
                total += times * value_at(delay_ms, flow.start_s, interpolate=interpolate)
            yield total

    def _delays_along(self, flow: Flow) -> list[tuple[float | Points, bool, int]]:
        """The delays of a path and back; a delay that several directions share appears once, with a count."""
        found: dict[tuple[int, bool], tuple[float | Points, bool, int]] = {}
        for way in self.scenario.directions_of(flow):
            key = (id(way.delay_ms), way.interpolate_delay)
            times = found[key][2] + 1 if key in found else 1
            found[key] = (way.delay_ms, way.interpolate_delay, times)
        return list(found.values())

    def _way(self, way: Flow | Reroute) -> dict[str, list[int]]:
        """The positions of the links of a path and, where it has one, of its return path."""
        compiled = {"path": self._path(way.path)}
        if way.return_path is not None:
            compiled["return_path"] = self._path(way.return_path)
        return compiled

    def _path(self, path: tuple[int | str, ...] | None) -> list[int]:
        if path not in self._paths:
            self._paths[path] = self.scenario.positions(path)
        return self._paths[path]

    def _link(self, link: Link) -> dict[str, Any]:
        compiled: dict[str, Any] = {
            "name": link.name,
            "forward": self._direction(link),
            "reverse": self._direction(link.backward()),
        }
        if link.outages:
            compiled["outages"] = self._once(link.outages, _outages)
        if link.handovers is not None:
            compiled["handovers"] = self._once(link.handovers, _handovers)
        return compiled

    def _direction(self, way: Direction) -> dict[str, Any]:
        compiled: dict[str, Any] = {
            "rate": self._once(way.rate_mbps, _schedule),
            "delay": {"interpolate": way.interpolate_delay, "points": self._once(way.delay_ms, _schedule)},
            "loss_at": way.loss_at,
            "queue": _queue(way.queue),
            "ordering": way.ordering,
        }
        if way.burst_bytes:
            compiled["burst"] = way.burst_bytes
        if way.loss != 0.0 and (losses := self._once(way.loss, _losses)):
            compiled["loss"] = losses
        if way.jitter is not None:
            compiled["jitter"] = _jitter(way.jitter)
        if way.late is not None:
            compiled["late"] = {"p": way.late.p, "delay": _ns_of_ms(way.late.delay_ms)}
        if way.ecn_bleached:
            compiled["bleached"] = way.ecn_bleached
        if way.ecn_marked:
            compiled["marked"] = way.ecn_marked
        if way.gate_ms:
            compiled["gate"] = {"period": _ns_of_ms(way.gate_ms), "phase": _ns_of_ms(way.gate_phase_ms)}
        return compiled

    def _flow(self, index: int) -> dict[str, Any]:
        flow = self.scenario.flows[index]
        try:
            controller = self._once(flow.controller, _controller)
        except OrbitccError as error:
            raise error.under(f"flows.{index}") from None
        compiled: dict[str, Any] = {
            "name": flow.name,
            **self._way(flow),
            "start": ns(flow.start_s),
            "uplink_delay": _ns_of_ms(flow.uplink_delay_ms),
            "controller": controller,
        }
        if flow.delay_preference:
            compiled["delay_preference"] = flow.delay_preference
        traffic, first = flow.traffic, self.scenario.first_connection(index)
        if flow.pep is not None and first is not None:
            compiled["relays"] = {"from": first, "buffer": flow.pep.buffer_bytes}
            while (earlier := self.scenario.first_connection(first)) is not None:
                first = earlier
            traffic = self.scenario.flows[first].traffic
        if not isinstance(traffic, Bulk):
            compiled["traffic"] = _traffic(traffic)
        if flow.receiver is not None:
            compiled["receiver"] = _receiver(flow.receiver)
        if flow.transport is not None:
            compiled["quic"] = _transport(flow.transport)
        if flow.stop_s is not None:
            compiled["stop"] = ns(flow.stop_s)
        if flow.reroutes:
            compiled["reroutes"] = [{"at": ns(r.at_s), **self._way(r)} for r in flow.reroutes]
        return compiled


def _controller(spec: ControllerSpec) -> dict[str, Any]:
    controller, _ = controllers.make(spec.name, spec.params, "controller")
    return controller


def _outages(outages: tuple[Outage, ...]) -> list[dict[str, Any]]:
    return [
        {
            "at": round(o.at_s * NS_PER_S),
            "duration": round(o.duration_ms * NS_PER_MS),
            "mode": o.mode,
            "flush": o.flush,
            "directions": o.directions,
        }
        for o in outages
    ]


def _handovers(handovers: tuple[Handover, ...]) -> list[dict[str, int]]:
    return [{"at": round(h.at_s * NS_PER_S), "duration": round(h.duration_ms * NS_PER_MS)} for h in handovers]


def _losses(loss: Loss | Points) -> list[tuple[int, dict[str, Any]]]:
    """The schedule of losses; empty if nothing is ever lost."""
    points = points_of(loss)
    return [(round(t * NS_PER_S), _loss(v)) for t, v in points] if any(v != 0.0 for _, v in points) else []


def _schedule(value: float | Points | None) -> list[tuple[int, int]]:
    """A schedule of rates or delays: 1 Mbit/s and 1 ms are both a million native units."""
    if type(value) is Kept and value.arrays is not None:
        t_s, values = value.arrays
        return list(zip(_whole(t_s * NS_PER_S), _whole(values * 1e6), strict=True))
    return [(round(t * NS_PER_S), round(v * 1e6)) for t, v in points_of(value)]


def _whole(values: NDArray[np.float64]) -> list[int]:
    whole: list[int] = np.rint(values).astype(np.int64).tolist()
    return whole


def _loss(loss: Loss) -> dict[str, Any]:
    if isinstance(loss, float):
        return {"kind": "bernoulli", "p": loss} if loss > 0 else {"kind": "none"}
    if isinstance(loss, LoadLoss):
        return {"kind": loss.kind, "idle": loss.idle_loss, "full": loss.full_loss, "tau": _ns_of_ms(loss.tau_ms)}
    return loss.model_dump()


def _jitter(jitter: Jitter) -> dict[str, Any]:
    if isinstance(jitter, GammaJitter):
        return {
            "kind": jitter.kind,
            "mean": _ns_of_ms(jitter.mean_ms),
            "shape": jitter.shape,
            "tau": _ns_of_ms(jitter.tau_ms),
        }
    return {
        "kind": jitter.kind,
        "mean": _ns_of_ms(jitter.mean_ms),
        "sine_sd": _ns_of_ms(jitter.sine_sd_ms),
        "sine_period": ns(jitter.sine_period_s),
        "ar_sd": _ns_of_ms(jitter.ar_sd_ms),
        "ar_tau": _ns_of_ms(jitter.ar_tau_ms),
    }


def _queue(queue: Queue) -> dict[str, Any]:
    if isinstance(queue, DropTailBytes):
        return {"kind": f"drop_{queue.drop}_bytes", "limit": queue.limit_bytes}
    if isinstance(queue, DropTailPackets):
        return {"kind": f"drop_{queue.drop}_packets", "limit": queue.limit_packets}
    if isinstance(queue, Viasat):
        return {
            "kind": queue.kind,
            "limit": queue.limit_bytes,
            "threshold": queue.threshold_bytes,
            "drop_probability": queue.drop_probability,
        }
    if isinstance(queue, Codel):
        ecn = {"ecn": True} if queue.ecn else {}
        return {"kind": queue.kind, "limit": queue.limit_packets, **_law(queue), **ecn, **_front(queue)}
    if isinstance(queue, FqCodel):
        return {
            "kind": queue.kind,
            "limit": queue.limit_packets,
            "memory_limit": queue.memory_limit_bytes,
            "flows": queue.flows,
            "quantum": queue.quantum_bytes,
            "drop_batch": queue.drop_batch_packets,
            **_law(queue),
            **({} if queue.ecn else {"ecn": False}),
        }
    if isinstance(queue, Pie):
        return {
            "kind": queue.kind,
            "limit": queue.limit_packets,
            "target": _ns_of_ms(queue.target_ms),
            "update": _ns_of_ms(queue.update_ms),
            "alpha": queue.alpha,
            "beta": queue.beta,
            **({"ecn": True} if queue.ecn else {}),
            **_front(queue),
        }
    if isinstance(queue, DualPi2):
        return {
            "kind": queue.kind,
            "limit": queue.limit_packets,
            "target": _ns_of_ms(queue.target_ms),
            "update": _ns_of_ms(queue.update_ms),
            "alpha": round(256 * queue.alpha_per_s),
            "beta": round(256 * queue.beta_per_s),
            "step": _ns_of_ms(queue.step_ms),
            "coupling": queue.coupling,
            "classic_weight": queue.classic_weight_percent,
            "drop_overload": queue.drop_overload,
            **_front(queue),
        }
    least, most = queue.thresholds_bytes()
    return {
        "kind": queue.kind,
        "limit": queue.limit_bytes,
        "min": least,
        "max": most,
        "max_probability": queue.max_probability,
        "weight_log2": queue.weight(),
        "packet": queue.packet_bytes,
        "adaptive": queue.adaptive,
        **({"ecn": True} if queue.ecn else {}),
        **_front(queue),
    }


def _front(queue: Codel | Pie | Red | DualPi2) -> dict[str, bool]:
    return {"front": True} if queue.drop == "front" else {}


def _law(queue: Codel | FqCodel) -> dict[str, int]:
    law = {"target": _ns_of_ms(queue.target_ms), "interval": _ns_of_ms(queue.interval_ms)}
    if queue.ce_threshold_ms is not None:
        law["ce_threshold"] = _ns_of_ms(queue.ce_threshold_ms)
    return law


def _transport(quic: Quic) -> dict[str, Any]:
    return {
        "mtu": quic.mtu_bytes,
        "mtu_discovery": quic.mtu_discovery,
        **({} if quic.initial_window_bytes is None else {"initial_window": quic.initial_window_bytes}),
        "ack_every": quic.ack_every_packets,
        "stream_window": quic.stream_window_bytes,
        **({} if quic.connection_window_bytes is None else {"connection_window": quic.connection_window_bytes}),
        "send_window": quic.send_window_bytes,
        "ecn": quic.ecn,
        "resume": quic.resume,
    }


def _receiver(receiver: Receiver) -> dict[str, Any]:
    if isinstance(receiver, Stretch):
        return {"kind": receiver.kind, "segments": receiver.segments, "hold": _ns_of_ms(receiver.hold_ms)}
    return receiver.model_dump()


def _traffic(traffic: Bytes | Cbr | OnOff | Objects) -> dict[str, Any]:
    if isinstance(traffic, Bytes):
        return {"kind": "bytes", "bytes": traffic.bytes}
    if isinstance(traffic, Cbr):
        sized = {} if traffic.packet_bytes is None else {"packet": traffic.packet_bytes}
        return {"kind": "cbr", "rate": _bps(traffic.rate_mbps), **sized}
    if isinstance(traffic, OnOff):
        rate = None if traffic.rate_mbps is None else _bps(traffic.rate_mbps)
        return {"kind": "on_off", "rate": rate, "on": ns(traffic.on_s), "off": ns(traffic.off_s)}
    return traffic.model_dump()
