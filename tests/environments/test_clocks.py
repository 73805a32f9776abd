"""Agents that decide on clocks of their own (`clock = "flow"` of a preset), in every environment."""

from typing import Any

import numpy as np
import pytest

from orbitcc.agents.data.decisions import collect, expressed, table_of
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.presets import STATS, Native, Observation, Preset, Reward, definition_hash, preset
from orbitcc.envs.scenarios import distribution, get
from orbitcc.training import recipe

OWN = {"base": "ratios", "interval_rtts": 0.5, "interval_least_ms": 5.0, "clock": "flow"}
TOGETHER = {**OWN, "clock": "world"}


def world(duration_s: float = 8.0):
    """Flows with base RTTs of 40 and 200 ms; the second is there from 1 s to 6 s."""
    late = Flow(controller="external", start_s=1.0, stop_s=6.0, uplink_delay_ms=160.0)
    path = get("dumbbell", base_rtt_ms=40.0, rate_mbps=20.0, duration_s=duration_s)
    return path.with_flows([Flow(controller="external"), late])


def test_flows_decide_every_half_rtt_of_their_own_and_keep_what_they_saw_meanwhile() -> None:
    env = FlowVectorEnv(2, world().with_flows([f.changed(start_s=0.0, stop_s=None) for f in world().flows]), preset=OWN)
    obs, _ = env.reset(seed=1)
    last, spans, times = obs.copy(), ([], []), [0.0, 0.0]
    for _ in range(300):
        obs, rewards, terminated, truncated, _ = env.step(np.full((2, 1), 0.05, np.float32))
        if (terminated | truncated).any():
            break
        active, rows = env.active(), env.statistics()
        assert active.any()
        waiting = ~active
        assert np.array_equal(obs[waiting], last[waiting])
        assert (rewards[waiting] == 0).all()
        for flow in np.flatnonzero(active):
            spans[flow].append(rows[flow, STATS["interval_s"]] / rows[flow, STATS["rtt_mean_s"]])
            times[flow] = rows[flow, STATS["time_s"]]
        last = obs.copy()
    assert len(spans[0]) > 2.5 * len(spans[1]) > 50, "as far as their queue leaves of 40 and 200 ms"
    assert [np.nanmedian(span) for span in spans] == pytest.approx([0.5, 0.5], rel=0.1)
    assert abs(times[0] - times[1]) < 0.3, "of one world"


def test_with_fixed_intervals_both_clocks_are_the_same() -> None:
    results = []
    for clock in ("world", "flow"):
        env = FlowVectorEnv(5, distribution("train-leo"), preset={"base": "ratios", "clock": clock})
        env.reset(seed=1)
        results.append([env.step(np.full((5, 1), 0.1, np.float32))[0] for _ in range(100)])
    assert np.array_equal(*results)


@pytest.mark.parametrize("python", [False, True])
def test_copies_and_journals_go_on_identically(python: bool) -> None:
    """With functions in Python, too, whose memory a copy has."""

    def seen(stats, who):
        who.memory[:, 0] += 1
        return np.stack([who.memory[:, 0], stats[:, STATS["interval_s"]]], axis=1)

    functions = {"observation": Observation(seen, [0.0, 0.0], [1e6, 10.0], memory=1)} if python else {}
    made = preset(OWN, **functions, **({"reward": Reward(lambda stats, who: stats[:, 0])} if python else {}))

    def make() -> FlowVectorEnv:
        worlds = distribution("train-leo").changed(duration_s=9.0)
        return FlowVectorEnv(9, worlds, preset=made, autoreset_mode="SameStep", stagger=True, journal=not python)

    actions = np.random.default_rng(0).uniform(-1, 1, (900, 9, 1)).astype(np.float32)
    first = make()
    obs, _ = first.reset(seed=3)
    for k in range(500):
        before, due = obs, first.active()
        obs, _, terminated, truncated, _ = first.step(actions[k])
        on = first.active() & due & ~(terminated | truncated)
        if python and on.any():
            assert (obs[on, 0] == before[on, 0] + 1).all(), "each interval is told once"
    second = first.clone() if python else make()
    if not python:
        assert np.array_equal(second.replay(first.journal()), obs)
    assert (~first.active()).any()
    for k in range(500, 900):
        ours, theirs = first.step(actions[k]), second.step(actions[k])
        assert all(np.array_equal(a, b) for a, b in zip(ours[:4], theirs[:4], strict=True))
    if python:
        saved = first.save(0)
        twin = make()
        twin.reset(seed=9)
        if np.count_nonzero(twin.worlds == 0) == np.count_nonzero(first.worlds == 0):
            mine = first.worlds == 0
            assert np.array_equal(twin.restore(0, saved)[mine], first.observations()[mine])


def test_agents_of_pettingzoo_repeat_what_they_saw_until_they_are_due() -> None:
    env, batched = parallel_env(world(), preset=OWN), BatchedParallelEnv(1, world(), preset=OWN)
    obs, infos = env.reset(seed=1)
    batched.reset(seed=1)
    assert list(obs) == ["flow_0"]
    assert infos["flow_0"]["due"]
    counts, joined, waited = {"flow_0": 0, "flow_1": 0}, False, 0
    while env.agents:
        here, before = list(env.agents), obs
        actions = {agent: np.array([0.03], np.float32) for agent in here}
        for agent in here:
            if not infos[agent]["due"]:
                actions[agent][:] = 1.0  # of no effect
        obs, rewards, _, truncated, infos = env.step(actions)
        rows, paid, _, cut, told = batched.step(np.full((1, 2, 1), 0.03, np.float32))
        for agent in here:
            number = int(agent[-1])
            assert np.array_equal(obs[agent], rows[0, number])
            assert rewards[agent] == paid[0, number]
            assert truncated[agent] == cut[0, number]
            if not infos[agent]["due"]:
                waited += 1
                assert np.array_equal(obs[agent], before[agent])
                assert rewards[agent] == 0
            elif not truncated[agent]:
                assert told["due"][0, number]
            counts[agent] += infos[agent]["due"]
        joined |= "flow_1" in env.agents
        if truncated.get("flow_1"):
            assert env.statistics("flow_1")["time_s"] == pytest.approx(6.0), "its last interval ends when it leaves"
    assert joined
    assert waited > 50
    assert counts["flow_0"] > 2 * counts["flow_1"] > 40


@pytest.fixture
def congestion_env():
    pytest.importorskip("ray.rllib")
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    return RLlibCongestionEnv


def test_rllib_meets_agents_only_when_they_are_due(congestion_env) -> None:
    env = congestion_env({"scenario": world(), "preset": OWN})
    plain = parallel_env(world(), preset=OWN)
    obs, _ = env.reset(seed=1)
    plain.reset(seed=1)
    decided, wanted, over = {"flow_0": 0, "flow_1": 0}, {"flow_0": 0, "flow_1": 0}, False
    alone = 0
    while not over:
        for agent in obs:
            decided[agent] += 1
        obs, rewards, _, truncated, infos = env.step({a: np.array([0.03], np.float32) for a in obs})
        over = truncated["__all__"]
        assert set(obs) == set(infos) >= set(rewards)
        assert obs
        obs = {agent: seen for agent, seen in obs.items() if not truncated.get(agent)}
        alone += len(obs) == 1 < len(env.world.agents)
    _, _, _, _, infos = plain.step({"flow_0": np.array([0.03], np.float32)})
    wanted["flow_0"] += 1
    while plain.agents:
        for agent in plain.agents:
            wanted[agent] += infos[agent]["due"]
        *_, infos = plain.step({agent: np.array([0.03], np.float32) for agent in plain.agents})
    assert decided == wanted, "a decision counts when it is made"
    assert alone > 50


def test_an_episode_of_rllib_that_is_cut_has_last_observations_of_everybody(congestion_env) -> None:
    env = congestion_env({"scenario": world(), "preset": OWN, "give_up_below": 1e9, "give_up_steps": 100})
    obs, _ = env.reset(seed=1)
    over, steps, last = False, 0, {}
    while not over:
        last |= obs
        obs, rewards, _, truncated, _ = env.step({a: np.array([0.03], np.float32) for a in obs})
        over, steps = truncated["__all__"], steps + 1
    assert steps == 101, "the step with which the second agent joins pays nobody"
    assert set(obs) == set(rewards) == {"flow_0", "flow_1"}
    assert all(not np.array_equal(obs[agent], last[agent]) for agent in obs), "of intervals that are over"


def test_rllib_s_own_runner_samples_decisions_of_flows_with_clocks_of_their_own(congestion_env) -> None:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    config = (
        PPOConfig()
        .environment(congestion_env, env_config={"scenario": world(), "preset": OWN})
        .env_runners(num_env_runners=0)
        .multi_agent(policies={"shared"}, policy_mapping_fn=lambda agent, *rest, **more: "shared")
        .debugging(seed=1, log_level="ERROR")
    )
    (episode,) = MultiAgentEnvRunner(config).sample(num_episodes=1)
    lengths = {name: len(part) for name, part in episode.agent_episodes.items()}
    assert lengths["flow_0"] > 2 * lengths["flow_1"] > 20
    for part in episode.agent_episodes.values():
        assert len(part.get_observations()) == len(part) + 1
        assert part.is_truncated


def test_libraries_that_take_waiting_for_deciding_refuse_it() -> None:
    own = ["preset.interval_rtts=0.5", "preset.clock=flow"]
    with pytest.raises(
        OrbitccError, match=r'preset\.clock.*"world" for sb3-ppo, which takes each step of a flow for a dec'
    ):
        recipe.check_names(recipe.load("sb3-ppo-leo", own))
    with pytest.raises(OrbitccError, match=r'preset\.clock.*"world" for rllib, .* "flow" is for ppo, .*rllib-ppo'):
        recipe.check_names(recipe.load("rllib-ppo-leo", [*own, "algorithm=rllib", "learner={algorithm='PPO'}"]))
    recipe.check_names(recipe.load("rllib-ppo-leo", own))
    with pytest.raises(OrbitccError, match="clock.*world or flow"):
        recipe.check_names(recipe.load("ppo-leo", ["preset.clock=sun"]))
    made = FlowVectorEnv(2, world(), preset=OWN, autoreset_mode="SameStep")
    sb3 = pytest.importorskip("orbitcc.envs.environments.sb3")
    with pytest.raises(OrbitccError, match=r"preset\.clock.*Stable-Baselines3"):
        sb3.SB3VecEnv(made)
    rllib = pytest.importorskip("orbitcc.envs.environments.rllib")
    for stateful in (False, True):
        arguments = {"num_envs": 2, "scenario": world(), "preset": OWN, "global_state": stateful}
        with pytest.raises(OrbitccError, match=r"preset\.clock.*RLlib's own env runner"):
            rllib.flows(arguments)
        with rllib.counting_decisions():
            assert rllib.flows(arguments).preset.own_clock


def test_rllib_s_own_runner_of_single_agents_refuses_flows_with_clocks_of_their_own() -> None:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from orbitcc.envs.environments.rllib import FLOWS, register_envs

    register_envs()
    config = (
        PPOConfig()
        .environment(FLOWS, env_config={"scenario": world(), "preset": OWN})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2, gym_env_vectorize_mode="vector_entry_point")
    )
    with pytest.raises(OrbitccError, match=r"preset\.clock.*RLlib's own env runner"):
        SingleAgentEnvRunner(config=config)


def test_a_world_that_was_saved_with_the_other_clock_does_not_go_on() -> None:
    one, other = (FlowVectorEnv(2, world(), preset=table) for table in (OWN, TOGETHER))
    one.reset(seed=1)
    other.reset(seed=1)
    with pytest.raises(OrbitccError, match=r"preset\.clock"):
        other.restore(0, one.save(0))


def test_recorded_decisions_are_those_of_each_flow() -> None:
    episodes = list(collect(world(), preset=preset(OWN), seed=1, controllers=[Flow(controller="cubic").controller]))
    spans = [np.diff(e.statistics[:, STATS["time_s"]]) for e in episodes]
    assert len(spans) == 2
    assert [np.median(span) for span in spans] == pytest.approx([0.03, 0.11], rel=0.4)
    assert table_of(preset(OWN))["clock"] == "flow"
    assert "clock" not in table_of(preset(TOGETHER)), "as ever"


def test_steps_per_time_are_turned_round_and_change_no_hash() -> None:
    action = Native("log-window", {"per_time_ms": 30.0, "cubic": 0.0})
    rows = np.zeros((2, len(STATS)))
    rows[:, STATS["interval_s"]] = 0.015
    rows[:, STATS["cwnd_packets"]] = 100.0, 100.0 * np.exp(0.25 * 0.5 * 0.8)  # an action of 0.8 for half the time
    assert expressed(action, rows[:1], rows[1:]) == pytest.approx([0.8], abs=1e-6)
    assert definition_hash("action", "log-window") == definition_hash(
        "action", {"name": "log-window", "per_time_ms": 0.0}
    )
    assert definition_hash("action", "log-window") != definition_hash("action", action)
    assert Preset("mine", **{k: OWN[k] for k in ("interval_rtts", "clock")}).own_clock


@pytest.mark.parametrize("clock", [OWN, TOGETHER])
@pytest.mark.parametrize("reward", ["log-share", "astraea"])
@pytest.mark.parametrize("flows", [1, 2])
def test_the_last_shared_reward_counts_the_flows_that_leave(clock: dict[str, Any], reward: str, flows: int) -> None:
    """A world that ends when all flows leave has the same last interval."""

    def last(leave: bool) -> list[float]:
        stop = {"stop_s": 3.015} if leave else {}
        scenario = get("dumbbell", duration_s=6.0 if leave else 3.015).with_flows(
            [Flow(controller="external", **stop) for _ in range(flows)]
        )
        env = parallel_env(scenario, preset={**clock, "reward": reward})
        env.reset(seed=3)
        found: dict[str, float] = {}
        while env.agents:
            found = env.step({agent: np.float32([0.1]) for agent in env.agents})[1]
        return list(found.values())

    assert last(leave=True) == last(leave=False)
    assert all(last(leave=True))
