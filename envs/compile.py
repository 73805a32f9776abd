"""From a scenario to the network the simulator runs: integer nanoseconds, bits per second and bytes, as JSON text."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from orbitcc.envs import controllers
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.flows import Bytes, Cbr, Flow, Objects, OnOff
from orbitcc.envs.links import (
    Bernoulli,
    Codel,
    Direction,
    DropTailBytes,
    DropTailPackets,
    FqCodel,
    GammaJitter,
    GilbertElliott,
    Jitter,
    Link,
    Pie,
    Queue,
    Viasat,
)
from orbitcc.envs.model import mean_over, points_of

if TYPE_CHECKING:
    from orbitcc.envs.scenario import Scenario


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _ns_of_ms(ms: float) -> int:
    return round(ms * 1e6)


def _bps(mbps: float) -> int:
    return round(mbps * 1e6)


def compile_scenario(scenario: Scenario) -> str:
    """The native description of `scenario` as JSON text; OrbitccError when a controller is unknown."""
    sim = scenario.sim
    header = sim.packet_bytes - sim.mss_bytes
    network = {
        "seed": scenario.seed,
        "duration": ns(scenario.duration_s),
        "tcp": {
            "kernel": sim.kernel,
            "mss": sim.mss_bytes,
            "header_bytes": header,
            "ack_bytes": header,
            "initial_cwnd": sim.initial_cwnd_packets,
            "hz": sim.hz,
            "wmem": list(sim.wmem_bytes),
            "moderate_rcvbuf": sim.moderate_rcvbuf,
            "slow_start_after_idle": sim.slow_start_after_idle,
            "gro_segments": sim.gro_segments,
            **({} if sim.rmem_bytes is None else {"rmem": list(sim.rmem_bytes)}),
            **({} if sim.ssthresh_cache == "kernel" else {"ssthresh_cache": sim.ssthresh_cache}),
        },
        "noise": _noise(scenario),
        "links": [_link(link) for link in scenario.links],
        "flows": [_flow(scenario, i) for i in range(len(scenario.flows))],
    }
    return json.dumps(network, separators=(",", ":"), allow_nan=False)


def _noise(scenario: Scenario) -> dict[str, int]:
    sim = scenario.sim
    if not sim.noise:
        return {"send_jitter": 0, "start_jitter": 0}
    send_ms, start_ms = sim.send_jitter_ms, sim.start_jitter_ms
    if send_ms is None:
        rates = [link.rate_mbps for link in scenario.links if link.rate_mbps is not None]
        slowest = min((mean_over(r, scenario.duration_s) for r in rates), default=math.inf)
        send_ms = sim.packet_bytes * 8 / (slowest * 1e3)
    if start_ms is None:
        start_ms = min(scenario.base_rtt_ms(i, flow.start_s) for i, flow in enumerate(scenario.flows))
    return {"send_jitter": _ns_of_ms(send_ms), "start_jitter": _ns_of_ms(start_ms)}


def _link(link: Link) -> dict[str, Any]:
    return {
        "name": link.name,
        "forward": _direction(link),
        "reverse": _direction(link.backward()),
        "outages": [
            {
                "at": ns(o.at_s),
                "duration": _ns_of_ms(o.duration_ms),
                "mode": o.mode,
                "flush": o.flush,
                "directions": o.directions,
            }
            for o in link.outages
        ],
        "handovers": [{"at": ns(h.at_s), "duration": _ns_of_ms(h.duration_ms)} for h in link.path_changes()],
    }


def _direction(way: Direction) -> dict[str, Any]:
    loss = points_of(way.loss)
    return {
        "rate": [[ns(t), _bps(v)] for t, v in points_of(way.rate_mbps)],
        "delay": {
            "interpolate": way.interpolate_delay,
            "points": [[ns(t), _ns_of_ms(v)] for t, v in points_of(way.delay_ms)],
        },
        "loss": [] if all(v == 0.0 for _, v in loss) else [[ns(t), _loss(v)] for t, v in loss],
        "loss_at": way.loss_at,
        "queue": _queue(way.queue),
        "ordering": way.ordering,
        **({} if way.jitter is None else {"jitter": _jitter(way.jitter)}),
        **({"gate": {"period": _ns_of_ms(way.gate_ms), "phase": _ns_of_ms(way.gate_phase_ms)}} if way.gate_ms else {}),
    }


def _loss(loss: float | Bernoulli | GilbertElliott) -> dict[str, Any]:
    if isinstance(loss, float):
        return {"kind": "bernoulli", "p": loss} if loss > 0 else {"kind": "none"}
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
        return {"kind": queue.kind, "limit": queue.limit_bytes}
    if isinstance(queue, DropTailPackets):
        return {"kind": queue.kind, "limit": queue.limit_packets}
    if isinstance(queue, Viasat):
        return {
            "kind": queue.kind,
            "limit": queue.limit_bytes,
            "threshold": queue.threshold_bytes,
            "drop_probability": queue.drop_probability,
        }
    if isinstance(queue, Codel):
        return {"kind": queue.kind, "limit": queue.limit_packets, **_law(queue)}
    if isinstance(queue, FqCodel):
        return {
            "kind": queue.kind,
            "limit": queue.limit_packets,
            "memory_limit": queue.memory_limit_bytes,
            "flows": queue.flows,
            "quantum": queue.quantum_bytes,
            "drop_batch": queue.drop_batch_packets,
            **_law(queue),
        }
    if isinstance(queue, Pie):
        return {
            "kind": queue.kind,
            "limit": queue.limit_packets,
            "target": _ns_of_ms(queue.target_ms),
            "update": _ns_of_ms(queue.update_ms),
            "alpha": queue.alpha,
            "beta": queue.beta,
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
    }


def _law(queue: Codel | FqCodel) -> dict[str, int]:
    return {"target": _ns_of_ms(queue.target_ms), "interval": _ns_of_ms(queue.interval_ms)}


def _flow(scenario: Scenario, index: int) -> dict[str, Any]:
    flow = scenario.flows[index]
    spec = flow.controller
    try:
        controller, _ = controllers.make(spec.name, spec.params, "controller")
    except OrbitccError as error:
        raise error.under(f"flows.{index}") from None
    return {
        "name": flow.name,
        "path": list(scenario.path_of(index)),
        **(
            {"reroutes": [[ns(r.at_s), list(scenario.path_of(index, r.at_s))] for r in flow.reroutes]}
            if flow.reroutes
            else {}
        ),
        "start": ns(flow.start_s),
        "stop": None if flow.stop_s is None else ns(flow.stop_s),
        "uplink_delay": _ns_of_ms(flow.uplink_delay_ms),
        "controller": controller,
        "traffic": _traffic(flow),
    }


def _traffic(flow: Flow) -> dict[str, Any]:
    traffic = flow.traffic
    if isinstance(traffic, Bytes):
        return {"kind": "bytes", "bytes": traffic.bytes}
    if isinstance(traffic, Cbr):
        return {"kind": "cbr", "rate": _bps(traffic.rate_mbps)}
    if isinstance(traffic, OnOff):
        rate = None if traffic.rate_mbps is None else _bps(traffic.rate_mbps)
        return {"kind": "on_off", "rate": rate, "on": ns(traffic.on_s), "off": ns(traffic.off_s)}
    if isinstance(traffic, Objects):
        return traffic.model_dump()
    return {"kind": "bulk"}
