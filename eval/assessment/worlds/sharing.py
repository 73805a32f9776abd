"""Flows that share a link with the candidate: its own, standard, short, voice and video, unresponsive flows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Bytes, Cbr, ControllerSpec, Flow
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import metrics
from orbitcc.eval.assessment.worlds.base import (
    CANDIDATE,
    RECORD_INTERVAL_S,
    AssessmentWorlds,
    candidates,
    dumbbell,
    goodputs,
    others,
    pick,
    seconds,
    total,
)
from orbitcc.eval.suites.base import Case, Point

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

STARVED = 0.05
"""A flow below this share of its fair share is starved (our choice: RFC 9743, 5.2, leaves the number open)."""


class OwnKind(AssessmentWorlds):
    """RFC 9743, 5.1.4: flows of the candidate that join one after the other or have different RTTs."""

    name = "own-kind"
    JOIN_S = 5.0
    ALONE_S = 40.0

    def grid(self, profile: str) -> Sequence[Point]:
        counts = pick(profile, (2, 8), (2, 8, 20))
        ratios = pick(profile, (4.0,), (2.0, 4.0))
        return [*({"flows": n, "rtt_ratio": 1.0} for n in counts), *({"flows": 2, "rtt_ratio": r} for r in ratios)]

    def _duration_s(self, point: Point) -> float:
        return self.JOIN_S * (int(point["flows"]) - 1) + self.ALONE_S

    def world(self, point: Point, seed: int) -> Scenario:
        rtt_ms = 30.0
        flows = [
            Flow(
                name=f"candidate-{k}",
                controller=CANDIDATE,
                start_s=self.JOIN_S * k,
                uplink_delay_ms=rtt_ms * (float(point["rtt_ratio"]) - 1) * k,
            )
            for k in range(int(point["flows"]))
        ]
        return dumbbell(flows, 50.0, rtt_ms, self._duration_s(point), seed=seed, buffer_bdp=2.0)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        joined = self.JOIN_S * (int(case.point["flows"]) - 1)
        per_second = seconds(recording.flows["goodput_mbps"])[int(joined) :]
        tens = [metrics.jain(per_second[k : k + 10].mean(axis=0)) for k in range(len(per_second) - 9)]
        fair = [k for k, index in enumerate(tens) if index >= 0.9]
        return {
            "jain": float(np.mean(tens[len(tens) // 2 :])),
            "settling_s": float(fair[0]) if fair else self.ALONE_S,
        }


class Mixed(AssessmentWorlds):
    """RFC 9743, 5.2, and Ware et al., HotNets 2019: flows of the candidate join flows of a standard controller.

    Harm is the relative loss of the incumbents compared with being alone. It is compared with the harm that flows of
    the incumbents' own kind do in the candidate's place. Both references are simulated once and kept.
    """

    JOINS_S = 5.0
    incumbent: str

    def grid(self, profile: str) -> Sequence[Point]:
        quick = [("1:1", 40.0, 1.0), ("1:1", 40.0, 10.0), ("1:1", 600.0, 1.0), ("1:9", 40.0, 1.0)]
        full = [*quick, ("9:1", 40.0, 1.0), ("1:1", 10.0, 1.0), ("1:1", 40.0, 0.25), ("1:1", 200.0, 2.0)]
        return [{"mix": mix, "rtt_ms": rtt, "buffer_bdp": q} for mix, rtt, q in pick(profile, quick, full)]

    def _duration_s(self, point: Point) -> float:
        return 60.0 + 0.15 * float(point["rtt_ms"])

    def world(self, point: Point, seed: int) -> Scenario:
        new, old = (int(n) for n in str(point["mix"]).split(":"))
        flows = [*others(self.incumbent, old), *candidates(new, start_s=self.JOINS_S)]
        rtt, buffer = float(point["rtt_ms"]), float(point["buffer_bdp"])
        return dumbbell(flows, 20.0, rtt, self._duration_s(point), seed=seed, buffer_bdp=buffer)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        old = int(str(case.point["mix"]).split(":")[1])
        shared = _of_incumbents(recording, old)
        alone, kind = _without_candidates(type(self), tuple(sorted(case.point.items())), recording.scenario.seed)
        start_s, end_s = self.JOINS_S + 15, recording.scenario.duration_s
        per_second = seconds(recording.flows["goodput_mbps"])[int(start_s) :]
        fair = 20.0 / len(recording.scenario.flows)
        own = goodputs(recording, start_s, end_s)
        return {
            "excess_harm": _less(alone["goodput"], shared["goodput"]) - _less(alone["goodput"], kind["goodput"]),
            "excess_delay_harm": _more(alone["rtt"], shared["rtt"]) - _more(alone["rtt"], kind["rtt"]),
            "excess_loss": shared["loss"] - kind["loss"],
            "starved_s": starved_s(per_second, fair),
            "incumbents_mbps": shared["goodput"],
            "candidates_mbps": float(own[old:].mean()),
        }


class MixedCubic(Mixed):
    name = "mixed-cubic"
    incumbent = "cubic"


class MixedReno(Mixed):
    name = "mixed-reno"
    incumbent = "reno"


Incumbents = dict[str, float]


def _of_incumbents(recording: Recording, count: int) -> Incumbents:
    """Mean goodput, RTT and retransmitted share of the first flows, from 15 s after the others have joined."""
    start_s, end_s = Mixed.JOINS_S + 15, recording.scenario.duration_s
    inside = metrics.window(recording.t_s, start_s, end_s + 1e-6)
    sent = total(recording, "sent_packets", start_s, end_s, slice(count))
    return {
        "goodput": float(goodputs(recording, start_s, end_s)[:count].mean()),
        "rtt": float(np.nanmean(recording.flows["srtt_ms"][inside, :count])),
        "loss": total(recording, "retransmitted_packets", start_s, end_s, slice(count)) / max(sent, 1.0),
    }


@lru_cache(maxsize=256)
def _without_candidates(
    worlds: type[Mixed], point: tuple[tuple[str, float | int | str], ...], seed: int
) -> tuple[Incumbents, Incumbents]:
    """Figures of the incumbents alone, and with flows of their own kind in place of the candidate's."""
    family = worlds()
    scenario = family.world(dict(point), seed)
    old = [flow for flow in scenario.flows if flow.controller != CANDIDATE]
    kind = [
        flow if flow.controller != CANDIDATE else flow.changed(controller=ControllerSpec(name=family.incumbent))
        for flow in scenario.flows
    ]
    runs = (simulate(scenario.with_flows(flows), record_interval_s=RECORD_INTERVAL_S) for flows in (old, kind))
    alone, beside = (_of_incumbents(run, len(old)) for run in runs)
    return alone, beside


def _less(alone: float, shared: float) -> float:
    """Harm to a figure of which more is better."""
    return (alone - shared) / alone if alone > 0 else 0.0


def _more(alone: float, shared: float) -> float:
    """Harm to a figure of which less is better."""
    return (shared - alone) / shared if shared > 0 else 0.0


def starved_s(mbps: np.ndarray, fair_mbps: float) -> float:
    """The longest time in s that any flow was starved. mbps: goodput as [seconds, flows]."""
    return float(max(_longest(flow < STARVED * fair_mbps) for flow in mbps.T))


def _longest(true: np.ndarray) -> int:
    """The length of the longest run of true values."""
    longest = run = 0
    for value in true:
        run = run + 1 if value else 0
        longest = max(longest, run)
    return longest


class ShortFlows(AssessmentWorlds):
    """RFC 9743, 5.1.5 and 5.2.3: short flows start beside long flows; the candidate drives one group or both."""

    name = "short-flows"
    RATE_MBPS = 20.0
    FROM_S, UNTIL_S, DURATION_S = 10.0, 40.0, 60.0
    SIZES = (10_000, 100_000, 1_000_000)

    def grid(self, profile: str) -> Sequence[Point]:
        loads = pick(profile, (0.3,), (0.1, 0.3, 0.5))
        return [{"candidate": side, "load": load} for side in ("long", "short", "both") for load in loads]

    def world(self, point: Point, seed: int) -> Scenario:
        draw = random.Random(seed)
        long, short = (
            CANDIDATE if point["candidate"] in (side, "both") else ControllerSpec(name="cubic")
            for side in ("long", "short")
        )
        flows = [Flow(name=f"long-{k}", controller=long) for k in range(2)]
        per_s = float(point["load"]) * self.RATE_MBPS * 1e6 / 8 / (sum(self.SIZES) / len(self.SIZES))
        at_s = self.FROM_S + draw.expovariate(per_s)
        while at_s < self.UNTIL_S:
            traffic = Bytes(bytes=self.SIZES[(len(flows) - 2) % len(self.SIZES)])
            flows.append(Flow(name=f"short-{len(flows)}", controller=short, start_s=at_s, traffic=traffic))
            at_s += draw.expovariate(per_s)
        return dumbbell(flows, self.RATE_MBPS, 40.0, self.DURATION_S, seed=seed, buffer_bdp=2.0)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        took = []
        for totals in recording.flow_totals[2:]:
            finished = totals["finished_s"]
            took.append((self.DURATION_S if finished is None else finished) - totals["start_s"])
        return {
            "completion_median_s": float(np.median(took)),
            "completion_p95_s": float(np.percentile(took, 95)),
            "long_mbps": float(goodputs(recording, self.FROM_S, self.UNTIL_S)[:2].sum()),
        }


class RealTime(AssessmentWorlds):
    """RFC 9743, 5.2.2: a voice call and a video stream of constant rate beside the candidate."""

    name = "real-time"
    VOICE = Cbr(rate_mbps=0.1, packet_bytes=214)
    VIDEO = Cbr(rate_mbps=2.5, packet_bytes=1200)

    def grid(self, profile: str) -> Sequence[Point]:
        quick, full = ((1, 5.0), (4, 5.0)), ((1, 0.5), (1, 2.0), (1, 5.0), (4, 5.0), (4, 10.0))
        return [{"flows": n, "buffer_bdp": buffer} for n, buffer in pick(profile, quick, full)]

    def world(self, point: Point, seed: int) -> Scenario:
        udp = ControllerSpec(name="udp")
        flows = [
            Flow(name="voice", controller=udp, traffic=self.VOICE),
            Flow(name="video", controller=udp, traffic=self.VIDEO),
            *candidates(int(point["flows"]), start_s=2.0),
        ]
        return dumbbell(flows, 20.0, 60.0, 60.0, seed=seed, buffer_bdp=float(point["buffer_bdp"]))

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        voice, video = recording.flow_totals[:2]
        return {
            **{f"voice_{p}_ms": _known(voice[f"delay_{p}_ms"]) for p in ("p50", "p95", "p99")},
            "voice_late_share": _known(voice["late_share"]),
            "voice_loss": 1 - voice["received_datagrams"] / voice["sent_packets"],
            "video_loss": 1 - video["received_datagrams"] / video["sent_packets"],
        }


def _known(value: float | None) -> float:
    """NaN where no datagram arrived."""
    return float("nan") if value is None else value


class Bully(AssessmentWorlds):
    """RFC 9743, 7.6: for twenty seconds an unresponsive flow sends at 1.2 times the rate of the link."""

    name = "bully"
    RATE_MBPS = 20.0
    FROM_S, UNTIL_S, DURATION_S = 15.0, 35.0, 70.0

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"bully": 1.2}]

    def world(self, point: Point, seed: int) -> Scenario:
        rate = self.RATE_MBPS * float(point["bully"])
        bully = Flow(
            name="bully",
            controller=ControllerSpec(name="udp"),
            traffic=Cbr(rate_mbps=rate),
            start_s=self.FROM_S,
            stop_s=self.UNTIL_S,
        )
        return dumbbell([*candidates(1), bully], self.RATE_MBPS, 40.0, self.DURATION_S, seed=seed)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        per_second = seconds(recording.flows["goodput_mbps"][:, 0])
        usual = float(np.median(per_second[5 : int(self.FROM_S)]))
        back = np.flatnonzero(per_second[int(self.UNTIL_S) :] >= 0.8 * usual)
        return {
            "recovery_s": float(back[0]) if usual > 0 and back.size else self.DURATION_S - self.UNTIL_S,
            "beside_bully_mbps": float(goodputs(recording, self.FROM_S + 2, self.UNTIL_S)[0]),
        }


class CoupledQueues(AssessmentWorlds):
    """RFC 9743, 7.1: beside a flow of L4S (Prague) on the coupled queues of RFC 9332."""

    name = "coupled-queues"
    RATE_MBPS = 40.0
    FROM_S, UNTIL_S = 20.0, 60.0

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"rtt_ms": rtt} for rtt in pick(profile, (20.0, 100.0), (10.0, 20.0, 50.0, 100.0))]

    def world(self, point: Point, seed: int) -> Scenario:
        flows = [*candidates(1), *others("prague", 1)]
        rtt = float(point["rtt_ms"])
        return dumbbell(flows, self.RATE_MBPS, rtt, self.UNTIL_S, seed=seed, queue={"kind": "dualpi2"})

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        inside = metrics.window(recording.t_s, self.FROM_S, self.UNTIL_S)
        queues = recording.flows["rtt_ms"][inside, 1] - float(case.point["rtt_ms"])
        own, low = goodputs(recording, self.FROM_S, self.UNTIL_S)
        return {
            "low_delay_ms": float(np.nanpercentile(queues, 99)) if np.isfinite(queues).any() else float("nan"),
            "low_over_fair": float(2 * low / (own + low)) if own + low > 0 else float("nan"),
        }
