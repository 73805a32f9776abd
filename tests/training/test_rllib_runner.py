"""The env runner of arrays against RLlib's own."""

from pathlib import Path

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.scenarios import get

pytest.importorskip("ray.rllib")
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from orbitcc.envs.environments.batch import GLOBAL_STATE
from orbitcc.training import recipe, rllib
from orbitcc.training.rllib.runner import ArrayEnvRunner


def leavers(folder: Path) -> str:
    """A scenario file of 200 steps whose second flow changes hands."""
    flows = [Flow(controller="external"), Flow(controller="external", start_s=1, stop_s=3)]
    return str(get("dumbbell", duration_s=6).with_flows(flows).save(folder / "leavers.toml"))


def config_of(folder: Path, *changes: str):
    settings = [
        f"scenario={leavers(folder)}",
        "preset=astraea-leo",
        "learner.normalise_observations=false",
        "learner.flows=6",
        "learner.batch=1200",
        "learner.minibatch=256",
        *changes,
    ]
    return rllib.config(recipe.load("rllib-ppo-leo", settings), seed=1)


def columns(episode) -> dict[str, np.ndarray]:
    found = {
        "obs": episode.get_observations(),
        "actions": episode.get_actions(),
        "rewards": episode.get_rewards(),
        "logp": episode.get_extra_model_outputs("action_logp"),
        "inputs": episode.get_extra_model_outputs("action_dist_inputs"),
    }
    return {name: np.asarray(values) for name, values in found.items()}


def test_it_samples_what_rllib_samples_from_fragment_to_fragment(tmp_path: Path) -> None:
    samples, metrics = {}, {}
    for kind in (SingleAgentEnvRunner, ArrayEnvRunner):
        runner = kind(config=config_of(tmp_path))
        samples[kind] = [runner.sample(num_timesteps=count) for count in (600, 7, 5, 1200)]
        metrics[kind] = runner.get_metrics()
    ends = 0
    for own, stock in zip(samples[ArrayEnvRunner], samples[SingleAgentEnvRunner], strict=True):
        assert len(own) == len(stock)
        for ours, theirs in zip(own, stock, strict=True):
            assert (ours.t_started, ours.t) == (theirs.t_started, theirs.t)
            assert (ours.is_terminated, ours.is_truncated) == (theirs.is_terminated, theirs.is_truncated)
            ends += ours.is_truncated
            for name, values in columns(theirs).items():
                assert np.array_equal(columns(ours)[name], values), name
    assert ends >= 6
    for name in ("num_env_steps_sampled", "num_episodes", "decisions", "reward_sum"):
        assert metrics[ArrayEnvRunner][name].peek() == pytest.approx(metrics[SingleAgentEnvRunner][name].peek()), name
    for name in ("episode_return_mean", "episode_len_mean"):
        assert metrics[ArrayEnvRunner][name].peek() == pytest.approx(metrics[SingleAgentEnvRunner][name].peek()), name


def test_functions_of_an_episode_have_one_name(tmp_path: Path) -> None:
    runner = ArrayEnvRunner(config=config_of(tmp_path))
    first, second = ({e.id_: e for e in runner.sample(num_timesteps=n) if not e.is_done} for n in (60, 60))
    assert len(first) == 6
    for name, function in second.items():
        assert function.t_started == first[name].t
        assert np.array_equal(function.get_observations(0), first[name].get_observations(-1))


def test_the_learner_gets_the_same_batch(tmp_path: Path) -> None:
    batches = []
    for kind in (SingleAgentEnvRunner, ArrayEnvRunner):
        config = config_of(tmp_path)
        runner = kind(config=config)
        learner = config.build_learner(spaces=runner.get_spaces())
        samples = runner.sample()
        batch = learner._learner_connector(rl_module=learner.module, batch={}, episodes=samples, shared_data={})
        batches.append(batch["default_policy"])
    stock, own = batches
    assert set(stock) - set(own) == {"weights_seq_no"}
    assert set(own) <= set(stock)
    assert own["loss_mask"].sum() >= 1200
    for name, values in own.items():
        assert torch.equal(values, stock[name]), name


def test_the_last_observation_of_an_episode_comes_with_the_last_state_of_its_world(tmp_path: Path) -> None:
    runner = ArrayEnvRunner(config=config_of(tmp_path))
    env = runner.env.unwrapped
    step, seen = env.step, []

    def watched(actions):
        result = step(actions)
        seen.append((result[3], env.state()))
        return result

    env.step = watched
    episodes = [episode for episode in runner.sample(num_timesteps=1200) if episode.is_done]
    lasts = [state[agent] for truncated, state in seen for agent in np.flatnonzero(truncated)]
    assert len(lasts) == len(episodes) >= 6
    for episode, state in zip(episodes, lasts, strict=True):
        assert np.array_equal(episode.get_observations(-1)[-GLOBAL_STATE:], state)
        assert state.any()


def test_whole_episodes_begin_and_end_within_a_sample(tmp_path: Path) -> None:
    runner = ArrayEnvRunner(config=config_of(tmp_path))
    first, second = runner.sample(num_episodes=4), runner.sample(num_episodes=4)
    for episodes in (first, second):
        assert len(episodes) >= 4
        assert all(episode.is_done and episode.t_started == 0 for episode in episodes)
    assert not np.array_equal(first[0].get_observations(), second[0].get_observations())
    assert all(episode.t_started == 0 for episode in runner.sample(num_timesteps=6))


def test_it_acts_deterministically_or_at_random_when_told_to(tmp_path: Path) -> None:
    runner = ArrayEnvRunner(config=config_of(tmp_path))
    for episode in runner.sample(num_timesteps=60, explore=False):
        means = columns(episode)["inputs"][:, :1]
        assert np.array_equal(episode.get_actions(), means)
    drawn = np.concatenate([e.get_actions() for e in runner.sample(num_timesteps=600, random_actions=True)])
    assert abs(drawn).max() <= 1
    assert 0.5 < drawn.std() < 0.65  # uniform: 0.577


class Counting(RLlibCallback):
    def on_episode_end(self, **_) -> None:
        pass


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda config: config.env_runners(env_to_module_connector=lambda *_: None), "env_to_module_connector"),
        (lambda config: config.env_runners(module_to_env_connector=lambda *_: None), "module_to_env_connector"),
        (lambda config: config.callbacks(on_episode_step=lambda **_: None), "on_episode_step"),
        (lambda config: config.callbacks(Counting), "on_episode_end"),
        (lambda config: config.environment(env_config={"autoreset_mode": "SameStep"}), "autoreset_mode"),
        (lambda config: config.environment(env_config={"autoreset_mode": "SameStep", "global_state": False}), "reset"),
    ],
)
def test_what_it_would_leave_out_is_refused(change, field, tmp_path: Path) -> None:
    with pytest.raises(OrbitccError, match=field):
        ArrayEnvRunner(config=change(config_of(tmp_path)))


def test_other_actions_than_boxes_are_refused() -> None:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    with pytest.raises(OrbitccError, match="action_space"):
        ArrayEnvRunner(config=config)
