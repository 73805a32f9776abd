"""An RLlib algorithm behind the training loop's interface, and the export of its policy."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orbitcc.agents.policy import Tensors
from orbitcc.envs.environments.presets import preset
from orbitcc.eval import cluster
from orbitcc.training.recipe import RllibPpoRecipe, RllibPpoWorldsRecipe, RllibRecipe
from orbitcc.training.rllib.configs import DEFAULT_MODULE, MODULE, config


class RLlibLearner:
    """An RLlib algorithm behind :class:`orbitcc.training.loop.Learner`."""

    def __init__(self, recipe: RllibRecipe, seed: int) -> None:
        self.recipe = recipe
        self.squash: Literal["tanh", "clip"] = "clip" if _is_ppo(recipe) else "tanh"
        self.gate = None
        self.layers = recipe.network.layers(preset(recipe.preset).action_space().shape[0])
        self._module = MODULE if recipe.algorithm.endswith("-worlds") else DEFAULT_MODULE
        self._own = cluster.start(cpus=_settings(recipe).env_runners + 1)  # not on a cluster: a task of it
        try:
            self.algorithm = _start(recipe, seed)
        except BaseException:
            self._leave()
            raise

    def iterate(self) -> dict[str, float]:
        return _figures(self.algorithm.train(), self._module, _settings(self.recipe).reward_scale)

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
        self.algorithm.stop()
        self._leave()

    def _leave(self) -> None:
        if self._own:
            cluster.ray_module().shutdown()


def _is_ppo(recipe: RllibRecipe) -> bool:
    return isinstance(recipe, RllibPpoRecipe | RllibPpoWorldsRecipe)


def _settings(recipe: RllibRecipe) -> Any:
    return recipe.ppo if isinstance(recipe, RllibPpoRecipe | RllibPpoWorldsRecipe) else recipe.sac


def export(module: Any, recipe: RllibRecipe) -> dict[str, NDArray[np.float32]]:
    """The policy network of an RLlib module as the tensors of a checkpoint: mean actions only, no exploration."""
    actions = preset(recipe.preset).action_space().shape[0]
    state = {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}
    hidden = range(len(recipe.network.hidden))
    if recipe.algorithm == "rllib-ppo":
        sources = [f"pi.{2 * i}" for i in range(len(hidden) + 1)]
    else:
        encoder = "encoder.actor_encoder" if _is_ppo(recipe) else "pi_encoder"
        sources = [f"{encoder}.net.mlp.{2 * i}" for i in hidden] + ["pi.net.mlp.0"]
    tensors = {}
    for index, source in enumerate(sources):
        weight, bias = state[f"{source}.weight"], state[f"{source}.bias"]
        if source == sources[-1]:  # RLlib's heads give means, then logarithms of standard deviations
            weight, bias = weight[:actions], bias[:actions]
        tensors[f"layers.{index}.weight"] = np.array(weight, np.float32)
        tensors[f"layers.{index}.bias"] = np.array(bias, np.float32)
    return tensors


def _start(recipe: RllibRecipe, seed: int) -> Any:
    import logging

    import torch

    torch.set_num_threads(1)  # networks this small lose more to thread hand-over than they gain
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)  # after Ray's start, which sets it
    algorithm = config(recipe, seed).build_algo()
    if isinstance(recipe, RllibPpoWorldsRecipe):
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
    rates = [float(value) for name, value in learned.items() if name.endswith("_learning_rate")]
    return {
        **({"learner/learning_rate": rates[0]} if rates else {}),
        "agent_steps": decisions,
        "train/reward": float(sampled["reward_sum"]) / (decisions * reward_scale),
        **{f"learner/{tag}": float(np.mean(learned[name])) for tag, name in _LEARNED.items() if name in learned},
    }
