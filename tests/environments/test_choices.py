"""Actions that select a factor from a list: discrete spaces, the same packets as by continuous actions."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test

import orbitcc
from orbitcc.agents.data.decisions import expressed
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from tests.training.named import of

THREE = {"name": "window-factors", "factors": [0.5, 1.0, 2.0]}
TWO_FLOWS: dict[str, Any] = {"duration_s": 5, "join_s": 1}


def test_environments_have_discrete_spaces() -> None:
    check_env(gymnasium.make("orbitcc/Dumbbell-v0", action="window-factors", duration_s=3).unwrapped)
    assert gymnasium.make("orbitcc/Dumbbell-v0", action=THREE).action_space == gymnasium.spaces.Discrete(3)
    many = gymnasium.make_vec("orbitcc/Dumbbell-v0", num_envs=2, action=THREE)
    assert many.action_space == gymnasium.spaces.MultiDiscrete([3, 3])
    parallel_api_test(orbitcc.parallel_env("inter-rtt", action=THREE, **TWO_FLOWS), num_cycles=100)
    assert BatchedParallelEnv(2, "inter-rtt", action=THREE).single_action_space == gymnasium.spaces.Discrete(3)


def test_a_choice_multiplies_the_window() -> None:
    env = gymnasium.make("orbitcc/Dumbbell-v0", action=THREE, duration_s=5).unwrapped
    env.reset(seed=1)
    windows = []
    for choice in (2, 2, 1, 0):
        env.step(choice)
        windows.append(env.statistics()["cwnd_packets"])
    assert windows == [20, 40, 40, 20]  # from the initial window of ten


def test_all_views_perform_the_same_choices() -> None:
    choices = np.random.default_rng(0).integers(0, 3, 60)
    single = gymnasium.make("orbitcc/Dumbbell-v0", action=THREE, duration_s=5).unwrapped
    first, _ = single.reset(seed=1)
    expected = [first, *(single.step(choice)[0] for choice in choices)]
    vector = gymnasium.make_vec("orbitcc/Dumbbell-v0", num_envs=1, action=THREE, duration_s=5)
    seen, _ = vector.reset(seed=1)
    found = [seen[0].copy(), *(vector.step(np.array([choice]))[0][0] for choice in choices)]
    assert np.array_equal(expected, found)
    batched = BatchedParallelEnv(1, "dumbbell", action=THREE, duration_s=5)
    seen, _ = batched.reset(seed=1)
    found = [seen[0, 0], *(batched.step(np.array([[choice]]))[0][0, 0] for choice in choices)]
    assert np.array_equal(expected, found)
    flows = FlowVectorEnv(4, "train-leo", action=THREE)
    flows.reset(seed=1)
    assert np.isfinite(flows.step(flows.action_space.sample())[0]).all()


@pytest.mark.parametrize("wrong", [3, -1, 0.5, float("nan"), [1], "up"])
def test_what_is_no_choice_is_refused(wrong: Any) -> None:
    env = gymnasium.make("orbitcc/Dumbbell-v0", action=THREE).unwrapped
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match="action"):
        env.step(wrong)


def test_the_choices_of_other_controllers_are_the_nearest_factors() -> None:
    before = np.zeros((4, len(orbitcc.STATS)))
    before[:, orbitcc.STATS["cwnd_packets"]] = 100
    after = before.copy()
    after[:, orbitcc.STATS["cwnd_packets"]] = [60, 75, 120, 500]  # between 0.5 and 1 the middle is 0.71
    acted = expressed(presets.Native.of("action", THREE), before, after)
    assert acted.tolist() == [-1.0, 0.0, 0.0, 1.0]


def test_stable_baselines_learns_choices() -> None:
    baselines = pytest.importorskip("stable_baselines3")
    env = gymnasium.make("orbitcc/Dumbbell-v0", action=THREE, duration_s=5)
    learner = baselines.DQN("MlpPolicy", env, learning_starts=50, train_freq=10, seed=1)
    before = [value.clone() for value in learner.policy.parameters()]
    learner.learn(200)
    assert any(not value.equal(old) for value, old in zip(learner.policy.parameters(), before, strict=True))


def test_learners_of_continuous_actions_refuse_lists() -> None:
    from orbitcc.training import recipe

    for name in ("perigee", "astraea", of("sb3-sac-leo"), "rllib-ppo-leo"):
        plan = recipe.load(name, ['preset={base = "astraea-leo", action = "window-factors"}'])
        with pytest.raises(OrbitccError, match="window-factors") as refused:
            recipe.check_names(plan)
        assert refused.value.field == "preset.action"


def test_numbers_and_actions_turn_into_each_other() -> None:
    numbers = np.arange(7)
    actions = presets.of_choices(numbers.astype(np.float32), 7)
    assert np.allclose(actions, [-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1])
    assert presets.to_choices(actions, 7).tolist() == numbers.tolist()
