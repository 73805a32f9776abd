"""The libraries' own checkers, with every warning an error."""

import warnings
from collections.abc import Iterator

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test
from pettingzoo.utils import parallel_to_aec

import orbitcc  # noqa: F401
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.registration import IDS
from orbitcc.envs.scenarios import get


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def three_flows():
    """Agents that join late, leave early and finish an object, over 6 s."""
    scenario = get("dumbbell", duration_s=6)
    return scenario.with_flows(
        [
            Flow(controller="external"),
            Flow(controller="external", start_s=1, stop_s=3),
            Flow(controller="external", start_s=2, traffic={"kind": "bytes", "bytes": 200_000}),
            Flow(controller="cubic", start_s=1),
        ]
    )


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_accepts_every_registered_environment(env_id: str) -> None:
    check_env(gym.make(env_id, render_mode="rgb_array").unwrapped, skip_render_check=env_id != "orbitcc/Dumbbell-v0")


def test_stable_baselines3_accepts_the_single_environment() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(gym.make("orbitcc/Dumbbell-v0").unwrapped)


def test_pettingzoo_accepts_late_joiners_and_leavers() -> None:
    parallel_api_test(parallel_env(three_flows()), num_cycles=1000)


def test_pettingzoo_accepts_a_padded_population() -> None:
    parallel_api_test(parallel_env(three_flows(), pad_absent=True), num_cycles=1000)


def test_pettingzoo_accepts_its_own_turn_based_form() -> None:
    api_test(parallel_to_aec(parallel_env(three_flows())), num_cycles=300)


def test_pettingzoo_finds_seeds_deterministic() -> None:
    parallel_seed_test(lambda: parallel_env(three_flows()), num_cycles=60)
    parallel_seed_test(lambda: parallel_env("train-leo"), num_cycles=60)


def test_rllib_accepts_the_multi_agent_environment() -> None:
    checks = pytest.importorskip("ray.rllib.utils.pre_checks.env")
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    checks.check_multiagent_environments(RLlibCongestionEnv({"scenario": three_flows()}))
