"""Experiments E3 and E4 of the LEO paper: one flow on a path whose bandwidth and base RTT change every 15 s."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

PAYLOAD = 1448 / 1514
"""Share of the bandwidth that is payload."""
SHOWCASE_RUN = 2
"""The run in the paper's Figure 3, and the seconds that it shows."""
SHOWCASE_WINDOW_S = (105.0, 225.0)


class Responsiveness(Suite):
    """Mazilu et al. 2026, section V-A: 50 random schedules of 300 s, the same for every contender."""

    name = "responsiveness"
    scenario = "leo-responsiveness"
    fixed = ("loss",)
    loss: ClassVar[bool] = False

    def case(self, point: Point, seed: int) -> Case:
        """A schedule in the order of the paper's repository; the number of the run seeds the noise."""
        return Case(seed, self.build(run=seed, loss=self.loss), point)

    def shows(self, case: Case) -> bool:
        return case.seed == self.first_run + SHOWCASE_RUN - 1

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        duration_s = recording.scenario.duration_s
        totals = recording.flow_totals[0]
        # Sampled in the middle of each second, because the schedule changes within 120 ms of a full second.
        optimal = float(np.mean([recording.scenario.capacity_mbps(s + 0.5) for s in range(int(duration_s))]))
        flow = {name: series[:, 0] for name, series in recording.flows.items()}
        t = recording.t_s
        bottleneck = recording.link_names.index("bottleneck")
        return {
            "goodput_over_optimal": metrics.goodput_over_optimal(t, flow["goodput_mbps"], optimal, 0.0, duration_s),
            "delay_inflation": metrics.delay_inflation(t, flow["srtt_ms"], flow["base_rtt_ms"], 0.0, duration_s),
            "retransmission_rate": metrics.retransmission_rate(totals["retransmitted_packets"], totals["sent_packets"]),
            "retransmitted_mbps": metrics.retransmitted_mbps(totals["retransmitted_packets"], duration_s),
            "goodput_mbps": metrics.mean_in_window(t, flow["goodput_mbps"], 0.0, duration_s),
            "optimal_mbps": optimal,
            **by_least_rtt(recording),
            "utilisation": metrics.utilisation(
                recording.links["delivered_mbps"][:, bottleneck], recording.links["capacity_mbps"][:, bottleneck]
            ),
        }


class ResponsivenessLoss(Responsiveness):
    """The same schedules with random loss."""

    name = "responsiveness-loss"
    loss = True


class ResponsivenessShown(Responsiveness):
    """The run in Figure 3 of the paper."""

    name = "responsiveness-shown"

    def case(self, point: Point, seed: int) -> Case:
        """The same schedule in every run; the number of the run seeds the noise."""
        return Case(seed, self.build(run=SHOWCASE_RUN, rtt="repo", loss=self.loss).with_seed(seed), point)

    def shows(self, case: Case) -> bool:
        return case.seed == self.first_run

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        values = super().measure(case, recording)
        t, goodput = recording.t_s, recording.flows["goodput_mbps"][:, 0]
        optimal = np.array([recording.scenario.capacity_mbps(s - 0.5) for s in t])
        enough = (goodput >= 0.9 * PAYLOAD * optimal) & (t > 150.5)
        return {"regain_150_s": float(t[enough][0] - 150.0) if enough.any() else 150.0, **values}


class ResponsivenessLossShown(ResponsivenessShown):
    """The same run with random loss."""

    name = "responsiveness-loss-shown"
    loss = True


def by_least_rtt(recording: Recording) -> dict[str, float]:
    """Goodput over bandwidth while the base RTT is the smallest so far (within 5 %), or at least twice that."""
    t, goodput = recording.t_s, recording.flows["goodput_mbps"][:, 0]
    base = np.array([recording.scenario.base_rtt_ms(0, s - 0.5) for s in t])
    capacity = np.array([recording.scenario.capacity_mbps(s - 0.5) for s in t])
    ratio = base / np.minimum.accumulate(base)
    low, high = ratio <= 1.05, ratio >= 2.0
    return {
        "u_at_least_rtt": float(goodput[low].sum() / capacity[low].sum()),
        "u_above_twice_least_rtt": float(goodput[high].sum() / capacity[high].sum()) if high.any() else float("nan"),
    }
