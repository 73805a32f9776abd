"""PPO, SAC and DQN through RLlib, end to end."""

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.policy import network
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.scenarios import get
from tests.training.named import of

pytest.importorskip("ray.rllib")

START_UP_S = 240


def command(out: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-c",
        "from orbitcc.cli import main; main()",
        "train",
        of("ppo-mixed"),
        "--out",
        str(out),
        *more,
    ]


def small(*more: str) -> list[str]:
    settings = (
        "scenario=train-leo",
        "agent_steps=6000",
        "learner.batch_world_steps=512",
        "learner.worlds=4",
        "learner.minibatch=256",
        "learner.epochs=2",
        "evaluation.every=3000",
        "evaluation.worlds=2",
        *more,
    )
    each_once = {setting.partition("=")[0]: setting for setting in settings}
    return [word for setting in each_once.values() for word in ("--set", setting)]


def tags(run: Path) -> set[str]:
    return {line.split(",")[1] for line in (run / "metrics.csv").read_text(encoding="utf-8").splitlines()[1:]}


@pytest.mark.slow
def test_training_leaves_a_run_folder_that_is_resumed_after_a_kill(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command(tmp_path, *small("agent_steps=10_000_000")), env=environment)
    deadline = time.monotonic() + START_UP_S
    state = None
    while time.monotonic() < deadline and process.poll() is None:
        found = list(tmp_path.glob("*/state/progress.json"))
        if found and json.loads(found[0].read_text(encoding="utf-8"))["agent_steps"] > 0:
            state = found[0]
            break
        time.sleep(0.5)
    assert state is not None
    process.send_signal(signal.SIGTERM)  # as batch systems do; Ray takes this signal, too
    assert process.wait(timeout=120) == 130
    run = state.parent.parent
    reached = json.loads(state.read_text(encoding="utf-8"))["agent_steps"]

    config = RunFolder(run).config()
    config["recipe"]["agent_steps"] = reached + 2000
    RunFolder(run).write_config(config)
    done = subprocess.run(
        command(tmp_path, "--resume", "--json"), env=environment, capture_output=True, text=True, timeout=START_UP_S
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["finished"]
    assert result["agent_steps"] > reached
    assert Path(result["run"]) == run

    assert list(run.glob("events.out.tfevents.*"))
    assert {"train/reward", "heldout/reward", "heldout/utilisation", "heldout/queue_delay_ms", "heldout/loss"} <= tags(
        run
    )
    assert {"learner/policy_loss", "learner/value_loss", "learner/entropy", "learner/kl"} <= tags(run)
    steps = [int(line.split(",")[0]) for line in (run / "metrics.csv").read_text(encoding="utf-8").splitlines()[1:]]
    assert steps == sorted(steps)
    for name in ("best", "last"):
        loaded = checkpoint.load(run / name)
        assert loaded.card.training_range.scenario == "train-leo"
        assert loaded.policy.act(np.zeros((2, 50), np.float32)).shape == (2, 1)


@pytest.mark.slow
def test_the_exported_policy_acts_as_the_learner_does() -> None:
    import torch

    from orbitcc.agents.model_card import CardObservation
    from orbitcc.agents.policy import build
    from orbitcc.envs.environments.presets import definition_hash
    from orbitcc.training import recipe, rllib

    plan = recipe.load(of("ppo-mixed"), ["scenario=dumbbell"])
    config = rllib.config(plan, seed=1)
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    module = MultiAgentEnvRunner(config).module[rllib.MODULE]
    card = checkpoint.read_card(checkpoint.SHIPPED / "perigee")
    changes = {
        "observation": CardObservation(preset="astraea", dim=50, hash=definition_hash("observation", "astraea")),
        "layers": plan.network.layers(1),
        "normaliser": False,
        "squash": "clip",
    }
    policy = build(card.model_copy(update=changes), rllib.export(module, plan))
    obs = np.random.default_rng(0).uniform(0, 2, (64, 50)).astype(np.float32)
    with torch.no_grad():
        means = module.forward_inference({"obs": torch.from_numpy(obs)})["action_dist_inputs"][:, :1].numpy()
    assert np.allclose(policy.act(obs), np.clip(means, -1, 1), atol=1e-5)


@pytest.mark.slow
def test_sac_samples_flows_natively_and_its_exported_policy_acts_as_it_does() -> None:
    import torch

    from orbitcc import _sim
    from orbitcc.envs.environments.flow_vector import FlowVectorEnv
    from orbitcc.training import recipe, rllib

    plan = recipe.load(of("rllib-sac-leo"), ["scenario=train-leo", "learner.flows=6"])
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    runner = SingleAgentEnvRunner(config=rllib.config(plan, seed=1))
    assert isinstance(runner.env.unwrapped, FlowVectorEnv)
    episodes = runner.sample(num_timesteps=60, random_actions=True)
    assert sum(len(episode) for episode in episodes) >= 60
    module = runner.module
    tensors = rllib.export(module, plan)
    layers = network(plan.network.layers(1), None, tensors)
    settings = {"observation": '"astraea-leo"', "action": '"astraea"', "interval_ns": 30_000_000}
    policy = _sim.Policy(**layers, **settings, squash="tanh")
    obs = np.random.default_rng(0).uniform(0, 1, (64, 50)).astype(np.float32)
    with torch.no_grad():
        # RLlib's own deterministic action forgets the tanh that its samples go through
        expected = torch.tanh(module.forward_inference({"obs": torch.from_numpy(obs)})["action_dist_inputs"][:, :1])
    expected = expected.numpy()
    assert expected.std() > 1e-4
    assert np.allclose(policy.act(obs), expected, atol=1e-5)


def staggered(folder: Path) -> str:
    """A scenario file whose agents come late and leave early: steps 0 to 200, 33 to 100, and 66 to 200."""
    flows = [
        Flow(controller="external"),
        Flow(controller="external", start_s=1, stop_s=3),
        Flow(controller="external", start_s=2),
    ]
    return str(get("dumbbell", duration_s=6).with_flows(flows).save(folder / "staggered.toml"))


def test_sac_samples_complete_episodes_of_whole_worlds_and_new_worlds_every_time(tmp_path: Path) -> None:
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    from orbitcc.training import recipe, rllib

    plan = recipe.load(of("rllib-sac-worlds"), [f"scenario={staggered(tmp_path)}", "learner.worlds=2"])
    runner = MultiAgentEnvRunner(rllib.config(plan, seed=1))
    samples = [runner.sample() for _ in range(2)]
    for episodes in samples:
        assert len(episodes) == 2
        for episode in episodes:
            assert episode.is_truncated
            lengths = {name: len(part) for name, part in episode.agent_episodes.items()}
            assert 195 <= lengths["flow_0"] <= 200
            assert 60 <= lengths["flow_1"] <= 67
            assert 125 <= lengths["flow_2"] <= 134
            assert all(part.is_truncated and not part.is_terminated for part in episode.agent_episodes.values())
    first = [episode.agent_episodes["flow_0"].get_observations() for sample in samples for episode in sample]
    assert all(not np.array_equal(one, other) for one, other in itertools.combinations(first, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rllib-sac-worlds", "rllib-sac-leo", "rllib-dqn-leo"])
def test_learners_with_replay_learn_from_flows_that_come_and_go_and_go_on_where_they_stopped(
    name: str, tmp_path: Path
) -> None:
    from orbitcc.agents.runs.run_folder import RunFolder
    from orbitcc.training import loop, recipe
    from orbitcc.training.heldout import HeldOut

    if name == "rllib-sac-worlds":
        own = ["worlds=2", "batch_world_steps=400", "minibatch=32", "update_every_world_steps=40"]
        own += ["learning_starts_world_steps=400"]
    else:
        own = ["flows=6", "batch=400", "training.train_batch_size_per_learner=32", "training.training_intensity=0.8"]
        own += ["training.num_steps_sampled_before_learning_starts=400"]
    few = ["agent_steps=2000", "evaluation.every=1000", "evaluation.worlds=1"]
    changes = [f"scenario={staggered(tmp_path)}", *few, *(f"learner.{change}" for change in own)]
    plan = recipe.load(of(name), changes)
    run = RunFolder.create(tmp_path, plan.scenario, plan.name, 1, {"recipe": plan.model_dump(), "revision": "test"})
    first = loop.train(plan, 1, run, resume=False, command="test")
    assert first.finished
    before = checkpoint.read_tensors(run.last)
    longer = recipe.load(of(name), [*changes, f"agent_steps={first.agent_steps + 500}"])
    second = loop.train(longer, 1, run, resume=True, command="test")
    assert second.agent_steps > first.agent_steps
    with open(run.state / "replay.pkl", "rb") as file:
        kept = pickle.load(file)
    if name == "rllib-sac-worlds":
        assert all(episode.is_truncated for episode in kept.episodes)
        assert kept.get_num_agent_timesteps() == second.agent_steps  # those from before the break, too
    else:
        assert kept.get_num_timesteps() == second.agent_steps
    assert {"train/reward", "heldout/reward", "learner/critic_loss"} <= tags(run.path)
    assert ("learner/alpha" in tags(run.path)) == ("sac" in name)
    assert any(not np.array_equal(before[key], value) for key, value in checkpoint.read_tensors(run.last).items())
    worlds, policy = HeldOut(plan.scenario, plan.preset, worlds=1, seed=7), checkpoint.load(run.last).policy
    assert 0 < worlds.score(policy)["utilisation"] <= 1
    assert np.isfinite(worlds.reward(policy.act))  # `score` gives none for a policy that floods, as these may


def test_the_exported_policy_of_dqn_selects_the_factor_with_the_largest_value() -> None:
    import torch
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from orbitcc import _sim
    from orbitcc.training import recipe, rllib

    for changes in ([], ["learner.training.dueling=false"]):
        plan = recipe.load(of("rllib-dqn-leo"), ["learner.flows=2", *changes])
        module = SingleAgentEnvRunner(config=rllib.config(plan, seed=1)).module
        tensors = rllib.export(module, plan)
        layers = network(plan.network.layers(7), None, tensors)
        settings = {"observation": '"astraea-leo"', "interval_ns": 30_000_000, "squash": "argmax"}
        policy = _sim.Policy(**layers, action='"window-factors"', **settings)
        obs = np.random.default_rng(0).uniform(0, 1, (256, 50)).astype(np.float32)
        with torch.no_grad():
            values = module.forward_inference({"obs": torch.from_numpy(obs)})
        best = np.asarray(values["actions"])
        assert len(set(best)) > 1
        assert np.array_equal(np.rint((policy.act(obs)[:, 0] + 1) * 3), best)
        with pytest.raises(ValueError, match="7 outputs for argmax, the action no list of factors"):
            _sim.Policy(**layers, action='"log-window"', **settings)


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        (["learner.algorithm=A2C"], "learner.algorithm", "APPO, DQN, IMPALA"),
        (["learner.algorithm=json:JSONDecoder"], "learner.algorithm", "cannot name other code"),
        (["learner.algorithm=ray.rllib.algorithms.ppo:PPO"], "learner.algorithm", "AlgorithmConfig"),
        (["learner.algorithm=ray.rllib.algorithms.none:Config"], "learner.algorithm", "can be imported"),
        (
            ["learner.training.replay_buffer_config={ type = 'json.JSONDecoder' }"],
            "learner.training.replay_buffer_config.type",
            "cannot name code",
        ),
        (["learner.training.lr_rate=1e-3"], "learner.training.lr_rate", "lr"),
        (["learner.sampling.fragment=1"], "learner.sampling.fragment", "rollout_fragment_length"),
        (["learner.training.n_step=9"], "learner", "rollout_fragment_length"),
        (["preset=astraea-leo"], "preset.action", "window-factors"),
        (
            ["preset=astraea-leo", "learner.algorithm=ray.rllib.algorithms.dqn:DQNConfig"],
            "preset.action",
            "window-factors",
        ),
        (["learner.algorithm=SAC"], "preset.action", "steps, with SAC"),
    ],
)
def test_settings_that_rllib_cannot_take_are_refused(changes: list[str], field: str, says: str) -> None:
    from orbitcc.common.errors import OrbitccError
    from orbitcc.training import recipe, rllib

    with pytest.raises(OrbitccError) as refused:
        rllib.config(recipe.load(of("rllib-dqn-leo"), changes), seed=1)
    assert refused.value.field == field
    assert says in str(refused.value)


def test_a_class_of_rllib_is_a_path_to_its_configuration() -> None:
    from orbitcc.training import recipe, rllib

    plan = recipe.load(of("rllib-dqn-leo"), ["learner.algorithm=ray.rllib.algorithms.dqn:DQNConfig"])
    config = rllib.config(plan, seed=3)
    assert type(config).__name__ == "DQNConfig"
    assert (config.n_step, config.seed, config.num_envs_per_env_runner) == (3, 3, 64)


@pytest.mark.parametrize(
    ("algorithm", "action"), [("PPO", "window-factors"), ("APPO", "astraea"), ("IMPALA", "window-factors")]
)
def test_both_kinds_of_actions_are_exported(algorithm: str, action: str) -> None:
    import torch
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from orbitcc import _sim
    from orbitcc.training import recipe, rllib

    plan = recipe.Recipe.build(
        {
            "name": "one",
            "algorithm": "rllib",
            "scenario": "train-leo",
            "preset": {"base": "astraea-leo", "action": action},
            "agent_steps": 100,
            "network": {"hidden": [8, 8]},
            "learner": {"algorithm": algorithm, "flows": 2},
        }
    )
    module = SingleAgentEnvRunner(config=rllib.config(plan, seed=1)).module
    tensors = rllib.export(module, plan)
    squash = "clip" if action == "astraea" else "argmax"
    layers = network(plan.network.layers(1 if action == "astraea" else 7), None, tensors)
    settings = {"observation": '"astraea-leo"', "interval_ns": 30_000_000, "squash": squash}
    policy = _sim.Policy(**layers, action=json.dumps(action), **settings)
    obs = np.random.default_rng(0).uniform(0, 1, (64, 50)).astype(np.float32)
    with torch.no_grad():
        outputs = module.forward_inference({"obs": torch.from_numpy(obs)})["action_dist_inputs"].numpy()
    if action == "astraea":
        assert np.allclose(policy.act(obs)[:, 0], np.clip(outputs[:, 0], -1, 1), atol=1e-5)
    else:
        assert np.array_equal(np.rint((policy.act(obs)[:, 0] + 1) * 3), outputs.argmax(1))
