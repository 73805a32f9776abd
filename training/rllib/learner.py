"""An RLlib algorithm behind the training loop's interface, and the export of its policy."""

from __future__ import annotations

import math
import pickle
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np

from orbitcc.agents.policy import Tensors
from orbitcc.agents.runs.folders import temporary
from orbitcc.parallel import cluster
from orbitcc.training.learners import AnyPpoOptions, RllibTd3Options
from orbitcc.training.networks import denormalised, exported
from orbitcc.training.recipe import Recipe
from orbitcc.training.rllib import algorithms
from orbitcc.training.rllib.configs import DEFAULT_MODULE, MODULE, config

LOGS = "orbitcc-rllib-"
"""Folders that RLlib wants for logs begin with this."""


class RLlibLearner:
    """An RLlib algorithm behind :class:`orbitcc.training.loop.Learner`."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        self.recipe = recipe
        options: Any = recipe.learner
        self._reward_scale = options.reward_scale
        used = recipe.used_preset
        seen, acts = used.observation_space().shape[0], used.choices or used.action_dim
        self.gate = recipe.network.gate(seen)
        self.layers = recipe.network.layers(acts)
        self._module = DEFAULT_MODULE if recipe.kind.by_flow else MODULE
        self._own = cluster.start(cpus=options.env_runners + 1)  # not on a cluster: a task of it
        self._open = ExitStack()
        try:
            folder = self._open.enter_context(temporary(Path(tempfile.gettempdir()), LOGS))
            self.algorithm = _start(recipe, seed, folder)
            distribution = self.algorithm.get_module(self._module).get_inference_action_dist_cls()
            self.squash = _SQUASH.get(distribution.__name__, "clip")
        except BaseException:
            self._leave()
            raise

    def iterate(self) -> dict[str, float]:
        return _figures(self.algorithm.train(), self._module, self._reward_scale)

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
        self._open.close()
        if self._own:
            cluster.ray_module().shutdown()


_SQUASH: dict[str, Literal["tanh", "argmax"]] = {
    "TorchSquashedGaussian": "tanh",
    "TorchCategorical": "argmax",
    "TorchDeterministic": "tanh",
}
"""Distribution of actions of a module -> how its best action comes from its outputs; others are clipped."""


def export(module: Any, recipe: Recipe) -> Tensors:
    """The policy network of an RLlib module as the tensors of a checkpoint: mean actions only, no exploration."""
    if isinstance(recipe.learner, RllibTd3Options):
        return denormalised(exported(module.averaged), module.mean.numpy(), module.std.numpy())
    if not isinstance(recipe.learner, AnyPpoOptions):
        return algorithms.export(module, recipe)
    tensors = exported(module.pi)
    if module.scale is not None:
        tensors |= {f"normaliser.{name}": getattr(module.scale, name).numpy().copy() for name in ("mean", "std")}
    return tensors


def _start(recipe: Recipe, seed: int, folder: Path) -> Any:
    import logging

    import torch
    from ray.tune.trainable import trainable

    trainable.DEFAULT_STORAGE_PATH = str(folder)  # for an empty folder; RLlib takes the user's home folder
    torch.set_num_threads(1)  # networks this small lose more to thread hand-over than they gain
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)  # after Ray's start, which sets it
    return config(recipe, seed).build_algo()


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
    decisions = float(sampled.get("decisions", 0.0))  # asynchronous algorithms may have none yet
    rates = [float(value) for name, value in learned.items() if name.endswith("_learning_rate")]
    return {
        **({"learner/learning_rate": rates[0]} if rates else {}),
        "agent_steps": decisions,
        **({"train/reward": float(sampled["reward_sum"]) / (decisions * reward_scale)} if decisions else {}),
        **_episodes(sampled, reward_scale),
        **{f"learner/{tag}": float(np.mean(learned[name])) for tag, name in _LEARNED.items() if name in learned},
    }


def _episodes(sampled: dict[str, Any], reward_scale: float) -> dict[str, float]:
    """RLlib's means over the last episodes; empty before the first has ended."""
    total, length = (float(sampled.get(name, math.nan)) for name in ("episode_return_mean", "episode_len_mean"))
    if math.isnan(total) or math.isnan(length):
        return {}
    return {"train/episode_return": total / reward_scale, "train/episode_length": length}
