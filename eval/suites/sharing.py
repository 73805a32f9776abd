"""How flows share bottlenecks: experiments E5 to E8 of the LEO paper, and friendliness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite
from orbitcc.eval.suites.common import ratio_values

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.contenders import Contender

RTTS_MS: dict[str, tuple[int, ...]] = {
    "quick": (40, 120),
    "reduced": (20, 60, 100, 140, 200),
    "full": tuple(range(20, 201, 20)),
}
RATE_MBPS = 100.0


class _Sharing(Suite):
    profiles: ClassVar = {"quick": 1, "reduced": 3, "full": 5}
    max_runs = 100

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.build(run=seed, **point), point)


class InterRtt(_Sharing):
    """Section V-B a: a flow with another base RTT joins a flow of 20 ms."""

    name = "inter-rtt"
    scenario = "inter-rtt"
    fixed = ("join_s",)

    def grid(self, profile: str) -> Sequence[Point]:
        buffers = (1.0,) if profile == "quick" else (0.2, 1.0, 4.0)
        return [{"base_rtt_ms": rtt, "buffer_bdp": q} for q in buffers for rtt in RTTS_MS[profile]]

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return ratio_values(recording, 100.0, 200.0, RATE_MBPS)


class IntraRtt(_Sharing):
    """Section V-B b: a flow with the same base RTT joins, on a link with outages."""

    name = "intra-rtt"
    scenario = "intra-rtt"
    fixed = ("join_s",)

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"base_rtt_ms": rtt} for rtt in RTTS_MS[profile]]

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        inside = metrics.window(recording.t_s, 100.0, 200.0)
        delay = float(np.nanmean(recording.flows["srtt_ms"][inside])) / recording.scenario.base_rtt_ms(0)
        return {**ratio_values(recording, 100.0, 200.0, RATE_MBPS), "delay_ratio": delay}


class ParkingLot(_Sharing):
    """Section V-B c: a long flow over all bottlenecks, a cross flow on each."""

    name = "parking-lot"
    scenario = "parking-lot"
    fixed = ("long_start_s",)

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"bottlenecks": n, "base_rtt_ms": rtt} for n in (3, 6) for rtt in RTTS_MS[profile]]

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        inside = metrics.window(recording.t_s, 100.0, 200.0)
        goodput = recording.flows["goodput_mbps"][inside]
        best = goodput[:, 1:].max(axis=1)
        ratios = goodput[best > 0, 0] / best[best > 0]
        return {
            "long_ratio": float(ratios.mean()) if ratios.size else float("nan"),
            "long_ratio_sd": float(ratios.std()) if ratios.size else float("nan"),
            "seconds": float(ratios.size),
            "long_mbps": float(goodput[:, 0].mean()),
            "cross_mbps": float(goodput[:, 1:].mean()),
            "goodput_share": float(goodput[:, 0].mean() + goodput[:, 1:].mean()) / RATE_MBPS,
        }


class Efficiency(_Sharing):
    """Section V-C: 5, 10 and 20 flows on a deep buffer."""

    name = "efficiency"
    scenario = "efficiency"
    fixed = ("start_span_s", "life_s")

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"flows": n} for n in ((5,) if profile == "quick" else (5, 10, 20))]

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        inside = metrics.window(recording.t_s, 100.0, 150.0)
        series = {name: values[inside] for name, values in recording.flows.items()}
        base_ms = recording.scenario.base_rtt_ms(0)
        resent = float(series["retransmitted_packets"].sum())
        goodputs = series["goodput_mbps"].mean(axis=0)
        return {
            "delay_ratio": float(np.nanmean(series["srtt_ms"])) / base_ms,
            "goodput_share": float(goodputs.sum()) / RATE_MBPS,
            "retransmission_rate": metrics.retransmission_rate(resent, float(series["sent_packets"].sum())),
            "retransmitted_mbps": metrics.retransmitted_mbps(resent, float(inside.sum())),
            "jain": metrics.jain(goodputs),
        }


class CubicFriendliness(_Sharing):
    """A contender beside Cubic (the paper's repository)."""

    name = "cubic-friendliness"
    scenario = "cubic-friendliness"
    fixed = ("join_s", "rival", "first")

    def grid(self, profile: str) -> Sequence[Point]:
        buffers = (1.0,) if profile == "quick" else (0.2, 1.0, 4.0)
        return [{"base_rtt_ms": rtt, "buffer_bdp": q} for q in buffers for rtt in RTTS_MS[profile]]

    def enter(self, case: Case, contender: Contender) -> Scenario:
        return contender.take(case.scenario, lambda flow: flow.name == "controller")

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        values = ratio_values(recording, 100.0, 200.0, RATE_MBPS)
        return {**values, "own_share": 1 - values["second_share"]}


class Bbr3Friendliness(CubicFriendliness):
    """A contender beside BBRv3."""

    name = "bbr3-friendliness"

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.build(run=seed, rival="bbr3", **point), point)


class CubicCrowd(_Sharing):
    """A contender beside 2 to 20 Cubic flows (the paper's repository)."""

    name = "cubic-crowd"
    scenario = "cubic-friendliness"
    fixed = ("join_s", "rival", "first")

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"flows": n} for n in {"quick": (3,), "reduced": (3, 9, 15, 21)}.get(profile, range(3, 22, 2))]

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.build(**{"base_rtt_ms": 30, "run": seed, **point}), point)

    def enter(self, case: Case, contender: Contender) -> Scenario:
        return contender.take(case.scenario, lambda flow: flow.name == "controller")

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        inside = metrics.window(recording.t_s, 100.0, 200.0)
        goodputs = recording.flows["goodput_mbps"][inside].mean(axis=0)
        return {
            "own_over_fair": float(goodputs[0] / goodputs.mean()) if goodputs.any() else float("nan"),
            "goodput_share": float(goodputs.sum()) / RATE_MBPS,
            "jain": metrics.jain(goodputs),
        }


class CrossPath(_Sharing):
    """Two flows are rerouted onto the bottleneck of two others (the paper's repository)."""

    name = "cross-path"
    scenario = "double-dumbbell"

    def grid(self, profile: str) -> Sequence[Point]:
        buffers = (1.0,) if profile == "quick" else (0.2, 1.0, 4.0)
        return [{"base_rtt_ms": rtt, "buffer_bdp": q} for rtt in (20, 40) for q in buffers]

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.build(**point).with_seed(seed), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        scenario = recording.scenario
        changed = next(flow.reroutes[0].at_s for flow in scenario.flows if flow.reroutes)
        # 0.1 s per ms of RTT, and at least 2 s: the window of the paper depends on the RTT.
        length = max(scenario.base_rtt_ms(0) / 10, 2.0)
        inside = metrics.window(recording.t_s, changed, changed + length + 1e-6)
        goodputs = recording.flows["goodput_mbps"][inside].mean(axis=0)
        until = metrics.window(recording.t_s, changed + length, scenario.duration_s * 2 / 3)
        return {
            "jain": metrics.jain(goodputs),
            "goodput_share": float(goodputs.sum()) / RATE_MBPS,
            "jain_later": metrics.jain(recording.flows["goodput_mbps"][until].mean(axis=0)),
        }
