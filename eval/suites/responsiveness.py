"""Experiments E3 and E4 of the LEO paper: one flow on a path whose bandwidth and base RTT change every 15 s."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Metric, Point, Suite
from orbitcc.eval.suites.common import DELAY_INFLATION, RETRANSMISSION_RATE

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

PAYLOAD = 1448 / 1514
"""Share of the bandwidth that is payload."""
SHOWCASE_RUN = 2
"""The run in the paper's Figure 3, and the seconds that it shows."""
SHOWCASE_WINDOW_S = (105.0, 225.0)
REGAIN_150 = Metric(
    key="regain_150_s",
    title="Time to adapt at 150 s",
    unit=" s",
    better="lower",
    ideal=0.0,
    decimals=0,
    definition="time from the rise of the base RTT at 150 s until the goodput of a second is 90 % of the bandwidth "
    "without headers",
)


class Responsiveness(Suite):
    """Mazilu et al. 2026, section V-A: 50 random schedules of 300 s, the same for every contender."""

    name = "responsiveness"
    scenario = "leo-responsiveness"
    title = "Responsiveness on a LEO path"
    description = (
        "One flow runs for 300 s over a path that is reconfigured every 15 s: a new bandwidth (50–100 Mbit/s), a new "
        "base RTT (10–100 ms), and an interruption of 45–120 ms that empties the queue of the bottleneck. The "
        "schedules are the same for every contender."
    )
    source = "Experiment E3 of Mazilu, Valentine, Wakeman, Parisis, IFIP Networking 2026, section V-A and Figure 3."
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            key="goodput_over_optimal",
            title="Goodput / optimal",
            unit="",
            better="higher",
            ideal=1.0,
            definition="mean of the 1-s goodput samples (0 < t < 300 s) divided by the mean bandwidth of the run; at "
            "most 0.956, because the bandwidth includes headers",
        ),
        DELAY_INFLATION,
        RETRANSMISSION_RATE,
    )
    trade = ("goodput_over_optimal", "delay_inflation")
    profiles: ClassVar = {"quick": 6, "reduced": 10, "full": 50}
    max_runs = 50
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
    title = "Responsiveness on a lossy LEO path"
    description = (
        "As `responsiveness`, with a random loss of 0–1 % in the data direction, before the bottleneck, that changes "
        "every 15 s."
    )
    source = "Experiment E4 of Mazilu, Valentine, Wakeman, Parisis, IFIP Networking 2026, section V-A and Figure 3."
    loss = True


class ResponsivenessShown(Responsiveness):
    """The run in Figure 3 of the paper."""

    name = "responsiveness-shown"
    title = "The run in the paper's figure"
    description = (
        "Run 2 of `responsiveness` with base RTTs as in the paper's code (5–100 ms). The paper's figure shows this "
        "run, with a rise from 27 to 70 ms at 150 s."
    )
    metrics = (REGAIN_150, *Responsiveness.metrics)
    profiles: ClassVar = {"quick": 1, "reduced": 1, "full": 1}
    max_runs = 1

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.build(run=SHOWCASE_RUN, rtt="repo", loss=self.loss), point)

    def shows(self, case: Case) -> bool:
        return True

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        values = super().measure(case, recording)
        t, goodput = recording.t_s, recording.flows["goodput_mbps"][:, 0]
        optimal = np.array([recording.scenario.capacity_mbps(s - 0.5) for s in t])
        enough = (goodput >= 0.9 * PAYLOAD * optimal) & (t > 150.5)
        return {REGAIN_150.key: float(t[enough][0] - 150.0) if enough.any() else 150.0, **values}


class ResponsivenessLossShown(ResponsivenessShown):
    """The same run with random loss."""

    name = "responsiveness-loss-shown"
    title = "The run in the paper's figure, with loss"
    description = "As `responsiveness-shown`, with a random loss of 0–1 % that changes every 15 s."
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
