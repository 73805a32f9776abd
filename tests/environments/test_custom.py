"""Python functions: called once per interval of a flow, told whose rows they see, with a memory of each connection."""

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.presets import STATS, Who
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import distribution, get

LOW, HIGH = np.zeros(2), np.full(2, 1e6)


def counting(stats: np.ndarray, who: Who) -> np.ndarray:
    """How often this connection was seen, and for how long it is there: equal to the number of calls and its age."""
    assert not who.memory[who.fresh].any()
    who.memory[:, 0] += 1
    who.memory[:, 1] += stats[:, STATS["interval_s"]]
    return who.memory


def preset(**functions) -> presets.Preset:
    return presets.Preset("mine", observation=presets.Observation(counting, LOW, HIGH, memory=2), **functions)


def two(duration_s: float = 3.0, second: str = "external@1s"):
    return get("dumbbell", duration_s=duration_s).with_flows([Flow(controller="external"), Flow.parse(second)])


def test_memory_begins_anew_with_every_connection_of_a_flow() -> None:
    """Worlds are drawn anew at different moments, flows are replaced: each interval counts once, from 1."""
    world = distribution("train-leo").changed(duration_s=6.0)
    for mode in ("SameStep", "NextStep"):
        env = FlowVectorEnv(24, world, preset=preset(), autoreset_mode=mode, stagger=True)
        obs, _ = env.reset(seed=3)
        assert (obs[:, 0] >= 1).all()
        before, changes = obs, 0
        for _ in range(400):
            obs, _, terminated, truncated, infos = env.step(np.zeros((24, 1), np.float32))
            ended = terminated | truncated
            if mode == "SameStep" and ended.any():
                final = np.stack(infos["final_obs"][ended])
                assert (final[:, 0] == before[ended, 0] + 1).all()
                assert (obs[ended, 0] < before[ended, 0]).all()
            on = ~ended & (before[:, 0] > 0)
            same = obs[on, 0] == before[on, 0] + 1
            assert (same | (obs[on, 0] <= 20)).all()
            assert same.mean() > 0.5
            changes += int(ended.sum())
            before = obs
        assert changes > 40


def test_flows_have_numbers_of_their_own_and_are_fresh_once() -> None:
    seen: list[Who] = []

    def watch(stats: np.ndarray, who: Who) -> np.ndarray:
        seen.append(who)
        return np.zeros(len(stats))

    env = BatchedParallelEnv(3, two(), reward=presets.Reward(watch))
    env.reset(seed=1)
    for _ in range(250):  # two ends of all worlds
        env.step(np.zeros((3, 2, 1), np.float32))
    rows = [row for who in seen for row in zip(who.world, who.agent, who.flow, who.fresh, strict=True)]
    owners: dict[int, set] = {}
    for world, agent, flow, _ in rows:
        owners.setdefault(flow, set()).add((world, agent))
    assert all(len(places) == 1 for places in owners.values())
    assert sum(fresh for *_, fresh in rows) == len(owners) == 3 * 2 * 3
    assert {(w, s) for w, s, *_ in rows} == {(w, s) for w in range(3) for s in range(2)}


@pytest.mark.parametrize("start", ["external@1s", "external"])
def test_every_interval_is_seen_once_whoever_else_begins_anew(start: str) -> None:
    """The age the memory adds up is the simulator's, also of worlds that stand still while others are drawn."""
    env = VectorCongestionEnv(2, two(second=start), preset=preset())
    env.reset(seed=[1, 2], options=None)
    for step in range(60):
        if step in (20, 40):
            env.reset(seed=5, options={"reset_mask": np.array([True, False])})
        obs, *_ = env.step(np.zeros((2, 1), np.float32))
        time_s, first = env.statistics()[:, STATS["time_s"]], np.array([step % 20 if step < 60 else 0, step])
        assert (obs[:, 0] == first + 2).all()
        assert obs[:, 1] == pytest.approx(time_s, abs=0.06)  # it starts up to an RTT late


def test_flows_that_wait_for_others_remember_what_they_saw_meanwhile() -> None:
    """A world of flows begins when all its flows are there: the first one has seen a second by then."""
    env = FlowVectorEnv(2, two(second="external@1s").override("sim.start_jitter_ms", 200.0), preset=preset())
    obs, _ = env.reset(seed=1)
    ages = env.statistics()[:, STATS["time_s"]] - [flow["start_s"] for flow in env.totals(0)[0][:2]]
    assert obs[:, 1] == pytest.approx(ages, abs=1e-4)


def play(env, steps: int) -> list[list[float]]:
    rows = []
    for k in range(steps):
        obs, reward, *_ = env.step(np.full(1, np.sin(k / 9), np.float32))
        rows.append([*obs.tolist(), float(reward)])
    return rows


def test_saved_restored_and_cloned_worlds_remember_the_same() -> None:
    mine = preset(
        reward=presets.Reward(lambda stats, who: counting(stats, who)[:, 0], memory=2),
        action=presets.Action(lambda actions, stats, who: 20 + 10 * counting(stats, who)[:, 0] % 7, memory=2),
    )
    env = CongestionEnv(two(6.0), preset=mine)
    env.reset(seed=1)
    play(env, 40)
    saved, twin = env.save(), env.clone()
    expected = play(env, 40)
    assert expected[0] == [*expected[0][:2], expected[0][0]]
    assert play(twin, 40) == expected
    env.restore(saved)
    assert play(env, 40) == expected


def test_a_journal_brings_back_what_was_remembered() -> None:
    env = BatchedParallelEnv(2, two(), preset=preset(), journal=True, stagger=True)
    env.reset(seed=1)
    acts = np.random.default_rng(1).uniform(-1, 1, (160, 2, 2, 1)).astype(np.float32)
    for a in acts[:130]:
        env.step(a)
    journal = env.journal()
    expected = [env.step(a)[0] for a in acts[130:]]
    other = BatchedParallelEnv(2, two(), preset=preset(), journal=True, stagger=True)
    other.reset(seed=9)
    other.replay(journal)
    assert all((other.step(a)[0] == obs).all() for a, obs in zip(acts[130:], expected, strict=True))


def test_a_team_reward_is_the_mean_over_the_flows_of_a_world() -> None:
    rate = STATS["goodput_bps"]
    env = BatchedParallelEnv(
        3, two(), reward=presets.Reward(lambda stats, who: presets.team_mean(stats[:, rate] * 1e-6, who))
    )
    env.reset(seed=2)
    together = 0
    for _ in range(90):
        acted = env.active
        _, rewards, _, _, infos = env.step(np.float32([0.1, 0.0, -0.5])[:, None, None].repeat(2, axis=1))
        assert not infos["renewed"].any()
        present = acted | env.active  # who has just joined counts, and is not paid yet
        for act, live, paid, stats in zip(acted, present, rewards, env.statistics(), strict=True):
            assert paid[act] == pytest.approx(stats[live, rate].mean() * 1e-6)
            assert not paid[~act].any()
            together += int(act.all())
    assert together > 100
    assert len(np.unique(rewards[:, 0])) == 3


def test_a_python_action_paces_at_the_rate_it_says() -> None:
    env = CongestionEnv(
        get("dumbbell", duration_s=4).with_flows([Flow(controller="external")]),
        action=presets.Action(lambda actions, stats, who: (np.full(len(stats), 50.0), np.full(len(stats), 5e6))),
    )
    env.reset(seed=1)
    for _ in range(60):
        env.step(np.zeros(1, np.float32))
    assert env.statistics()["pacing_rate_bps"] == 5e6
    assert env.statistics()["goodput_bps"] == pytest.approx(5e6, rel=0.05)


def test_a_python_action_is_given_actions_within_the_bounds() -> None:
    given = []
    hold = presets.Action(lambda actions, stats, who: given.append(actions.tolist()) or np.full(len(stats), 50.0))
    env = CongestionEnv(get("dumbbell", duration_s=4).with_flows([Flow(controller="external")]), action=hold)
    env.reset(seed=1)
    for action in (50.0, -np.inf, 0.25):
        env.step(np.full(1, action, np.float32))
    assert given == [[[1.0]], [[-1.0]], [[0.25]]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: presets.Observation(counting, LOW, HIGH, memory=-1), "observation.memory"),
        (lambda: presets.Reward(counting, memory=1.5), "reward.memory"),
        (lambda: presets.Action(counting, memory="2"), "action.memory"),
        (lambda: presets.Action(counting, dim=0), "action.dim"),
    ],
)
def test_wrong_sizes_are_refused(make, message: str) -> None:
    with pytest.raises(OrbitccError, match=message):
        make()


@pytest.mark.parametrize(
    ("window", "says"),
    [(-1.0, "custom action: -1.0"), (1j, "values of the type complex128"), ("50", "values of the type <U2")],
)
def test_a_window_that_is_none_is_refused(window, says: str) -> None:
    env = parallel_env(two(), action=presets.Action(lambda actions, stats, who: np.full(len(stats), window)))
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match=says):
        env.step({agent: np.zeros(1, np.float32) for agent in env.agents})
