"""Policies of RLlib and Stable-Baselines3 from their own files."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from orbitcc.agents import libraries, python_policy
from orbitcc.agents.registry import policy_spec
from orbitcc.commands.run import prepare
from orbitcc.common.errors import OrbitccError, OrbitccWarning
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.environments.rllib import RLlibCongestionEnv
from orbitcc.eval.contenders import from_policy
from orbitcc.eval.trace import trace
from orbitcc.parallel import cluster

pytest.importorskip("ray.rllib")
pytest.importorskip("stable_baselines3")
pytestmark = pytest.mark.slow

THREE = {"base": "ratios", "action": {"name": "window-factors", "factors": [0.8, 1.0, 1.25]}}
SHORT = {"scenario": "inter-rtt", "duration_s": 3, "join_s": 0.5}


class Recorded(gymnasium.Wrapper):
    """Keeps what RLlib's env runner saw and did in the last episode."""

    seen: list = []  # noqa: RUF012
    done: list = []  # noqa: RUF012

    def reset(self, **arguments):
        observation, info = self.env.reset(**arguments)
        Recorded.seen, Recorded.done = [observation], []
        return observation, info

    def step(self, action):
        observation, *rest = self.env.step(action)
        Recorded.done.append(action)
        Recorded.seen.append(observation)
        return observation, *rest


class RecordedWorlds(RLlibCongestionEnv):
    """The same of `flow_0` and `flow_1`."""

    seen: dict = {}  # noqa: RUF012
    done: dict = {}  # noqa: RUF012

    def reset(self, **arguments):
        observations, infos = super().reset(**arguments)
        RecordedWorlds.seen = {agent: [row] for agent, row in observations.items()}
        RecordedWorlds.done = {}
        return observations, infos

    def step(self, action_dict):
        for agent, action in action_dict.items():
            self.done.setdefault(agent, []).append(action)
        observations, *rest = super().step(action_dict)
        for agent, row in observations.items():
            self.seen.setdefault(agent, []).append(row)
        return observations, *rest


def recorded(config: dict) -> gymnasium.Env:
    return Recorded(gymnasium.make("orbitcc/Dumbbell-v0", **config))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Any:
    """Checkpoints by name, and what RLlib did in one episode: observations and actions of an agent."""
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.connectors.env_to_module import MeanStdFilter
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.tune.registry import register_env

    from orbitcc.training.rllib.critic import CentralCritic

    folder, short = tmp_path_factory.mktemp("made"), Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    ray.init("local", num_cpus=1, include_dashboard=False, _temp_dir=str(short))
    register_env("recorded", recorded)
    found: dict[str, tuple[list, list]] = {}

    def build(name: str, env: Any, env_config: dict, runners: dict | None = None, model: Any = None, **more: Any):
        config = (
            PPOConfig()
            .environment(env, env_config=env_config)
            .env_runners(num_env_runners=0, **(runners or {}))
            .rl_module(**(model or {}))
            .debugging(seed=1, log_level="ERROR")
        )
        if more:
            config.multi_agent(**more)
        algorithm = config.build_algo()
        runner = algorithm.env_runner
        runner.sample(num_episodes=1, explore=True)
        for connector in runner._env_to_module.connectors:
            if isinstance(connector, MeanStdFilter):
                connector._update_stats = False
        runner.sample(num_episodes=1, explore=False)
        algorithm.save_to_path(str(folder / name))
        algorithm.stop()

    once = {"duration_s": 2, "preset": "ratios"}
    build("filtered", "recorded", once, {"env_to_module_connector": lambda env, spaces, device: MeanStdFilter()})
    found["filtered"] = Recorded.seen, Recorded.done
    lstm = {"model_config": DefaultModelConfig(fcnet_hiddens=[16], use_lstm=True, lstm_cell_size=8, max_seq_len=16)}
    build("lstm", "recorded", once, model=lstm)
    found["lstm"] = Recorded.seen, Recorded.done
    build("factors", "recorded", {"duration_s": 2, "preset": THREE})
    found["factors"] = Recorded.seen, Recorded.done
    build(
        "worlds",
        RecordedWorlds,
        {**SHORT, "preset": "ratios"},
        policies={"left", "right"},
        policy_mapping_fn=lambda agent, *_, **__: "left" if agent == "flow_0" else "right",
    )
    found["left"] = RecordedWorlds.seen["flow_0"], RecordedWorlds.done["flow_0"]
    found["right"] = RecordedWorlds.seen["flow_1"], RecordedWorlds.done["flow_1"]
    critic = {"scenario": "dumbbell", "duration_s": 2, "preset": "ratios", "global_state": True}
    vector = {"gym_env_vectorize_mode": "vector_entry_point", "num_envs_per_env_runner": 2}
    build("central", "orbitcc-flows", critic, vector, {"rl_module_spec": RLModuleSpec(CentralCritic)})
    build("peeking", "orbitcc-flows", critic, vector)
    build("id", "orbitcc/Dumbbell-v0", {"duration_s": 2})
    yield folder, found
    ray.shutdown()
    shutil.rmtree(short, ignore_errors=True)


@pytest.fixture
def trusting(made, monkeypatch):
    monkeypatch.setattr(libraries, "_trusted", {made[0].resolve()})
    return made


@pytest.mark.parametrize("name", ["filtered", "lstm", "factors"])
def test_decisions_are_those_of_rllibs_env_runner_without_exploration(trusting, name: str) -> None:
    folder, found = trusting
    seen, done = found[name]
    act = python_policy.Run(f"rllib:{folder / name}").begin()
    assert len(done) > 50
    for row, action in zip(seen, done, strict=False):
        expected = np.clip(action, -1, 1) if name != "factors" else float(action) - 1.0
        assert act(row[None])[0, 0] == pytest.approx(np.ravel(expected)[0], abs=1e-6)


def test_an_environment_of_somebody_else_is_named(trusting) -> None:
    """What wrappers do to observations is no part of a checkpoint."""
    folder, _ = trusting
    with pytest.warns(OrbitccWarning, match="was trained in recorded, none of our environments.* preset ratios"):
        libraries.load(f"rllib:{folder / 'filtered'}")
    with pytest.warns(OrbitccWarning, match="was trained in RecordedWorlds"):
        libraries.load(f"rllib:{folder / 'worlds'}:module=left")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        libraries.load(f"rllib:{folder / 'id'}")
        libraries.load(f"rllib:{folder / 'central'}")


@pytest.mark.parametrize("module", ["left", "right"])
def test_each_of_several_policies_decides_as_in_training(trusting, module: str) -> None:
    folder, found = trusting
    seen, done = found[module]
    act = python_policy.Run(f"rllib:{folder / 'worlds'}:module={module}").begin()
    for row, action in zip(seen, done, strict=False):
        assert act(row[None])[0, 0] == pytest.approx(float(np.clip(action[0], -1, 1)), abs=1e-6)


def test_the_policy_among_several_must_be_named(trusting) -> None:
    folder, _ = trusting
    with pytest.raises(OrbitccError, match=r"worlds:module=left, .*worlds:module=right"):
        from_policy(f"rllib:{folder / 'worlds'}")
    with pytest.raises(OrbitccError, match="did you mean 'left'"):
        from_policy(f"rllib:{folder / 'worlds'}:module=lef")
    with pytest.raises(OrbitccError, match="a checkpoint of several policies"):
        from_policy(f"rllib:{folder / 'id' / libraries.MODULES / 'default_policy'}:module=x,preset=astraea")


def test_the_state_of_a_recurrent_policy_belongs_to_its_flow(trusting) -> None:
    folder, found = trusting
    seen, _ = found["lstm"]
    run = python_policy.Run(f"rllib:{folder / 'lstm'}")
    alone, beside, other = run.begin(), run.begin(), run.begin()
    for row in seen[:20]:
        expected = alone(row[None])
        other(row[None] * 0.5)
        assert np.array_equal(beside(row[None]), expected)
    assert not np.array_equal(other(seen[0][None]), run.begin()(seen[0][None]))


def test_a_module_alone_decides_as_in_its_algorithm(trusting) -> None:
    folder, found = trusting
    seen, _ = found["lstm"]
    module = folder / "lstm" / libraries.MODULES / "default_policy"
    with pytest.raises(OrbitccError, match=r"not known.*default_policy:preset=NAME"):
        from_policy(f"rllib:{module}")
    whole = python_policy.Run(f"rllib:{folder / 'lstm'}").begin()
    alone = python_policy.Run(f"rllib:{module}:preset=ratios").begin()
    for row in seen[:20]:
        assert alone(row[None]) == pytest.approx(whole(row[None]), abs=1e-6)
    with pytest.raises(OrbitccError, match="preset astraea"):
        from_policy(f"rllib:{module}:preset=astraea")


def test_columns_for_the_critic_alone_are_not_needed(trusting) -> None:
    folder, _ = trusting
    assert from_policy(f"rllib:{folder / 'central'}").label == "rllib:central"
    with pytest.raises(OrbitccError, match="does not read the global state"):
        from_policy(f"rllib:{folder / 'peeking'}")


def test_a_policy_plays_and_is_traced(trusting, tmp_path: Path) -> None:
    folder, _ = trusting
    name = f"rllib:{folder / 'filtered'}"
    scenario = prepare("dumbbell", [], [name, name], ["duration_s=2"], None)
    assert all(flow["sent_packets"] > 10 for flow in simulate(scenario).flow_totals)
    traced = trace(scenarios.get("dumbbell", duration_s=2), name)
    assert traced.policy == name
    assert len(traced.labels) == traced.inputs.shape[1]
    assert len(traced.actions) > 50
    assert traced.actions.std() > 0


def test_weights_trained_anew_are_another_contender(trusting, tmp_path: Path) -> None:
    folder, _ = trusting
    one, two = (from_policy(f"rllib:{folder / name}") for name in ("filtered", "lstm"))
    assert (one.label, one.controller) == ("rllib:filtered", "policy")
    assert one.params == {"path": f"rllib:{folder / 'filtered'}"}
    copy = tmp_path / "filtered"
    shutil.copytree(folder / "filtered", copy)
    libraries.trust([tmp_path])
    assert from_policy(f"rllib:{copy}").digest == one.digest != two.digest
    weights = libraries.MODULES / "default_policy" / "module_state.pkl"
    shutil.copy(folder / "lstm" / weights, copy / weights)
    assert libraries.digest(f"rllib:{copy}") != one.digest


def test_nothing_is_loaded_without_trust(made, monkeypatch) -> None:
    folder, _ = made
    monkeypatch.setattr(libraries, "_trusted", set())
    name = f"rllib:{folder / 'id'}"
    with pytest.raises(OrbitccError, match=f"can run code.*--trust {folder / 'id'}"):
        from_policy(name)
    scenario = prepare("dumbbell", [], [name], [], None)  # as a scenario file could name it
    with pytest.raises(OrbitccError, match="--trust"):
        simulate(scenario)
    libraries.trust([folder / "i"])
    with pytest.raises(OrbitccError, match="--trust"):
        from_policy(name)
    libraries.trust([folder / "id"])
    assert from_policy(name).label == "rllib:id"


FILE = """
schema_version = 1
name = "s"
duration_s = 2
[[links]]
name = "bottleneck"
rate_mbps = 20
delay_ms = 10
queue = {kind = "drop_tail_bytes", limit_bytes = 100_000}
[[flows]]
controller = {name = "policy", params = {PARAMS}}
"""


def test_a_file_cannot_give_trust(made, tmp_path: Path, monkeypatch) -> None:
    folder, _ = made
    monkeypatch.setattr(libraries, "_trusted", set())
    path = f'path = "rllib:{folder / "id"}"'
    for params in (path, f'{path}, trust = "{folder}"', f'path = "rllib:{folder / "id"}:trust={folder}"'):
        (tmp_path / "s.toml").write_text(FILE.replace("PARAMS", params))
        with pytest.raises(OrbitccError, match="cannot name code|params.trust: unknown name"):
            simulate(scenarios.load(str(tmp_path / "s.toml"), {}))
    (tmp_path / "s.toml").write_text(f'trust = ["{folder}"]' + FILE.replace("PARAMS", path))
    with pytest.raises(OrbitccError, match="trust"):
        scenarios.load(str(tmp_path / "s.toml"), {})
    libraries.trust([folder])  # a command or a program; a file still cannot name the policy
    (tmp_path / "s.toml").write_text(FILE.replace("PARAMS", path))
    with pytest.raises(OrbitccError, match="cannot name code"):
        scenarios.load(str(tmp_path / "s.toml"), {})


def test_a_folder_of_rllib_is_recognised(made) -> None:
    folder, _ = made
    for path in (folder / "id", folder / "id" / libraries.MODULES / "default_policy"):
        with pytest.raises(OrbitccError, match=f"rllib:{path} for a policy in the files of another library"):
            from_policy(str(path))


def test_options_and_files_are_checked(made) -> None:
    folder, _ = made
    with pytest.raises(OrbitccError, match=r"unknown name 'modul'; did you mean 'module'"):
        from_policy(f"rllib:{folder / 'id'}:modul=x")
    with pytest.raises(OrbitccError, match="no such file"):
        from_policy("rllib:nowhere")
    libraries.trust([folder])
    with pytest.raises(OrbitccError, match="new API stack"):
        from_policy(f"rllib:{folder}")
    contender = from_policy(f"rllib:{folder / 'id'}")
    with pytest.raises(OrbitccError, match="run on this machine"):
        cluster.checkpoints([str(contender.params["path"])])
    assert policy_spec("rllib:x:module=a").params == {"path": "rllib:x:module=a"}


def orbitcc(*args: str) -> subprocess.CompletedProcess[str]:
    code = "from orbitcc.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_trust_reaches_the_workers_of_eval(made, tmp_path: Path) -> None:
    folder, _ = made
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "s.toml").write_text(FILE.replace('{name = "policy", params = {PARAMS}}', '"external"'))
    common = ("eval", str(suite), "--policy", f"rllib:{folder / 'id'}", "--controller", "reno", "--runs", "2")
    refused = orbitcc(*common, "--out", str(tmp_path / "a"))
    assert refused.returncode == 2
    assert "can run code" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    done = orbitcc(*common, "--out", str(tmp_path / "b"), "--workers", "2", "--trust", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    assert [entry["contender"] for entry in json.loads(done.stdout)["contenders"]] == ["reno", "rllib:id"]
    assert "environments" not in done.stderr
    filtered = (f"rllib:{folder / 'filtered'}", "--runs", "2", "--workers", "2", "--trust", str(folder))
    warned = orbitcc("eval", str(suite), "--out", str(tmp_path / "c"), "--policy", *filtered).stderr
    assert warned.count("none of our environments") == 1
    assert warned.count("OrbitccWarning") == 0


@pytest.fixture(scope="module")
def sb3(tmp_path_factory) -> Path:
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    folder = tmp_path_factory.mktemp("sb3")
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("orbitcc/Dumbbell-v0", preset="ratios", duration_s=2)]))
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=32, seed=1)
    model.learn(64)
    model.save(folder / "ppo.zip")
    env.save(str(folder / "vecnormalize.pkl"))
    SAC("MlpPolicy", env.venv, seed=1).save(folder / "sac.zip")
    return folder


def test_a_model_of_stable_baselines_decides_as_it_does_itself(sb3: Path, monkeypatch) -> None:
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    monkeypatch.setattr(libraries, "_trusted", set())
    ppo = f"sb3:{sb3 / 'ppo.zip'}:preset=ratios,normalize={sb3 / 'vecnormalize.pkl'}"
    with pytest.raises(OrbitccError, match=r"--trust .*ppo\.zip"):
        from_policy(ppo)
    libraries.trust([sb3 / "ppo.zip"])
    with pytest.raises(OrbitccError, match=r"--trust .*vecnormalize\.pkl"):
        from_policy(ppo)
    libraries.trust([sb3])
    with pytest.raises(OrbitccError, match=r"not known.*ppo\.zip:preset=NAME"):
        from_policy(f"sb3:{sb3 / 'ppo.zip'}")
    with pytest.raises(OrbitccError, match="preset astraea"):
        from_policy(f"sb3:{sb3 / 'ppo.zip'}:preset=astraea")
    with pytest.raises(OrbitccError, match=f"sb3:{sb3 / 'ppo.zip'} for a policy"):
        from_policy(str(sb3 / "ppo.zip"))
    env = DummyVecEnv([lambda: gymnasium.make("orbitcc/Dumbbell-v0", preset="ratios", duration_s=2)])
    normalize = VecNormalize.load(str(sb3 / "vecnormalize.pkl"), env)
    model, sac = PPO.load(sb3 / "ppo.zip"), SAC.load(sb3 / "sac.zip")
    act = python_policy.Run(ppo).begin()
    smooth = python_policy.Run(f"sb3:{sb3 / 'sac.zip'}:preset=ratios").begin()
    rng = np.random.default_rng(1)
    for _ in range(20):
        row = rng.uniform(0, 1, (1, env.observation_space.shape[0])).astype(np.float32)
        expected, _ = model.predict(normalize.normalize_obs(row), deterministic=True)
        assert act(row) == pytest.approx(expected, abs=1e-6)
        assert smooth(row) == pytest.approx(sac.predict(row, deterministic=True)[0], abs=1e-6)
    assert from_policy(ppo).label == "sb3:ppo.zip:preset=ratios"


def test_a_recurrent_model_of_sb3_contrib_keeps_a_state_per_flow(tmp_path: Path, monkeypatch) -> None:
    contrib = pytest.importorskip("sb3_contrib")
    monkeypatch.setattr(libraries, "_trusted", {tmp_path.resolve()})
    env = gymnasium.make("orbitcc/Dumbbell-v0", preset="ratios", duration_s=2)
    model = contrib.RecurrentPPO("MlpLstmPolicy", env, n_steps=16, seed=1, policy_kwargs={"lstm_hidden_size": 8})
    model.save(tmp_path / "m.zip")
    run = python_policy.Run(f"sb3:{tmp_path / 'm.zip'}:preset=ratios")
    one, other = run.begin(), run.begin()
    rng, state, first = np.random.default_rng(1), None, np.ones(1, bool)
    for _ in range(20):
        row = rng.uniform(0, 1, (1, env.observation_space.shape[0])).astype(np.float32)
        expected, state = model.predict(row, state, first, deterministic=True)
        first = np.zeros(1, bool)
        other(row * 0.3)
        assert one(row) == pytest.approx(expected, abs=1e-6)


def test_settings_beside_the_module_and_a_preset_change_the_digest(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    module = folder / libraries.MODULES / "default_policy"
    module.mkdir(parents=True)
    (folder / "rllib_checkpoint.json").write_text("{}")
    (module / "module_state.pkl").write_bytes(b"weights")
    (folder / "class_and_ctor_args.pkl").write_bytes(b"interval 30")
    before = libraries.digest(f"rllib:{folder}")
    (folder / "class_and_ctor_args.pkl").write_bytes(b"interval 500")
    assert libraries.digest(f"rllib:{folder}") != before
    model, preset = tmp_path / "m.zip", tmp_path / "p.toml"
    model.write_bytes(b"model")
    preset.write_text('base = "astraea"')
    before = libraries.digest(f"sb3:{model}:preset={preset}")
    preset.write_text('base = "orca"')
    assert libraries.digest(f"sb3:{model}:preset={preset}") != before


def test_nothing_waits_for_a_pipe_or_reads_a_device_in_the_place_of_a_policy(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(libraries, "_trusted", set())
    os.mkfifo(tmp_path / "metadata.json")
    (tmp_path / libraries.CLASS_FILE).touch()
    libraries.trust([tmp_path, "/dev/zero"])
    for name in (f"rllib:{tmp_path}", f"sb3:{tmp_path / 'metadata.json'}", "sb3:/dev/zero"):
        with pytest.raises(OrbitccError, match="a readable file"):
            libraries.load(name)
