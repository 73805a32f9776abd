"""Astraea's TD3 with RLlib: the module, the replay buffer, the learner, and the algorithm that joins them.

RLlib has no TD3 of its own. Networks, targets and losses are those of :mod:`orbitcc.training.astraea_td3`. What differs
is the sampling: one sub-environment per flow, in RLlib's env runners, with as many flows in a world from its beginning
to its end (:class:`~orbitcc.FlowVectorEnv`).
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchDeterministic
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

from orbitcc.envs.environments.batch import GLOBAL_STATE
from orbitcc.envs.environments.rllib import StatefulFlowVectorEnv
from orbitcc.training.astraea_td3 import (
    BRAKE_ACTION,
    OWN,
    ActorCritics,
    compared,
    delivered,
    fairness_part,
    fallen,
    window_bdp,
    with_fairness,
)
from orbitcc.training.learners import RllibTd3Options
from orbitcc.training.networks import Moments
from orbitcc.training.recipe import Recipe
from orbitcc.training.rllib.runner import DECIDES

SEEN_BY_CRITICS = GLOBAL_STATE + OWN
WEIGHT, WINDOW = -2, -1
"""Last columns of an observation: one over the number of flows of the world, and the window in BDPs of the path."""

Array = NDArray[np.float32]


class CriticFlows(StatefulFlowVectorEnv):
    """Observations end with the inputs of Astraea's critics, the flow's weight and its window: 12 + 3 + 2 numbers."""

    CRITIC_INPUTS = SEEN_BY_CRITICS + 2

    def critic_inputs(self) -> Array:
        statistics, worlds = self.statistics(), self.worlds
        rate = delivered(statistics)
        total, flows = np.bincount(worlds, rate)[worlds], np.bincount(worlds)[worlds]
        own = compared(rate, total, flows)
        return np.column_stack((self.state(), own, 1.0 / flows, window_bdp(statistics))).astype(np.float32)


class Td3Module(ActorCritics, TorchRLModule, InferenceOnlyAPI):
    """The networks of Astraea's learner, the moments of their inputs, and exploration.

    Observations are those of :class:`CriticFlows`, of which the actor reads the preset's only. `model_config` holds
    `recipe`, a :class:`~orbitcc.training.recipe.Recipe`.
    """

    def setup(self) -> None:
        recipe: Recipe = self.model_config["recipe"]
        self.make(recipe, self.observation_space.shape[0] - CriticFlows.CRITIC_INPUTS)
        self.register_buffer("mean", torch.zeros(self.width + SEEN_BY_CRITICS))
        self.register_buffer("std", torch.ones(self.width + SEEN_BY_CRITICS))
        self.register_buffer("sigma", torch.tensor(self.settings.noise_std))
        self.register_buffer("random_share", torch.tensor(self.settings.random_share))
        self.action_dist_cls = TorchDeterministic
        self._noise = torch.zeros(0)

    def get_non_inference_attributes(self) -> list[str]:
        return ["critic", "critic_target", "actor_target"]

    def scaled(self, rows: torch.Tensor) -> torch.Tensor:
        """Inputs of the actor (float32[B, D]) or of the critics, normalised."""
        width = rows.shape[-1]
        return (rows - self.mean[:width]) / self.std[:width]

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {Columns.ACTIONS: torch.tanh(self.actor(self.scaled(batch[Columns.OBS][..., : self.width])))}

    def _forward_exploration(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        settings = self.settings
        with torch.no_grad():
            action = self._forward(batch)[Columns.ACTIONS]
            if self._noise.shape != action.shape:
                self._noise = torch.zeros_like(action)
            rho = settings.noise_correlation
            noise = rho * self._noise + math.sqrt(1 - rho * rho) * torch.randn_like(action)
            # on flows' own clocks the noise of a flow changes from one of its decisions to the next
            self._noise = torch.where(batch[DECIDES][:, None], noise, self._noise) if DECIDES in batch else noise
            action = (action + self.sigma * self._noise).clamp(-1.0, 1.0)
            action = torch.where(torch.rand_like(action) < self.random_share, 2 * torch.rand_like(action) - 1, action)
            if settings.brake_bdp:
                over = batch[Columns.OBS][..., WINDOW, None] > settings.brake_bdp
                action = torch.where(over, action.clamp(max=BRAKE_ACTION), action)
        return {Columns.ACTIONS: action}

    def _forward_train(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"values": self.critic(self.scaled(batch["now"]), batch[Columns.ACTIONS])}


def observed(recipe: Recipe) -> int:
    """Numbers of an observation of a recipe."""
    return recipe.used_preset.observation_space().shape[0]


class Experience:
    """The last transitions as flat arrays, with returns of n steps; the scales of the inputs; what has been learned.

    RLlib's replay buffers keep episodes of Python objects. This one takes the same episodes.
    """

    def __init__(self, recipe: Recipe, seed: int) -> None:
        self.settings = recipe.options(RllibTd3Options)
        self.width = observed(recipe) + SEEN_BY_CRITICS
        size = self.settings.replay
        self.now, self.after = (np.zeros((size, self.width), np.float32) for _ in range(2))
        self.action, self.returns, self.discount, self.weight = (np.zeros(size, np.float32) for _ in range(4))
        self.filled = self.next = self.critic_steps = 0
        self.scale = Moments(self.width)
        self._tails: dict[str, tuple[Array, Array, Array]] = {}
        self._rng = np.random.default_rng([seed, 0xA57])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tails": {}}  # whoever goes on with it has other worlds

    def add(self, episodes: list[SingleAgentEpisode], scales: bool) -> None:
        """Take in sampled episodes, or parts of them; `scales`: measure the scales of the inputs, too."""
        for episode in episodes:
            obs, action, reward = (
                np.array(part, np.float32)
                for part in (episode.get_observations(), episode.get_actions(), episode.get_rewards())
            )
            action = action[:, 0]
            if not self.settings.own_inputs:
                obs[:, self.width - OWN : self.width] = 0.0
            if scales:
                self.scale.add(obs[:-1, : self.width])
            if (earlier := self._tails.pop(episode.id_, None)) is not None:  # its returns were not complete
                obs, action, reward = (
                    np.concatenate(pair) for pair in zip(earlier, (obs, action, reward), strict=True)
                )
            kept = len(reward) if episode.is_done else max(len(reward) - self.settings.steps + 1, 0)
            if not episode.is_done:
                # The last observation comes again as the first of what follows.
                self._tails[episode.id_] = obs[kept:-1], action[kept:], reward[kept:]
            self._add(obs, action, reward, kept, episode.is_terminated)

    def _add(self, obs: Array, action: Array, reward: Array, kept: int, finished: bool) -> None:
        settings, length = self.settings, len(reward)
        returns = reward[:kept].copy()
        for k in range(1, settings.steps):
            later = reward[k : k + kept]
            returns[: len(later)] += settings.gamma**k * later
        first = np.arange(kept)
        end = np.minimum(first + settings.steps, length)
        discount = settings.gamma ** (end - first) * ~(finished & (end == length))
        place = (self.next + first) % settings.replay
        self.now[place], self.after[place] = obs[first, : self.width], obs[end, : self.width]
        self.action[place], self.returns[place], self.discount[place] = action[:kept], returns, discount
        self.weight[place] = obs[first, WEIGHT]
        self.next = (self.next + kept) % settings.replay
        self.filled = min(self.filled + kept, settings.replay)

    def sample(self, size: int) -> SampleBatch:
        """Transitions drawn uniformly, or all worlds equally often whatever their number of flows (`by_world`)."""
        if self.settings.by_world:
            total = np.cumsum(self.weight[: self.filled], dtype=np.float64)
            place = np.searchsorted(total, self._rng.random(size) * total[-1], side="right")
        else:
            place = self._rng.integers(0, self.filled, size)
        columns = {name: getattr(self, name)[place] for name in ("now", "after", "returns", "discount")}
        return SampleBatch({**columns, Columns.ACTIONS: self.action[place]})

    def due(self, decisions: int) -> int:
        """Updates of the critics that are due after so many decisions."""
        return max(0, (decisions - self.settings.learning_starts) // self.settings.update_every - self.critic_steps)


class Td3Learner(TorchLearner):
    """Huber losses of both critics; every `actor_every` updates the actor, then the targets and the average."""

    def build(self) -> None:
        super().build()
        self._updates = 0
        self._losses: dict[str, dict[str, torch.Tensor]] = {}

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        module = self.module[module_id].unwrapped()
        settings, steps = module.settings, module.model_config["recipe"].agent_steps
        for name, rate in (("critic", settings.critic_lr), ("actor", settings.actor_lr)):
            parameters = list(getattr(module, name).parameters())
            learned = [parameter for parameter in parameters if parameter.requires_grad]
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=torch.optim.Adam(learned),
                params=learned,
                lr_or_lr_schedule=[[0, rate], [steps, rate * settings.lr_final_share]],
            )

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> torch.Tensor:
        module = self.module[module_id].unwrapped()
        scaled = {**batch, "now": module.scaled(batch["now"]), "after": module.scaled(batch["after"])}
        losses = {"critic": module.critic_loss(fwd_out["values"], scaled, torch.randn_like(batch["returns"]))}
        figures = {"qf_loss": losses["critic"]}
        if module.learns_actor(self._updates + 1):
            losses["actor"] = figures["policy_loss"] = module.actor_loss(scaled)
        for name, loss in figures.items():
            self.metrics.log_value((module_id, name), loss.item(), window=100)
        self._losses[module_id] = losses
        return losses["critic"]

    def compute_gradients(self, loss_per_module: dict[str, torch.Tensor], **_: Any) -> dict[Any, torch.Tensor]:
        """Of the critics' loss for the critics alone, and of the actor's for the actor alone."""
        found: dict[Any, torch.Tensor] = {}
        for module_id in loss_per_module:
            for name, optimiser in self.get_optimizers_for_module(module_id):
                optimiser.zero_grad(set_to_none=True)  # one without gradients makes no step
                if name in self._losses[module_id]:
                    references = self._optimizer_parameters[optimiser]
                    parameters = [self._params[reference] for reference in references]
                    gradients = torch.autograd.grad(self._losses[module_id][name], parameters)
                    found.update(zip(references, gradients, strict=True))
        return found

    def apply_gradients(self, gradients_dict: dict[Any, torch.Tensor]) -> None:
        super().apply_gradients(gradients_dict)
        self._updates += 1
        for module_id in self._losses:
            module = self.module[module_id].unwrapped()
            module.follow(self._updates)

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Let exploration fall."""
        super().after_gradient_based_update(timesteps=timesteps)
        for module_id in self.module.keys():  # noqa: SIM118 (a MultiRLModule is no dictionary)
            module = self.module[module_id].unwrapped()
            settings, steps = module.settings, module.model_config["recipe"].agent_steps
            done = timesteps[NUM_ENV_STEPS_SAMPLED_LIFETIME] / steps
            module.sigma.fill_(fallen(settings.noise_std, settings.noise_std_final, done, settings))
            module.random_share.fill_(fallen(settings.random_share, settings.random_share_final, done, settings))

    def take_scale(self, mean: NDArray[np.float64], std: NDArray[np.float64]) -> None:
        """Normalise inputs with these moments."""
        module = self.module[DEFAULT_MODULE_ID].unwrapped()
        module.mean.copy_(torch.from_numpy(mean))
        module.std.copy_(torch.from_numpy(std))


class Td3Config(AlgorithmConfig):
    """RLlib's configuration of :class:`Td3`; the recipe is in the module's `model_config`."""

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class or Td3)

    def get_default_learner_class(self) -> Any:
        return Td3Learner

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(Td3Module)


class Td3(Algorithm):
    """Sample `learner.iteration` decisions, then make the updates that are due."""

    def setup(self, config: Any) -> None:
        super().setup(config)
        self.recipe: Recipe = self.config.rl_module_spec.model_config["recipe"]
        self.local_replay_buffer = Experience(self.recipe, self.config.seed or 0)
        self._part = 0

    def training_step(self) -> None:
        settings, experience = self.recipe.options(RllibTd3Options), self.local_replay_buffer
        episodes, sampled = synchronous_parallel_sample(
            worker_set=self.env_runner_group,
            max_env_steps=settings.iteration,
            sample_timeout_s=self.config.sample_timeout_s,
            _uses_new_env_runners=True,
            _return_metrics=True,
        )
        self.metrics.aggregate(sampled, key=ENV_RUNNER_RESULTS)
        self._set_fairness(self._decisions() / self.recipe.agent_steps)
        measured = max(settings.learning_starts, settings.scale_share * self.recipe.agent_steps)
        scales = settings.scale_inputs and self._decisions() - settings.iteration < measured
        experience.add(episodes, scales)
        if scales:
            moments = experience.scale.mean, experience.scale.std
            self.learner_group.foreach_learner(lambda learner: learner.take_scale(*moments))
        if updates := experience.due(self._decisions()):
            rows = updates * settings.batch
            learned = self.learner_group.update(
                batch=MultiAgentBatch({DEFAULT_MODULE_ID: experience.sample(rows)}, rows),
                timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: self._decisions()},
                num_epochs=1,
                minibatch_size=settings.batch,
            )
            experience.critic_steps += updates
            self.metrics.aggregate(learned, key=LEARNER_RESULTS)
        if scales or updates:
            self.env_runner_group.sync_weights(
                from_worker_or_learner_group=self.learner_group, policies={DEFAULT_MODULE_ID}, inference_only=True
            )

    def _decisions(self) -> int:
        return int(self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0))

    def _set_fairness(self, done: float) -> None:
        """The weight of fairness in the reward in this part of the run; worlds begin with that of the first part."""
        part = fairness_part(self.recipe.options(RllibTd3Options), done)
        if part != self._part:
            reward = with_fairness(self.recipe, part)
            self.env_runner_group.foreach_env_runner(
                lambda runner: runner.env.unwrapped.set_reward(reward),
                local_env_runner=not self.recipe.options(RllibTd3Options).env_runners,  # it has no worlds beside others
            )
            self._part = part
