"""Experiments E1 and E2 of the LEO paper: one and two flows on the six paths of LeoEM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Metric, Point, Suite
from orbitcc.eval.suites.common import DELAY_INFLATION, RATIO, RETRANSMISSION_RATE, ratio_values

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

PATHS = ("sea-ny-isl", "sea-ny-bp", "sd-ny-isl", "sd-ny-bp", "ny-ldn-isl", "sd-sha-isl")
"""In the order of the paper's Figure 1."""
QUICK_PATHS = ("sd-ny-bp", "sd-sha-isl")
"""The bent pipe with the most interruptions, and the most stable path."""
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

    def shows(self, case: Case) -> bool:
        return case.seed == self.first_run and case.point["path"] == "sd-ny-bp"


class LeoemSingle(_Leoem):
    """Mazilu et al. 2026, section IV-A: a single flow on each path for 300 s."""

    name = "leoem-single"
    title = "One flow on LeoEM's paths"
    description = (
        "A single flow runs for 300 s over each of the six paths that LeoEM logged. Their base RTT changes every "
        "second. Every 16 s or more, the satellite at an end changes and interrupts the path for 45–120 ms."
    )
    source = "Experiment E1 of Mazilu, Valentine, Wakeman, Parisis, IFIP Networking 2026, section IV-A, Figure 1a–c."
    flows = 1
    metrics = (
        Metric(
            key="goodput_share",
            title="Goodput / bandwidth",
            unit="",
            better="higher",
            ideal=1.0,
            definition="mean of the 1-s goodput samples divided by the path's 100 Mbit/s; at most 0.956, because of "
            "headers",
        ),
        DELAY_INFLATION,
        RETRANSMISSION_RATE,
    )

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
    title = "Two flows on LeoEM's paths"
    description = (
        "Two flows of one contender share each of LeoEM's six paths. The second starts after 100 s, and the run ends "
        "after 300 s. The last 100 s are evaluated."
    )
    source = (
        "Experiment E2 of Mazilu, Valentine, Wakeman, Parisis, IFIP Networking 2026, section IV-B, Figures 1d and 2."
    )
    flows = 2
    metrics = (
        RATIO,
        Metric(
            key="goodput_share",
            title="Goodput of both / bandwidth",
            unit="",
            better="higher",
            ideal=1.0,
            definition="mean goodput of both flows together in the last 100 s, divided by 100 Mbit/s",
        ),
    )

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        end = recording.scenario.duration_s
        return ratio_values(recording, end - 100.0, end, RATE_MBPS)
