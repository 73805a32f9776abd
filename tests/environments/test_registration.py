"""Ids of environments, and what may be given to them by name."""

import gymnasium as gym
import pytest

import orbitcc
from orbitcc.envs.environments.registration import IDS
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.scenarios import names


def test_every_scenario_and_distribution_that_needs_no_argument_has_an_id() -> None:
    # The first needs a file, the second has a hundred flows.
    assert list(IDS.values()) == [name for name in names() if name not in ("path-trace", "constellation")]
    assert IDS["orbitcc/GeoViasat2020-v0"] == "geo-viasat-2020"
    assert set(IDS) <= set(gym.registry)


def test_parameters_of_the_scenario_are_arguments_of_its_environments() -> None:
    env = gym.make("orbitcc/Dumbbell-v0", rate_mbps=20, interval_ms=60).unwrapped
    env.reset(seed=1)
    assert env.scenario.links[0].rate_mbps == 20
    many = gym.make_vec("orbitcc/Dumbbell-v0", num_envs=2, rate_mbps=20)
    many.reset(seed=1)
    assert many.unwrapped.scenario(1).links[0].rate_mbps == 20
    together = orbitcc.parallel_env("dumbbell", rate_mbps=20)
    together.reset(seed=1)
    assert together.scenario.links[0].rate_mbps == 20


def test_unknown_arguments_suggest_the_nearest() -> None:
    with pytest.raises(OrbitccError, match="did you mean 'preset'"):
        gym.make("orbitcc/Dumbbell-v0", presett="astraea")
    with pytest.raises(OrbitccError, match="did you mean 'rate_mbps'"):
        gym.make_vec("orbitcc/Dumbbell-v0", num_envs=2, rate_mbs=3)
    with pytest.raises(OrbitccError, match="did you mean 'max_agents'"):
        orbitcc.parallel_env("dumbbell", max_agent=2)
    with pytest.raises(OrbitccError, match="rate_mbps"):
        gym.make("orbitcc/Dumbbell-v0", rate_mbps=-3)
