"""A reward of your own, on 64 LEO worlds stepped natively.

Run: python examples/custom_reward.py
"""

import gymnasium as gym
import numpy as np

import orbitcc  # noqa: F401  (registers the environments)
from orbitcc.envs.environments.presets import STATS, Reward, Who


def power(stats: np.ndarray, who: Who) -> np.ndarray:
    """Kleinrock's power, goodput over delay, as a share of the best possible. stats: one row per flow.

    `who` tells whose rows they are: `presets.team_mean(power, who)` would pay all flows of a world the same.
    """
    goodput, srtt = stats[:, STATS["goodput_bps"]], stats[:, STATS["srtt_s"]]
    capacity, base_rtt = stats[:, STATS["capacity_bps"]], stats[:, STATS["base_rtt_s"]]
    delay = np.where(srtt > 0, srtt, np.inf)  # no RTT sample yet: no power
    return np.minimum(goodput / np.maximum(capacity, 1.0), 1.0) * np.minimum(base_rtt / delay, 1.0)


def main(worlds: int = 64, steps: int = 500) -> float:
    envs = gym.make_vec("orbitcc/TrainLeo-v0", num_envs=worlds, reward=Reward(power))
    envs.reset(seed=1)
    total = 0.0
    for _ in range(steps):
        # a fixed rule in place of a policy: grow the window a little, always
        actions = np.full((worlds, 1), 0.05, np.float32)
        _, rewards, _, _, _ = envs.step(actions)
        total += float(rewards.mean())
    envs.close()
    return total / steps


if __name__ == "__main__":
    print(f"mean power {main():.3f}")
