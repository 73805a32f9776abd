"""One kind of event at a time: outages, and steps of the rate or the base RTT (the LEO paper's repository)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

RATE_MBPS = 100.0
STEP_AT_S = 20.0
PAYLOAD = 1448 / 1514
"""Share of a link's rate that is payload."""


class HardHandover(Suite):
    """Every 5 s the path has an outage."""

    name = "hard-handover"
    scenario = "hard-handover"

    def grid(self, profile: str) -> Sequence[Point]:
        lengths = {"quick": (40, 120, 200), "reduced": range(40, 201, 40), "full": range(20, 201, 20)}[profile]
        return [{"interruption_ms": ms} for ms in lengths]

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.build(**point).with_seed(seed), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        totals = recording.flow_totals[0]
        return {
            "goodput_share": totals["goodput_mbps"] / RATE_MBPS,
            "retransmission_rate": metrics.retransmission_rate(totals["retransmitted_packets"], totals["sent_packets"]),
            "rtos": float(totals["rtos"]),
        }


class RateStep(Suite):
    """The rate doubles, and the RTT does not change (claim F20 of the LEO paper)."""

    name = "rate-step"
    scenario = "dumbbell"

    def case(self, point: Point, seed: int) -> Case:
        scenario = self.build(duration_s=50.0).override("links.0.rate_mbps", [[0, 50], [STEP_AT_S, 100]])
        return Case(seed, scenario.with_seed(seed), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        goodput = recording.flows["goodput_mbps"][:, 0]
        return {"regain_s": regain_s(recording.t_s, goodput, STEP_AT_S, RATE_MBPS)}


class DelayJump(Suite):
    """The base RTT rises in one step."""

    name = "delay-jump"
    scenario = "delay-jump"

    def grid(self, profile: str) -> Sequence[Point]:
        rtts, factors = {
            "quick": ((20,), (3,)),
            "reduced": ((20, 60, 100), (1.5, 3, 4)),
            "full": (range(10, 101, 10), (1.5, 2, 3, 4)),
        }[profile]
        return [{"base_rtt_ms": rtt, "factor": factor} for factor in factors for rtt in rtts]

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.build(**point).with_seed(seed), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        scenario = recording.scenario
        jump = next(link.handovers[0].at_s for link in scenario.links if link.handovers)
        bdp_packets = RATE_MBPS * scenario.base_rtt_ms(0, jump) * 125 / scenario.sim.packet_bytes
        just_after = metrics.window(recording.t_s, jump, jump + 4 * scenario.base_rtt_ms(0, jump) / 1e3)
        flow = {name: series[:, 0] for name, series in recording.flows.items()}
        return {
            "regain_s": regain_s(recording.t_s, flow["goodput_mbps"], jump, RATE_MBPS),
            # The window with which a controller restarts, in bandwidth-delay products of the path after the change.
            "restart_bdp": float(np.nanmin(flow["cwnd_packets"][just_after])) / bdp_packets,
            "goodput_after": metrics.mean_in_window(recording.t_s, flow["goodput_mbps"], jump, 1e9) / RATE_MBPS,
            "delay_inflation": metrics.delay_inflation(
                recording.t_s, flow["srtt_ms"], flow["base_rtt_ms"], 0.0, scenario.duration_s
            ),
        }


def regain_s(t_s: np.ndarray, goodput_mbps: np.ndarray, since_s: float, rate_mbps: float) -> float:
    """Seconds from since_s until the 1-s goodput reaches 90 % of the rate without headers and stays there for 3 s.

    If that never happens, the time to the end of the run.
    """
    after = t_s > since_s + 1e-9
    t, g, step = t_s[after] - since_s, goodput_mbps[after], float(t_s[0])
    per = round(1 / step)
    second = np.convolve(g, np.ones(per) / per, mode="valid")  # of the second that begins with each sample
    enough = second >= 0.9 * PAYLOAD * rate_mbps
    for k in np.flatnonzero(enough):
        if k + 2 * per < len(enough) and enough[k : k + 2 * per + 1].all():
            return max(float(t[k]) - step, 0.0)
    return float(t[-1])
