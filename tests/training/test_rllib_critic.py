"""The module whose critic sees more than its policy, and what RLlib's learner makes of the ends of its episodes."""

import numpy as np
import pytest
from gymnasium import spaces

from orbitcc import _sim
from orbitcc.agents.policy import network
from orbitcc.common.errors import OrbitccError

pytest.importorskip("ray.rllib")
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from orbitcc.envs.environments.presets import preset
from orbitcc.training import recipe, rllib
from orbitcc.training.rllib.critic import CentralCritic

ACTIONS = spaces.Box(-1, 1, (1,), np.float32)


def observations(seen: int, state: int) -> spaces.Box:
    """What a policy sees is bounded, a state is not."""
    high = np.concatenate([np.ones(seen), np.full(state, np.inf)]).astype(np.float32)
    return spaces.Box(-high, high, dtype=np.float32)


def critic(seen: int, state: int, *, inference_only: bool = False, **config) -> CentralCritic:
    return CentralCritic(
        observation_space=observations(seen, state),
        action_space=ACTIONS,
        inference_only=inference_only,
        model_config={"state": state, **config},
    )


def test_the_value_sees_the_global_state_and_the_policy_does_not() -> None:
    torch.manual_seed(0)
    module = critic(50, 12)
    obs = torch.rand(8, 62, requires_grad=True)
    policy = module.forward_train({"obs": obs})["action_dist_inputs"]
    value = module.compute_values({"obs": obs})
    assert policy.shape == (8, 2)
    assert value.shape == (8,)
    (by_policy,) = torch.autograd.grad(policy.sum(), obs)
    (by_value,) = torch.autograd.grad(value.sum(), obs)
    assert (by_policy[:, :50] != 0).all()
    assert (by_policy[:, 50:] == 0).all()
    assert (by_value != 0).all()

    other = obs.detach().clone()
    other[:, 50:] += 1
    assert torch.equal(module.forward_inference({"obs": other})["action_dist_inputs"], policy)
    assert (module.compute_values({"obs": other}) != value).all()


def test_losses_of_policy_and_value_share_no_weight() -> None:
    module = critic(50, 12)
    obs = torch.rand(8, 62)
    module.compute_values({"obs": obs}).sum().backward()
    touched = {name for name, weight in module.named_parameters() if weight.grad is not None}
    assert touched == {name for name, _ in module.named_parameters() if name.startswith("vf.")}


def test_actions_begin_near_zero_with_the_spread_asked_for() -> None:
    torch.manual_seed(0)
    module = critic(50, 12, exploration_std=0.25)
    mean, log_std = module.forward_exploration({"obs": torch.rand(64, 62)})["action_dist_inputs"].T
    assert mean.abs().max() < 0.1
    assert torch.allclose(log_std.exp(), torch.tensor(0.25))


def test_env_runners_get_a_policy_without_critic() -> None:
    module = critic(50, 12)
    sampler = critic(50, 12, inference_only=True)
    assert not hasattr(sampler, "vf")
    sampler.set_state(module.get_state(inference_only=True))
    obs = {"obs": torch.rand(4, 62)}
    sampled, learned = (m.forward_inference(obs)["action_dist_inputs"] for m in (sampler, module))
    assert torch.equal(sampled, learned)


@pytest.mark.parametrize(("seen", "state"), [(62, 0), (12, 0)])
def test_a_missing_global_state_is_named(seen: int, state: int) -> None:
    with pytest.raises(OrbitccError, match="global_state"):
        CentralCritic(observation_space=observations(seen, state), action_space=ACTIONS, model_config={})


@pytest.mark.parametrize("hidden", ["[64,64]", "[16]", "[]"])
def test_the_exported_policy_acts_as_the_module_does(hidden: str) -> None:
    torch.manual_seed(0)
    plan = recipe.load("rllib-ppo-leo", [f"network.hidden={hidden}"])
    module = critic(50, 12, hidden=plan.network.hidden, activation=plan.network.activation)
    with torch.no_grad():
        module.pi[-1].weight *= 100  # actions worth comparing
    tensors = rllib.export(module, plan)
    layers = network(plan.network.layers(1), None, tensors)
    settings = {"observation": '"astraea-leo"', "action": '"astraea"', "interval_ns": preset(plan.preset).interval_ns}
    policy = _sim.Policy(**layers, **settings, squash="clip")
    obs = np.random.default_rng(0).uniform(0, 1, (64, 62)).astype(np.float32)
    dist = module.get_inference_action_dist_cls().from_logits(
        module.forward_inference({"obs": torch.from_numpy(obs)})["action_dist_inputs"]
    )
    deterministic = dist.to_deterministic().sample().numpy()
    assert deterministic.std() > 0.1
    assert np.allclose(policy.act(np.ascontiguousarray(obs[:, :50])), np.clip(deterministic, -1, 1), atol=1e-5)


@pytest.mark.parametrize(
    ("end", "targets"),
    [
        # values 1, 2, 3 and 4 at the end, rewards 1, gamma = lambda = 1/2: errors 1, 1/2, 0, advantages 9/8, 1/2, 0
        ({"truncated": True}, [2.125, 2.5, 3.0]),
        ({}, [2.125, 2.5, 3.0]),  # the fragment ends, the episode does not
        # nothing follows: the last error and advantage are 1 - 3 = -2; before it 1/2 - 1/2 = 0, and 1
        ({"terminated": True}, [2.0, 2.0, 1.0]),
    ],
)
def test_a_truncated_episode_is_worth_what_its_last_observation_and_state_promise(end, targets) -> None:
    learner = (
        PPOConfig()
        .learners(num_learners=0)
        .rl_module(rl_module_spec=RLModuleSpec(CentralCritic, model_config={"state": 1, "hidden": ()}))
        .training(gamma=0.5, lambda_=0.5)
        .build_learner(spaces={"default_policy": (observations(1, 1), ACTIONS)})
    )
    with torch.no_grad():
        module = learner.module["default_policy"]
        module.vf[0].weight[:] = torch.tensor([[0.0, 1.0]])  # a value is its global state
        module.vf[0].bias[:] = 0
    episode = SingleAgentEpisode(
        observations=[np.array([0.3, state], np.float32) for state in (1, 2, 3, 4)],
        actions=[np.zeros(1, np.float32)] * 3,
        rewards=[1.0] * 3,
        extra_model_outputs={"action_logp": [0.0] * 3, "action_dist_inputs": [np.zeros(2, np.float32)] * 3},
        len_lookback_buffer=0,
        **end,
    ).to_numpy()
    batch = learner._learner_connector(rl_module=learner.module, batch={}, episodes=[episode], shared_data={})
    learnt = batch["default_policy"]
    assert learnt["loss_mask"].tolist() == [True, True, True, False]
    assert learnt["value_targets"][:3].tolist() == targets
    raw = learnt["value_targets"] - torch.tensor([1.0, 2, 3, 4])
    assert torch.allclose(learnt["advantages"], (raw - raw.mean()) / raw.std(correction=0), atol=1e-6)
