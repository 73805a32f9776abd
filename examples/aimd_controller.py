"""A congestion controller in Python, without recompiling: AIMD, beside a flow of Reno.

The flow's controller is `external`: the simulator runs its TCP (loss recovery, timers, pacing at one window per RTT),
and an `Action` function computes its window every few milliseconds from the statistics of the flow. `make()` is the
same controller as a policy, for every command and suite:

    cd examples
    python aimd_controller.py
    orbitcc eval responsiveness --policy aimd_controller:make --controller reno

docs/tutorials/your-controller.md has a controller that also looks at the delay.
"""

import numpy as np

import orbitcc
from orbitcc import STATS, Action, Preset, Who
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.scenarios import get

COLUMNS = [STATS[name] for name in ("time_s", "interval_s", "srtt_s", "lost_packets")]


def aimd(_actions: np.ndarray, stats: np.ndarray, who: Who) -> np.ndarray:
    """Doubles the window once per RTT until the first loss, then adds a packet; halves it on loss, once per RTT."""
    now_s, interval_s, srtt_s, lost = stats[:, COLUMNS].T
    cwnd, slow_start, wait_until_s = who.memory.T  # of each flow; zeros at first
    cwnd = np.where(who.fresh, 10.0, cwnd)
    slow_start = np.where(who.fresh, 1.0, slow_start)
    rtts = interval_s / np.maximum(srtt_s, 1e-3)  # RTTs in this interval
    may_act = (now_s >= wait_until_s) & (srtt_s > 0)
    loss = may_act & (lost > 0)
    grown = np.where(slow_start > 0, cwnd * 2**rtts, cwnd + rtts)
    cwnd = np.where(loss, np.maximum(cwnd / 2, 4.0), np.where(may_act, grown, cwnd))
    slow_start = np.where(loss, 0.0, slow_start)
    # Losses of the next RTT belong to the window that has just been halved.
    wait_until_s = np.where(loss, now_s + srtt_s, wait_until_s)
    who.memory[:] = np.stack([cwnd, slow_start, wait_until_s], axis=1)
    return cwnd


class Aimd:
    """The controller as a policy. Its action function decides by itself."""

    preset = Preset("aimd", action=Action(aimd, memory=3), interval_ms=10)

    def act(self, obs: np.ndarray) -> np.ndarray:
        return np.zeros((len(obs), 1))


def make() -> Aimd:
    """Called anew for every run."""
    return Aimd()


def main(rival: str = "reno", duration_s: float = 120.0) -> float:
    """AIMD's goodput, as a share of the link's rate, against a flow of `rival`."""
    scenario = get("dumbbell", rate_mbps=50, duration_s=duration_s)
    scenario = scenario.with_flows([Flow(controller="external"), Flow(controller=rival)])
    env = orbitcc.parallel_env(scenario, preset=Aimd.preset)
    env.reset(seed=1)
    nothing = {"flow_0": np.zeros(1, np.float32)}
    while env.agents:
        *_, infos = env.step(nothing)
    return float(infos["flow_0"]["goodput_mbps"]) / 50


if __name__ == "__main__":
    print(f"AIMD gets {main():.0%} of the link beside Reno")
