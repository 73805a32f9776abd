"""RLlib's PPO with one sub-environment per flow: sampling here and in runners, resuming, the documented example."""

import math
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.scenarios import get
from orbitcc.training import loop, recipe

pytest.importorskip("ray.rllib")

from orbitcc.training.rllib import RLlibLearner
from orbitcc.training.rllib.learner import LOGS

pytestmark = pytest.mark.slow

DOCUMENT = Path(__file__).parents[2] / "docs" / "training.md"


def small(folder: Path, *more: str) -> list[str]:
    """Changes of the recipe: worlds of 200 steps, whose second flow changes hands."""
    flows = [Flow(controller="external"), Flow(controller="external", start_s=1, stop_s=3)]
    scenario = get("dumbbell", duration_s=6).with_flows(flows).save(folder / "leavers.toml")
    settings = (
        "preset=astraea-leo",
        "learner.normalise_observations=false",
        "learner.flows=8",
        "learner.batch=1024",
        "learner.minibatch=256",
        "learner.epochs=2",
        "evaluation.worlds=1",
    )
    return [f"scenario={scenario}", *settings, *more]


def spy(learner: RLlibLearner) -> list[tuple[int, float]]:
    """Steps and rewards of what is learned from, noted before each update."""
    group, seen = learner.algorithm.learner_group, []
    update = group.update

    def noting(**arguments):
        episodes = arguments["episodes"]
        seen.append((sum(map(len, episodes)), sum(float(episode.get_return()) for episode in episodes)))
        return update(**arguments)

    group.update = noting
    return seen


@pytest.mark.parametrize("env_runners", [0, 2])
def test_all_that_is_sampled_is_learned_from_and_counted(env_runners, tmp_path: Path) -> None:
    changes = [f"learner.env_runners={env_runners}", "learner.reward_scale=10"]
    learner = RLlibLearner(recipe.load("rllib-ppo-leo", small(tmp_path, *changes)), seed=1)
    try:
        seen = spy(learner)
        logs = Path(learner.algorithm.logdir).parent  # the next training removes it if this one is killed
        assert logs.parent == Path(tempfile.gettempdir())
        assert logs.name.startswith(LOGS)
        before = learner.tensors()
        for _ in range(3):
            figures = learner.iterate()
            steps, rewards = seen[-1]
            assert 1024 <= steps < 1024 + 8 * max(env_runners, 1)
            assert figures["agent_steps"] == steps
            assert figures["train/reward"] == pytest.approx(rewards / steps / 10)
            assert -0.1 <= figures["train/reward"] <= 0.1
        assert {"learner/policy_loss", "learner/value_loss", "learner/entropy", "learner/kl"} <= set(figures)
        after = learner.tensors()
        assert all(not np.array_equal(before[name], value) for name, value in after.items())
        learned = learner.algorithm.learner_group.get_weights()["default_policy"]
        for name, value in after.items():  # what is exported is what the learner has ...
            layer, kind = re.fullmatch(r"layers\.(\d)\.(\w+)", name).groups()
            assert np.array_equal(value, learned[f"pi.{2 * int(layer)}.{kind}"])
        weights = learner.algorithm.env_runner_group.foreach_env_runner(
            lambda runner: {name: value.numpy().copy() for name, value in runner.module.state_dict().items()},
            local_env_runner=env_runners == 0,
        )
        assert len(weights) == max(env_runners, 1)
        for sampler in weights:  # ... and what samples
            assert sampler
            for name, value in sampler.items():
                assert np.array_equal(value, learned[name])
        if env_runners:
            starts = learner.algorithm.env_runner_group.foreach_env_runner(
                lambda runner: runner.sample(num_timesteps=8)[0].get_observations(0), local_env_runner=False
            )
            assert not np.array_equal(*starts)  # each has worlds of its own
    finally:
        learner.stop()
    assert not logs.exists()


def test_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    changes = small(tmp_path, "agent_steps=3000", "evaluation.every=1500", "learner.lr_decay=6000")
    plan = recipe.load("rllib-ppo-leo", changes)
    run = RunFolder.create(tmp_path, plan.scenario, plan.name, 1, {"recipe": plan.model_dump(), "revision": "test"})
    first = loop.train(plan, 1, run, resume=False, command="test")
    assert first.finished
    before = checkpoint.read_tensors(run.last)
    learner = RLlibLearner(plan, seed=2)
    try:
        learner.load(run.state)
        for name, value in learner.tensors().items():
            assert np.array_equal(value, before[name])
        explored = learner.algorithm.get_module("default_policy").log_std.item()
        assert abs(explored - math.log(plan.learner.exploration_std)) > 1e-5
        spent = learner.algorithm.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"))
        assert spent == first.agent_steps  # the learning rate goes on from here
    finally:
        learner.stop()
    longer = recipe.load("rllib-ppo-leo", [*changes, f"agent_steps={first.agent_steps + 500}"])
    second = loop.train(longer, 1, run, resume=True, command="test")
    assert second.agent_steps > first.agent_steps
    loaded = checkpoint.load(run.last)
    assert loaded.card.squash == "clip"
    assert [layer.units for layer in loaded.card.layers] == [64, 64, 1]
    assert loaded.policy.act(np.zeros((2, 50), np.float32)).shape == (2, 1)
    assert any(not np.array_equal(before[name], value) for name, value in checkpoint.read_tensors(run.last).items())


def test_the_five_lines_of_the_documentation_train() -> None:
    import ray

    (snippet,) = [
        text
        for text in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
        if "PPO" in text
    ]
    made: dict = {}
    try:
        exec(snippet, made)
        result = made["algorithm"].train()
        assert result["env_runners"]["num_env_steps_sampled_lifetime"] >= 2 * 16_384
        assert np.isfinite(result["learners"]["default_policy"]["total_loss"])
        made["algorithm"].stop()
    finally:
        ray.shutdown()
