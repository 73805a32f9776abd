"""Paths with random losses, changing rates and delays, long delays, sudden changes and reordering."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import ControllerSpec, Flow, OnOff
from orbitcc.envs.description.links import Direction, GammaJitter, GilbertElliott, Handover, Late, Outage
from orbitcc.envs.description.queues import PACKET_BYTES
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import metrics
from orbitcc.eval.assessment.worlds.base import (
    PAYLOAD_BYTES,
    RECORD_INTERVAL_S,
    AssessmentWorlds,
    candidates,
    dumbbell,
    goodputs,
    link_figures,
    pick,
    total,
)
from orbitcc.eval.suites.base import Case, Point

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

RATE_MBPS, RTT_MS = 20.0, 40.0
DURATION_S = 60.0


class Wireless(AssessmentWorlds):
    """RFC 9743, 6.4: random losses, changing rates, jitter, and channels that send in frames."""

    name = "wireless"

    def grid(self, profile: str) -> Sequence[Point]:
        quick = ("loss 0.1 %", "loss 1 %", "bursts", "moving rate", "jitter", "frames")
        return [{"medium": medium} for medium in pick(profile, quick, (*quick, "loss 0.01 %", "loss 2 %"))]

    def world(self, point: Point, seed: int) -> Scenario:
        medium, link = str(point["medium"]), dict[str, Any]()
        if medium.startswith("loss"):
            link["loss"] = float(medium.split()[1]) / 100
        elif medium == "bursts":
            # Two bursts per second of 10 ms each, as on a LEO access link under bad conditions (docs/links.md).
            link["loss"] = GilbertElliott(good_loss=0.0, bad_loss=0.5, to_bad_per_s=2.0, to_good_per_s=100.0)
        elif medium == "moving rate":
            link["rate_mbps"] = _ar1(seed)
        elif medium == "jitter":
            link["jitter"] = GammaJitter(mean_ms=8.0)
        else:
            link["reverse"] = Direction(delay_ms=RTT_MS / 2, gate_ms=50.0)
        return dumbbell(candidates(1), RATE_MBPS, RTT_MS, DURATION_S, seed=seed, **link)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return link_figures(recording, 10.0, DURATION_S)


def _ar1(seed: int) -> list[tuple[float, float]]:
    """A rate whose logarithm is an AR(1) process with steps of 1 s: standard deviation 0.3, correlation 0.9."""
    rng, level, points = np.random.default_rng(seed), 0.0, []
    for second in range(int(DURATION_S)):
        points.append((float(second), RATE_MBPS * float(np.exp(level))))
        level = 0.9 * level + 0.3 * float(np.sqrt(1 - 0.81)) * float(rng.standard_normal())
    return points


class VaryingDelay(AssessmentWorlds):
    """RFC 9743, 7.3: the propagation delay of the path changes, once or continuously."""

    name = "varying-delay"

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"path": path} for path in ("rise", "fall", "leo", "access", "geo")]

    def world(self, point: Point, seed: int) -> Scenario:
        path = point["path"]
        if path in ("rise", "fall"):
            first, second = (20.0, 80.0) if path == "rise" else (80.0, 20.0)
            delay = ((0.0, first / 2), (20.0, second / 2))
            return dumbbell(
                candidates(1), RATE_MBPS, 20.0, 40.0, seed=seed,
                delay_ms=delay, reverse=Direction(delay_ms=delay), handovers=(),
            )  # fmt: skip
        if path == "leo":
            found = scenarios.get("leo-responsiveness", run=seed)
        elif path == "access":
            found = scenarios.get("leo-access", run=seed)
        else:
            found = scenarios.get("geo-viasat-2020", run=seed)
        found = found.changed(duration_s=min(found.duration_s, 120.0), seed=seed)
        return found.with_flows(candidates(1))

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        scenario = recording.scenario
        changes = case.point["path"] in ("rise", "fall")
        start_s, end_s = (20.0, 30.0) if changes else (10.0, scenario.duration_s)
        figures = link_figures(recording, start_s, end_s)
        inside = metrics.window(recording.t_s, start_s, end_s + 1e-6)
        srtt, base = (recording.flows[name][inside, 0] for name in ("srtt_ms", "base_rtt_ms"))
        return {"utilisation": figures["utilisation"], "delay_inflation": float(np.nanmean(srtt / base))}


class HighDelay(AssessmentWorlds):
    """RFC 9743, 7.5: the RTT of a geostationary hop and, as a stress test, five seconds."""

    name = "high-delay"
    OBJECT_BYTES = 5_000_000

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"rtt_ms": rtt} for rtt in pick(profile, (600.0,), (600.0, 5000.0))]

    def _duration_s(self, point: Point) -> float:
        return 120.0 if float(point["rtt_ms"]) < 1000 else 600.0

    def world(self, point: Point, seed: int) -> Scenario:
        return dumbbell(candidates(1), RATE_MBPS, float(point["rtt_ms"]), self._duration_s(point), seed=seed)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        got = np.cumsum(recording.flows["goodput_mbps"][:, 0]) * RECORD_INTERVAL_S * 1e6 / 8
        there = np.flatnonzero(got >= self.OBJECT_BYTES)
        end_s = self._duration_s(case.point)
        return {
            "start_s": float(recording.t_s[there[0]]) if there.size else end_s,
            **link_figures(recording, end_s / 2, end_s),
        }


class Reordering(AssessmentWorlds):
    """RFC 9743, 7.7: packets overtake each other, or one in a hundred arrives one round trip late."""

    name = "reordering"

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"reordering": kind} for kind in ("late 1 %", "jitter 5 ms", "jitter 50 ms")]

    def world(self, point: Point, seed: int) -> Scenario:
        kind, link = str(point["reordering"]), dict[str, Any](ordering="overtaking")
        if kind == "late 1 %":
            link["late"] = Late(p=0.01, delay_ms=RTT_MS)
        else:
            link["jitter"] = GammaJitter(mean_ms=float(kind.split()[1]), tau_ms=20.0)
        return dumbbell(candidates(1), RATE_MBPS, RTT_MS, DURATION_S, seed=seed, buffer_bdp=2.0, **link)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        resent = total(recording, "retransmitted_packets", 10.0, DURATION_S)
        sent = total(recording, "sent_packets", 10.0, DURATION_S)
        dropped = float(recording.links["dropped_packets"][recording.t_s > 10.0, 0].sum())
        return {
            # Based on goodput, because a packet that the link carries twice is useless.
            "utilisation": float(goodputs(recording, 10.0, DURATION_S)[0]) * PACKET_BYTES / PAYLOAD_BYTES / RATE_MBPS,
            "spurious_share": max(0.0, resent - dropped) / sent if sent else 0.0,
        }


class PathChange(AssessmentWorlds):
    """RFC 9743, 7.9: rate or delay of the path change suddenly, or a handover has an outage."""

    name = "path-change"
    AT_S, END_S = 20.0, 50.0

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"change": change} for change in ("rate up", "rate down", "delay up", "handover")]

    def world(self, point: Point, seed: int) -> Scenario:
        change, link = point["change"], dict[str, Any](handovers=())
        slow, fast = 10.0, 40.0
        delay: tuple[tuple[float, float], ...] = ((0.0, RTT_MS / 2),)
        rates = {"rate up": [(0.0, slow), (self.AT_S, fast)], "rate down": [(0.0, fast), (self.AT_S, slow)]}
        link["rate_mbps"] = rates.get(str(change), [(0.0, fast)])
        if change == "delay up":
            delay = (*delay, (self.AT_S, RTT_MS))
        elif change == "handover":
            link["outages"] = [Outage(at_s=self.AT_S, duration_ms=150.0, flush="queue")]
        link |= {"delay_ms": delay, "reverse": Direction(delay_ms=delay)}
        return dumbbell(candidates(1), fast, RTT_MS, self.END_S, seed=seed, **link)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        delivered, capacity = (recording.links[name][:, 0] for name in ("delivered_mbps", "capacity_mbps"))
        after = recording.t_s > self.AT_S + 1e-9
        per = round(1 / RECORD_INTERVAL_S)
        second = np.convolve((delivered / capacity)[after], np.ones(per) / per, mode="valid")
        enough = np.flatnonzero(second >= 0.8)
        return {
            "recovery_s": float(enough[0]) * RECORD_INTERVAL_S if enough.size else self.END_S - self.AT_S,
            "loss_burst": link_figures(recording, self.AT_S, self.AT_S + 5)["loss_share"],
        }


class Transients(AssessmentWorlds):
    """RFC 9743, 7.8: short outages, and bursts of cross traffic."""

    name = "transients"

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"event": event} for event in ("outages", "crowds")]

    def world(self, point: Point, seed: int) -> Scenario:
        flows, link = candidates(1), dict[str, Any](handovers=())
        if point["event"] == "outages":
            link["outages"] = [Outage(at_s=at, duration_ms=100.0, flush="queue") for at in range(5, int(DURATION_S), 5)]
        else:
            crowd = OnOff(rate_mbps=RATE_MBPS / 2, on_s=2.0, off_s=2.0)
            flows.append(Flow(name="crowd", controller=ControllerSpec(name="udp"), traffic=crowd))
        return dumbbell(flows, RATE_MBPS, RTT_MS, DURATION_S, seed=seed, **link)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return link_figures(recording, 5.0, DURATION_S)


class Signals(AssessmentWorlds):
    """RFC 9743, 6.2: handover signals that are missing, as behind a tunnel, late or wrong."""

    name = "signals"

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"signals": kind} for kind in ("none", "late", "wrong")]

    def world(self, point: Point, seed: int) -> Scenario:
        return _told(seed, str(point["signals"])).with_flows(candidates(1))

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        candidate = recording.scenario.flows[0].controller
        told = _goodput_when_told(str(candidate), recording.scenario.seed)
        got = float(goodputs(recording, 5.0, recording.scenario.duration_s)[0])
        # Exactly the same packets: the controller does not use the signals.
        return {"signal_loss": float("nan") if got == told else max(0.0, 1 - got / told)}


def _told(seed: int, signals: str) -> Scenario:
    found = scenarios.get("leo-responsiveness", run=seed).changed(duration_s=90.0, seed=seed)
    changed = []
    for k, link in enumerate(found.links):
        handovers = list(link.path_changes())
        if signals == "none":
            handovers = []
        elif signals == "late":
            handovers = [h.changed(at_s=h.at_s + 1.0) for h in handovers]
        elif signals == "wrong" and handovers:
            rng = np.random.default_rng([seed, k])
            times = np.sort(rng.uniform(5.0, 85.0, len(handovers)))
            handovers = [
                Handover(at_s=float(t), duration_ms=h.duration_ms) for t, h in zip(times, handovers, strict=True)
            ]
        changed.append(link.changed(handovers=tuple(handovers)))
    return found.changed(links=tuple(changed))


@lru_cache(maxsize=64)
def _goodput_when_told(controller: str, seed: int) -> float:
    """Mbit/s of the same controller when the signals are right."""
    flow = Flow(name="candidate", controller=ControllerSpec.parse(controller))
    run = simulate(_told(seed, "right").with_flows([flow]), record_interval_s=RECORD_INTERVAL_S)
    return float(goodputs(run, 5.0, run.scenario.duration_s)[0])
