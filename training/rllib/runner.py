"""An env runner that keeps samples in arrays, for vector environments with cheap steps."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.module_to_env import GetActions
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.numpy import convert_to_numpy
from ray.rllib.utils.spaces.space_utils import clip_action, unsquash_action

from orbitcc.common.errors import OrbitccError

_OTHERWISE = "RLlib's own env runner"
_PER_EPISODE = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


class ArrayEnvRunner(SingleAgentEnvRunner):
    """RLlib's runner of single agents, without an object per step: `config.env_runners(env_runner_cls=ArrayEnvRunner)`.

    RLlib's own runner appends every step of every sub-environment to an episode object and passes it through
    connectors. This one appends one array per step of all, and cuts episodes out of them at the end: the same
    `SingleAgentEpisode`s, in the same order, with the same random numbers, so that the learner, its connectors, its
    advantages and the metrics are RLlib's own. What it leaves out, and therefore refuses, are custom connectors between
    environment and module, modules with memory, and callbacks for each episode or step; `infos` are empty.

    It needs a vector environment that resets in the next step (RLlib's convention) and has boxes of actions and
    observations.

    Raises:
        OrbitccError: the configuration has what this runner leaves out, or another kind of environment.
    """

    _needs_initial_reset: bool
    _observations: NDArray[np.float32]
    _renewing: NDArray[np.bool_]  # sub-environments whose next step is a reset and takes no decision

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        _refuse_what_is_left_out(config)
        super().__init__(config=config, **kwargs)
        if self.module is not None and self.module.is_stateful():
            raise OrbitccError("rl_module", "a module with memory", f"one without, or {_OTHERWISE}")
        self._pick, self._kind = GetActions(), [SingleAgentEpisode()]  # it asks what kind of episodes there are
        self._was_whole = False  # of complete episodes: what else ran in the last sample is lost

    def _sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[SingleAgentEpisode]:
        """Episodes as RLlib's runner returns them.

        Where `num_episodes` are wanted these are all that end in the step in which the last of them does, and other
        worlds in each sample: RLlib gives its first seed again.
        """
        whole = num_episodes is not None
        if force_reset or whole or self._was_whole or self._needs_initial_reset:
            self._reset_all()
        self._was_whole = whole
        rollout, steps, ends = _Rollout(self._observations), 0, 0
        while steps < num_timesteps if num_timesteps is not None else ends < (num_episodes or 0):
            outputs = self._act(steps, explore, random_actions)
            result = self._try_env_step(self._for_env(outputs[Columns.ACTIONS]))
            if isinstance(result, str):  # it failed, RLlib made a new environment: begin again
                self._reset_all()
                rollout, steps, ends = _Rollout(self._observations), 0, 0
                continue
            self._observations, rewards, terminated, truncated, _ = result
            rollout.add(self._observations, outputs, rewards, terminated, truncated, self._renewing)
            steps += self.num_envs - int(np.count_nonzero(self._renewing))
            self._renewing = terminated | truncated
            ends += int(np.count_nonzero(self._renewing))
        episodes = list(self._cut(rollout.stacked(), keep_ongoing=not whole)) if rollout else []
        self._log_env_steps(metric=self._metrics_num_env_steps_sampled, num_steps=steps)
        self._increase_sampled_metrics(steps, ends)
        return episodes

    def make_env(self) -> None:
        super().make_env()
        mode = self.env.metadata.get("autoreset_mode")
        if mode is not AutoresetMode.NEXT_STEP:
            raise OrbitccError("autoreset_mode", str(mode), AutoresetMode.NEXT_STEP.value)
        for name in ("observation_space", "action_space"):
            space = getattr(self.env, f"single_{name}")
            if not isinstance(space, Box):
                raise OrbitccError(name, str(space), f"a Box, or {_OTHERWISE}")

    def _reset_all(self) -> None:
        seed = self._seed if self._needs_initial_reset else None
        self._observations, _ = self._try_env_reset(seed=seed)
        self._needs_initial_reset = False
        self._renewing = np.zeros(self.num_envs, np.bool_)
        self._ids = [uuid.uuid4().hex for _ in range(self.num_envs)]
        self._lengths = np.zeros(self.num_envs, np.int64)
        self._returns = np.zeros(self.num_envs)
        self._began = np.full(self.num_envs, time.perf_counter())

    def _act(self, steps: int, explore: bool, random_actions: bool) -> dict[str, NDArray[Any]]:
        """The module's outputs for all sub-environments: sampled actions, log probabilities, inputs."""
        if random_actions:
            return {Columns.ACTIONS: self.env.action_space.sample()}
        seen = {Columns.OBS: torch.from_numpy(self._observations).to(self._device)}
        if explore:
            runners = self.config.num_env_runners or 1
            lifetime = (self.num_env_steps_sampled_lifetime // runners + steps) * runners  # RLlib's estimate for all
            outputs = self.module.forward_exploration(seen, t=lifetime)
        else:
            outputs = self.module.forward_inference(seen)
        outputs = self._pick(rl_module=self.module, batch=outputs, episodes=self._kind, explore=explore)
        return {column: convert_to_numpy(value) for column, value in outputs.items()}

    def _for_env(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.config.normalize_actions:
            return unsquash_action(actions, self.env.single_action_space)
        return clip_action(actions, self.env.single_action_space) if self.config.clip_actions else actions

    def _cut(self, rollout: dict[str, NDArray[Any]], keep_ongoing: bool) -> Iterator[SingleAgentEpisode]:
        """Finished episodes in the order of their ends, then the unfinished ones in the order of sub-environments."""
        length = len(rollout["ended"])
        begins = rollout["renewing"][0].astype(np.int64)
        for step, flow in np.argwhere(rollout["ended"]).tolist():
            yield self._episode(rollout, flow, begins[flow], step + 1)
            self._log_episode_metrics(
                int(self._lengths[flow]), float(self._returns[flow]), time.perf_counter() - self._began[flow]
            )
            self._ids[flow], self._began[flow] = uuid.uuid4().hex, time.perf_counter()
            self._lengths[flow] = self._returns[flow] = 0
            begins[flow] = step + 2  # after the reset
        for flow in np.flatnonzero(begins < length).tolist() if keep_ongoing else ():
            yield self._episode(rollout, flow, begins[flow], length)

    def _episode(self, rollout: dict[str, NDArray[Any]], flow: int, begin: int, end: int) -> SingleAgentEpisode:
        """The episode of one sub-environment in the steps from `begin` up to `end`."""

        def part(column: str, more: int = 0) -> InfiniteLookbackBuffer:
            return InfiniteLookbackBuffer(rollout[column][begin : end + more, flow].copy())

        episode = SingleAgentEpisode(
            self._ids[flow],
            observations=part(Columns.OBS, 1),
            infos=InfiniteLookbackBuffer([{}] * (end - begin + 1)),
            actions=part(Columns.ACTIONS),
            rewards=part(Columns.REWARDS),
            terminated=bool(rollout[Columns.TERMINATEDS][end - 1, flow]),
            truncated=bool(rollout[Columns.TRUNCATEDS][end - 1, flow]),
            extra_model_outputs={column: part(column) for column in rollout if column not in _OWN},
            t_started=int(self._lengths[flow]),
            len_lookback_buffer=0,
        )
        self._lengths[flow] += end - begin
        self._returns[flow] += rollout[Columns.REWARDS][begin:end, flow].sum()
        return episode


_OWN = {Columns.OBS, Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS, "ended", "renewing"}
"""Columns of a rollout that are no outputs of the module."""


class _Rollout:
    """Arrays of all sub-environments, step by step."""

    def __init__(self, first: NDArray[np.float32]) -> None:
        self._columns: dict[str, list[NDArray[Any]]] = {Columns.OBS: [first]}

    def __bool__(self) -> bool:
        return len(self._columns) > 1

    def add(
        self,
        observations: NDArray[np.float32],
        outputs: dict[str, NDArray[Any]],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        renewing: NDArray[np.bool_],
    ) -> None:
        step = {
            **outputs,
            Columns.OBS: observations,
            Columns.REWARDS: rewards,
            Columns.TERMINATEDS: terminated,
            Columns.TRUNCATEDS: truncated,
            "ended": terminated | truncated,
            "renewing": renewing,
        }
        for column, value in step.items():
            self._columns.setdefault(column, []).append(value)

    def stacked(self) -> dict[str, NDArray[Any]]:
        """Columns of [steps, sub-environments, ...]; there is one observation more."""
        return {column: np.stack(values) for column, values in self._columns.items()}


def _refuse_what_is_left_out(config: AlgorithmConfig) -> None:
    for name in ("env_to_module_connector", "module_to_env_connector"):
        if getattr(config, f"_{name}", None) is not None:
            raise OrbitccError(name, "a connector", f"none, or {_OTHERWISE}")
    classes = config.callbacks_class if isinstance(config.callbacks_class, list) else [config.callbacks_class]
    for name in _PER_EPISODE:
        heard = [kind for kind in classes if getattr(kind, name, None) is not getattr(RLlibCallback, name)]
        if heard or getattr(config, f"callbacks_{name}", None):
            raise OrbitccError(f"callbacks.{name}", "a callback", f"none, or {_OTHERWISE}")
