"""The PettingZoo environment: who is there, what they get, and the same physics as a native policy."""

from pathlib import Path

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.scenarios import get


def world(*flows: Flow, duration_s: float = 6.0):
    return get("dumbbell", duration_s=duration_s).with_flows(list(flows))


def agent(**changes) -> Flow:
    return Flow(controller="external", **changes)


def walk(env, seed: int = 1, value: float = 0.3):
    """Every step's results until nobody is left."""
    env.reset(seed=seed)
    while env.agents:
        before = list(env.agents)
        yield before, env.step({name: np.full(1, value, np.float32) for name in before})


def test_agents_join_late_and_leave_early_in_order() -> None:
    env = parallel_env(world(agent(), agent(start_s=1, stop_s=3), agent(start_s=4)))
    assert env.possible_agents == ["flow_0", "flow_1", "flow_2"]
    crowds = []
    for before, (obs, rewards, terminated, truncated, infos) in walk(env):
        if not crowds or crowds[-1] != before:
            crowds.append(before)
        assert set(obs) == set(rewards) == set(terminated) == set(truncated) == set(infos)
        assert set(obs) == set(before) | set(env.agents)
    assert crowds == [["flow_0"], ["flow_0", "flow_1"], ["flow_0"], ["flow_0", "flow_2"]]


def test_who_leaves_gets_a_last_observation_reward_and_totals() -> None:
    env = parallel_env(world(agent(), agent(stop_s=2)))
    for before, (obs, rewards, terminated, truncated, infos) in walk(env):
        if "flow_1" in before and "flow_1" not in env.agents:
            assert truncated["flow_1"]
            assert not terminated["flow_1"]
            assert obs["flow_1"].any()
            assert np.isfinite(rewards["flow_1"])
            assert infos["flow_1"]["goodput_mbps"] > 0
            return
    raise AssertionError("flow_1 never left")


def test_a_finished_object_terminates_its_agent_only() -> None:
    env = parallel_env(world(agent(), agent(traffic={"kind": "bytes", "bytes": 100_000})))
    ends = {}
    for _, (_, _, terminated, truncated, _) in walk(env):
        ends |= {name: "terminated" for name, flag in terminated.items() if flag}
        ends |= {name: "truncated" for name, flag in truncated.items() if flag}
    assert ends == {"flow_0": "truncated", "flow_1": "terminated"}


def test_a_pause_without_agents_is_skipped() -> None:
    env = parallel_env(world(agent(stop_s=1), agent(start_s=4)))
    crowds = [before for before, _ in walk(env)]
    assert all(crowds)
    assert crowds[0] == ["flow_0"]
    assert crowds[-1] == ["flow_1"]


def test_a_scenario_without_external_flows_lends_its_own() -> None:
    assert len(parallel_env(world(Flow(controller="cubic"), Flow(controller="reno"))).possible_agents) == 2


def test_udp_flows_are_never_agents(tmp_path: Path) -> None:
    env = parallel_env("parking-lot", hotspots_per_min=10, duration_s=60)
    assert env.possible_agents == ["flow_0", "flow_1", "flow_2", "flow_3"]
    udp = Flow(controller="udp", traffic={"kind": "cbr", "rate_mbps": 1.0})
    world = get("dumbbell", duration_s=5.0)
    path = world.with_flows([udp, Flow.parse("cubic@1s")]).save(tmp_path / "udp.toml")
    alone = CongestionEnv(str(path))
    alone.reset(seed=1)
    assert 1.0 < alone.statistics()["time_s"] < 1.5, "the flow that starts at 1 s is the agent"
    with pytest.raises(
        OrbitccError, match="scenario: 'dumbbell' .*a flow that an agent can drive, not udp flows alone"
    ):
        parallel_env(world.with_flows([udp]))
    with pytest.raises(OrbitccError, match="scenario: 'dumbbell' .*not udp flows alone"):
        alone.reset(options={"scenario": world.with_flows([udp])})


def test_more_external_flows_than_agents_run_the_background_controller() -> None:
    env = parallel_env(world(agent(), agent(), agent()), max_agents=1, background="reno")
    env.reset(seed=1)
    assert env.possible_agents == ["flow_0"]
    assert [flow.controller.name for flow in env.scenario.flows] == ["external", "reno", "reno"]


@pytest.mark.parametrize("background", ["nope", 5])
def test_a_wrong_background_is_named(background: object) -> None:
    with pytest.raises(OrbitccError, match=rf"^background: .*{background}"):
        parallel_env(world(agent()), background=background)
    with pytest.raises(OrbitccError, match="^background: 'reno' .*the scenario names the controllers"):
        parallel_env("inter-rtt", background="reno")


def test_an_action_of_nobody_is_named() -> None:
    env = parallel_env(world(agent()))
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match="^actions: 'flow_9' .*flow_0"):
        env.step({"flow_0": np.zeros(1, np.float32), "flow_9": np.zeros(1, np.float32)})


def test_the_reward_is_shared_and_the_state_counts_the_flows() -> None:
    env = parallel_env(world(agent(), agent()))
    for step, (before, (_, rewards, _, _, _)) in enumerate(walk(env)):
        if len(before) == 2 and len(env.agents) == 2 and step > 20:
            assert rewards["flow_0"] == rewards["flow_1"]
            state = env.state()
            assert state.shape == (12,)
            assert state[8] == pytest.approx(0.2)  # two flows, scaled by 10
            assert state[11] == pytest.approx(0.2)  # 100 Mbit/s, scaled by 500
            return
    raise AssertionError("the two never met")


def test_a_missing_or_nan_action_names_the_agent() -> None:
    env = parallel_env(world(agent(), agent()))
    env.reset(seed=1)
    while len(env.agents) < 2:
        env.step({name: np.zeros(1, np.float32) for name in env.agents})
    with pytest.raises(OrbitccError, match="flow_1"):
        env.step({"flow_0": np.zeros(1, np.float32)})
    with pytest.raises(OrbitccError, match="flow_1"):
        env.step({"flow_0": np.zeros(1, np.float32), "flow_1": np.full(1, np.nan, np.float32)})


def test_distributions_bound_their_agents() -> None:
    env = parallel_env("train-mixed")
    for seed in range(5):
        env.reset(seed=seed)
        assert 1 <= len(env.agents) <= len(env.possible_agents)
