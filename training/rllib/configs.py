"""The RLlib configuration of a recipe."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.batch import GLOBAL_STATE
from orbitcc.envs.environments.source import EpisodeSource, agent_flows
from orbitcc.training import privileged
from orbitcc.training.learners import (
    AnyPpoOptions,
    RllibOptions,
    RllibPpoOptions,
    RllibPpoWorldsOptions,
    RllibSacWorldsOptions,
    RllibTd3Options,
)
from orbitcc.training.recipe import Recipe

MODULE = "shared"
"""The one network of all agents, where whole worlds are sampled."""
PRIVILEGED, ASTRAEA = "orbitcc-flows-privileged", "orbitcc-flows-astraea"
"""The environments of flows whose critics read more than the global state."""
DEFAULT_MODULE = "default_policy"
"""RLlib's name of the network where sub-environments are sampled."""


def config(recipe: Recipe, seed: int) -> Any:
    """The RLlib configuration of a recipe."""
    if isinstance(recipe.learner, AnyPpoOptions):
        return ppo_config(recipe, seed)
    if isinstance(recipe.learner, RllibTd3Options):
        return td3_config(recipe, seed)
    return any_config(recipe, seed) if isinstance(recipe.learner, RllibOptions) else sac_config(recipe, seed)


def ppo_config(recipe: Recipe, seed: int) -> Any:
    """The RLlib `PPOConfig` of a recipe: one sub-environment per flow, or whole worlds as multi-agent environments."""
    from ray.rllib.algorithms.ppo import PPOConfig

    ppo = recipe.learner
    assert isinstance(ppo, RllibPpoOptions | RllibPpoWorldsOptions)
    if isinstance(ppo, RllibPpoWorldsOptions):
        batch, decay = ppo.batch_world_steps, ppo.lr_decay_world_steps
    else:
        batch, decay = ppo.batch, ppo.lr_decay
    config = (
        PPOConfig()
        .learners(num_learners=0)
        .training(
            train_batch_size_per_learner=batch,
            minibatch_size=ppo.minibatch,
            num_epochs=ppo.epochs,
            lr=[[0, ppo.lr], [decay, ppo.lr_final]],  # linear in steps of environments, then constant
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
    return (_ppo_on_worlds if isinstance(ppo, RllibPpoWorldsOptions) else _ppo_per_flow)(config, recipe)


def _ppo_per_flow(config: Any, recipe: Recipe) -> Any:
    """Every flow is a single agent, stepped natively; the critic sees the global state of its world."""
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    from orbitcc.envs.environments.rllib import FLOWS
    from orbitcc.training.rllib.critic import CentralCritic, ScheduledLearner
    from orbitcc.training.rllib.runner import ArrayEnvRunner

    ppo = recipe.options(RllibPpoOptions)
    config = (
        _agents(config, recipe, PRIVILEGED, ppo.flows)
        if ppo.privileged_critic
        else _agents(config, recipe, FLOWS, ppo.flows, global_state=True)
    )
    config.learners(learner_class=ScheduledLearner).training(vf_loss_coeff=ppo.value_weight)
    config.rl_module(rl_module_spec=RLModuleSpec(CentralCritic, model_config=module_config(recipe)))
    return config.env_runners(env_runner_cls=ArrayEnvRunner)


def module_config(recipe: Recipe) -> dict[str, Any]:
    """The `model_config` of the :class:`~orbitcc.training.rllib.critic.CentralCritic` of a recipe."""
    ppo, network = recipe.options(RllibPpoOptions), recipe.network
    return {
        "state": privileged.DIM if ppo.privileged_critic else GLOBAL_STATE,
        "hidden": network.hidden,
        "activation": network.activation,
        "critic_hidden": ppo.critic_hidden or network.hidden,
        "gate": network.gate(recipe.used_preset.observation_space().shape[0]),
        "normalise": ppo.normalise_observations,
        "exploration_std": ppo.exploration_std,
        "exploration_std_final": ppo.exploration_std_final,
        "exploration_steps": ppo.lr_decay,
    }


def _ppo_on_worlds(config: Any, recipe: Recipe) -> Any:
    """All agents of all worlds, as multi-agent environments; the critic sees the global state of the agent's world."""
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    from orbitcc.envs.environments.rllib import RLlibCongestionEnv
    from orbitcc.training.rllib.critic import CentralCritic

    ppo = recipe.options(RllibPpoWorldsOptions)
    model = {
        "hidden": recipe.network.hidden,
        "activation": recipe.network.activation,
        "exploration_std": ppo.exploration_std,
    }
    arguments = {
        "scenario": recipe.world(),
        "preset": recipe.used_preset,
        "reward_scale": ppo.reward_scale,
        "stagger": True,
        "global_state": True,
        "give_up_below": ppo.give_up_below,
        "give_up_steps": math.ceil(ppo.give_up_s * 1e9 / recipe.used_preset.interval_ns),
    }
    return (
        config.environment(RLlibCongestionEnv, env_config=arguments, disable_env_checking=True)
        .env_runners(num_env_runners=ppo.env_runners, num_envs_per_env_runner=ppo.worlds)
        # Batches count steps of worlds: RLlib's count of agent steps breaks (NaN) once an agent it has seen stays away
        # for a whole iteration, as late joiners and leavers do.
        .multi_agent(policies={MODULE}, policy_mapping_fn=_everyone_shares, count_steps_by="env_steps")
        .rl_module(rl_module_spec=RLModuleSpec(CentralCritic, model_config=model))
    )


def any_config(recipe: Recipe, seed: int) -> Any:
    """The configuration of an algorithm with its own settings: one sub-environment per flow."""
    from orbitcc.envs.environments.rllib import FLOWS
    from orbitcc.training.rllib.algorithms import algorithm_config

    config = _agents(algorithm_config(recipe), recipe, FLOWS, recipe.options(RllibOptions).flows)
    config.callbacks(on_sample_end=_log_rewards).debugging(seed=seed, log_level="ERROR")
    try:
        config.validate()
    except ValueError as error:
        raise OrbitccError(
            "learner", recipe.options(RllibOptions).algorithm, f"settings that RLlib accepts ({error})"
        ) from None
    return config


def td3_config(recipe: Recipe, seed: int) -> Any:
    """The configuration of Astraea's learner: one sub-environment per flow."""
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.tune import register_env

    from orbitcc.training.astraea_td3 import with_fairness
    from orbitcc.training.rllib.runner import ArrayEnvRunner
    from orbitcc.training.rllib.td3 import CriticFlows, Td3Config, Td3Module

    td3 = recipe.options(RllibTd3Options)
    source, rng = EpisodeSource(recipe.world()), np.random.default_rng(0)
    flows = sum(len(agent_flows(source.draw(rng))) for _ in range(td3.worlds))  # the sizes that the environment draws
    register_env(ASTRAEA, lambda arguments: CriticFlows(**arguments))
    config = (
        Td3Config()
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=td3.iteration, grad_clip=td3.grad_clip, grad_clip_by="global_norm")
        .rl_module(rl_module_spec=RLModuleSpec(Td3Module, model_config={"recipe": recipe}))
        .reporting(min_sample_timesteps_per_iteration=td3.iteration, min_time_s_per_iteration=0)
        .callbacks(on_sample_end=_log_rewards)
        .debugging(seed=seed, log_level="ERROR")
    )
    used = recipe.used_preset
    if td3.fairness:
        used = replace(used, reward=with_fairness(recipe, 0))
    agents = _agents(config, recipe, ASTRAEA, flows, preset=used)
    return agents.env_runners(env_runner_cls=ArrayEnvRunner, rollout_fragment_length="auto")


def _agents(config: Any, recipe: Recipe, env: str, flows: int, **more: Any) -> Any:
    """The configuration with `flows` sub-environments per env runner; more: further arguments of the environment."""
    from ray.tune import register_env

    from orbitcc.envs.environments.rllib import register_envs
    from orbitcc.training.rllib.critic import PrivilegedFlows

    register_envs()
    register_env(PRIVILEGED, lambda arguments: PrivilegedFlows(**arguments))
    settings = recipe.learner
    assert isinstance(settings, RllibPpoOptions | RllibOptions | RllibTd3Options)
    arguments = {
        "scenario": recipe.world(),
        "preset": recipe.used_preset,
        "reward_scale": settings.reward_scale,
        "stagger": True,
        "backend": recipe.backend,
        **more,
        "threads": 1 if settings.env_runners else 0,  # Ray gives each env runner one core
    }
    return config.environment(env, env_config=arguments, disable_env_checking=True).env_runners(
        num_env_runners=settings.env_runners,
        num_envs_per_env_runner=flows,
        gym_env_vectorize_mode="vector_entry_point",
    )


def sac_config(recipe: Recipe, seed: int) -> Any:
    """The RLlib `SACConfig` of a recipe, on whole worlds as multi-agent environments.

    Agents join late and leave early, so complete episodes are sampled and replayed.
    RLlib cannot continue a fragment of an episode in which an agent has left just before (ray-project/ray#64803).
    It samples until so many episodes are complete as there are worlds, drops what has begun anew meanwhile, and resets
    all worlds, with the seed of the very first time: the environment must not heed that again.
    """
    from ray.rllib.algorithms.sac import SACConfig

    from orbitcc.envs.environments.rllib import RLlibCongestionEnv
    from orbitcc.training.rllib.algorithms import default_module

    sac, scenario = recipe.options(RllibSacWorldsOptions), EpisodeSource(recipe.world()).draw(np.random.default_rng(0))
    sampling = max(sac.env_runners, 1) / (sac.env_runners + 1)  # RLlib counts the learner's process as sampling, too
    return (
        SACConfig()
        .learners(num_learners=0)
        .rl_module(model_config=default_module(recipe.network))
        .training(
            gamma=sac.gamma,
            tau=sac.tau,
            initial_alpha=sac.alpha,
            actor_lr=sac.lr,
            critic_lr=sac.lr,
            alpha_lr=sac.lr,
            lr=None,
            train_batch_size_per_learner=sac.minibatch,
            training_intensity=sampling * sac.minibatch / sac.update_every_world_steps,
            num_steps_sampled_before_learning_starts=sac.learning_starts_world_steps,
            grad_clip=sac.grad_clip,
            replay_buffer_config={"type": "MultiAgentEpisodeReplayBuffer", "capacity": sac.buffer_world_steps},
        )
        .reporting(min_sample_timesteps_per_iteration=sac.batch_world_steps, min_time_s_per_iteration=0)
        .environment(
            RLlibCongestionEnv,
            env_config={
                "scenario": recipe.world(),
                "preset": recipe.used_preset,
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
            rollout_fragment_length=math.ceil(scenario.duration_s * 1e9 / recipe.used_preset.interval_ns),
        )
        .multi_agent(policies={MODULE}, policy_mapping_fn=_everyone_shares, count_steps_by="env_steps")
        .callbacks(on_sample_end=_log_rewards)
        .debugging(seed=seed, log_level="ERROR")
    )


def _everyone_shares(agent: str, *rest: Any, **more: Any) -> str:
    return MODULE


def _log_rewards(*, samples: list[Any], metrics_logger: Any, **_: Any) -> None:
    """RLlib callback: sums over everything sampled, for the mean reward per decision."""
    metrics_logger.log_value("reward_sum", sum(float(episode.get_return()) for episode in samples), reduce="sum")
    metrics_logger.log_value("decisions", sum(episode.agent_steps() for episode in samples), reduce="sum")
