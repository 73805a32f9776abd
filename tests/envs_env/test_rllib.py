"""The RLlib adapter on RLlib's own EnvRunner, without a Ray cluster."""

import numpy as np
import pytest

from orbitcc.envs.scenario import Flow
from orbitcc.envs.scenarios import get

pytest.importorskip("ray.rllib")


def world(*flows: Flow, duration_s: float = 4.0):
    return get("dumbbell", duration_s=duration_s).with_flows(list(flows))


def agent(**changes) -> Flow:
    return Flow(controller="external", **changes)


@pytest.fixture
def runner_for():
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    from orbitcc.envs.rllib import RLlibCongestionEnv

    def make(scenario, worlds: int = 1):
        config = (
            PPOConfig()
            .environment(RLlibCongestionEnv, env_config={"scenario": scenario})
            .env_runners(num_env_runners=0, num_envs_per_env_runner=worlds)
            .multi_agent(policies={"shared"}, policy_mapping_fn=lambda agent, *rest, **more: "shared")
            .debugging(seed=1, log_level="ERROR")
        )
        return MultiAgentEnvRunner(config)

    yield make
    assert not ray.is_initialized()


def test_late_joiners_and_leavers_become_episodes_of_their_own_length(runner_for) -> None:
    runner = runner_for(world(agent(), agent(start_s=1, stop_s=3)))
    (episode,) = runner.sample(num_episodes=1)
    lengths = {name: len(part) for name, part in episode.agent_episodes.items()}
    assert set(lengths) == {"flow-0", "flow-1"}
    assert 60 <= lengths["flow-1"] <= 67
    assert lengths["flow-0"] >= 125
    for part in episode.agent_episodes.values():
        assert len(part.get_observations()) == len(part) + 1
        assert np.isfinite(part.get_rewards()).all()


def test_time_limits_truncate_and_never_terminate(runner_for) -> None:
    runner = runner_for(world(agent(), agent(start_s=1, stop_s=3), agent(start_s=2)))
    (episode,) = runner.sample(num_episodes=1)
    assert episode.is_truncated
    assert not episode.is_terminated
    for part in episode.agent_episodes.values():
        assert part.is_truncated
        assert not part.is_terminated


def test_finished_objects_terminate(runner_for) -> None:
    runner = runner_for(world(agent(), agent(traffic={"kind": "bytes", "bytes": 50_000})))
    (episode,) = runner.sample(num_episodes=1)
    ends = {name: (part.is_terminated, part.is_truncated) for name, part in episode.agent_episodes.items()}
    assert ends == {"flow-0": (False, True), "flow-1": (True, False)}


def test_an_episode_ends_where_everybody_known_has_left(runner_for) -> None:
    runner = runner_for(world(agent(stop_s=1), agent(start_s=2)))
    (episode,) = runner.sample(num_episodes=1)
    assert list(episode.agent_episodes) == ["flow-0"]
    part = episode.agent_episodes["flow-0"]
    assert part.is_truncated
    assert not part.is_terminated


def test_many_worlds_sample_on_over_episode_ends(runner_for) -> None:
    runner = runner_for(world(agent(), agent(start_s=1), duration_s=2.0), worlds=3)
    samples = runner.sample(num_timesteps=600)
    assert sum(episode.is_done for episode in samples) >= 6
    assert sum(len(episode) for episode in samples) >= 600
