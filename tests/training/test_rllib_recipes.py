"""Recipes of our own PPO, trained by RLlib: networks, normalisation, schedules, and what is refused."""

import math

import numpy as np
import pytest
from gymnasium import spaces

from orbitcc.agents import checkpoint
from orbitcc.agents.policy import build
from orbitcc.common.errors import OrbitccError
from orbitcc.training import privileged, recipe
from orbitcc.training.networks import Moments
from tests.commands.shell import called

pytest.importorskip("ray.rllib")
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from orbitcc.training.rllib import export
from orbitcc.training.rllib.configs import module_config
from orbitcc.training.rllib.critic import CentralCritic, PrivilegedFlows, RunningScale, ScheduledLearner

ACTIONS = spaces.Box(-1, 1, (1,), np.float32)


SEEN = 23
"""Features that the recipe zenith observes."""


def zenith() -> recipe.Recipe:
    return recipe.load("zenith", recipe.by_learner(recipe.load("zenith"), "rllib"))


def seen_by(state: int, seen: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (seen + state,), np.float32)


def test_experts_and_normaliser_are_exported_to_a_native_policy_that_acts_alike() -> None:
    torch.manual_seed(0)
    plan = zenith()
    own = {**checkpoint.decisions_of(plan.used_preset), "gate": plan.network.gate(SEEN), "normaliser": True}
    own["layers"] = plan.network.layers(1)
    card = checkpoint.read_card(checkpoint.SHIPPED / "zenith-rllib").model_copy(update=own)
    module = CentralCritic(
        observation_space=seen_by(privileged.DIM, SEEN), action_space=ACTIONS, model_config=module_config(plan)
    )
    with torch.no_grad():
        module.pi.experts[-1].weight *= 100  # actions worth comparing
        module.pi.gate[-1].weight *= 20
    module.scale.note(torch.randn(500, SEEN) * 3 + 1, 1.0)
    module.scale.fold()
    policy = build(card, export(module, plan))
    obs = np.random.default_rng(0).normal(1, 3, (64, SEEN + privileged.DIM)).astype(np.float32)
    with torch.no_grad():
        means = module.forward_inference({"obs": torch.from_numpy(obs)})["action_dist_inputs"][:, :1].numpy()
    assert means.std() > 0.1
    assert np.allclose(policy.act(np.ascontiguousarray(obs[:, :SEEN])), np.clip(means, -1, 1), atol=1e-5)


def test_only_the_value_reads_the_privileged_inputs() -> None:
    module = CentralCritic(
        observation_space=seen_by(privileged.DIM, SEEN), action_space=ACTIONS, model_config=module_config(zenith())
    )
    obs = torch.randn(8, SEEN + privileged.DIM, requires_grad=True)
    (by_policy,) = torch.autograd.grad(module.forward_train({"obs": obs})["action_dist_inputs"].sum(), obs)
    (by_value,) = torch.autograd.grad(module.compute_values({"obs": obs}).sum(), obs)
    assert (by_policy[:, SEEN:] == 0).all()
    assert (by_value[:, SEEN:] != 0).all()


def test_minibatches_of_several_passes_give_the_mean_and_deviation_of_all_rows() -> None:
    rows = np.random.default_rng(1).normal(2, 5, (3, 400, 4)).astype(np.float32)
    scale, wanted = RunningScale(4), Moments(4)
    for iteration in rows:
        for _ in range(2):
            for part in np.split(iteration, 4):
                scale.note(torch.from_numpy(part), 0.5)
        scale.fold()
        wanted.update(iteration)
    everything = rows.reshape(-1, 4)
    assert np.allclose(scale.mean.numpy(), everything.mean(0), rtol=1e-5)
    assert np.allclose(scale.std.numpy(), everything.std(0), rtol=1e-5)
    assert np.allclose(scale(torch.from_numpy(everything)).numpy(), wanted(everything), atol=1e-5)


@pytest.mark.parametrize(("steps", "deviation"), [(0, 0.4), (2_000_000, 0.315), (8_000_000, 0.06), (9_000_000, 0.06)])
def test_exploration_follows_the_recipe(steps: int, deviation: float) -> None:
    """From 0.4 to 0.06 within eight million steps: 0.4 - 0.34 / 4 after a quarter of them."""
    learner = (
        PPOConfig()
        .learners(num_learners=0, learner_class=ScheduledLearner)
        .rl_module(rl_module_spec=RLModuleSpec(CentralCritic, model_config=module_config(zenith())))
        .training(use_kl_loss=False)
        .build_learner(spaces={"default_policy": (seen_by(privileged.DIM, SEEN), ACTIONS)})
    )
    learner.after_gradient_based_update(timesteps={"num_env_steps_sampled_lifetime": steps})
    assert math.exp(learner.module["default_policy"].log_std.item()) == pytest.approx(deviation, rel=1e-6)
    assert not any("log_std" in name for name, _ in learner.module["default_policy"].named_parameters())


def test_flows_end_with_the_privileged_inputs() -> None:
    env = PrivilegedFlows(3, "dumbbell", preset="ratios")
    obs, _ = env.reset(seed=1)
    seen = env.preset.observation_space().shape[0]
    for _ in range(30):
        obs, *_ = env.step(np.zeros((3, 1), np.float32))
    assert obs.shape == (3, seen + privileged.DIM)
    rate, own = env.statistics()[:, [privileged.COLUMNS[0], privileged.COLUMNS[5]]].T
    assert np.allclose(obs[:, seen + 12], np.log10(rate / 1e6))
    assert np.allclose(obs[:, seen + 13], np.log10(own / 1e6))


@pytest.mark.parametrize("change", ["squash=tanh", "kl_target=0.01", "value_loss=huber", "critic_first=10"])
def test_what_rllibs_loss_lacks_is_refused(change: str) -> None:
    changes = recipe.by_learner(recipe.load("zenith"), "rllib")
    with pytest.raises(OrbitccError, match=rf"^learner\.{change.split('=')[0]}: unknown name"):
        recipe.load("zenith", [*changes, f"learner.{change}"])


def test_settings_of_rllib_alone_can_be_set(tmp_path) -> None:
    done = called(
        "train", "zenith", "--learner", "rllib", "--set", "learner.env_runners=-1", "--out", str(tmp_path / "runs")
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: learner.env_runners: -1 is not allowed")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("name", "learner"), [("zenith", "tianshou"), ("sb3-ppo-leo", "rllib")])
def test_a_learner_that_cannot_train_the_recipe_is_refused(name: str, learner: str, tmp_path) -> None:
    done = called("train", name, "--learner", learner, "--out", str(tmp_path / "runs"))
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: learner: '{learner}' is not allowed; allowed: rllib, for recipes with ppo or astraea-td3"
    )
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()
