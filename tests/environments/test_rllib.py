"""The RLlib adapter on RLlib's own EnvRunner, without a Ray cluster."""

import itertools

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.parallel import parallel_env
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

    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

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
    assert set(lengths) == {"flow_0", "flow_1"}
    assert 60 <= lengths["flow_1"] <= 67
    assert lengths["flow_0"] >= 125
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
    assert ends == {"flow_0": (False, True), "flow_1": (True, False)}


def test_an_episode_ends_where_everybody_known_has_left(runner_for) -> None:
    runner = runner_for(world(agent(stop_s=1), agent(start_s=2)))
    (episode,) = runner.sample(num_episodes=1)
    assert list(episode.agent_episodes) == ["flow_0"]
    part = episode.agent_episodes["flow_0"]
    assert part.is_truncated
    assert not part.is_terminated


def test_staggering_cuts_the_first_episode_only() -> None:
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    env = RLlibCongestionEnv({"scenario": world(agent()), "stagger": True})
    lengths = []
    for seed in (3, None):
        env.reset(seed=seed)
        for step in range(1, 1000):
            _, _, terminateds, truncateds, _ = env.step({"flow_0": np.full(1, -0.5, np.float32)})
            assert not terminateds["__all__"]
            if truncateds["__all__"]:
                lengths.append(step)
                break
    assert lengths[0] < lengths[1]
    assert lengths[1] >= 130


def test_a_seed_may_count_once() -> None:
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    for once in (False, True):
        env = RLlibCongestionEnv({"scenario": "train-leo", "seed_once": once})
        scenarios = []
        for _ in range(2):
            env.reset(seed=3)
            scenarios.append(env.world.scenario)
        assert (scenarios[0] != scenarios[1]) is once


def test_env_runners_do_not_share_worlds() -> None:
    from ray.rllib.env.env_context import EnvContext

    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    seen = []
    for runner in (1, 2, 3):
        for seed in (runner, runner + 1):  # as RLlib seeds the two worlds of a runner
            env = RLlibCongestionEnv(EnvContext({"scenario": "train-leo"}, worker_index=runner))
            env.reset(seed=seed)
            seen.append(env.world.scenario)
    assert all(one != other for one, other in itertools.combinations(seen, 2))
    here = RLlibCongestionEnv(EnvContext({"scenario": "train-leo"}, worker_index=0))
    alone = parallel_env("train-leo")
    here.reset(seed=5)
    alone.reset(seed=5)
    assert here.world.scenario == alone.scenario


def test_flooded_worlds_are_given_up() -> None:
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    env = RLlibCongestionEnv({"scenario": world(agent()), "give_up_below": 1.0, "give_up_steps": 5})
    env.reset(seed=1)
    ends = [env.step({"flow_0": np.zeros(1, np.float32)})[3] for _ in range(5)]
    assert [end["__all__"] for end in ends] == [False] * 4 + [True]
    assert not ends[-1]["flow_0"]  # the whole is cut: RLlib must not take it for a termination


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stagger": "no"}, "^stagger: 'no' .*true or false"),
        ({"seed_once": "false"}, "^seed_once: 'false' .*true or false"),
        ({"global_state": "no"}, "^global_state: 'no' .*true or false"),
        ({"reward_scale": float("nan")}, "^reward_scale: NaN .*a number in"),
        ({"reward_scale": "x"}, "^reward_scale: 'x' .*a number in"),
        ({"reward_scale": None}, "^reward_scale: None .*a number in"),
        ({"give_up_steps": 0}, "^give_up_steps: 0 .*a whole number from 1"),
        ({"give_up_steps": -3}, "^give_up_steps: -3 .*a whole number from 1"),
        ({"give_up_steps": 2.9}, "^give_up_steps: 2.9 .*a whole number from 1"),
        ({"give_up_below": float("nan")}, "^give_up_below: NaN .*a number in"),
        ({"give_up_below": "a"}, "^give_up_below: 'a' .*a number in"),
        ({"scenario": None}, "^scenario: None .*a Scenario"),
        ({"scenario": "x"}, "^scenario: unknown name 'x'"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(changes, said) -> None:
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv, flows

    with pytest.raises(OrbitccError, match=said):
        RLlibCongestionEnv({"scenario": "dumbbell", **changes})
    if not any(name.startswith(("seed_once", "give_up")) for name in changes):
        with pytest.raises(OrbitccError, match=said):
            flows({"scenario": "dumbbell", "num_envs": 2, **changes})


def test_a_config_without_a_scenario_is_refused() -> None:
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv, flows

    for made in (RLlibCongestionEnv, lambda: RLlibCongestionEnv({}), lambda: flows({"num_envs": 2})):
        with pytest.raises(OrbitccError, match="^scenario: missing"):
            made()
    for made in (RLlibCongestionEnv, flows):
        with pytest.raises(OrbitccError, match="^env_config: 'dumbbell' .*a dict"):
            made("dumbbell")


def test_actions_of_another_kind_are_refused() -> None:
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    env = RLlibCongestionEnv({"scenario": world(agent())})
    env.reset(seed=1)
    for actions in (None, [0.0]):
        with pytest.raises(OrbitccError, match="^actions: .*a dict with an action for every agent"):
            env.step(actions)


def test_many_worlds_sample_on_over_episode_ends(runner_for) -> None:
    runner = runner_for(world(agent(), agent(start_s=1), duration_s=2.0), worlds=3)
    samples = runner.sample(num_timesteps=600)
    assert sum(episode.is_done for episode in samples) >= 6
    assert sum(len(episode) for episode in samples) >= 600


def test_observations_of_flows_end_with_the_global_state_until_the_very_end() -> None:
    from orbitcc.envs.environments.flow_vector import FlowVectorEnv
    from orbitcc.envs.environments.rllib import flows

    arguments = {"num_envs": 3, "scenario": world(agent(), agent(start_s=1, stop_s=3)), "stagger": True}
    plain = FlowVectorEnv(**arguments)
    stateful = flows({**arguments, "global_state": True})
    assert stateful.single_observation_space.shape == (30,)
    assert stateful.observation_space.shape == (3, 30)
    assert np.isinf(stateful.single_observation_space.high[18:]).all()
    obs, _ = plain.reset(seed=1)
    both, _ = stateful.reset(seed=1)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(300):
        assert np.array_equal(both[:, :18], obs)
        assert np.array_equal(both[:, 18:], plain.state())  # where a flow ends, that of the world it ended in
        assert both.dtype == np.float32
        actions = rng.uniform(-1, 1, (3, 1)).astype(np.float32)
        obs, rewards, _, truncated, _ = plain.step(actions)
        both, same, _, _, _ = stateful.step(actions)
        assert np.array_equal(rewards, same)
        ends += np.count_nonzero(truncated)
    assert ends >= 6


def test_a_flow_that_ends_shows_the_last_state_of_its_world_not_the_first_of_the_next() -> None:
    from orbitcc.envs.environments.flow_vector import FlowVectorEnv
    from orbitcc.envs.environments.rllib import StatefulFlowVectorEnv

    scenario = world(agent(), agent(start_s=3, stop_s=5), duration_s=10)
    stateful, same_step = StatefulFlowVectorEnv(2, scenario), FlowVectorEnv(2, scenario, autoreset_mode="SameStep")
    stateful.reset(seed=1)
    same_step.reset(seed=1)
    actions, ended = np.full((2, 1), 0.5, np.float32), set()
    for _ in range(400):
        both, _, _, truncated, _ = stateful.step(actions)
        _, _, _, _, infos = same_step.step(actions)
        if truncated.any():
            assert np.array_equal(both[truncated, 18:], infos["final_state"][truncated])
            assert np.array_equal(both[truncated, :18], np.stack(infos["final_obs"][truncated]))
            ended.add(int(truncated.sum()))
        if truncated.all():  # the world's time is up
            break
    assert ended == {1, 2}
    assert not np.array_equal(both[:, 18:], same_step.state())


def test_a_single_flow_or_another_autoreset_is_refused() -> None:
    from orbitcc.envs.environments.rllib import StatefulFlowVectorEnv, flows

    with pytest.raises(OrbitccError, match="vector_entry_point"):
        flows({"scenario": "train-leo"})
    with pytest.raises(OrbitccError, match="autoreset_mode"):
        StatefulFlowVectorEnv(4, "train-leo", autoreset_mode="SameStep")


def test_rllib_finds_both_environments_by_name(runner_for) -> None:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from orbitcc.envs.environments.rllib import FLOWS, WORLDS, register_envs

    register_envs()
    config = {"scenario": world(agent(), agent(start_s=1))}
    flows = (
        PPOConfig()
        .environment(FLOWS, env_config=config)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4, gym_env_vectorize_mode="vector_entry_point")
    )
    assert sum(map(len, SingleAgentEnvRunner(config=flows).sample(num_timesteps=40))) == 40
    worlds = (
        PPOConfig()
        .environment(WORLDS, env_config=config)
        .env_runners(num_env_runners=0)
        .multi_agent(policies={"shared"}, policy_mapping_fn=lambda agent, *rest, **more: "shared")
    )
    (episode,) = MultiAgentEnvRunner(worlds).sample(num_timesteps=40)
    assert len(episode) == 40


def test_observations_of_agents_end_with_the_global_state_of_their_world() -> None:
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    scenario = get("dumbbell", duration_s=3).with_flows(
        [Flow(controller="external"), Flow(controller="external", start_s=1)]
    )
    plain, stateful = (
        RLlibCongestionEnv({"scenario": scenario}),
        RLlibCongestionEnv({"scenario": scenario, "global_state": True}),
    )
    seen = (plain.reset(seed=3)[0], stateful.reset(seed=3)[0])
    flows = set()
    for _ in range(60):
        for agent, observed in seen[1].items():
            assert stateful.observation_spaces[agent].contains(observed)
            assert np.array_equal(observed[:-12], seen[0][agent])
            assert np.array_equal(observed[-12:], plain.world.state())
        flows |= seen[1].keys()
        actions = {agent: np.full(1, 0.1, np.float32) for agent in plain.world.agents}
        seen = (plain.step(actions)[0], stateful.step(actions)[0])
    assert flows == {"flow_0", "flow_1"}
    assert plain.world.state()[8] > 0  # the number of flows
