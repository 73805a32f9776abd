"""A congestion controller in Python, without recompiling: AIMD, beside a flow of Reno.

The flow's controller is `external`: the simulator runs its TCP (loss recovery, timers, pacing at one window per RTT)
and asks every few milliseconds for a window. Here an `Action` function answers from the flow's statistics.

Run: python examples/aimd_controller.py
"""

import numpy as np

import orbitcc
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.presets import STATS, Action, Who
from orbitcc.envs.scenarios import get

COLUMNS = [STATS[name] for name in ("time_s", "interval_s", "srtt_s", "lost_packets")]


class Aimd:
    """Doubles the window once per RTT until the first loss, then adds a packet; halves it on loss, once per RTT."""

    def __call__(self, _actions: np.ndarray, stats: np.ndarray, who: Who) -> np.ndarray:
        now_s, interval_s, srtt_s, lost = stats[0, COLUMNS]
        if who.fresh[0]:  # another connection
            self.cwnd = 10.0
            self.slow_start = True
            self.deaf_until_s = 0.0  # losses until then belong to the window that was already cut
        if now_s >= self.deaf_until_s and srtt_s > 0:
            if lost > 0:
                self.cwnd = max(self.cwnd / 2, 4.0)
                self.slow_start = False
                self.deaf_until_s = now_s + srtt_s
            else:
                rtts = interval_s / srtt_s
                self.cwnd = self.cwnd * 2**rtts if self.slow_start else self.cwnd + rtts
        return np.array([self.cwnd])


def main(rival: str = "reno", duration_s: float = 120.0) -> float:
    """AIMD's goodput, as a share of the link's rate, against a flow of `rival`."""
    scenario = get("dumbbell", rate_mbps=50, duration_s=duration_s)
    scenario = scenario.with_flows([Flow(controller="external"), Flow(controller=rival)])
    env = orbitcc.parallel_env(scenario, action=Action(Aimd()), interval_ms=10)
    env.reset(seed=1)
    nothing = {"flow_0": np.zeros(1, np.float32)}  # Aimd decides by itself
    while env.agents:
        *_, infos = env.step(nothing)
    return float(infos["flow_0"]["goodput_mbps"]) / 50


if __name__ == "__main__":
    print(f"AIMD gets {main():.0%} of the link beside Reno")
