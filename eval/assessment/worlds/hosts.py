"""Unusual hosts: misbehaving receivers, and those of a data centre."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from orbitcc.envs.description.flows import Bytes, Divide, Flow, Optimistic, Receiver, Stretch
from orbitcc.envs.description.scenario import Scenario, SimSettings
from orbitcc.eval.assessment.worlds.base import (
    CANDIDATE,
    PACKET_BYTES,
    AssessmentWorlds,
    dumbbell,
    goodputs,
    pick,
    total,
)
from orbitcc.eval.suites.base import Case, Point

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording


class Receivers(AssessmentWorlds):
    """RFC 9743, 7.6: one of two receivers does not acknowledge as TCP requires."""

    name = "receivers"
    KINDS: ClassVar[dict[str, Receiver]] = {
        "stretch": Stretch(segments=10),
        "divide": Divide(parts=8),
        "optimistic": Optimistic(share=0.5),
    }

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"receiver": kind} for kind in self.KINDS]

    def world(self, point: Point, seed: int) -> Scenario:
        flows = [
            Flow(name="odd", controller=CANDIDATE, receiver=self.KINDS[str(point["receiver"])]),
            Flow(name="honest", controller=CANDIDATE),
        ]
        return dumbbell(flows, 20.0, 40.0, 60.0, seed=seed)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        odd, honest = goodputs(recording, 10.0, 60.0)
        sent = total(recording, "sent_packets", 10.0, 60.0, slice(1)) * PACKET_BYTES * 8e-6 / 50
        return {
            "gain": float(2 * odd / (odd + honest)),
            "flood": sent / 20.0,
            "together_share": float(odd + honest) / 20.0,
        }


class Incast(AssessmentWorlds):
    """RFC 9743, 7.11: many senders answer at the same time on paths with RTTs of 0.1 to 2 ms."""

    name = "incast"
    BYTES = 64_000
    ROUNDS, EVERY_S = 4, 1.0
    BUFFER_PACKETS = 128

    def grid(self, profile: str) -> Sequence[Point]:
        quick, full = (
            ((10, 1000.0, 0.2), (40, 1000.0, 1.0)),
            ((10, 10_000.0, 0.1), (40, 10_000.0, 0.1), (40, 1000.0, 2.0)),
        )
        found = pick(profile, quick, (*quick, *full))
        return [{"senders": n, "rate_mbps": rate, "rtt_ms": rtt} for n, rate, rtt in found]

    def world(self, point: Point, seed: int) -> Scenario:
        flows = [
            Flow(
                name=f"sender-{k}-{n}",
                controller=CANDIDATE,
                start_s=k * self.EVERY_S,
                traffic=Bytes(bytes=self.BYTES),
            )
            for k in range(self.ROUNDS)
            for n in range(int(point["senders"]))
        ]
        rate, rtt = float(point["rate_mbps"]), float(point["rtt_ms"])
        queue = {"kind": "drop_tail_packets", "limit_packets": self.BUFFER_PACKETS}
        scenario = dumbbell(flows, rate, rtt, self.ROUNDS * self.EVERY_S + 1, seed=seed, queue=queue)
        return scenario.changed(sim=SimSettings(start_jitter_ms=0.05))

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        end_s = recording.scenario.duration_s
        took = [(end_s if f["finished_s"] is None else f["finished_s"]) - f["start_s"] for f in recording.flow_totals]
        slowest = np.array(took).reshape(self.ROUNDS, -1).max(axis=1)
        wire_bits = int(case.point["senders"]) * self.BYTES / 1448 * PACKET_BYTES * 8
        sent = sum(totals["sent_packets"] for totals in recording.flow_totals)
        return {
            "slowdown": float(slowest.mean()) / (wire_bits / (float(case.point["rate_mbps"]) * 1e6)),
            "loss_share": recording.link_totals[0]["dropped_packets"] / sent,
        }
