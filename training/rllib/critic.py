"""A torch module for PPO whose value function has more inputs than the policy, and the learner of its schedules."""

import math
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchDiagGaussian
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME
from torch import nn

from orbitcc.agents.model_card import Layer
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.batch import GLOBAL_STATE
from orbitcc.envs.environments.rllib import StatefulFlowVectorEnv
from orbitcc.training import privileged
from orbitcc.training.networks import Dense, Gated, Moments
from orbitcc.training.ppo import CLIP


class PrivilegedFlows(StatefulFlowVectorEnv):
    """Its observations end with the privileged inputs of a critic (:mod:`orbitcc.training.privileged`)."""

    CRITIC_INPUTS = privileged.DIM

    def critic_inputs(self) -> np.ndarray:
        return privileged.privileged(self.state(), self.statistics()[:, privileged.COLUMNS])


class CentralCritic(TorchRLModule, InferenceOnlyAPI, ValueFunctionAPI):
    """A policy that reads the observation, and a value function that reads that and the global state.

    MAPPO (Yu et al., NeurIPS 2022). The input `obs` is float32[B, D + S], as
    :class:`~orbitcc.envs.environments.rllib.StatefulFlowVectorEnv` has it: the last S columns are the global state.
    Actions are Gaussian with a standard deviation of their own, which depends on nothing, around means that only depend
    on the first D columns. Weights begin orthogonal (gain 2 ** 0.5, 0.01 for the means, 1 for the value), biases at
    zero.

    `model_config` holds

    * `state`: S (default 12; 0 = the critic sees no more than the policy);
    * `hidden`, `activation`: of the policy (default `(64, 64)` and `tanh`; or `relu`, `leaky_relu`);
    * `critic_hidden`: of the value function (default: as `hidden`);
    * `gate`: a :class:`~orbitcc.agents.model_card.Gate` that weighs the outputs of the policy's network, the experts
      (default: none);
    * `exploration_std`: standard deviation of actions at first (default 0.4);
    * `exploration_std_final`, `exploration_steps`: :class:`ScheduledLearner` changes the deviation linearly to this one
      within so many sampled steps (default: it is learned);
    * `normalise`: the first D columns are normalised by their running mean and standard deviation, which
      :class:`ScheduledLearner` updates after each iteration (default: false).

    Raises:
        OrbitccError: the observations do not end with a global state.
    """

    def setup(self) -> None:
        config = self.model_config
        width, actions = self.observation_space.shape[0], self.action_space.shape[0]
        self.seen = width - int(config.get("state", GLOBAL_STATE))
        if self.seen < 1 or np.isfinite(self.observation_space.high[self.seen :]).any():  # a state has no bounds
            raise OrbitccError("env_config.global_state", False, "true: the last columns are the critic's alone")
        hidden, activation = config.get("hidden", (64, 64)), config.get("activation", "tanh")
        gate = config.get("gate")

        def layers(widths: tuple[int, ...], outputs: int) -> list[Layer]:
            inner = [Layer(units=units, activation=activation) for units in widths]
            return [*inner, Layer(units=outputs, activation="linear")]

        self.pi: nn.Module
        if gate is None:
            self.pi = Dense(self.seen, layers(hidden, actions), gain=0.01)
        else:
            self.pi = Gated(layers(hidden, gate.layers[-1].units), gate)
        log_std = torch.full((actions,), math.log(config.get("exploration_std", 0.4)))
        if config.get("exploration_std_final", 0.0) > 0.0:
            self.register_buffer("log_std", log_std)
        else:
            self.log_std = nn.Parameter(log_std)
        self.scale = RunningScale(self.seen) if config.get("normalise", False) else None
        self.vf = Dense(width, layers(config.get("critic_hidden", hidden), 1), gain=1.0)
        self.action_dist_cls = TorchDiagGaussian

    def get_non_inference_attributes(self) -> list[str]:
        return ["vf"]

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        means = self.pi(self._observed(batch[Columns.OBS]))
        return {Columns.ACTION_DIST_INPUTS: torch.cat([means, self.log_std.expand_as(means)], dim=-1)}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        """Values, float32[B]."""
        rows = batch[Columns.OBS]
        if self.scale is not None:
            rows = torch.cat([self._observed(rows), rows[..., self.seen :]], dim=-1)
        return self.vf(rows).squeeze(-1)

    def _observed(self, rows: torch.Tensor) -> torch.Tensor:
        observed = rows[..., : self.seen]
        return observed if self.scale is None else self.scale(observed)


class RunningScale(nn.Module):
    """Normalises rows by a mean and a standard deviation, and keeps the sums that make the next ones."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("std", torch.ones(dim))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("average", torch.zeros(dim, dtype=torch.float64))
        self.register_buffer("square", torch.zeros(dim, dtype=torch.float64))
        self._fresh: list[tuple[float, np.ndarray, np.ndarray]] = []

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return ((rows - self.mean) / self.std).clamp(-CLIP, CLIP)

    def note(self, rows: torch.Tensor, weight: float) -> None:
        """Remember rows, float32[n, D], of which each counts `weight` times."""
        mean, many = rows.mean(0, dtype=torch.float64), weight * len(rows)
        square = weight * ((rows - mean) ** 2).sum(0)
        self._fresh.append((many, mean.cpu().numpy(), square.cpu().numpy()))

    def fold(self) -> None:
        """Take what was remembered into the mean and the standard deviation."""
        moments = Moments(len(self.mean))
        moments.restore({"count": float(self.count), "mean": self.average.tolist(), "square": self.square.tolist()})
        for fresh in self._fresh:
            moments.merge(*fresh)
        self._fresh.clear()
        for name, value in moments.state().items():
            getattr(self, "average" if name == "mean" else name).copy_(torch.tensor(value, dtype=torch.float64))
        self.mean.copy_(torch.from_numpy(moments.mean))
        self.std.copy_(torch.from_numpy(moments.std))


class ScheduledLearner(PPOTorchLearner):
    """RLlib's PPO learner for a :class:`CentralCritic` that normalises or whose exploration follows a schedule.

    Both change between two iterations, when the policy has been updated and has not sampled yet.
    """

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> torch.Tensor:
        module = self.module[module_id].unwrapped()
        if module.scale is not None:
            rows, mask = batch[Columns.OBS][..., : module.seen], batch.get(Columns.LOSS_MASK)
            module.scale.note(rows if mask is None else rows[mask], 1.0 / config.num_epochs)
        return super().compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        super().after_gradient_based_update(timesteps=timesteps)
        for module_id in self.module.keys():  # noqa: SIM118 (a MultiRLModule is no dictionary)
            module = self.module[module_id].unwrapped()
            config = module.model_config
            if module.scale is not None:
                module.scale.fold()
            if (final := config.get("exploration_std_final", 0.0)) > 0.0:
                first = config["exploration_std"]
                share = min(1.0, timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0) / config["exploration_steps"])
                module.log_std.fill_(math.log(first + share * (final - first)))
