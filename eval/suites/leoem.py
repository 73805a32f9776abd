"""Experiments E1 and E2 of the LEO paper: one and two flows on the six paths of LeoEM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite
from orbitcc.eval.suites.common import ratio_values

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

PATHS = ("sea-ny-isl", "sea-ny-bp", "sd-ny-isl", "sd-ny-bp", "ny-ldn-isl", "sd-sha-isl")
"""In the order of the paper's Figure 1."""
QUICK_PATHS = ("sd-ny-bp", "sd-sha-isl")
"""The bent pipe with the most outages, and the most stable path."""
RATE_MBPS = 100.0


class _Leoem(Suite):
    scenario = "leoem"
    profiles: ClassVar = {"quick": 1, "reduced": 3, "full": 5}
    max_runs = 100
    flows: ClassVar[int]

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"path": path} for path in (QUICK_PATHS if profile == "quick" else PATHS)]

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.build(path=point["path"], run=seed, flows=self.flows), point)


class LeoemSingle(_Leoem):
    """Mazilu et al. 2026, section IV-A: a single flow on each path for 300 s."""

    name = "leoem-single"
    flows = 1

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        end, totals = recording.scenario.duration_s, recording.flow_totals[0]
        flow = {name: series[:, 0] for name, series in recording.flows.items()}
        goodput = metrics.mean_in_window(recording.t_s, flow["goodput_mbps"], 0.0, end + 1.0)
        return {
            "goodput_share": goodput / RATE_MBPS,
            "delay_inflation": metrics.delay_inflation(recording.t_s, flow["srtt_ms"], flow["base_rtt_ms"], 0.0, end),
            "retransmission_rate": metrics.retransmission_rate(totals["retransmitted_packets"], totals["sent_packets"]),
            "retransmitted_mbps": metrics.retransmitted_mbps(totals["retransmitted_packets"], end),
        }


class LeoemFairness(_Leoem):
    """Mazilu et al. 2026, section IV-B: a second flow joins after 100 s."""

    name = "leoem-fairness"
    flows = 2

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        end = recording.scenario.duration_s
        return ratio_values(recording, end - 100.0, end, RATE_MBPS)
