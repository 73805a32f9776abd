"""The batched parallel environment is N parallel ones, bit for bit."""

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.parallel import ParallelCongestionEnv
from orbitcc.envs.scenarios import distribution, get

N = 3


def short():
    return distribution("train-leo").changed(duration_s=3.0)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_world_is_a_parallel_environment_over_several_episodes(threads: int) -> None:
    batched = BatchedParallelEnv(N, short(), threads=threads)
    obs, infos = batched.reset(seed=7)
    worlds = [ParallelCongestionEnv(short()) for _ in range(N)]
    for i, world in enumerate(worlds):
        world.reset(seed=7 + i)
    rng = np.random.default_rng(0)
    renewals = 0
    for _ in range(250):
        actions = rng.uniform(-1, 1, (N, batched.max_agents, 1)).astype(np.float32)
        assert np.array_equal(batched.state(), np.stack([world.state() for world in worlds]))
        acting = [[f"flow_{s}" for s in np.flatnonzero(infos["active"][i])] for i in range(N)]
        assert [world.agents for world in worlds] == acting
        obs, rewards, terminated, truncated, infos = batched.step(actions)
        for i, world in enumerate(worlds):
            theirs, paid, done, cut, _ = world.step({a: actions[i, int(a[5:])] for a in world.agents})
            assert np.array_equal(infos["state"][i], world.state())  # of the world that ends, too
            for agent, row in theirs.items():
                index = int(agent[5:])
                assert np.array_equal(obs[i, index], row)
                assert rewards[i, index] == np.float32(paid[agent])
                assert (bool(terminated[i, index]), bool(truncated[i, index])) == (done[agent], cut[agent])
            assert bool(infos["renewed"][i]) == (not world.agents)
            if not world.agents:
                renewals += 1
                fresh, _ = world.reset()
                for agent, row in fresh.items():
                    assert np.array_equal(batched.obs[i, int(agent[5:])], row)
    assert renewals >= 2 * N


def test_every_world_may_be_given_its_own_scenario() -> None:
    slow = get("dumbbell", rate_mbps=5).with_flows([Flow(controller="external")] * 2)
    env = BatchedParallelEnv(2, short())
    obs, infos = env.reset(seed=1, options={"scenario": [None, slow]})
    assert env.scenario(1).links[0].rate_mbps == 5
    alone, _ = ParallelCongestionEnv(short()).reset(seed=1)
    assert np.flatnonzero(infos["active"][0]).tolist() == [int(agent[5:]) for agent in alone]
    assert all(np.array_equal(obs[0, int(agent[5:])], row) for agent, row in alone.items())


def test_bad_use_names_the_field() -> None:
    env = BatchedParallelEnv(2, short())
    with pytest.raises(OrbitccError, match="reset"):
        env.step(np.zeros((2, env.max_agents, 1), np.float32))
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match="shape"):
        env.step(np.zeros((2, 1), np.float32))
    with pytest.raises(OrbitccError, match=r"options\.scenario"):
        env.reset(options={"scenario": [None]})


def test_staggered_worlds_do_not_end_together() -> None:
    env = BatchedParallelEnv(6, distribution("train-astraea").changed(duration_s=8.0), stagger=True)
    env.reset(seed=1)
    idle = np.zeros((6, env.max_agents, 1), np.float32)
    ends = [set() for _ in range(6)]
    for step in range(560):
        for world in np.flatnonzero(env.step(idle)[4]["renewed"]):
            ends[world].add(step)
    first = [min(steps) for steps in ends]
    assert len(set(first)) > 3
    assert min(first) * 0.03 >= 1.9
    # From then on an episode has its full length.
    assert all(sorted(steps)[1] - sorted(steps)[0] >= 260 for steps in ends)


def test_a_flow_that_leaves_is_in_its_own_last_state() -> None:
    flows = [Flow(controller="external"), Flow(controller="external", stop_s=1.5)]
    env = BatchedParallelEnv(1, get("dumbbell", duration_s=3).with_flows(flows))
    env.reset(seed=1)
    idle = np.zeros((1, 2, 1), np.float32)
    for _ in range(80):
        _, _, _, truncated, infos = env.step(idle)
        if truncated[0, 1]:
            break
    assert truncated[0].tolist() == [False, True]
    assert infos["state"][0, 8] == pytest.approx(0.2)  # two flows, scaled by 10
    assert env.step(idle)[4]["state"][0, 8] == pytest.approx(0.1)


def test_a_curriculum_changes_what_is_paid() -> None:
    def paid(throughput: float) -> float:
        alone = get("dumbbell", duration_s=3).with_flows([Flow(controller="external")])
        env = BatchedParallelEnv(1, alone, preset="astraea")
        env.reset(seed=1)
        env.set_reward({"name": "astraea", "throughput": throughput, "ceiling": 10.0, "stability": 0.0})
        up = np.ones((1, 1, 1), np.float32)
        return [float(env.step(up)[1][0, 0]) for _ in range(20)][-1]

    assert paid(1.0) == pytest.approx(10 * paid(0.1), rel=1e-5)
    env = BatchedParallelEnv(1, get("dumbbell"))
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match="gold"):
        env.set_reward({"name": "astraea", "gold": 1})


def test_worlds_live_through_their_past_again_bit_for_bit() -> None:
    def made() -> BatchedParallelEnv:
        return BatchedParallelEnv(3, short(), stagger=True, journal=True)

    rng = np.random.default_rng(2)
    env = made()
    env.reset(seed=5)
    acts = rng.uniform(-1, 1, (220, 3, env.max_agents, 1)).astype(np.float32)
    for row in acts[:130]:
        env.step(row)
    other = made()
    other.replay(env.journal())
    assert np.array_equal(env.obs, other.obs)
    for row in acts[130:]:  # over the ends of episodes
        for one, two in zip(env.step(row)[:4], other.step(row)[:4], strict=True):
            assert np.array_equal(one, two)
    with pytest.raises(OrbitccError, match="journal"):
        BatchedParallelEnv(3, short()).journal()
    with pytest.raises(OrbitccError, match="worlds"):
        BatchedParallelEnv(2, short(), journal=True).replay(env.journal())
    with pytest.raises(OrbitccError, match="journal: .* gave"):
        env.replay({"x": 1})
    with pytest.raises(OrbitccError, match="journal"):
        env.restore(0, env.save(0))
