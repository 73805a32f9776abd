"""Measured paths as worlds of environments and of distributions."""

import sys

import gymnasium as gym
import numpy as np
import pytest

import orbitcc
from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.description.model import mean_over
from orbitcc.envs.environments.registration import TRACE_IDS
from orbitcc.envs.orbits.trace_set import PARTS, opened
from orbitcc.envs.scenarios import MEASURED, measured
from tests.envs import trace_folders

SET = trace_folders.shared


def test_an_id_for_each_part_needs_a_set():
    assert list(TRACE_IDS.values()) == list(MEASURED) == [f"traces-{part}" for part in PARTS]
    assert set(TRACE_IDS) <= set(gym.registry)
    for make in (
        lambda: gym.make("orbitcc/TracesTrain-v0"),
        lambda: orbitcc.parallel_env("traces-test"),
        lambda: scenarios.load("traces-train"),
        lambda: measured({"traces": ""}),
    ):
        with pytest.raises(OrbitccError, match=r"traces: .*orbitcc traces import"):
            make()


def test_episodes_are_windows_of_the_training_part():
    env = gym.make("orbitcc/TracesTrain-v0", traces=SET(), duration_s=10, flows={"low": 1, "high": 1}).unwrapped
    seen = []
    for seed in (1, 2, 1):
        observation, _ = env.reset(seed=seed)
        assert env.observation_space.contains(observation)
        seen.append(env.scenario)
    assert seen[0] == seen[2]
    assert seen[0].links != seen[1].links
    link = seen[0].links[0]
    assert seen[0].duration_s == 10
    assert mean_over(link.rate_mbps, 10) == pytest.approx(12, rel=0.01)  # of its files, not of the ranges
    assert env.scenario.base_rtt_ms(0, 0.0) in [2 * (d + n) for d in (20, 30) for n in range(1, 21)]
    done, steps, info = False, 0, {}
    while not done:
        _, _, terminated, done, info = env.step([0.0])
        assert not terminated
        steps += 1
    assert steps == pytest.approx(10 / 0.03, abs=2)
    assert info["goodput_mbps"] > 1


def test_other_interfaces_take_a_set():
    table = {"traces": SET(), "split": "test", "places": ["B"]}
    many = gym.make_vec("orbitcc/TracesTest-v0", num_envs=2, traces=SET())
    many.reset(seed=1)
    together = orbitcc.parallel_env("traces-validation", traces=SET())
    together.reset(seed=1)
    assert together.scenario.name == "traces-validation"
    env = orbitcc.parallel_env(table)
    env.reset(seed=1)
    assert env.scenario.name == "traces-test"
    flows = orbitcc.FlowVectorEnv(4, table)
    flows.reset(seed=1)


def test_settings_of_worlds_are_those_of_distributions():
    world = measured({"traces": SET(), "duration_s": 5, "buffer_bdp": {"low": 1, "high": 1}, "places": "A, B"})
    assert world.paths.duration_s == world.duration_s == 5
    assert world.paths.places == ("A", "B")
    assert {e["place"] for e in world.paths.entries} <= {"A", "B"}
    for given, words in (
        ({"split": "all"}, "split: unknown name 'all'"),
        ({"places": "Z"}, "unknown name 'Z'"),
        ({"duration": 5}, "did you mean 'duration_s'"),
        ({"traces": "no.npz"}, "no such file"),
    ):
        with pytest.raises(OrbitccError, match=words):
            measured({"traces": SET(), **given})
    with pytest.raises(OrbitccError, match=r"duration_s: 60.* allowed: 30 s at most"):
        world.changed(duration_s=60.0, paths=world.paths.changed(duration_s=30.0))


def test_random_losses_can_be_added_to_measured_paths():
    world = measured({"traces": SET(), "loss": {"none_probability": 0, "p": {"low": 0.01, "high": 0.01}}})
    link = world.sample(np.random.default_rng(1)).links[0]
    assert link.loss == 0.01
    assert mean_over(link.rate_mbps, 30) == pytest.approx(12, rel=0.01)
    assert round(link.outages[0].duration_ms) == 100


def test_what_was_not_measured_is_drawn(tmp_path):
    rates = trace_folders.imported("mahimahi", trace_folders.mahimahi(tmp_path / "m"), tmp_path / "m.npz")
    link = measured({"traces": rates}).sample(np.random.default_rng(1)).links[0]
    assert mean_over(link.rate_mbps, 30) == pytest.approx(12, rel=0.01)
    assert mean_over(link.backward().rate_mbps, 30) == pytest.approx(1.2, rel=0.01)
    delays = {link.delay_ms[0][1], *(d for _, d in link.delay_ms)}
    assert 10 <= min(delays) == max(delays) <= 60  # half of 20 to 120 ms
    pings = trace_folders.imported("lens", trace_folders.lens(tmp_path / "l", 2_001), tmp_path / "l.npz")
    drawn = [measured({"traces": pings}).sample(np.random.default_rng(k)).links[0] for k in range(4)]
    assert len({link.rate_mbps for link in drawn}) == 4
    assert all(20 <= link.rate_mbps <= 300 for link in drawn)
    assert {link.delay_ms[0][1] for link in drawn} <= {25, 40}


def test_only_the_last_windows_are_kept(monkeypatch):
    monkeypatch.setattr(sys.modules["orbitcc.envs.scenarios.distribution"], "MOST_WINDOWS", 3)
    world = measured({"traces": SET(), "duration_s": 2})
    first = [world.bottleneck(i) for i in range(5)]
    assert list(world._disturbances) == list(world._bottlenecks) == [2, 3, 4]
    assert [world.bottleneck(i) for i in range(5)] == first


def test_policies_are_compared_on_the_validation_part():
    world = measured({"traces": SET(), "split": "train"})
    held = world.held_out()
    assert held.paths.split == "validation"
    assert {e["part"] for e in held.paths.entries} == {"validation"}
    assert held.held_out() is held or held.held_out() == held
    mixed = scenarios.from_table({
        "kind": "mixture", "name": "both", "parts": [{"base": "train-leo"}, {"traces": SET(), "duration_s": 20}],
    })  # fmt: skip
    assert [part.name for part in mixed.parts] == ["both", "both"]
    assert mixed.held_out().parts[1].paths.split == "validation"
    assert mixed.held_out().parts[0] == mixed.parts[0]
    assert scenarios.DISTRIBUTIONS["train-mixed"].held_out() is scenarios.DISTRIBUTIONS["train-mixed"]


def test_a_path_of_a_set_is_a_scenario():
    found, k = opened(SET()), 7
    scenario = scenarios.get("path-trace", file=SET(), path=k + 1)
    assert scenario.description == found.entries[k]["name"]
    assert scenario.duration_s == 20
    with pytest.raises(OrbitccError, match=r"path: 81 .* 1 to 80"):
        scenarios.get("path-trace", file=SET(), path=81)


def test_a_file_names_a_set(tmp_path):
    (tmp_path / "mine.toml").write_text(f"traces = {SET()!r}\nsplit = 'test'\nplaces = ['A']\n")
    world = scenarios.load(tmp_path / "mine.toml", {"duration_s": "10"})
    assert (world.name, world.paths.places, world.duration_s) == ("traces-test", ("A",), 10)
