"""An env runner that keeps samples in arrays, for vector environments with cheap steps."""

import time
import uuid
from collections.abc import Iterator, Mapping
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
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.rllib import counting_decisions

_OTHERWISE = "RLlib's own env runner"
DECIDES = "decides"
"""Column of the module's inputs: which rows decide, bool[B]; absent where all that are not reset do."""
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

    With the clock `flow` of a preset a step of an episode is a decision of its flow: the observation on which it
    decided, and the sum of the rewards until its next decision or its end. Decisions count, in samples and metrics,
    when they are complete; one that is still open at the end of a sample belongs to the next one.

    Raises:
        OrbitccError: the configuration has what this runner leaves out, or another kind of environment.
    """

    _needs_initial_reset: bool
    _observations: NDArray[np.float32]
    _due: NDArray[np.bool_]  # sub-environments that decide on the next step; it is a reset of others, or they wait

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
        steps = ends = 0
        while steps < num_timesteps if num_timesteps is not None else ends < (num_episodes or 0):
            outputs = self._act(steps, explore, random_actions)
            result = self._try_env_step(self._for_env(outputs[Columns.ACTIONS]))
            if isinstance(result, str):  # it failed, RLlib made a new environment: begin again
                self._reset_all()
                steps = ends = 0
                continue
            self._rollout.decide(self._due, self._observations, outputs)
            self._observations, rewards, terminated, truncated, _ = result
            self._due = self._asked(terminated | truncated)
            completed, ended = self._rollout.pay(rewards, terminated, truncated, self._due, self._observations)
            steps, ends = steps + completed, ends + ended
        episodes = [] if self._rollout.empty else list(self._cut(keep_ongoing=not whole))
        self._log_env_steps(metric=self._metrics_num_env_steps_sampled, num_steps=steps)
        self._increase_sampled_metrics(steps, ends)
        return episodes

    def make_env(self) -> None:
        with counting_decisions():
            super().make_env()
        native = self.env.unwrapped
        self._own_clock = isinstance(native, FlowVectorEnv) and native.preset.own_clock
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
        self._due = self._asked(np.zeros(self.num_envs, np.bool_))
        self._rollout = _Rollout(self.num_envs)
        self._ids = [uuid.uuid4().hex for _ in range(self.num_envs)]
        self._lengths = np.zeros(self.num_envs, np.int64)
        self._returns = np.zeros(self.num_envs)
        self._began = np.full(self.num_envs, time.perf_counter())

    def _asked(self, ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Who decides on the next step, bool[sub-environments], where episodes of these have just ended."""
        return self.env.unwrapped.active() & ~ended if self._own_clock else ~ended

    def _act(self, steps: int, explore: bool, random_actions: bool) -> dict[str, NDArray[Any]]:
        """The module's outputs for all sub-environments: sampled actions, log probabilities, inputs."""
        if random_actions:
            return {Columns.ACTIONS: self.env.action_space.sample()}
        seen = {Columns.OBS: torch.from_numpy(self._observations).to(self._device)}
        if self._own_clock:
            seen[DECIDES] = torch.from_numpy(self._due).to(self._device)
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

    def _cut(self, keep_ongoing: bool) -> Iterator[SingleAgentEpisode]:
        """Finished episodes in the order of their ends, then the unfinished ones in the order of sub-environments."""
        taken = self._rollout.take(self._due, self._observations)
        for flow, last, terminated, truncated in taken.ends:
            yield self._episode(taken, flow, taken.up_to(last), terminated, truncated)
            self._log_episode_metrics(
                int(self._lengths[flow]), float(self._returns[flow]), time.perf_counter() - self._began[flow]
            )
            self._ids[flow], self._began[flow] = uuid.uuid4().hex, time.perf_counter()
            self._lengths[flow] = self._returns[flow] = 0
            taken.next_seen[flow] += 1  # the last observation of the episode that has ended
        for flow in np.flatnonzero(taken.next_row < taken.complete).tolist() if keep_ongoing else ():
            yield self._episode(taken, flow, taken.complete[flow], False, False)

    def _episode(self, taken: "_Taken", flow: int, end: int, terminated: bool, truncated: bool) -> SingleAgentEpisode:
        """The next episode of a sub-environment, up to its decision number `end` in the order of sub-environments."""
        begin, seen = taken.next_row[flow], taken.next_seen[flow]
        length = int(end - begin)
        taken.next_row[flow], taken.next_seen[flow] = end, seen + length
        rows = taken.rows[begin:end]
        rewards = taken.rewards[rows]
        episode = SingleAgentEpisode(
            self._ids[flow],
            observations=InfiniteLookbackBuffer(taken.seen[taken.seen_rows[seen : seen + length + 1]]),
            infos=InfiniteLookbackBuffer([{}] * (length + 1)),
            actions=InfiniteLookbackBuffer(taken.outputs[Columns.ACTIONS][rows]),
            rewards=InfiniteLookbackBuffer(rewards),
            terminated=terminated,
            truncated=truncated,
            extra_model_outputs={
                column: InfiniteLookbackBuffer(values[rows])
                for column, values in taken.outputs.items()
                if column != Columns.ACTIONS
            },
            t_started=int(self._lengths[flow]),
            len_lookback_buffer=0,
        )
        self._lengths[flow] += length
        self._returns[flow] += rewards.sum()
        return episode


class _Taken:
    """What a sample consists of, ordered for episodes to be cut out of it.

    outputs: the module's, [n, ...] each, of decisions in the order of time; rewards: [n]; deciders: int[n].
    seen: observations of decisions and after the last ones, [m, D]; seers: int[m], whose they are.
    ends: sub-environment, row of the last decision, terminated and truncated of the episodes that ended.
    incomplete: whether the last decision of each sub-environment is, bool[sub-environments].
    """

    def __init__(
        self,
        outputs: Mapping[str, NDArray[Any]],
        rewards: NDArray[Any],
        deciders: NDArray[np.int64],
        seen: NDArray[np.float32],
        seers: NDArray[np.int64],
        ends: list[tuple[int, int, bool, bool]],
        incomplete: NDArray[np.bool_],
    ) -> None:
        self.outputs, self.rewards, self.seen, self.ends = outputs, rewards, seen, ends
        self.rows, self.seen_rows = (np.argsort(whose, kind="stable") for whose in (deciders, seers))
        """Rows of decisions and of observations, sub-environment by sub-environment in the order of time."""
        self._places = np.empty_like(self.rows)
        self._places[self.rows] = np.arange(len(self.rows))
        flows = len(incomplete)
        self.next_row, self.next_seen = (
            np.cumsum(np.bincount(whose, minlength=flows)) - np.bincount(whose, minlength=flows)
            for whose in (deciders, seers)
        )
        """Where the next episode of each sub-environment begins, in `rows` and `seen_rows`."""
        self.complete = self.next_row + np.bincount(deciders, minlength=flows) - incomplete
        """Where its complete decisions end, in `rows`."""

    def up_to(self, row: int) -> int:
        """The end, in `rows`, of decisions of which this is the last."""
        return int(self._places[row]) + 1


class _Rollout:
    """The decisions of a sample in the order of time, and what each of them brought.

    Those that were open at the end of the sample before are its first.
    """

    def __init__(self, flows: int) -> None:
        self._open = np.full(flows, -1)  # the row of each sub-environment's decision that is not complete; -1: none
        self._paid: NDArray[Any] = np.zeros(flows, np.float32)  # to open decisions so far
        self._clear()

    def _clear(self) -> None:
        self._rows = 0
        self._outputs: list[Mapping[str, NDArray[Any]]] = []
        self._deciders: list[NDArray[np.int64]] = []
        self._seen: list[NDArray[np.float32]] = []
        self._seers: list[NDArray[np.int64]] = []
        self._completed: list[NDArray[np.int64]] = []
        self._rewards: list[NDArray[Any]] = []
        self._ends: list[tuple[int, int, bool, bool]] = []

    @property
    def empty(self) -> bool:
        return not self._completed

    def decide(
        self, due: NDArray[np.bool_], observations: NDArray[np.float32], outputs: Mapping[str, NDArray[Any]]
    ) -> None:
        """These sub-environments decide; `observations` and `outputs` are those of all."""
        flows = np.flatnonzero(due)
        pick: Any = slice(None) if len(flows) == len(due) else flows
        self._add(flows, observations[pick], {column: values[pick] for column, values in outputs.items()})

    def pay(
        self,
        rewards: NDArray[Any],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        due: NDArray[np.bool_],
        observations: NDArray[np.float32],
    ) -> tuple[int, int]:
        """A step brought this; how many decisions it completed, and how many episodes ended with one."""
        self._paid = self._paid + rewards
        ended = terminated | truncated
        completes = (self._open >= 0) & (due | ended)
        self._completed.append(self._open[completes])
        self._rewards.append(self._paid[completes])
        over = np.flatnonzero(completes & ended)
        if over.size:
            self._look(over, observations[over])
            whose = (over, self._open[over], terminated[over], truncated[over])
            self._ends += zip(*(part.tolist() for part in whose), strict=True)
        self._open[completes] = -1
        self._paid[self._open < 0] = 0
        return len(self._completed[-1]), len(over)

    def take(self, due: NDArray[np.bool_], observations: NDArray[np.float32]) -> _Taken:
        """All that is complete; `due` decide next. The next sample begins with the rest."""
        flows = np.flatnonzero(due)
        self._look(flows, observations[flows])
        outputs = {column: self._told(column, values) for column, values in self._outputs[-1].items()}
        paid = np.concatenate(self._rewards)
        rewards = np.zeros(self._rows, paid.dtype)
        rewards[np.concatenate(self._completed)] = paid
        taken = _Taken(
            outputs,
            rewards,
            np.concatenate(self._deciders),
            np.concatenate(self._seen),
            np.concatenate(self._seers),
            self._ends,
            self._open >= 0,
        )
        self._clear()
        waiting = np.flatnonzero(self._open >= 0)
        if waiting.size:
            last = np.append(taken.next_seen[1:], len(taken.seen_rows))[waiting] - 1
            kept = {column: values[self._open[waiting]] for column, values in outputs.items()}
            self._add(waiting, taken.seen[taken.seen_rows[last]], kept)
        return taken

    def _told(self, column: str, last: NDArray[Any]) -> NDArray[Any]:
        """A column of outputs of all decisions; NaN where a decision of the sample before was made without it."""

        def unknown(count: int) -> NDArray[Any]:
            return np.full((count, *last.shape[1:]), np.nan, np.result_type(last, np.float32))

        parts = zip(self._outputs, self._deciders, strict=True)
        return np.concatenate([part[column] if column in part else unknown(len(whose)) for part, whose in parts])

    def _add(
        self, flows: NDArray[np.int64], observations: NDArray[np.float32], outputs: Mapping[str, NDArray[Any]]
    ) -> None:
        self._open[flows] = np.arange(self._rows, self._rows + len(flows))
        self._rows += len(flows)
        self._outputs.append(outputs)
        self._deciders.append(flows)
        self._look(flows, observations)

    def _look(self, flows: NDArray[np.int64], observations: NDArray[np.float32]) -> None:
        self._seen.append(observations)
        self._seers.append(flows)


def _refuse_what_is_left_out(config: AlgorithmConfig) -> None:
    for name in ("env_to_module_connector", "module_to_env_connector"):
        if getattr(config, f"_{name}", None) is not None:
            raise OrbitccError(name, "a connector", f"none, or {_OTHERWISE}")
    classes = config.callbacks_class if isinstance(config.callbacks_class, list) else [config.callbacks_class]
    for name in _PER_EPISODE:
        heard = [kind for kind in classes if getattr(kind, name, None) is not getattr(RLlibCallback, name)]
        if heard or getattr(config, f"callbacks_{name}", None):
            raise OrbitccError(f"callbacks.{name}", "a callback", f"none, or {_OTHERWISE}")
