"""Shared-policy PPO and SAC with RLlib (new API stack).

All agents of all worlds feed one network. PPO takes worlds as multi-agent environments, SAC these or a slot per flow.
RLlib samples and learns; this file configures it and exports what it learned. `env_runners = 0` keeps everything in one
process, which is the fastest on a few cores; more of them spread over a Ray cluster.
"""

from __future__ import annotations

import math
import os
import pickle
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orbitcc.agents.policy import Tensors
from orbitcc.envs.presets import preset
from orbitcc.envs.source import EpisodeSource
from orbitcc.training.recipe import Recipe

MODULE = "shared"
SLOTS = "orbitcc-slot-per-flow"


class RLlibLearner:
    """An RLlib algorithm behind :class:`orbitcc.training.loop.Learner`."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        self.recipe = recipe
        ppo = recipe.algorithm == "rllib-ppo"
        self.squash: Literal["tanh", "clip"] = "clip" if ppo else "tanh"
        self.layers = recipe.network.layers(preset(recipe.preset).action_space().shape[0])
        self._module = MODULE if ppo or recipe.sac.worlds else "default_policy"
        self.algorithm = _start(recipe, seed)

    def iterate(self) -> dict[str, float]:
        return _figures(self.algorithm.train(), self._module, self.recipe.settings.reward_scale)

    def tensors(self) -> Tensors:
        return export(self.algorithm.get_module(self._module), self.recipe)

    def save(self, folder: Path) -> None:
        self.algorithm.save_to_path(str((folder / "rllib").resolve()))
        if self.algorithm.local_replay_buffer is not None:  # RLlib's own checkpoints leave it out
            with open(folder / "replay.pkl", "wb") as file:
                pickle.dump(self.algorithm.local_replay_buffer, file, protocol=pickle.HIGHEST_PROTOCOL)

    def load(self, folder: Path) -> None:
        self.algorithm.restore_from_path(str((folder / "rllib").resolve()))
        if self.algorithm.local_replay_buffer is not None:
            with open(folder / "replay.pkl", "rb") as file:
                self.algorithm.local_replay_buffer = pickle.load(file)

    def stop(self) -> None:
        import ray

        self.algorithm.stop()
        ray.shutdown()


def config(recipe: Recipe, seed: int) -> Any:
    """The RLlib configuration of a recipe."""
    return ppo_config(recipe, seed) if recipe.algorithm == "rllib-ppo" else sac_config(recipe, seed)


def ppo_config(recipe: Recipe, seed: int) -> Any:
    """The RLlib `PPOConfig` of a recipe: all agents of all worlds, as multi-agent environments."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    from orbitcc.envs.rllib import RLlibCongestionEnv

    ppo = recipe.ppo
    arguments = {
        "scenario": recipe.scenario,
        "preset": recipe.preset,
        "reward_scale": ppo.reward_scale,
        "stagger": True,
        "give_up_below": ppo.give_up_below,
        "give_up_steps": math.ceil(ppo.give_up_s * 1e9 / preset(recipe.preset).interval_ns),
    }
    return (
        PPOConfig()
        .environment(RLlibCongestionEnv, env_config=arguments, disable_env_checking=True)
        .env_runners(num_env_runners=ppo.env_runners, num_envs_per_env_runner=ppo.worlds)
        .learners(num_learners=0)
        # Batches count steps of worlds: RLlib's count of agent steps breaks (NaN) once an agent it has seen stays away
        # for a whole iteration, as late joiners and leavers do.
        .multi_agent(policies={MODULE}, policy_mapping_fn=_everyone_shares, count_steps_by="env_steps")
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=list(recipe.network.hidden),
                fcnet_activation=recipe.network.activation,
                vf_share_layers=False,
            )
        )
        .training(
            train_batch_size_per_learner=ppo.batch,
            minibatch_size=ppo.minibatch,
            num_epochs=ppo.epochs,
            lr=[[0, ppo.lr], [ppo.lr_decay, ppo.lr_final]],  # linear in steps of worlds, then constant
            gamma=ppo.gamma,
            lambda_=ppo.gae_lambda,
            clip_param=ppo.clip,
            entropy_coeff=ppo.entropy,
            grad_clip=ppo.grad_clip,
            vf_clip_param=ppo.value_clip,
            use_kl_loss=True,  # with weight 0: the divergence is reported, the clipping does the work
            kl_coeff=0.0,
        )
        .callbacks(on_sample_end=_log_rewards)
        .debugging(seed=seed, log_level="ERROR")
    )


def sac_config(recipe: Recipe, seed: int) -> Any:
    """The RLlib `SACConfig` of a recipe: a slot per flow, or whole worlds as multi-agent environments."""
    from ray.rllib.algorithms.sac import SACConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    sac = recipe.sac
    sampling = max(sac.env_runners, 1) / (sac.env_runners + 1)  # RLlib counts the learner's process as sampling, too
    config = (
        SACConfig()
        .learners(num_learners=0)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=list(recipe.network.hidden),
                fcnet_activation=recipe.network.activation,
                head_fcnet_hiddens=[],
            )
        )
        .training(
            gamma=sac.gamma,
            tau=sac.tau,
            initial_alpha=sac.alpha,
            actor_lr=sac.lr,
            critic_lr=sac.lr,
            alpha_lr=sac.lr,
            lr=None,
            train_batch_size_per_learner=sac.minibatch,
            training_intensity=sampling * sac.minibatch / sac.update_every,
            num_steps_sampled_before_learning_starts=sac.learning_starts,
            grad_clip=sac.grad_clip,
        )
        .reporting(min_sample_timesteps_per_iteration=sac.batch, min_time_s_per_iteration=0)
        .callbacks(on_sample_end=_log_rewards)
        .debugging(seed=seed, log_level="ERROR")
    )
    return _whole_worlds(config, recipe) if sac.worlds else _slot_per_flow(config, recipe)


def _slot_per_flow(config: Any, recipe: Recipe) -> Any:
    """Every flow is a single agent, stepped natively."""
    from ray.tune import register_env

    register_env(SLOTS, _slots)
    sac = recipe.sac
    return (
        config.environment(
            SLOTS,
            env_config={
                "scenario": recipe.scenario,
                "preset": recipe.preset,
                "reward_scale": sac.reward_scale,
                "stagger": True,
            },
            disable_env_checking=True,
        )
        .env_runners(
            num_env_runners=sac.env_runners,
            num_envs_per_env_runner=sac.slots,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=1,
        )
        .training(replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": sac.buffer})
    )


def _whole_worlds(config: Any, recipe: Recipe) -> Any:
    """Agents come late and leave early, so episodes are sampled and replayed whole.

    RLlib cannot continue a fragment of an episode in which an agent has left just before (ray-project/ray#64803).
    It samples until so many episodes are complete as there are worlds, drops what has begun anew meanwhile, and resets
    all worlds, with the seed of the very first time: the environment must not heed that again.
    """
    from orbitcc.envs.rllib import RLlibCongestionEnv

    sac, scenario = recipe.sac, EpisodeSource(recipe.scenario).draw(np.random.default_rng(0))
    return (
        config.environment(
            RLlibCongestionEnv,
            env_config={
                "scenario": recipe.scenario,
                "preset": recipe.preset,
                "reward_scale": sac.reward_scale,
                "seed_once": True,
            },
            disable_env_checking=True,
        )
        .env_runners(
            num_env_runners=sac.env_runners,
            num_envs_per_env_runner=sac.worlds,
            batch_mode="complete_episodes",
            # not heeded in sampling, but RLlib derives from it how many updates an episode is worth
            rollout_fragment_length=math.ceil(scenario.duration_s * 1e9 / preset(recipe.preset).interval_ns),
        )
        .multi_agent(policies={MODULE}, policy_mapping_fn=_everyone_shares, count_steps_by="env_steps")
        .training(replay_buffer_config={"type": "MultiAgentEpisodeReplayBuffer", "capacity": sac.buffer})
    )


def _slots(context: Any) -> Any:
    from orbitcc.envs.slots import FlowVectorEnv

    return FlowVectorEnv(**context)


def export(module: Any, recipe: Recipe) -> dict[str, NDArray[np.float32]]:
    """The policy network of an RLlib module as the tensors of a checkpoint: mean actions only, no exploration."""
    actions = preset(recipe.preset).action_space().shape[0]
    state = {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}
    encoder = "encoder.actor_encoder" if recipe.algorithm == "rllib-ppo" else "pi_encoder"
    sources = [f"{encoder}.net.mlp.{2 * i}" for i in range(len(recipe.network.hidden))] + ["pi.net.mlp.0"]
    tensors = {}
    for index, source in enumerate(sources):
        weight, bias = state[f"{source}.weight"], state[f"{source}.bias"]
        if source == sources[-1]:  # the head gives means, then logarithms of standard deviations
            weight, bias = weight[:actions], bias[:actions]
        tensors[f"layers.{index}.weight"] = np.ascontiguousarray(weight, np.float32)
        tensors[f"layers.{index}.bias"] = np.ascontiguousarray(bias, np.float32)
    return tensors


def _start(recipe: Recipe, seed: int) -> Any:
    # Ray reads these when it is imported or started: no token file in the home folder, no reports to its makers
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import logging

    import ray
    import torch

    torch.set_num_threads(1)  # networks this small lose more to thread hand-over than they gain
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")  # set: the cluster to scale out on
        local = {} if address else {"num_cpus": recipe.settings.env_runners + 1, "include_dashboard": False}
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)  # after init, which sets it
    algorithm = config(recipe, seed).build_algo()
    if recipe.algorithm == "rllib-ppo":
        log_std = math.log(recipe.ppo.exploration_std)
        algorithm.learner_group.foreach_learner(lambda learner: _set_log_std(learner.module[MODULE], log_std))
        algorithm.env_runner_group.sync_weights(
            from_worker_or_learner_group=algorithm.learner_group, inference_only=True
        )
    return algorithm


def _set_log_std(module: Any, value: float) -> None:
    """Start the exploration at one standard deviation everywhere: the head's bias; its weights begin near zero."""
    import torch

    with torch.no_grad():
        bias = module.pi.net.mlp[0].bias
        bias[len(bias) // 2 :] = value


def _everyone_shares(agent: str, *rest: Any, **more: Any) -> str:
    return MODULE


def _log_rewards(*, samples: list[Any], metrics_logger: Any, **_: Any) -> None:
    """RLlib callback: sums over everything sampled, for the mean reward per decision."""
    metrics_logger.log_value("reward_sum", sum(float(episode.get_return()) for episode in samples), reduce="sum")
    metrics_logger.log_value("decisions", sum(episode.agent_steps() for episode in samples), reduce="sum")


_LEARNED = {
    "policy_loss": "policy_loss",
    "value_loss": "vf_loss",
    "value_explained": "vf_explained_var",
    "entropy": "entropy",
    "kl": "mean_kl_loss",
    "critic_loss": "qf_loss",
    "alpha": "alpha_value",
}
"""Our tags of figures that learners report, and RLlib's names."""


def _figures(result: dict[str, Any], module: str, reward_scale: float) -> dict[str, float]:
    sampled, learned = result["env_runners"], result.get("learners", {}).get(module, {})
    decisions = max(1.0, float(sampled["decisions"]))
    return {
        "agent_steps": decisions,
        "train/reward": float(sampled["reward_sum"]) / (decisions * reward_scale),
        **{f"learner/{tag}": float(np.mean(learned[name])) for tag, name in _LEARNED.items() if name in learned},
    }
