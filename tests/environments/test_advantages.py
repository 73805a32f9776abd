"""Advantages at the ends of episodes, in both autoreset modes, against sums done by hand."""

import numpy as np
import pytest

from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import get

GAMMA, LAMBDA = 0.9, 0.8
STEPS = 160


LIMIT = get("dumbbell", duration_s=2.1).with_flows([Flow(controller="external")])
"""Truncated by the time limit."""
OBJECT = get("dumbbell").with_flows([Flow(controller="external", traffic={"kind": "bytes", "bytes": 400_000})])
"""Terminated when its object is delivered, in about as long."""

both_ends = pytest.mark.parametrize("scenario", [LIMIT, OBJECT], ids=["truncated", "terminated"])


def value(obs):
    """Some function of the observation, as a critic would be."""
    return np.asarray(obs, np.float64).sum(axis=-1) * 0.01


def by_hand(scenario) -> list[list[float]]:
    """GAE of every step of the episodes of a single environment, each sum written out from its definition."""
    env = VectorCongestionEnv(1, scenario)
    episodes, rng = [], np.random.default_rng(3)
    seed: int | None = 8
    taken = 0
    while taken < STEPS:
        obs, _ = env.reset(seed=seed)
        seed, states, rewards, ended = None, [obs[0]], [], False
        while not ended and taken < STEPS:
            obs, reward, terminated, truncated, _ = env.step(rng.uniform(-1, 1, (1, 1)).astype(np.float32))
            states.append(obs[0])
            rewards.append(float(reward[0]))
            ended = bool(terminated[0] or truncated[0])
            assert terminated[0] == (ended and scenario is OBJECT)
            taken += 1
        values = value(np.array(states))
        following = [*values[1:-1], 0.0 if terminated[0] else values[-1]]  # a truncated flow has a future
        deltas = [r + GAMMA * following[t] - values[t] for t, r in enumerate(rewards)]
        episodes.append(
            [sum((GAMMA * LAMBDA) ** k * delta for k, delta in enumerate(deltas[t:])) for t in range(len(deltas))]
        )
    assert len(episodes) >= 3
    return episodes


@both_ends
def test_next_step_autoreset_with_its_reset_steps_left_out(scenario) -> None:
    env = VectorCongestionEnv(1, scenario)
    obs, _ = env.reset(seed=8)
    rng, rows, was_over = np.random.default_rng(3), [], False
    while sum(not row["reset"] for row in rows) < STEPS:
        # a reset step takes no decision: the generator of actions must not move
        action = np.zeros((1, 1)) if was_over else rng.uniform(-1, 1, (1, 1))
        after, reward, terminated, truncated, _ = env.step(action.astype(np.float32))
        following = 0.0 if terminated[0] else value(after)[0]
        over = bool(terminated[0] or truncated[0])
        rows.append({"v": value(obs)[0], "r": reward[0], "next": following, "over": over, "reset": was_over})
        if was_over:
            assert reward[0] == 0
        obs, was_over = after, over
    advantages, running = [], 0.0
    for row in reversed(rows):
        if row["reset"]:
            running = 0.0
            continue
        delta = row["r"] + GAMMA * row["next"] - row["v"]
        running = delta + GAMMA * LAMBDA * (0.0 if row["over"] else running)
        advantages.append(running)
    assert np.allclose(advantages[::-1], np.concatenate(by_hand(scenario)))


@both_ends
def test_same_step_autoreset_bootstraps_from_final_obs(scenario) -> None:
    env = VectorCongestionEnv(1, scenario, autoreset_mode="SameStep")
    obs, _ = env.reset(seed=8)
    rng, rows = np.random.default_rng(3), []
    for _ in range(STEPS):
        after, reward, terminated, truncated, infos = env.step(rng.uniform(-1, 1, (1, 1)).astype(np.float32))
        over = bool(terminated[0] or truncated[0])
        last = infos["final_obs"][0] if over else after[0]
        rows.append((value(obs)[0], reward[0], 0.0 if terminated[0] else value(last), over))
        obs = after
    advantages, running = [], 0.0
    for before, reward, following, over in reversed(rows):
        running = reward + GAMMA * following - before + GAMMA * LAMBDA * (0.0 if over else running)
        advantages.append(running)
    assert np.allclose(advantages[::-1], np.concatenate(by_hand(scenario)))


@both_ends
def test_sb3_computes_the_same_advantages(scenario) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    import torch

    from orbitcc.envs.environments.sb3 import SB3VecEnv

    env = SB3VecEnv(VectorCongestionEnv(1, scenario, autoreset_mode="SameStep"))
    env.seed(8)
    model = sb3.PPO(
        "MlpPolicy", env, n_steps=STEPS, batch_size=STEPS, gamma=GAMMA, gae_lambda=LAMBDA, device="cpu", n_epochs=1
    )
    draws = np.random.default_rng(3)

    def forward(obs, deterministic=False):
        action = torch.from_numpy(draws.uniform(-1, 1, (1, 1)).astype(np.float32))
        return action, critic(obs), torch.zeros(1)

    def critic(obs):
        return torch.from_numpy(value(obs.numpy())[:, None].astype(np.float32))

    model.policy.forward, model.policy.predict_values = forward, critic
    found = {}
    model.train = lambda: found.update(advantages=model.rollout_buffer.advantages[:, 0].copy())
    model.learn(STEPS)
    assert np.allclose(found["advantages"], np.concatenate(by_hand(scenario)), atol=1e-4)
