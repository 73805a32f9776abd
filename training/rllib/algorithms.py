"""Any algorithm of RLlib by name, with its own settings and RLlib's default network."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError, UnknownNameError
from orbitcc.envs.environments.presets import preset
from orbitcc.training.learners import RllibOptions
from orbitcc.training.networks import exported
from orbitcc.training.recipe import PolicyShape, Recipe

CONFIGS = {
    name: f"ray.rllib.algorithms.{name.lower()}:{name}Config" for name in ("APPO", "DQN", "IMPALA", "PPO", "SAC")
}
"""Algorithm of RLlib -> module and class of its configuration."""
_RLLIB = "ray.rllib.algorithms."
_OF_RLLIB = re.compile(re.escape(_RLLIB) + r"\w+(\.\w+)*:\w+")
_PLAIN = re.compile(r"[\w -]*")
DISCRETE = ("DQN",)
CONTINUOUS = ("SAC",)


def algorithm_config(recipe: Recipe) -> Any:
    """RLlib's configuration of the recipe's algorithm, still without an environment.

    Raises:
        OrbitccError: an unknown algorithm or setting, or one that cannot learn such actions.
    """
    asked, used = recipe.options(RllibOptions), preset(recipe.preset)
    config = _class(asked.algorithm)()
    kind = type(config).__name__.removesuffix("Config")
    for names, lists in ((DISCRETE, True), (CONTINUOUS, False)):
        if kind in names and (used.choices is not None) is not lists:
            allowed = f"{'window-factors or another list of factors' if lists else 'steps'}, with {kind}"
            raise OrbitccError("preset.action", str(used.action), allowed)
    config.learners(num_learners=0)
    config.rl_module(model_config=default_module(recipe.network))
    config.reporting(min_sample_timesteps_per_iteration=asked.batch, min_time_s_per_iteration=0)
    _set(config, "training", "training", asked.training)
    _set(config, "env_runners", "sampling", asked.sampling)
    return config


def default_module(network: PolicyShape) -> Any:
    """RLlib's default module with the layers of a recipe."""
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    return DefaultModelConfig(
        fcnet_hiddens=list(network.hidden), fcnet_activation=network.activation, head_fcnet_hiddens=[]
    )


def _set(config: Any, method: str, table: str, given: Mapping[str, Any]) -> None:
    """Call a method of a configuration with the values of a table of the recipe."""
    known: set[str] = set()
    for kind in type(config).__mro__:
        if method in vars(kind):
            known |= set(inspect.signature(vars(kind)[method]).parameters) - {"self", "kwargs"}
    for name in given:
        if name not in known:
            raise UnknownNameError(f"learner.{table}.{name}", name, sorted(known))
    chosen = {name: _plain(f"learner.{table}.{name}", value) for name, value in given.items()}
    try:
        getattr(config, method)(**chosen)
    except (TypeError, ValueError) as error:
        raise OrbitccError(f"learner.{table}", dict(given), f"settings that RLlib accepts ({error})") from None


def _class(algorithm: str) -> Any:
    path = CONFIGS.get(algorithm, algorithm)
    if not _OF_RLLIB.fullmatch(path):
        own = f"{_RLLIB}MODULE:CLASS, a configuration of RLlib (a recipe cannot name other code)"
        raise UnknownNameError("learner.algorithm", algorithm, [*CONFIGS, own])
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise OrbitccError("learner.algorithm", algorithm, f"a class that can be imported ({error})") from None
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    if not (inspect.isclass(found) and issubclass(found, AlgorithmConfig)):
        raise OrbitccError("learner.algorithm", algorithm, "a subclass of RLlib's AlgorithmConfig")
    return found


def _plain(field: str, value: Any) -> Any:
    """Tables of a recipe as dictionaries, and arrays as lists: RLlib takes nothing else.

    RLlib imports the module that a dotted text names, so that only plain words are allowed.
    """
    if isinstance(value, Mapping):
        return {key: _plain(f"{field}.{key}", part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(f"{field}.{number}", part) for number, part in enumerate(value)]
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        raise OrbitccError(field, value, "a word without dots: a recipe cannot name code")
    return value


def export(module: Any, recipe: Recipe) -> dict[str, NDArray[np.float32]]:
    """The policy of RLlib's default module as the tensors of a checkpoint.

    Means of actions (the first outputs of the head), or a value for each choice: logits of a categorical policy, or
    advantages of a Q-network, to which the value of the state adds the same for all.

    Raises:
        OrbitccError: the module is not RLlib's default of these layers.
    """
    used = preset(recipe.preset)
    outputs, last = used.choices or used.action_dim, len(recipe.network.hidden)
    parts = dict(module.named_modules())
    encoder, head = (
        next((parts[f"{part}.net.mlp"] for part in names if f"{part}.net.mlp" in parts), ())
        for names in (_ENCODERS, _HEADS)
    )
    tensors = exported([*encoder, *head])
    if len(tensors) != 2 * (last + 1) or len(tensors[f"layers.{last}.bias"]) < outputs:
        raise OrbitccError("algorithm", recipe.name, "one with RLlib's default module")
    for kind in ("weight", "bias"):
        tensors[f"layers.{last}.{kind}"] = tensors[f"layers.{last}.{kind}"][:outputs].copy()
    return tensors


_ENCODERS = ("pi_encoder", "encoder.actor_encoder", "encoder.encoder", "encoder")
_HEADS = ("pi", "af")
