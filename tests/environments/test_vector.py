"""The native vector environment is N single ones, bit for bit."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import orbitcc  # noqa: F401
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.core import STEP_INFO
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import DISTRIBUTIONS, distribution, get

N = 5


def short():
    """Worlds of 3 s whose agents start at different times."""
    return distribution("train-leo").changed(duration_s=3.0)


def same_info(one, other) -> bool:
    if isinstance(one, dict):
        return set(one) == set(other) and all(same_info(one[key], other[key]) for key in one)
    if one.dtype == object:
        return all((a is None and b is None) or np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    return np.array_equal(one, other)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("threads", [1, 3])
def test_batch_equals_single_environments_over_several_episodes(mode: AutoresetMode, threads: int) -> None:
    native = VectorCongestionEnv(N, short(), autoreset_mode=mode, threads=threads)
    reference = SyncVectorEnv([lambda: CongestionEnv(short())] * N, autoreset_mode=mode)
    assert np.array_equal(native.reset(seed=11)[0], reference.reset(seed=11)[0])
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(250):
        actions = rng.uniform(-1, 1, (N, 1)).astype(np.float32)
        ours, theirs = native.step(actions), reference.step(actions)
        for one, other in zip(ours[:4], theirs[:4], strict=True):
            assert np.array_equal(one, other)
            assert one.dtype == other.dtype
        assert same_info(ours[4], theirs[4])
        ends += int((ours[2] | ours[3]).sum())
    assert ends >= 2 * N


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_equal_seeds_give_equal_episodes(name: str) -> None:
    def episodes(seed: int) -> list[np.ndarray]:
        env = VectorCongestionEnv(2, name, threads=1 + seed % 2)
        seen = [env.reset(seed=seed)[0]]
        for k in range(70):
            obs, rewards, *_ = env.step(np.full((2, 1), np.sin(k), dtype=np.float32))
            seen += [obs, rewards, env.statistics().copy()]
        return seen

    one, again, other = (episodes(seed) for seed in (7, 7, 8))
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def test_make_vec_uses_the_native_batch_behind_the_same_id() -> None:
    env = gym.make_vec("orbitcc/Dumbbell-v0", num_envs=3)
    assert isinstance(env.unwrapped, VectorCongestionEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    obs, infos = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    assert {key for key in infos if not key.startswith("_")} == set(STEP_INFO)


def test_reset_mask_renews_only_the_masked() -> None:
    env = VectorCongestionEnv(3, "dumbbell")
    env.reset(seed=1)
    for _ in range(20):
        before, *_ = env.step(np.ones((3, 1), np.float32))
    after, _ = env.reset(seed=1, options={"reset_mask": np.array([False, True, False])})
    assert np.array_equal(after[[0, 2]], before[[0, 2]])
    assert not np.array_equal(after[1], before[1])


def test_masks_of_infos_may_be_changed() -> None:
    env, twin = (VectorCongestionEnv(2, "dumbbell") for _ in range(2))
    for one in (env, twin):
        _, infos = one.reset(seed=1)
        *_, later = one.step(np.zeros((2, 1), np.float32))
        if one is env:
            infos["_step_rtt_ms"][0] = later["_step_rtt_ms"][0] = False
            assert later["_step_goodput_mbps"].all()
    _, infos = env.reset(seed=5)
    twin.reset(seed=5)
    assert env.totals(0)[0][0]["sent_packets"] == twin.totals(0)[0][0]["sent_packets"], "it has begun anew"
    assert infos["_step_rtt_ms"].all()


def test_every_environment_may_be_given_its_own_scenario() -> None:
    slow, fast = (get("dumbbell", rate_mbps=rate).with_flows([Flow(controller="external")]) for rate in (5, 50))
    env = VectorCongestionEnv(3, "dumbbell")
    listed, _ = env.reset(seed=1, options={"scenario": [slow, None, fast]})
    assert [env.scenario(i).links[0].rate_mbps for i in range(3)] == [5, 100, 50]
    for i, given in enumerate((slow, None, fast)):
        alone, _ = CongestionEnv("dumbbell").reset(seed=1 + i, options={"scenario": given} if given else None)
        assert np.array_equal(listed[i], alone)
    env.reset(options={"scenario": slow, "reset_mask": np.array([False, True, False])})
    assert [env.scenario(i).links[0].rate_mbps for i in range(3)] == [5, 5, 50]
    with pytest.raises(OrbitccError, match=r"options\.scenario"):
        env.reset(options={"scenario": [slow, fast]})


def test_seeds_may_be_listed() -> None:
    env = VectorCongestionEnv(2, "dumbbell")
    listed, _ = env.reset(seed=[9, 4])
    alone, _ = CongestionEnv("dumbbell").reset(seed=4)
    assert np.array_equal(listed[1], alone)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"num_envs": 0}, "num_envs"),
        ({"num_envs": 10**9}, "num_envs: 1000000000 is not allowed; allowed: a whole number from 1 to 100,000"),
        ({"num_envs": 2, "threads": -1}, "threads"),
        ({"num_envs": 2, "autoreset_mode": "never"}, "autoreset"),
    ],
)
def test_bad_arguments_name_the_field(arguments, field: str) -> None:
    with pytest.raises(OrbitccError, match=field):
        VectorCongestionEnv(**arguments)


def test_bad_actions_and_seeds_name_the_field() -> None:
    env = VectorCongestionEnv(2, get("dumbbell").with_flows([Flow(controller="external")]))
    with pytest.raises(OrbitccError, match="seed"):
        env.reset(seed=[1])
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match="world 1"):
        env.step(np.array([[0.0], [np.nan]], np.float32))
    with pytest.raises(OrbitccError, match="shape"):
        env.step(np.zeros((3, 1), np.float32))
