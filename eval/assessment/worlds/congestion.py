"""Effects of a controller on the network: collapse, standing queues, losses, buffer sizes, managed queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from orbitcc.envs.description.links import Outage
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval.assessment.worlds.base import (
    PAYLOAD_BYTES,
    AssessmentWorlds,
    candidates,
    dumbbell,
    link_figures,
    pick,
    total,
)
from orbitcc.eval.suites.base import Case, Point

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

ONSET_S = 5.0
"""When the disturbance begins: after the start-up of the flow."""


class Collapse(AssessmentWorlds):
    """RFC 9743, 5.1.1: heavy loss, missing acknowledgements, or too many flows for the link."""

    name = "collapse"
    RTT_MS = 50.0
    TROUBLE_S = 60.0

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"event": event} for event in ("loss 90 %", "no acknowledgements", "loss 50 %", "100 flows")]

    def world(self, point: Point, seed: int) -> Scenario:
        event, end_s = point["event"], ONSET_S + self.TROUBLE_S
        if event == "100 flows":
            return dumbbell(candidates(100), 1.0, self.RTT_MS, end_s, seed=seed, buffer_bdp=12.0)
        link: dict[str, Any] = {}
        if event == "no acknowledgements":
            link["outages"] = [Outage(at_s=ONSET_S, duration_ms=self.TROUBLE_S * 1e3, directions="reverse")]
            link["handovers"] = ()
        else:
            link["loss"] = [(0.0, 0.0), (ONSET_S, 0.9 if event == "loss 90 %" else 0.5)]
        return dumbbell(candidates(1), 10.0, self.RTT_MS, end_s, seed=seed, **link)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        end_s = ONSET_S + self.TROUBLE_S
        sent = total(recording, "sent_packets", ONSET_S, end_s)
        useful = total(recording, "goodput_mbps", ONSET_S, end_s) * float(recording.t_s[0]) * 1e6 / 8
        early = total(recording, "sent_packets", ONSET_S + 2, ONSET_S + 12) / 10
        late = total(recording, "sent_packets", end_s - 20, end_s) / 20
        settled_s = self.TROUBLE_S - 10
        return {
            "packets_per_rtt": total(recording, "sent_packets", ONSET_S + 10, end_s) * self.RTT_MS / 1e3 / settled_s,
            "late_over_early": late / early if early else float(late > 0),
            "useful_share": useful / (sent * PAYLOAD_BYTES) if sent else 0.0,
        }


class PersistentLoss(AssessmentWorlds):
    """RFC 9743, 7.2: persistent loss, at which a transport circuit breaker trips."""

    name = "persistent-loss"

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"loss": loss} for loss in pick(profile, (0.1,), (0.1, 0.15, 0.2))]

    def world(self, point: Point, seed: int) -> Scenario:
        loss = [(0.0, 0.0), (10.0, float(point["loss"]))]
        return dumbbell(candidates(1), 10.0, 50.0, 30.0, seed=seed, loss=loss)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        before = total(recording, "sent_packets", 5, 10) / 5
        after = total(recording, "sent_packets", 15, 25) / 10
        return {"rate_kept": after / before if before else 0.0}


class Bufferbloat(AssessmentWorlds):
    """RFC 9743, 5.1.2: buffers of ten bandwidth-delay products."""

    name = "bufferbloat"

    def grid(self, profile: str) -> Sequence[Point]:
        quick = ((50.0, 40.0), (10.0, 200.0))
        full = (*quick, (200.0, 10.0), (10.0, 600.0), (200.0, 40.0))
        paths = pick(profile, quick, full)
        return [{"flows": n, "rate_mbps": rate, "rtt_ms": rtt} for rate, rtt in paths for n in (1, 4)]

    def _duration_s(self, point: Point) -> float:
        return 40.0 + 0.15 * float(point["rtt_ms"])

    def world(self, point: Point, seed: int) -> Scenario:
        rate, rtt = float(point["rate_mbps"]), float(point["rtt_ms"])
        flows = candidates(int(point["flows"]))
        return dumbbell(flows, rate, rtt, self._duration_s(point), seed=seed, buffer_bdp=10.0)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        end_s = self._duration_s(case.point)
        return link_figures(recording, end_s / 2, end_s)


class SmallBuffers(AssessmentWorlds):
    """RFC 9743, 5.1.3: several flows on buffers of at most one and a half bandwidth-delay products."""

    name = "small-buffers"

    def grid(self, profile: str) -> Sequence[Point]:
        counts, buffers = pick(profile, ((2, 10), (0.25, 1.0)), ((2, 5, 10), (0.1, 0.25, 0.5, 1.0, 1.5)))
        return [{"flows": n, "buffer_bdp": buffer} for n in counts for buffer in buffers]

    def world(self, point: Point, seed: int) -> Scenario:
        flows = candidates(int(point["flows"]))
        return dumbbell(flows, 50.0, 40.0, 40.0, seed=seed, buffer_bdp=float(point["buffer_bdp"]))

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return link_figures(recording, 10.0, 40.0)


class TailDrop(AssessmentWorlds):
    """RFC 9743, 6.1: one flow on a tail-drop queue of 0.25 to 4 bandwidth-delay products."""

    name = "tail-drop"

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"buffer_bdp": buffer} for buffer in pick(profile, (0.25, 1.0), (0.25, 0.5, 1.0, 2.0, 4.0))]

    def world(self, point: Point, seed: int) -> Scenario:
        return dumbbell(candidates(1), 50.0, 40.0, 40.0, seed=seed, buffer_bdp=float(point["buffer_bdp"]))

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return link_figures(recording, 10.0, 40.0)


class ManagedQueues(AssessmentWorlds):
    """RFC 9743, 7.1: queues that drop before they are full."""

    name = "managed-queues"

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"queue": kind, "flows": n} for kind in ("codel", "fq_codel", "pie", "red") for n in (1, 4)]

    def world(self, point: Point, seed: int) -> Scenario:
        queue: dict[str, Any] = {"kind": point["queue"]}
        if point["queue"] == "red":
            queue |= {"limit_bytes": 400_000, "adaptive": True}
        return dumbbell(candidates(int(point["flows"])), 20.0, 40.0, 40.0, seed=seed, queue=queue)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return link_figures(recording, 10.0, 40.0)


class SlowLinks(AssessmentWorlds):
    """RFC 9743, 7.4: the low rates of constrained nodes, where a window is a few packets."""

    name = "slow-links"
    DURATION_S = 300.0

    def grid(self, profile: str) -> Sequence[Point]:
        quick = ((20.0, 1000.0), (100.0, 200.0), (250.0, 2000.0))
        full = (*quick, (20.0, 100.0), (20.0, 2000.0), (250.0, 100.0))
        return [{"rate_kbps": rate, "rtt_ms": rtt} for rate, rtt in pick(profile, quick, full)]

    def world(self, point: Point, seed: int) -> Scenario:
        rate, rtt = float(point["rate_kbps"]) / 1e3, float(point["rtt_ms"])
        buffer_bdp = max(1.0, 10 * 1514 / (rate * rtt * 125))
        return dumbbell(candidates(1), rate, rtt, self.DURATION_S, seed=seed, buffer_bdp=buffer_bdp)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        delivered = recording.links["delivered_mbps"][:, 0]
        after = recording.t_s > 30.0
        gaps = np.diff(recording.t_s[after & (delivered > 0)], append=self.DURATION_S)
        return {
            **link_figures(recording, 30.0, self.DURATION_S),
            "stall_s": float(gaps.max()) if gaps.size else self.DURATION_S,
        }
