"""A policy written in Python, evaluated beside the others.

`make()` returns an object with `act` and a `preset`; commands take it as `package.module:factory`:

    cd examples
    orbitcc run leo-responsiveness --policy python_policy:make --flow cubic
    orbitcc eval responsiveness --policy python_policy:make --controller cubic

The observation is a Python function with a memory, the action a native one. `act` could be any function: a network that
another library trained on the same preset, a tree, a planner.
"""

import numpy as np

from orbitcc.envs.environments.presets import STATS, Observation, Preset, Who

HORIZON_S = 10.0
MIN_RTT_S, AGE_S = range(2)
"""What the observation remembers of a flow: the smallest RTT of late, and for how long it has been that."""


def queueing(stats: np.ndarray, who: Who) -> np.ndarray:
    """ln(RTT / smallest RTT of some ten seconds) and the share of lost packets: [n, 2]."""
    interval, sample = stats[:, STATS["interval_s"]], stats[:, STATS["rtt_mean_s"]]
    known = ~np.isnan(sample)
    rtt = np.where(known, sample, stats[:, STATS["srtt_s"]])  # an old RTT must not become the smallest one
    least, age = who.memory.T
    renewed = who.fresh | (known & ((rtt <= least) | (age > HORIZON_S)))
    who.memory[:, MIN_RTT_S] = np.where(renewed, rtt, least)
    who.memory[:, AGE_S] = np.where(renewed, 0.0, age + interval)
    ratio = rtt / np.where(rtt > 0, who.memory[:, MIN_RTT_S], 1.0)
    lost, acked = stats[:, STATS["lost_packets"]], stats[:, STATS["acked_packets"]]
    return np.stack([np.log(np.maximum(ratio, 1.0)), lost / np.maximum(lost + acked, 1.0)], axis=1)


class Delay:
    """Grows the window while the queue is short, shrinks it while it is long or packets are lost."""

    preset = Preset(
        "delay",
        observation=Observation(queueing, low=np.zeros(2), high=np.array([3.0, 1.0]), memory=2),
        action={"name": "log-window", "step": 0.1},
        interval_ms=30,
    )

    def act(self, obs: np.ndarray) -> np.ndarray:
        """Actions [n, 1] in [-1, 1] from observations [n, 2]."""
        queue, loss = obs.T
        return np.tanh(0.7 - 5.0 * queue - 10.0 * loss)[:, None]


def make() -> Delay:
    """Called anew for every run."""
    return Delay()
