"""Agents on this machine's kernel, by BPF."""

import tomllib

import gymnasium
import numpy as np
import pytest

import orbitcc
from orbitcc.common.errors import OrbitccError
from orbitcc.emulator.run import emulate
from orbitcc.envs import scenarios
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.single import CongestionEnv

pytestmark = [pytest.mark.agents, pytest.mark.usefixtures("leaves_nothing")]


def test_an_agent_moves_the_window_of_a_real_connection_and_sees_what_comes_of_it():
    env = gymnasium.make(
        "orbitcc/Dumbbell-v0", rate_mbps=30.0, base_rtt_ms=20.0, duration_s=4.0, backend="emulator", preset="astraea"
    ).unwrapped
    obs, info = env.reset(seed=3)
    assert obs.shape == (50,)
    windows, rows = [], []
    over = False
    while not over:
        windows.append(env.statistics()["cwnd_packets"])
        action = 1.0 if windows[-1] < 40 else 0.0
        obs, reward, terminated, truncated, info = env.step(np.array([action], np.float32))
        over = terminated or truncated
        rows.append(env.statistics())
        assert env.observation_space.contains(obs)
        assert np.isfinite(reward)
        assert info["overruns"] >= 0
    assert truncated
    assert not terminated
    assert info["sent_packets"] > 1000
    assert 40 <= max(windows) <= 42
    settled = rows[len(rows) // 2 : -1]
    assert np.median([row["interval_s"] for row in settled]) == pytest.approx(0.03, rel=0.1)
    assert np.median([row["rtt_mean_s"] for row in settled]) == pytest.approx(0.0205, rel=0.15)
    # 40 segments in 20 ms.
    assert np.median([row["delivery_rate_bps"] for row in settled]) == pytest.approx(40 * 1448 * 8 / 0.0203, rel=0.15)
    assert np.median([row["packets_out"] for row in settled]) > 30
    assert all(row["capacity_bps"] == 30e6 and row["base_rtt_s"] == pytest.approx(0.02) for row in settled)
    env.close()


def test_several_agents_join_late_and_leave_early():
    given = scenarios.get("dumbbell", rate_mbps=20.0, base_rtt_ms=20.0, flows=3, duration_s=3.0)
    flows = list(given.flows)
    flows[1] = flows[1].changed(start_s=1.0, stop_s=2.0)
    env = orbitcc.parallel_env(given.with_flows(flows), backend="emulator", max_agents=2)
    env.reset(seed=1)
    assert env.agents == ["flow_0"]
    seen, infos = [], {}
    while env.agents:
        _, _, _, _, latest = env.step({agent: np.zeros(1, np.float32) for agent in env.agents})
        infos.update(latest)
        seen.append(tuple(env.agents))
    env.close()
    assert ("flow_0", "flow_1") in seen
    assert seen[-2] == ("flow_0",)
    assert all(infos[agent]["sent_packets"] > 10 for agent in ("flow_0", "flow_1"))


def alone(**changes):
    """One flow for an agent over a path of 20 Mbit/s and 100 ms."""
    link = {"name": "l", "rate_mbps": 20, "delay_ms": 50, "queue": {"kind": "drop_tail_packets", "limit_packets": 500}}
    flow = {"controller": "external"}
    given = {"name": "test", "duration_s": 3.0, "links": [link | changes.pop("link", {})], "flows": [flow | changes]}
    return Scenario.build(given)


def steps(env, action):
    """The statistics of every interval under this action."""
    env.reset(seed=1)
    rows, over = [env.statistics()], False
    while not over:
        _, _, terminated, truncated, _ = env.step(np.array([action], np.float32))
        over = terminated or truncated
        rows.append(env.statistics())
    env.close()
    return rows


def test_the_handshake_is_none_of_a_flows_acknowledgements_and_no_pause_between_them():
    rows = steps(CongestionEnv(alone(start_s=1.0), backend="emulator"), 0.0)
    silent = next(k for k, row in enumerate(rows) if row["rtt_samples"])
    assert silent >= 3, "a round trip passes before the first"
    # From the start of the flow; the connection was made 55 ms before.
    assert 0.1 < max(row["ack_gap_s"] for row in rows[: silent + 1]) < 0.14


def test_a_window_that_is_raised_while_nothing_comes_back_holds_at_once():
    broken = {"outages": [{"at_s": 1.0, "duration_ms": 300, "mode": "drop"}]}
    rows = steps(CongestionEnv(alone(link=broken), backend="emulator", preset="astraea"), 1.0)
    # The last acknowledgements come 100 ms after the last packets, and TCP's timers fire after another 200.
    silent = [row for row in rows if 1.12 < row["time_s"] < 1.28 and row["acked_packets"] == 0]
    assert len(silent) >= 3
    assert silent[-1]["cwnd_packets"] > silent[0]["cwnd_packets"]
    assert silent[-1]["packets_out"] > silent[0]["packets_out"]
    assert silent[-1]["packets_out"] >= silent[-2]["cwnd_packets"]


def test_a_safety_filter_holds_an_agent_at_the_measured_product():
    limited = {"base": "astraea", "safety_filter": {"max_bdp": 1.5, "patience_s": 0}}
    rows = steps(CongestionEnv(alone(), backend="emulator", preset=limited), 1.0)
    product = 20e6 * 0.1 / 8 / 1500
    free = steps(CongestionEnv(alone(), backend="emulator", preset="astraea"), 1.0)
    assert 0.7 * product < max(row["cwnd_packets"] for row in rows) < 1.6 * product
    assert max(row["cwnd_packets"] for row in free) > 1.7 * product


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["perigee", "astraea", "examples.python_policy:make"])
def test_policies_run_as_in_plain_runs(policy):
    given = scenarios.get("dumbbell", rate_mbps=20.0, base_rtt_ms=20.0, duration_s=3.0)
    real = emulate(given.with_controller(f"policy:path={policy}"))
    assert real.flow_totals[0]["received_bytes"] > 100_000
    assert np.isfinite(real.flow_totals[0]["lost_packets"])
    assert real.emulation["overruns"] >= 0


def test_an_agent_over_cubic_is_heard_after_slow_start():
    env = CongestionEnv(
        scenarios.get("dumbbell", rate_mbps=20.0, base_rtt_ms=20.0, duration_s=3.0), preset="orca", backend="emulator"
    )
    env.reset(seed=1)
    over, windows = False, []
    while not over:
        _, _, terminated, truncated, _ = env.step(np.array([-1.0], np.float32))
        over = terminated or truncated
        windows.append(env.statistics()["cwnd_packets"])
    env.close()
    assert max(windows) > 20, "cubic's own slow start"
    assert min(windows[len(windows) // 2 :]) < 0.5 * max(windows), "then the agent is heard"


def test_a_vector_environment_of_one_world_begins_anew_by_itself():
    name = "orbitcc/Dumbbell-v0"
    envs = gymnasium.make_vec(
        name, 1, vectorization_mode="vector_entry_point", rate_mbps=20.0, duration_s=1.0, backend="emulator"
    )
    obs, _ = envs.reset(seed=1)
    ends = 0
    for _ in range(80):
        obs, rewards, terminated, truncated, _ = envs.step(np.zeros((1, 1), np.float32))
        assert envs.observation_space.contains(obs)
        assert np.isfinite(rewards).all()
        ends += int((terminated | truncated).sum())
    envs.close()
    assert ends >= 2


def test_there_is_one_reality():
    env = CongestionEnv(scenarios.get("dumbbell", duration_s=2.0), backend="emulator")
    env.reset(seed=1)
    with pytest.raises(ValueError, match="hosts are real"):
        env.save()
    with pytest.raises(OrbitccError, match=r"flows.1.controller: 'bbr3'"):
        env.reset(options={"scenario": scenarios.get("dumbbell", flows=2).with_controller("bbr3")})
    env.close()


PAIR = """
kind = "mixture"
name = "pairs"
common = { duration_s = 5, flows = { low = 2, high = 2 }, rate_mbps = { low = 10, high = 20 }, mean_gap_s = 2 }
parts = [{ name = "pair", base = "train-leo", without = ["slots"] }]
"""


def test_every_flow_of_a_world_is_a_sub_environment_and_connections_follow_each_other():
    world = scenarios.from_table(tomllib.loads(PAIR))
    env = orbitcc.FlowVectorEnv(2, world, backend="emulator", preset="ratios", autoreset_mode="SameStep")
    assert env.worlds.tolist() == [0, 0]
    seen, _ = env.reset(seed=1)
    ends = np.zeros(2, int)
    for _ in range(400):  # two worlds of 5 s
        paid, terminated, truncated = env.advance(np.full((2, 1), 0.05, np.float32))
        assert not terminated.any()
        assert np.isfinite(paid).all()
        ends += truncated
        seen = env.renew()
        assert env.single_observation_space.contains(seen[0])
    assert ends.min() >= 2, "the ends of both worlds"
    assert ends.max() > 2, "a flow left before, and another one took its place"
    assert np.isfinite(env.state()).all()
    env.close()


@pytest.mark.parametrize("learner", ["ppo", "sb3"])
def test_a_policy_is_trained_on_the_emulator(tmp_path, learner):
    pytest.importorskip("torch")
    from orbitcc.agents import checkpoint
    from orbitcc.training import loop, recipe

    recipe_name, more = "perigee", ["start_from=perigee", "learner.critic_first=64"]
    if learner == "sb3":
        pytest.importorskip("stable_baselines3")
        recipe_name, more = "sb3-ppo-leo", []
    path = tmp_path / "pairs.toml"
    path.write_text(PAIR)
    few = ["learner.flows=2", "learner.batch=128", "learner.minibatch=64", "agent_steps=256", "evaluation.worlds=1"]
    made = recipe.load(recipe_name, ["backend=emulator", f"scenario={path}", *few, *more])
    recipe.check_names(made)
    run = loop.new_run(made, 1, tmp_path, "a test")
    first = loop.train(made, 1, run, resume=False, command="a test")
    assert first.finished
    longer = made.model_copy(update={"agent_steps": 384})
    second = loop.train(longer, 1, run, resume=True, command="a test")
    assert second.agent_steps > first.agent_steps
    assert checkpoint.load(run.last).card.training.agent_steps == second.agent_steps
