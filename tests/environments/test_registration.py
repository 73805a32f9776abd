"""Ids of environments, and what may be given to them by name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import orbitcc
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.registration import IDS, TEST_IDS
from orbitcc.envs.scenarios import TRAINING_RUNS, Runs, for_training, get, names


def test_every_scenario_and_distribution_that_needs_no_argument_has_an_id() -> None:
    # The first needs a file, the second has a hundred flows.
    assert list(IDS.values()) == [name for name in names() if name not in ("path-trace", "constellation")]
    assert IDS["orbitcc/GeoViasat2020-v0"] == "geo-viasat-2020"
    assert set(IDS) <= set(gym.registry)


def test_every_scenario_with_runs_has_an_id_for_tests() -> None:
    drawn = {name for name in IDS.values() if isinstance(for_training(name), Runs)}
    assert set(TEST_IDS.values()) == drawn
    assert not isinstance(for_training("inter-rtt"), Runs)  # its run is the seed of the noise
    env = gym.make("orbitcc/LeoResponsivenessTest-v0").unwrapped
    for seed in (1, 2):
        env.reset(seed=seed)
        assert env.scenario.links == get("leo-responsiveness", run=1).links


@pytest.mark.parametrize("field", [{"sim.ecn": "classic"}, {"sim": {"ecn": "classic"}}, {"flows.0.stop_s": "20"}])
def test_a_field_leaves_the_runs_those_of_training(field) -> None:
    runs = for_training("leo-responsiveness", field)
    assert isinstance(runs, Runs)
    drawn = runs.sample(np.random.default_rng(1))
    assert drawn.links == for_training("leo-responsiveness").sample(np.random.default_rng(1)).links
    assert (drawn.sim.ecn, drawn.flows[0].stop_s) in (("classic", None), ("off", 20))


def test_episodes_are_drawn_from_runs_that_no_suite_uses() -> None:
    from orbitcc.eval import suites

    with pytest.raises(OrbitccError, match="first_run"):
        suites.get("responsiveness", {"first_run": TRAINING_RUNS[0]})
    env = gym.make("orbitcc/LeoResponsiveness-v0").unwrapped
    seen = []
    for seed in (1, 2, None, 1):
        env.reset(seed=seed)
        seen.append(env.scenario)
    runs = [scenario.seed for scenario in seen]
    assert all(TRAINING_RUNS[0] <= run <= TRAINING_RUNS[1] for run in runs)
    assert len(set(runs)) == 3
    assert seen[0] == seen[3]
    assert seen[0].links == get("leo-responsiveness", run=runs[0]).links
    many = gym.make_vec("orbitcc/LeoResponsiveness-v0", num_envs=2).unwrapped
    many.reset(seed=1)
    assert many.scenario(0).seed != many.scenario(1).seed
    together = orbitcc.parallel_env("intra-rtt")
    together.reset(seed=1)
    assert together.scenario.seed >= TRAINING_RUNS[0]
    assert len(together.agents) >= 1
    assert len(together.possible_agents) == 2


def test_a_run_can_be_fixed() -> None:
    env = gym.make("orbitcc/LeoResponsiveness-v0", run=3).unwrapped
    for seed in (1, 2):
        env.reset(seed=seed)
        assert env.scenario.links == get("leo-responsiveness", run=3).links
        assert env.scenario.seed == seed


def test_the_default_preset_does_not_mistake_a_longer_path_for_a_queue() -> None:
    env = gym.make("orbitcc/LeoResponsiveness-v0").unwrapped
    assert env.config.preset == orbitcc.preset("ratios")


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


DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_a_package_registers_an_environment_of_its_own() -> None:
    text = (DOCS / "environments.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "gymnasium.register(" in block)
    made: dict = {}
    exec(code, made)
    observation, _ = made["env"].reset(seed=1)
    assert made["env"].unwrapped.scenario.duration_s == 20
    assert observation.shape == made["envs"].single_observation_space.shape
    del gym.registry["mine/Pass-v0"]


def test_the_site_cites_as_the_citation_file_does() -> None:
    (entry,) = re.findall(r"```bibtex\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    citation = (DOCS.parent / "CITATION.cff").read_text(encoding="utf-8")
    (title,), (version,) = re.findall(r'^title: "(.*)"', citation, re.M), re.findall(r"^version: (.*)", citation, re.M)
    assert f"title = {{{title}}}" in entry
    assert f"version = {{{version}}}" in entry


def test_an_episode_of_a_leo_path_ends_within_one_iteration_of_a_ppo_with_two_env_runners() -> None:
    env = gym.make("orbitcc/LeoPath-v0")
    env.reset(seed=1)
    decisions, ended = 0, False
    while not ended:
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        decisions, ended = decisions + 1, terminated or truncated
    assert decisions < 2000  # RLlib's 4000 decisions per iteration, on two env runners
    assert info["goodput_mbps"] > 0  # the end of the scenario, not a cut: the totals are there
    whole = gym.make("orbitcc/LeoPath-v0", duration_s=300).unwrapped
    whole.reset(seed=1)
    assert whole.scenario.duration_s == 300


KNOWN = """
{order}
from ray.tune.registry import ENV_CREATOR, _global_registry
for name in ("orbitcc/LeoPath-v0", "orbitcc-flows", "orbitcc-worlds"):
    assert _global_registry.contains(ENV_CREATOR, name), name
one = _global_registry.get(ENV_CREATOR, "orbitcc/LeoPath-v0")({{"preset": "ratios"}})
assert one.unwrapped.config.preset.name == "ratios"
many = _global_registry.get(ENV_CREATOR, "orbitcc/LeoPath-v0")({{"num_envs": 3}})
assert many.num_envs == 3
"""

IN_WORKERS = """
import ray, orbitcc
from ray.rllib.algorithms.ppo import PPOConfig
config = PPOConfig().environment("orbitcc/LeoPath-v0", env_config={"duration_s": 3}).env_runners(num_env_runners=2)
config.training(train_batch_size_per_learner=400, minibatch_size=100, num_epochs=1)
for cluster in range(2):  # the second Ray knows the ids as well
    ray.init(num_cpus=2, include_dashboard=False)
    algorithm = config.copy().build_algo()
    result = algorithm.train()["env_runners"]
    print(result["episode_return_mean"], result["episode_len_mean"])
    algorithm.stop()
    ray.shutdown()
"""


def in_a_process(code: str) -> str:
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "order", ["import orbitcc, ray.rllib", "import ray.rllib, orbitcc", "import ray, orbitcc, gymnasium"]
)
def test_rllib_knows_the_ids_whichever_is_imported_first(order: str) -> None:
    pytest.importorskip("ray")
    pytest.importorskip("torch")
    in_a_process(KNOWN.format(order=order))


@pytest.mark.slow
def test_remote_env_runners_find_an_id_that_only_the_driver_imports() -> None:
    pytest.importorskip("ray")
    pytest.importorskip("torch")
    lines = in_a_process(IN_WORKERS).strip().splitlines()[-2:]
    for line in lines:
        episode_return, length = map(float, line.split())
        assert abs(episode_return) < 100
        assert 90 <= length <= 100  # 3 s of 30 ms
