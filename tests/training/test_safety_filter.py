"""The safety filter of a recipe: in the worlds of every learner, in the evaluations, and in every card."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from orbitcc.agents import checkpoint
from orbitcc.envs.environments.safety import SafetyFilter
from orbitcc.training import loop, recipe
from orbitcc.training.astraea_td3 import AstraeaTd3Learner
from orbitcc.training.ppo import PpoLearner
from tests.training.named import of

WORLD = 'scenario={name="train-leo", duration_s=8, rate_mbps={low=5, high=10}}'
SMALL = (WORLD, "safety_filter={max_bdp=2, patience_s=0.5}", "evaluation.every=600", "evaluation.worlds=2")
OF = {
    "ppo-leo": ("agent_steps=1200", "learner.flows=8", "learner.batch=512", "learner.minibatch=256"),
    "astraea": (
        "agent_steps=1200", "least_agent_steps=1", "learner.worlds=4", "learner.iteration=400", "learner.batch=64",
        "learner.learning_starts=200", "learner.replay=1000",
    ),
    "sb3-ppo-leo": ("agent_steps=1200", "learner.flows=8", "learner.batch=512", "learner.minibatch=256"),
}  # fmt: skip


@pytest.mark.parametrize("name", OF)
def test_a_training_with_a_filter_leaves_policies_with_it(name: str, tmp_path: Path, monkeypatch) -> None:
    if name.startswith("sb3"):
        pytest.importorskip("stable_baselines3")
    plan = recipe.load(of(name), [*SMALL, *OF[name]])
    recipe.check_names(plan)
    seen, heldout = [], loop.HeldOut
    monkeypatch.setattr(loop, "HeldOut", lambda *given: seen.append(given[1]) or heldout(*given))
    run = loop.new_run(plan, 1, tmp_path, "test", "run")
    result = loop.train(plan, 1, run, resume=False, command="test")
    assert result.finished
    limits = plan.used_preset.safety_filter
    assert isinstance(limits, SafetyFilter)
    assert (limits.max_bdp, limits.patience_s) == (2.0, 0.5)
    assert limits.max_rate_mbps < 1e9, "the training range is known"
    assert [used.safety_filter for used in seen] == [limits]
    for folder in (run.best, run.last):
        loaded = checkpoint.load(folder)
        assert loaded.card.safety_filter == loaded.preset.safety_filter == limits


def test_the_filter_is_in_the_worlds_of_our_learners() -> None:
    ppo = PpoLearner(recipe.load("ppo-leo", [*SMALL, *OF["ppo-leo"]]), 1)
    td3 = AstraeaTd3Learner(recipe.load("astraea", [*SMALL, *OF["astraea"]]), 1)
    for learner, used in ((ppo, ppo._env.preset), (td3, td3.env.config.preset)):
        assert used.safety_filter == learner.recipe.used_preset.safety_filter is not None
        learner.stop()


def test_the_filter_is_in_the_worlds_of_rllib() -> None:
    pytest.importorskip("ray.rllib")
    from orbitcc.training.rllib import config

    for name in ("rllib-ppo-leo", "rllib-sac-leo", "rllib-sac-worlds", "ppo-mixed"):
        plan = recipe.load(of(name), [*SMALL[:2]])
        given = config(plan, 1).env_config["preset"]
        assert given.safety_filter == plan.used_preset.safety_filter is not None, name
    given = config(recipe.load("astraea", [*recipe.by_learner(recipe.load("astraea"), "rllib"), *SMALL]), 1)
    assert given.env_config["preset"].safety_filter is not None


def test_without_the_table_nothing_is_filtered() -> None:
    plan = recipe.load("ppo-leo")
    assert plan.used_preset.safety_filter is None
    assert checkpoint.decisions_of(plan.used_preset)["safety_filter"] is None
