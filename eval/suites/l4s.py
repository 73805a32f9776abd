"""L4S (RFC 9330): a contender and Cubic with ECN on a bottleneck with the coupled queues of RFC 9332."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from orbitcc.envs import scenarios
from orbitcc.envs.description.flows import ControllerSpec
from orbitcc.envs.description.scenario import Flow, Scenario
from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.contenders import Contender

RATE_MBPS = 40.0
FROM_S = 20.0
FIXED_RTTS_MS = {"10 ms": 10.0, "20 ms": 20.0, "50 ms": 50.0, "100 ms": 100.0, "geo": 600.0}


class L4s(Suite):
    """Section 7.1 of RFC 9743 and the coexistence goals of RFC 9332; paths of LEO and GEO satellites are ours."""

    name = "l4s"
    scenario = "dumbbell"
    takes_parameters = False
    profiles: ClassVar = {"quick": 1, "reduced": 3, "full": 5}
    max_runs = 100
    record_interval_s = 0.1

    def grid(self, profile: str) -> Sequence[Point]:
        paths = ("20 ms", "leo", "geo") if profile == "quick" else (*FIXED_RTTS_MS, "leo")
        return [{"path": path, "beside": beside} for path in paths for beside in ("cubic", "nobody")]

    def case(self, point: Point, seed: int) -> Case:
        path = str(point["path"])
        if path == "leo":
            made = scenarios.get("leo-responsiveness", run=seed, duration_s=120.0)
        else:
            made = self.build(duration_s=80.0, rate_mbps=RATE_MBPS, base_rtt_ms=FIXED_RTTS_MS[path])
        flows = [Flow(name="candidate", controller=ControllerSpec(name="cubic"))]
        if point["beside"] == "cubic":
            flows.append(Flow(name="rival", controller=ControllerSpec(name="cubic", params={"ecn": "classic"})))
        described: dict[str, Any] = made.with_flows(flows).with_seed(seed).model_dump()
        described["links"] = [link | {"queue": {"kind": "dualpi2"}} for link in described["links"]]
        return Case(seed, Scenario.build(described), point)

    def enter(self, case: Case, contender: Contender) -> Scenario:
        return contender.take(case.scenario, lambda flow: flow.name == "candidate")

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        inside = metrics.window(recording.t_s, FROM_S, recording.scenario.duration_s)
        flows = {name: series[inside] for name, series in recording.flows.items()}
        goodputs = flows["goodput_mbps"].mean(axis=0)
        queues = np.maximum(flows["rtt_ms"][:, 0] - flows["base_rtt_ms"][:, 0], 0.0)
        capacity = recording.links["capacity_mbps"][inside].min(axis=1).mean()
        return {
            "own_share": float(goodputs[0] / goodputs.sum()) if goodputs.size > 1 and goodputs.any() else float("nan"),
            "goodput_share": float(goodputs.sum() / capacity),
            "queue_ms": float(np.nanmean(queues)),
            "queue_p99_ms": float(np.nanpercentile(queues, 99)),
        }
