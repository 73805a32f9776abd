"""Astraea's learner in RLlib: inputs of critics, returns, updates, exploration, export, and a run of its recipe."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from orbitcc.agents.model_card import ModelCard
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.presets import STATS
from orbitcc.training import recipe as recipes
from tests.commands.shell import called

pytest.importorskip("ray.rllib")
import torch
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME

from orbitcc.training import astraea_td3
from orbitcc.training.rllib import RLlibLearner, config, export
from orbitcc.training.rllib.td3 import CriticFlows, Experience, Td3Learner, Td3Module, observed

SMALL = (
    "agent_steps=3000",
    "least_agent_steps=1",
    "evaluation.every=1500",
    "evaluation.worlds=2",
    "learner.worlds=4",
    "learner.iteration=500",
    "learner.learning_starts=600",
    "learner.batch=64",
    "learner.replay=2000",
    "network.hidden=[16, 8]",
    "network.critic_hidden=[16, 16]",
)
WIDTH = 4
"""Numbers of an observation that the actor sees."""


def small(*more: str) -> recipes.Recipe:
    return recipes.load("astraea", [*recipes.by_learner(recipes.load("astraea"), "rllib"), *SMALL, *more])


def spaces_of(width: int) -> tuple[spaces.Box, spaces.Box]:
    return spaces.Box(-np.inf, np.inf, (width + CriticFlows.CRITIC_INPUTS,), np.float32), spaces.Box(-1, 1, (1,))


def module(*more: str) -> Td3Module:
    seen, acts = spaces_of(WIDTH)
    torch.manual_seed(1)
    return Td3Module(observation_space=seen, action_space=acts, model_config={"recipe": small(*more)})


def test_critics_see_each_flow_among_those_of_its_world_and_worlds_are_as_many_as_the_recipe_says() -> None:
    plan = small()
    flows = config(plan, 1).num_envs_per_env_runner
    env = CriticFlows(flows, plan.world(), preset=plan.preset)
    env.reset(seed=1)
    assert env.num_worlds == plan.learner.worlds
    for _ in range(20):
        obs = env.step(np.full((flows, 1), 0.5, np.float32))[0]
    rate = env.statistics()[:, STATS["delivery_rate_bps"]] / 1e8
    for world in range(env.num_worlds):
        mine = env.worlds == world
        own = obs[mine, -5:-2]
        assert own[:, 0] == pytest.approx(rate[mine], abs=1e-5)
        assert own[:, 1] == pytest.approx(rate[mine] - rate[mine].mean(), abs=1e-5)
        assert own[:, 2].sum() == pytest.approx(1.0, abs=1e-5)
        assert obs[mine, -2] == pytest.approx(1 / mine.sum())
    assert (obs[:, -1] > 0).all()
    env.close()


def parts(lengths: list[int], ended: str = "") -> list[SingleAgentEpisode]:
    """Parts of one episode whose observation is t and whose reward is 2 ** t at step t."""
    at, found, seen = 0, [], observed(small()) + CriticFlows.CRITIC_INPUTS
    for index, length in enumerate(lengths):
        last = index == len(lengths) - 1
        rows = np.arange(at, at + length + 1, dtype=np.float32)
        found.append(
            SingleAgentEpisode(
                "one",
                observations=[np.r_[np.full(seen - 1, t), 0.0].astype(np.float32) for t in rows],
                actions=[np.array([0.01 * t], np.float32) for t in rows[:-1]],
                rewards=[float(2.0**t) for t in rows[:-1]],
                infos=[{}] * len(rows),
                terminated=last and ended == "terminated",
                truncated=last and ended == "truncated",
                len_lookback_buffer=0,
            )
        )
        at += length
    return found


THREE = ("learner.steps=3", "learner.gamma=0.9")


def stored(lengths: list[int], ended: str) -> dict[float, tuple[float, float, float]]:
    """First number seen -> return, discount, first number seen after it; one sample for each part of the episode."""
    experience = Experience(small(*THREE), 1)
    for part in parts(lengths, ended):
        experience.add([part], scales=False)
    rows = range(experience.filled)
    return {
        float(experience.now[k, 0]): (experience.returns[k], experience.discount[k], experience.after[k, 0])
        for k in rows
    }


@pytest.mark.parametrize("lengths", [[6], [3, 3], [1, 1, 1, 1, 1, 1], [5, 1], [1, 5]])
def test_returns_of_three_steps_do_not_depend_on_where_samples_are_cut(lengths: list[int]) -> None:
    found = stored(lengths, "terminated")
    assert found[0] == pytest.approx((1 + 0.9 * 2 + 0.81 * 4, 0.729, 3))
    assert found[3] == pytest.approx((8 + 0.9 * 16 + 0.81 * 32, 0.0, 6)), "nothing follows the end"
    assert found[5] == pytest.approx((32, 0.0, 6))
    assert sorted(found) == [0, 1, 2, 3, 4, 5]
    found = stored(lengths, "truncated")
    assert found[4] == pytest.approx((16 + 0.9 * 32, 0.81, 6)), "a flow that left is bootstrapped"
    found = stored(lengths, "")
    assert sorted(found) == [0, 1, 2, 3], "the last two wait for what follows"
    assert found[3] == pytest.approx((8 + 0.9 * 16 + 0.81 * 32, 0.729, 6))


def test_what_is_not_complete_waits_for_a_sample_that_goes_on_with_it_but_not_in_another_run() -> None:
    """On flows' own clocks a flow may complete no decision in a sample."""
    experience = Experience(small(*THREE), 1)
    first, second = parts([4, 2], "terminated")
    (other,) = parts([3], "terminated")
    other.id_ = "other"
    experience.add([first], scales=False)
    experience.add([other], scales=False)
    resumed = pickle.loads(pickle.dumps(experience))
    for one, seen in ((experience, [0, 0, 1, 1, 2, 2, 3, 4, 5]), (resumed, [0, 0, 1, 1, 2, 4, 5])):
        one.add([second], scales=False)
        assert sorted(one.now[: one.filled, 0]) == seen


@pytest.mark.parametrize("given", [False, True])
def test_critics_see_the_flow_itself_only_where_the_recipe_says_so(given: bool) -> None:
    experience = Experience(small(f"learner.own_inputs={str(given).lower()}"), 1)
    (part,) = parts([6], "terminated")
    experience.add([part], scales=True)
    own, others = experience.now[1:6, -3:], experience.now[1:6, :-3]
    assert (own > 0).all() if given else not own.any()
    assert (others > 0).all()
    assert bool(experience.scale.mean[-3:].any()) is given
    assert part.get_observations(1)[-4] == 1.0, "the episode is RLlib's"


@pytest.mark.parametrize(("by_world", "shares"), [("false", [1 / 4] * 4), ("true", [1 / 2, 1 / 6, 1 / 6, 1 / 6])])
def test_a_flow_alone_is_drawn_as_often_as_a_crowd_or_as_one_of_it(by_world: str, shares: list[float]) -> None:
    experience = Experience(small(f"learner.by_world={by_world}"), 1)
    experience.now[:4, 0], experience.weight[:4], experience.filled = range(4), [1, 1 / 3, 1 / 3, 1 / 3], 4
    seen = experience.sample(40_000)["now"][:, 0]
    assert [np.mean(seen == flow) for flow in range(4)] == pytest.approx(shares, abs=0.02)


def learner(*more: str) -> Td3Learner:
    seen, acts = spaces_of(WIDTH)
    made = config(small(*more), 1)
    made.environment(observation_space=seen, action_space=acts)
    found = made.build_learner(env=None, spaces={"default_policy": (seen, acts)})
    found.build()
    return found


def batch(size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(2, size, WIDTH + 15)).astype(np.float32)
    return {
        "now": rows[0],
        "after": rows[1],
        "actions": rng.uniform(-1, 1, size).astype(np.float32),
        "returns": rng.normal(size=size).astype(np.float32),
        "discount": np.full(size, 0.9, np.float32),
    }


def test_critics_learn_at_every_update_and_the_actor_at_every_second_by_their_own_losses_alone(monkeypatch) -> None:
    """Against plain PyTorch on the same weights."""
    monkeypatch.setattr(astraea_td3, "TARGET_NOISE", 0.0)
    quiet = ("learner.actor_every=2", "learner.tau=0.5", "learner.averaging=0.25")
    made = learner(*quiet)
    networks = made.module["default_policy"].unwrapped()
    settings, given = networks.settings, {k: torch.from_numpy(v) for k, v in batch(8).items()}
    names = ("actor", "critic", "actor_target", "critic_target", "averaged")
    mine = module(*quiet)
    for name in names:
        getattr(mine, name).load_state_dict(getattr(networks, name).state_dict())
    optimisers = {
        name: torch.optim.Adam(getattr(mine, name).parameters(), lr=rate)
        for name, rate in (("critic", settings.critic_lr), ("actor", settings.actor_lr))
    }
    for update in range(4):
        train = MultiAgentBatch({"default_policy": _sample_batch(batch(8))}, 8)
        made.update(batch=train, timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: 0}, minibatch_size=8, num_epochs=1)
        with torch.no_grad():
            after = torch.tanh(mine.actor_target(given["after"][:, :WIDTH])[:, 0])
            wanted = given["returns"] + 0.9 * mine.critic_target(given["after"], after).min(dim=0).values
        said = mine.critic(given["now"], given["actions"])
        losses = {"critic": sum(torch.nn.functional.huber_loss(one, wanted) for one in said)}
        if update % 2 == 1:
            before = mine.actor(given["now"][:, :WIDTH])[:, 0]
            value = mine.critic(given["now"], torch.tanh(before))[0]
            losses["actor"] = -value.mean() + settings.action_penalty * (before**2).mean()
        gradients = {
            name: torch.autograd.grad(loss, list(getattr(mine, name).parameters())) for name, loss in losses.items()
        }
        for name, values in gradients.items():
            for parameter, gradient in zip(getattr(mine, name).parameters(), values, strict=True):
                parameter.grad = gradient
            optimisers[name].step()
        moved = [("critic_target", "critic", 0.5)]
        moved += [("actor_target", "actor", 0.5), ("averaged", "actor", 0.25)] if "actor" in losses else []
        with torch.no_grad():
            for target, source, share in moved:
                for to, by in zip(getattr(mine, target).parameters(), getattr(mine, source).parameters(), strict=True):
                    to.lerp_(by, share)
        for name in names:
            theirs = getattr(networks, name).state_dict()
            for key, value in getattr(mine, name).state_dict().items():
                assert torch.allclose(value, theirs[key], atol=1e-6), (update, name, key)


def _sample_batch(columns: dict[str, np.ndarray]) -> SampleBatch:
    return SampleBatch({name: torch.from_numpy(value) for name, value in columns.items()})


def test_exploration_falls_is_correlated_and_brakes_above_two_products() -> None:
    made = learner("learner.noise_std=0.3", "learner.noise_std_final=0.1", "learner.noise_decay=0.5")
    networks = made.module["default_policy"].unwrapped()
    made.after_gradient_based_update(timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: 750})  # a quarter of the run
    assert float(networks.sigma) == pytest.approx(0.2)
    made.after_gradient_based_update(timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: 3000})
    assert float(networks.sigma) == pytest.approx(0.1)
    rows = torch.zeros(4000, WIDTH + CriticFlows.CRITIC_INPUTS)
    rows[::2, -1] = 2.5
    *_, first, second = (networks.forward_exploration({"obs": rows})["actions"][:, 0] for _ in range(40))
    assert (first[::2] <= -0.2).all()
    free = torch.stack((first[1::2], second[1::2]))
    assert float(free.std()) == pytest.approx(0.1, abs=0.02)
    assert float(torch.corrcoef(free)[0, 1]) == pytest.approx(0.9, abs=0.05)
    assert (
        networks.forward_inference({"obs": rows})["actions"] == networks.forward_inference({"obs": rows[:1]})["actions"]
    ).all()


def test_the_exported_policy_is_the_averaged_actor_with_its_normalisation() -> None:
    networks, plan = module(), small()
    with torch.no_grad():
        for parameter in networks.averaged.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    networks.mean.copy_(torch.randn(WIDTH + 15))
    networks.std.copy_(torch.rand(WIDTH + 15) + 0.5)
    rows = torch.randn(64, WIDTH)
    with torch.no_grad():
        wanted = torch.tanh(networks.averaged(networks.scaled(rows)))[:, 0].numpy()
    weights, hidden = export(networks, plan), rows.numpy()
    for index, layer in enumerate(plan.network.layers(1)):
        hidden = hidden @ weights[f"layers.{index}.weight"].T + weights[f"layers.{index}.bias"]
        if layer.norm == "layer":
            hidden = (hidden - hidden.mean(1, keepdims=True)) / np.sqrt(hidden.var(1, keepdims=True) + layer.norm_eps)
            hidden = hidden * weights[f"layers.{index}.norm.scale"] + weights[f"layers.{index}.norm.shift"]
            hidden = np.where(hidden > 0, hidden, 0.2 * hidden)
    assert np.std(wanted) > 0.01
    assert np.allclose(np.tanh(hidden[:, 0]), wanted, atol=1e-5)


def test_recipes_of_other_learners_are_refused() -> None:
    with pytest.raises(
        OrbitccError, match="'rllib' is not allowed; allowed: rllib, for recipes with ppo or astraea-td3"
    ):
        recipes.by_learner(recipes.load("sb3-ppo-leo"), "rllib")


def test_env_runners_of_their_own_get_weights_exploration_and_the_reward_of_the_part_of_the_run() -> None:
    made = RLlibLearner(small("agent_steps=2000", "learner.env_runners=2", "learner.fairness=[0.25, 0.75]"), 1)

    def held(runner: Any) -> tuple[float, float, float]:
        weight = float(next(runner.module.actor.parameters()).sum())
        reward = runner.env.unwrapped._core.batch.preset.reward
        return reward.parameters["fairness"], float(runner.module.sigma), weight

    def all_held() -> list[tuple[float, float, float]]:
        return made.algorithm.env_runner_group.foreach_env_runner(held, local_env_runner=False)

    try:
        made.iterate()
        first = all_held()
        assert [fairness for fairness, *_ in first] == [0.25, 0.25]
        assert sum(made.iterate()["agent_steps"] for _ in range(5)) >= 2000
        last = all_held()
        assert [fairness for fairness, *_ in last] == [0.75, 0.75]
        assert last[0][1:] == last[1][1:]
        assert last[0][1] == pytest.approx(0.1)
        assert last[0][2] != first[0][2]
    finally:
        made.stop()


def test_the_recipe_of_astraea_is_trained_by_rllib_and_resumed(tmp_path: Path) -> None:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    called("train", "astraea", "--learner", "rllib", "--name", "run", "--out", str(tmp_path), *settings)
    run = tmp_path / "run"
    reached = json.loads((run / "state" / "progress.json").read_text(encoding="utf-8"))["agent_steps"]
    assert reached >= 3000
    card = ModelCard.model_validate_json((run / "last" / "card.json").read_text(encoding="utf-8"))
    assert card.squash == "tanh"
    assert [layer.norm for layer in card.layers] == ["layer", "layer", "none"]
    figures = (run / "metrics.csv").read_text(encoding="utf-8")
    assert "learner/critic_loss" in figures
    assert "learner/policy_loss" in figures
    plan = RunFolder(run).config()
    plan["recipe"]["agent_steps"] = reached + 1000
    RunFolder(run).write_config(plan)
    called("train", str(run), "--resume")
    again = json.loads((run / "state" / "progress.json").read_text(encoding="utf-8"))["agent_steps"]
    assert reached + 1000 <= again < reached + 3000
