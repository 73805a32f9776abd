"""Shared-policy PPO and SAC with Stable-Baselines3 on one sub-environment per flow.

Every flow of every world is one environment of one native batch; SB3 samples and learns in this process.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger

from orbitcc.agents.policy import Tensors
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.sb3 import SB3VecEnv
from orbitcc.training.episodes import EpisodeTotals
from orbitcc.training.learners import FlowPpoOptions, FlowSacOptions
from orbitcc.training.networks import exported
from orbitcc.training.recipe import Recipe

_LEARNED = {
    "policy_loss": ("train/policy_gradient_loss", "train/actor_loss"),
    "value_loss": ("train/value_loss",),
    "value_explained": ("train/explained_variance",),
    "entropy": ("entropy",),
    "kl": ("train/approx_kl",),
    "critic_loss": ("train/critic_loss",),
    "alpha": ("train/ent_coef",),
}
"""Our tags of figures that learners report, and SB3's names."""


class SB3Learner:
    """An SB3 model behind :class:`orbitcc.training.loop.Learner`."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        torch.set_num_threads(1)  # networks this small lose more to thread hand-over than they gain
        self.recipe = recipe
        self._is_ppo = recipe.algorithm == "sb3-ppo"
        self._settings = recipe.options(FlowPpoOptions) if self._is_ppo else recipe.options(FlowSacOptions)
        used = recipe.used_preset
        self.squash: Literal["tanh", "clip", "argmax"] = "clip" if self._is_ppo else "tanh"
        if used.choices is not None:
            self.squash = "argmax"
        self.gate = None
        self.layers = recipe.network.layers(used.choices or used.action_dim)
        settings = self._settings
        native = FlowVectorEnv(
            settings.flows,
            recipe.world(),
            preset=recipe.used_preset,
            reward_scale=settings.reward_scale,
            stagger=True,
            autoreset_mode="SameStep",
            backend=recipe.backend,
        )
        self._env = SB3VecEnv(native)
        self._meter = _RewardMeter(EpisodeTotals(settings.flows, settings.reward_scale))
        self._figures = _Figures()
        self._use(self._ppo(seed) if self._is_ppo else self._sac(seed))

    def iterate(self) -> dict[str, float]:
        if self._is_ppo:
            rate = self._learning_rate()
            self.model.lr_schedule = lambda _: rate
        before = self.model.num_timesteps
        self._meter.total = 0.0
        self.model.learn(self._settings.batch, callback=self._meter, reset_num_timesteps=False)
        steps = self.model.num_timesteps - before
        learned = {**self._figures.latest, **self.model.logger.name_to_value}
        if "train/entropy_loss" in learned:
            learned["entropy"] = -learned["train/entropy_loss"]
        return {
            "agent_steps": steps,
            "learner/learning_rate": self._learning_rate() if self._is_ppo else self._settings.lr,
            "train/reward": self._meter.total / (steps * self._settings.reward_scale),
            **self._meter.episodes.take(),
            **{
                f"learner/{tag}": float(learned[name])
                for tag, names in _LEARNED.items()
                for name in names
                if name in learned
            },
        }

    def tensors(self) -> Tensors:
        policy = self.model.policy
        if self._is_ppo:
            return exported([*policy.mlp_extractor.policy_net, policy.action_net])
        return exported([*policy.actor.latent_pi, policy.actor.mu])

    def save(self, folder: Path) -> None:
        if self._is_ppo:
            self.model.lr_schedule = _nothing  # what is pickled must not depend on this module's local functions
        else:
            self.model.save_replay_buffer(folder / "replay.pkl")
        self.model.save(folder / "sb3.zip")

    def load(self, folder: Path) -> None:
        kind = PPO if self._is_ppo else SAC
        self._use(kind.load(folder / "sb3.zip", env=self._env, device="cpu"))
        if not self._is_ppo:
            self.model.load_replay_buffer(folder / "replay.pkl")

    def stop(self) -> None:
        self._env.close()

    def _use(self, model: Any) -> None:
        self.model = model
        model.set_logger(Logger(None, [self._figures]))

    def _learning_rate(self) -> float:
        """Linear in agent steps, then constant."""
        ppo = self.recipe.options(FlowPpoOptions)
        share = min(1.0, self.model.num_timesteps / ppo.lr_decay)
        return ppo.lr + share * (ppo.lr_final - ppo.lr)

    def _network(self) -> dict[str, Any]:
        activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[self.recipe.network.activation]
        return {"activation_fn": activation}

    def _ppo(self, seed: int) -> Any:
        ppo, hidden = self.recipe.options(FlowPpoOptions), list(self.recipe.network.hidden)
        return PPO(
            "MlpPolicy",
            self._env,
            n_steps=max(1, ppo.batch // ppo.flows),
            batch_size=ppo.minibatch,
            n_epochs=ppo.epochs,
            gamma=ppo.gamma,
            gae_lambda=ppo.gae_lambda,
            clip_range=ppo.clip,
            ent_coef=ppo.entropy,
            max_grad_norm=ppo.grad_clip,
            policy_kwargs={
                **self._network(),
                "net_arch": {"pi": hidden, "vf": hidden},
                "log_std_init": math.log(ppo.exploration_std),
            },
            seed=seed,
            device="cpu",
        )

    def _sac(self, seed: int) -> Any:
        sac, hidden = self.recipe.options(FlowSacOptions), list(self.recipe.network.hidden)
        return SAC(
            "MlpPolicy",
            self._env,
            learning_rate=sac.lr,
            buffer_size=sac.buffer,
            learning_starts=sac.learning_starts,
            batch_size=sac.minibatch,
            tau=sac.tau,
            gamma=sac.gamma,
            train_freq=1,  # a step of every sub-environment ...
            gradient_steps=max(1, round(sac.flows / sac.update_every)),
            ent_coef=f"auto_{sac.alpha}",
            policy_kwargs={**self._network(), "net_arch": {"pi": hidden, "qf": hidden}},
            seed=seed,
            device="cpu",
        )


def _nothing(progress: float) -> float:
    return 0.0


class _RewardMeter(BaseCallback):
    """Adds up all rewards, and those of each episode."""

    total = 0.0

    def __init__(self, episodes: EpisodeTotals) -> None:
        super().__init__()
        self.episodes = episodes

    def _on_step(self) -> bool:
        rewards, ended = self.locals["rewards"], self.locals["dones"]
        self.total += float(rewards.sum(dtype=np.float64))
        self.episodes.add(rewards, np.ones_like(ended), ended)
        return True


class _Figures(KVWriter):
    """Keeps the latest of what SB3 logs."""

    def __init__(self) -> None:
        self.latest: dict[str, Any] = {}

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        self.latest.update(key_values)

    def close(self) -> None:
        pass
