"""A torch module for PPO with a centralised critic: the value function has more inputs than the policy."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchDiagGaussian
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn

from orbitcc.envs.environments.batch import GLOBAL_STATE
from orbitcc.envs.errors import OrbitccError

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


class CentralCritic(TorchRLModule, InferenceOnlyAPI, ValueFunctionAPI):
    """Two networks of one shape: the policy reads the observation, the value function that and the global state.

    MAPPO (Yu et al., NeurIPS 2022). The input `obs` is float32[B, D + S], as
    :class:`~orbitcc.envs.environments.rllib.StatefulFlowVectorEnv` has it: the last S columns are the global state.
    Actions are Gaussian with a standard deviation of their own, which depends on nothing, around means that only depend
    on the first D columns. Weights begin orthogonal (gain 2 ** 0.5, 0.01 for the means, 1 for the value), biases at
    zero.

    `model_config` holds

    * `state`: S (default 12; 0 = the critic sees no more than the policy);
    * `hidden`, `activation`: of both networks (default `(64, 64)` and `tanh`; or `relu`);
    * `exploration_std`: standard deviation of actions at first (default 0.4).

    Raises:
        OrbitccError: the observations do not end with a global state.
    """

    def setup(self) -> None:
        config = self.model_config
        width, actions = self.observation_space.shape[0], self.action_space.shape[0]
        self._seen = width - int(config.get("state", GLOBAL_STATE))
        if self._seen < 1 or np.isfinite(self.observation_space.high[self._seen :]).any():  # a state has no bounds
            raise OrbitccError("env_config.global_state", False, "true: the last columns are the critic's alone")
        hidden, activation = config.get("hidden", (64, 64)), ACTIVATIONS[config.get("activation", "tanh")]
        self.pi = network([self._seen, *hidden, actions], activation, gain=0.01)
        self.log_std = nn.Parameter(torch.full((actions,), math.log(config.get("exploration_std", 0.4))))
        self.vf = network([width, *hidden, 1], activation, gain=1.0)
        self.action_dist_cls = TorchDiagGaussian

    def get_non_inference_attributes(self) -> list[str]:
        return ["vf"]

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        means = self.pi(batch[Columns.OBS][..., : self._seen])
        return {Columns.ACTION_DIST_INPUTS: torch.cat([means, self.log_std.expand_as(means)], dim=-1)}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        """Values, float32[B]."""
        return self.vf(batch[Columns.OBS]).squeeze(-1)


def network(widths: Sequence[int], activation: type[nn.Module], *, gain: float) -> nn.Sequential:
    """Dense layers from `widths[0]` inputs to `widths[-1]` linear outputs, whose weights begin with this gain."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
        nn.init.orthogonal_(layers[-2].weight, 2**0.5)
        nn.init.zeros_(layers[-2].bias)
    nn.init.orthogonal_(layers[-2].weight, gain)
    return nn.Sequential(*layers[:-1])
