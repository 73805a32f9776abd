"""The gymnasium environment: episodes, seeds, errors."""

import warnings

import gymnasium as gym
import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.core import STEP_INFO
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.scenarios import get

INFO = {*STEP_INFO, "goodput_mbps", "sent_packets", "retransmitted_packets", "lost_packets"}


def dumbbell(**changes):
    return get("dumbbell", duration_s=3).with_flows([Flow(controller="external", **changes)])


def play(env, seed=None, actions=None, limit=10_000):
    """Observations, rewards and the end of one episode under the given actions (seeded random by default)."""
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=seed)
    trace, rewards = [obs], []
    for _ in range(limit):
        action = rng.uniform(-1, 1, env.action_space.shape) if actions is None else np.full(1, actions)
        obs, reward, terminated, truncated, info = env.step(action.astype(np.float32))
        trace.append(obs)
        rewards.append(reward)
        if terminated or truncated:
            return np.array(trace), np.array(rewards), terminated, truncated, info
    raise AssertionError("the episode does not end")


def test_same_seed_same_trajectory_other_seed_another() -> None:
    first, again, other = (play(CongestionEnv(dumbbell()), seed) for seed in (5, 5, 6))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert first[0].shape != other[0].shape or not np.array_equal(first[0], other[0])


def test_the_time_limit_truncates_and_the_last_info_has_the_totals() -> None:
    _, rewards, terminated, truncated, info = play(CongestionEnv(dumbbell()), 1)
    assert (terminated, truncated) == (False, True)
    assert set(info) == INFO
    assert 90 <= len(rewards) <= 100  # 3 s at 30 ms, less the start jitter of up to one RTT
    assert np.isfinite(rewards).all()


def test_a_delivered_object_terminates() -> None:
    _, _, terminated, truncated, _ = play(CongestionEnv(dumbbell(traffic={"kind": "bytes", "bytes": 100_000})), 1)
    assert (terminated, truncated) == (True, False)


def test_a_scheduled_leave_truncates_before_the_time_limit() -> None:
    _, rewards, terminated, truncated, _ = play(CongestionEnv(dumbbell(stop_s=1.5)), 1)
    assert (terminated, truncated) == (False, True)
    assert len(rewards) <= 50


def test_an_agent_that_starts_late_meets_its_first_decision_at_reset() -> None:
    env = CongestionEnv(dumbbell(start_s=1.0))
    env.reset(seed=1)
    statistics = env.statistics()
    assert statistics["active"] == 1.0
    assert 1.0 <= statistics["time_s"] <= 1.2


def test_opening_the_window_pays_more_than_closing_it() -> None:
    grown = play(CongestionEnv(dumbbell()), 1, actions=0.5)
    closed = play(CongestionEnv(dumbbell()), 1, actions=-1.0)
    assert grown[1].sum() > closed[1].sum() + 1.0
    assert grown[4]["goodput_mbps"] > 5 * closed[4]["goodput_mbps"]


def test_observations_and_rewards_keep_their_bounds_on_random_worlds() -> None:
    env = CongestionEnv("train-mixed")
    for seed in range(3):
        obs, rewards, *_ = play(env, seed)
        assert all(env.observation_space.contains(row) for row in obs)
        assert np.isfinite(rewards).all()


def test_a_scenario_can_be_given_for_one_episode() -> None:
    env = CongestionEnv("train-leo")
    obs, _ = env.reset(seed=3, options={"scenario": dumbbell()})
    alone, _ = CongestionEnv(dumbbell()).reset(seed=3)
    assert np.array_equal(obs, alone)


def test_a_given_scenario_has_the_noise_of_the_seed_or_its_own() -> None:
    given = get("geo-rain").with_seed(5)
    env = CongestionEnv("train-leo")
    for seed, used in ((7, 7), (None, 5)):
        env.reset(seed=seed, options={"scenario": given})
        assert env.scenario.seed == used


def test_restore_continues_identically() -> None:
    env = CongestionEnv(dumbbell())
    env.reset(seed=1)
    for _ in range(20):
        env.step(np.ones(1, np.float32))
    saved = env.save()
    actions = np.random.default_rng(1).uniform(-1, 1, (30, 1)).astype(np.float32)
    first = [env.step(action)[0] for action in actions]
    env.restore(saved)
    assert np.array_equal(first, [env.step(action)[0] for action in actions])


@pytest.mark.parametrize("bad", [np.array([np.nan], np.float32), np.zeros(2, np.float32)])
def test_a_bad_action_is_one_clear_error_and_moves_nothing(bad) -> None:
    env, twin = CongestionEnv(dumbbell()), CongestionEnv(dumbbell())
    env.reset(seed=1)
    twin.reset(seed=1)
    with pytest.raises(OrbitccError, match="action"):
        env.step(bad)
    good = np.ones(1, np.float32)
    assert np.array_equal(env.step(good)[0], twin.step(good)[0])


def test_actions_beyond_the_bounds_count_as_the_bounds() -> None:
    wild, tame = CongestionEnv(dumbbell()), CongestionEnv(dumbbell())
    assert np.array_equal(play(wild, 1, actions=7.0)[0], play(tame, 1, actions=1.0)[0])


def test_step_needs_a_running_episode() -> None:
    env = CongestionEnv(dumbbell())
    with pytest.raises(OrbitccError, match="reset"):
        env.step(np.zeros(1, np.float32))
    play(env, 1)
    with pytest.raises(OrbitccError, match="reset"):
        env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenario": "dumbell"}, "did you mean 'dumbbell'"),
        ({"preset": "astrea"}, "did you mean 'astraea'"),
        ({"observation": "astrae"}, "did you mean 'astraea'"),
        ({"interval_ms": 0.0}, "interval_ms"),
        ({"background": "cubik"}, "did you mean 'cubic'"),
        ({"scenario": 7}, "scenario"),
    ],
)
def test_bad_arguments_name_the_field(arguments, message: str) -> None:
    with pytest.raises(OrbitccError, match=message):
        CongestionEnv(**arguments)


def test_unknown_keyword_is_refused() -> None:
    with pytest.raises(OrbitccError, match="colour"):
        gym.make("orbitcc/Dumbbell-v0", colour="red")


def test_custom_functions_replace_the_native_ones() -> None:
    column = presets.STATS
    seen: list[int] = []

    def observe(stats, who):
        seen.append(len(stats))
        return stats[:, [column["cwnd_packets"]]]

    env = CongestionEnv(
        dumbbell(),
        observation=presets.Observation(observe, low=np.zeros(1), high=np.full(1, 1e4)),
        reward=presets.Reward(lambda stats, who: stats[:, column["cwnd_packets"]] / 100),
        action=presets.Action(lambda actions, stats, who: 40.0 + 20.0 * actions[:, 0]),
    )
    env.reset(seed=1)
    for value in (0.0, 1.0, -1.0):
        obs, reward, *_ = env.step(np.full(1, value, np.float32))
        assert obs == pytest.approx([40 + 20 * value])
        assert reward == pytest.approx((40 + 20 * value) / 100)
    assert set(seen) == {1}


def test_a_custom_functions_of_the_wrong_shape_is_refused() -> None:
    env = CongestionEnv(dumbbell(), reward=presets.Reward(lambda stats, who: stats))
    with pytest.raises(OrbitccError, match="custom reward"):
        env.reset(seed=1)


HUGE = 10**400
ODD = (5, HUGE, 1.5, True, b"x", (1,), [], np.zeros(2), "\ud800", "9" * 5_000)


@pytest.mark.parametrize(
    "key", ["preset", "interval_ms", "max_agents", "background", "threads", "backend", "render_mode"]
)
def test_settings_of_other_types_are_one_line(key):
    allowed = {"interval_ms": (5, 1.5, True), "threads": (5, True), "max_agents": (True,)}
    for value in ODD:
        if not any(value is other for other in allowed.get(key, ())):
            with pytest.raises(OrbitccError) as caught:
                CongestionEnv("dumbbell", **{key: value})
            assert len(str(caught.value).splitlines()) == 1


def test_a_preset_that_is_a_number_is_one_line_in_gymnasium():
    with pytest.raises(OrbitccError, match="preset"):
        gym.make("orbitcc/Dumbbell-v0", preset=5)


def test_an_action_of_400_digits_is_one_line():
    env = CongestionEnv("dumbbell")
    env.reset(seed=1)
    for action in (HUGE, [HUGE], [[-HUGE]]):
        with pytest.raises(OrbitccError, match="numbers of shape"):
            env.step(action)


@pytest.mark.parametrize(
    "action", [["0.5"], np.array(["2020"], "datetime64[Y]"), np.ma.array([0.5], mask=[True]), [None]], ids=str
)
def test_actions_that_are_no_numbers_are_refused(action) -> None:
    env = CongestionEnv("dumbbell", duration_s=2.0)
    env.reset(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OrbitccError, match="action"):
            env.step(action)
        env.step([1e300])  # as any other beyond the bounds
