"""Experiments of the LEO paper's repository that are not in the paper: high rates, four flows, wide changes, AQM."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from orbitcc.envs.controllers import EXTERNAL
from orbitcc.envs.description.flows import ControllerSpec, Flow
from orbitcc.envs.description.links import Direction, Handover, Link
from orbitcc.envs.description.queues import DropTailBytes, DropTailPackets
from orbitcc.envs.description.scenario import Scenario, SimSettings
from orbitcc.envs.scenarios import leo_paper
from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite
from orbitcc.eval.suites.common import ratio_values
from orbitcc.eval.suites.responsiveness import Responsiveness
from orbitcc.eval.suites.sharing import Efficiency

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

AGENT = ControllerSpec(name=EXTERNAL)


class HighRates(Suite):
    """Two flows with equal RTTs at 150 to 500 Mbit/s."""

    name = "high-rates"
    scenario = "intra-rtt"

    def grid(self, profile: str) -> Sequence[Point]:
        rates = {"quick": (150, 500), "reduced": (150, 250, 350, 500)}.get(profile, range(150, 501, 50))
        return [{"rate_mbps": rate} for rate in rates]

    def case(self, point: Point, seed: int) -> Case:
        scenario = self.build(**{"base_rtt_ms": 40.0, "interruption_every_s": 0.0, "run": seed, **point})
        return Case(seed, scenario, point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return ratio_values(recording, 100.0, 200.0, recording.scenario.mean_capacity_mbps())


class FourFlows(Suite):
    """Four flows that start 25 s apart, with three kinds of queue."""

    name = "four-flows"
    scenario = "efficiency"
    fixed = ("start_span_s", "life_s")

    def grid(self, profile: str) -> Sequence[Point]:
        buffers = (1.0,) if profile == "quick" else (0.2, 1.0, 4.0)
        return [
            {"base_rtt_ms": rtt, "buffer_bdp": q, "queue": kind}
            for kind in ("fifo", "fq_codel", "codel")
            for q in buffers
            for rtt in (20, 200)
        ]

    def case(self, point: Point, seed: int) -> Case:
        scenario = self.build(
            flows=4, start_span_s=75.0, life_s=100.0, interruption_every_s=0.0, run=seed,
            base_rtt_ms=point["base_rtt_ms"], buffer_bdp=point["buffer_bdp"],
        )  # fmt: skip
        return Case(seed, managed(scenario, str(point["queue"])), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return shared_values(recording, 75.0, 100.0)


class EfficiencyManaged(Efficiency):
    """Efficiency (section V-C) with managed queues."""

    name = "efficiency-aqm"

    def grid(self, profile: str) -> Sequence[Point]:
        counts = (5,) if profile == "quick" else (5, 10, 20)
        return [{"flows": n, "queue": kind} for kind in ("fq_codel", "pie", "codel") for n in counts]

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, managed(self.build(run=seed, flows=point["flows"]), str(point["queue"])), point)


class WideResponsiveness(Responsiveness):
    """Changes every 10 s in ranges much wider than those of a LEO path."""

    name = "responsiveness-wide"
    takes_parameters = False
    PERIOD_S, PERIODS = 10, 20

    def case(self, point: Point, seed: int) -> Case:
        draw = random.Random(seed)
        rows = [(draw.randint(1, 100), draw.randint(20, 200), draw.uniform(0, 5)) for _ in range(self.PERIODS)]
        times = [float(self.PERIOD_S * k) for k in range(self.PERIODS)]
        rates = tuple((t, float(rate)) for t, (rate, _, _) in zip(times, rows, strict=True))
        rtts = [100.0 if self.loss else float(rtt) for _, rtt, _ in rows]
        losses = tuple((t, loss / 100) for t, (_, _, loss) in zip(times, rows, strict=True))
        buffer = leo_paper.buffer_bytes(50.0, 100.0, 1.0, "mebi")
        most = int(22 * 2 * buffer)
        scenario = Scenario(
            name=self.name,
            duration_s=float(self.PERIOD_S * self.PERIODS),
            seed=seed,
            links=(
                Link(
                    name="path",
                    rate_mbps=None,
                    delay_ms=tuple(zip(times, rtts, strict=True)),
                    loss=losses if self.loss else 0.0,
                    loss_at="ingress",
                    queue=DropTailPackets(limit_packets=100_000),
                    ordering="overtaking",
                    handovers=tuple(Handover(at_s=t) for t in times[1:]),
                    reverse=Direction(),
                ),
                Link(
                    name="bottleneck",
                    rate_mbps=rates,
                    queue=DropTailBytes(limit_bytes=buffer),
                    handovers=(),
                    reverse=Direction(),
                ),
            ),
            flows=(Flow(controller=AGENT),),
            sim=SimSettings(rmem_bytes=(10_240, 87_380, most), wmem_bytes=(10_240, 87_380, most)),
        )
        return Case(seed, scenario, point)


class WideResponsivenessLoss(WideResponsiveness):
    """As WideResponsiveness, but bandwidth and loss change instead of bandwidth and RTT."""

    name = "responsiveness-wide-loss"
    loss = True


def managed(scenario: Scenario, queue: str) -> Scenario:
    """The scenario with another queue at its bottleneck and the same limit; `fifo` keeps the queue of the scenario."""
    (bottleneck,) = scenario.links
    if queue == "fifo":
        return scenario
    assert isinstance(bottleneck.queue, DropTailBytes)
    packets = max(math.ceil(bottleneck.queue.limit_bytes / scenario.sim.packet_bytes), 10)
    fields: dict[str, Any] = {
        "kind": queue,
        "limit_packets": packets,
        **({"flows": 100} if queue == "fq_codel" else {}),
    }
    return scenario.changed(links=(bottleneck.changed(queue=fields),))


def shared_values(recording: Recording, start_s: float, end_s: float) -> dict[str, float]:
    """Metrics of how all flows share their bottleneck in a window."""
    inside = metrics.window(recording.t_s, start_s, end_s)
    series = {name: values[inside] for name, values in recording.flows.items()}
    resent, goodputs = float(series["retransmitted_packets"].sum()), series["goodput_mbps"].mean(axis=0)
    return {
        "goodput_share": float(goodputs.sum()) / recording.scenario.mean_capacity_mbps(),
        "jain": metrics.jain(goodputs),
        "delay_ratio": float(np.nanmean(series["srtt_ms"])) / recording.scenario.base_rtt_ms(0),
        "retransmission_rate": metrics.retransmission_rate(resent, float(series["sent_packets"].sum())),
        "retransmitted_mbps": metrics.retransmitted_mbps(resent, float(inside.sum())),
    }
