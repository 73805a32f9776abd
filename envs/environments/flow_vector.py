"""Every flow of N worlds as one sub-environment: what libraries for single agents need to train one shared policy."""

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError, StateError
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import TERMINATED, TRUNCATED, Batch, WorldState
from orbitcc.envs.environments.config import EnvConfig, Settings
from orbitcc.envs.environments.connections import Connections
from orbitcc.envs.environments.core import (
    Core,
    checked_actions,
    checked_count,
    checked_flag,
    checked_options,
    checked_real,
    checked_seed,
)
from orbitcc.envs.environments.presets import Native
from orbitcc.envs.environments.render import FPS, MODES
from orbitcc.envs.environments.vector import autoreset_of, step_infos
from orbitcc.envs.environments.view import WorldsView

Saved = tuple[Scenario, WorldState, NDArray[np.bool_]]
"""A world as :meth:`FlowVectorEnv.save` keeps it."""


class FlowVectorEnv(WorldsView, VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """One sub-environment per flow: worlds run side by side, and each of their learning flows is a sub-environment.

    A world has as many sub-environments as learning flows. With a distribution the number is drawn once per world and
    kept; new scenarios go to worlds of their size. Surplus flows of the last world run `background`. The emulator
    plays one world, with `num_envs` learning flows.

    Every sub-environment always has a flow. A flow that leaves is truncated, and a new connection on the same path
    replaces it at once, with a lifetime drawn from `connections.LIFETIME_SHARE`; a connection of the same kind runs
    before a flow that joins late. With intervals in RTTs it may leave within an interval; its successor is seen from
    the next decision on. At the end of a world's time all its sub-environments are truncated and the world is drawn
    anew. Episodes begin when all flows of a world have been observed for part of an interval.

    With the clock `flow` of a preset each flow decides by its own RTT: a step ends in each world when one of its flows
    is due. Those that are not (:meth:`active`) keep their last observation, with reward 0, and actions have no effect
    on them.

    Observation, action and reward are those of :class:`orbitcc.CongestionEnv`. In a sub-environment's reset step of
    next-step autoreset the new connection has run for one interval. With same-step autoreset it has only just begun:
    its observation is all zeros, and the first action it applies is the one after the next.

    Args:
        num_envs: sub-environments of all worlds together.
        scenario: as in the single environment. Learning flows must not end by themselves (traffic `bytes`).
        max_agents: learning flows per world at most; further ones run `background`.
        reward_scale: a factor on every reward (the rewards of `astraea` are small).
        stagger: cut the first episode of each world at a random moment, so that they do not end together.
        journal: record what :meth:`journal` returns.
        autoreset_mode, threads, render_mode, and the preset's functions: as in the vector environment;
            sub-environments of the same world have the same picture.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(MODES), "render_fps": FPS}  # type: ignore[misc]

    def __init__(
        self,
        num_envs: int,
        scenario: str | Scenario | ScenarioDistribution | EnvConfig,
        *,
        stagger: bool = False,
        journal: bool = False,
        reward_scale: float = 1.0,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **settings: Unpack[Settings],
    ) -> None:
        self.num_envs = checked_count("num_envs", num_envs)
        self.autoreset_mode = autoreset_of(autoreset_mode)
        self.config = EnvConfig.of(scenario, settings, type(self))
        self.preset = self.config.preset
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}  # type: ignore[misc]
        self.render_mode = self.config.render_mode
        self._stagger = checked_flag("stagger", stagger)
        self._reward_scale = checked_real("reward_scale", reward_scale)
        feed = Connections(self.config, self.num_envs)
        sizes = feed.sizes
        self._core = core = Core(self.config, feed, len(sizes), journal=checked_flag("journal", journal))
        self.worlds = np.repeat(np.arange(len(sizes)), sizes)
        """World of each sub-environment, int[num_envs]."""
        self._agents = np.concatenate([np.arange(size) for size in sizes])
        self._rows = self.worlds * core.max_agents + self._agents
        """Row of each sub-environment in the batch's arrays, flattened over worlds and their sub-environments."""
        self.single_observation_space = core.observation_space
        self.single_action_space = core.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.state_space = core.state_space
        self._actions = np.zeros((core.num_worlds, core.max_agents, core.preset.action_dim), np.float32)
        self._over, self._everybody = np.zeros(self.num_envs, np.bool_), np.ones(self.num_envs, np.bool_)
        self._ended: NDArray[np.bool_] | None = None

    @property
    def num_worlds(self) -> int:
        return self._made.num_worlds

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draw all worlds anew. They share one generator; of a list of seeds the first counts."""
        checked_options(options)
        core = self._made
        if isinstance(seed, list | tuple | np.ndarray):
            if len(seed) != self.num_envs:
                raise OrbitccError("seed", f"{len(seed)} seeds", f"one number, or {self.num_envs} of them")
            seed = seed[0]
        first = checked_seed(seed)
        if first is not None or core.generators[0] is None:
            core.generator(0, first)
            self._feed.buckets.waiting.clear()
        for world in range(self.num_worlds):
            own = None if first is None else first + world
            core.begin(world, core.generator(world, None), own, cut=self._stagger)
        core.batch.observe()
        self._over[:] = False
        self._ended = None
        core.look()
        return self.observations(), self._step_infos()

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            paid, terminated, truncated = self.advance(actions)
            infos = self._final_infos(terminated | truncated)
            obs = self.renew()
            return obs, paid.astype(np.float64), terminated, truncated, self._step_infos() | infos
        renewed, over = self._over, self._running.finished()
        self._move(actions)
        if over.any():  # this step is the reset of worlds whose time was up in the last one
            self._made.renew(over)
        paid, terminated, truncated = self._outcome()
        for array in (paid, terminated, truncated):
            array[renewed] = 0
        self._over = terminated | truncated
        self._made.look()
        infos = self._step_infos() | self._totals(self._over)
        return self.observations(), paid.astype(np.float64), terminated, truncated, infos

    def advance(self, actions: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """The first half of a step with same-step autoreset, for learners: let all worlds run for one interval.

        Until :meth:`renew`, :meth:`observations`, :meth:`state` and :meth:`statistics` are those at the end of this
        interval, final ones where a connection ended. No `infos` are computed.

        Args:
            actions: f32[num_envs, A] in [-1, 1].

        Returns:
            rewards f32[num_envs], terminated bool[num_envs], truncated bool[num_envs].

        Raises:
            OrbitccError: :meth:`renew` has not been called since the last time, or a wrong shape.
        """
        if self._ended is not None:
            raise StateError("advance", "it has been called already: renew() in between")
        self._move(actions)
        paid, terminated, truncated = self._outcome()
        self._ended = terminated | truncated
        return paid, terminated, truncated

    def renew(self) -> NDArray[np.float32]:
        """The second half: new connections for those that ended, new worlds for those whose time is up.

        Returns:
            The observations to act on, f32[num_envs, D].

        Raises:
            OrbitccError: there was no :meth:`advance`.
        """
        if self._ended is None:
            raise StateError("renew", "there is nothing to renew: advance() first")
        ended, self._ended = self._ended, None
        if not ended.any():
            self._made.look()
            return self.observations()
        over = self._running.finished()
        if over.any():
            self._made.renew(over)
        obs = self.observations()
        obs[ended & ~over[self.worlds]] = self._made.nothing_seen
        self._made.look()
        return obs

    def observations(self) -> NDArray[np.float32]:
        """What every sub-environment's flow has observed by now, f32[num_envs, D]; a copy."""
        return self._running.obs.reshape(-1, *self._made.nothing_seen.shape)[self._rows]

    def active(self) -> NDArray[np.bool_]:
        """Sub-environments that apply the next action, bool[num_envs].

        After a same-step autoreset a connection that has only just begun does not; its reward is for nobody's action.
        """
        return self._made.active().reshape(-1)[self._rows]

    def state(self) -> NDArray[np.float32]:
        """For each sub-environment the global state of its world, float32[num_envs, 12], for centralised critics.

        With same-step autoreset `infos["final_state"]` holds it beside `final_obs`, before worlds are drawn anew. See
        :meth:`orbitcc.ParallelCongestionEnv.state`.
        """
        return self._made.state()[self.worlds]

    def statistics(self) -> NDArray[np.float64]:
        """Raw statistics of every sub-environment's flow over the last interval, f64[num_envs, len(STATS)]."""
        rows = self._running.statistics()
        return rows.reshape(-1, rows.shape[-1])[self._rows]

    def render(self) -> Any:
        """With `rgb_array` a frame for every sub-environment: that of its world, uint8[450, 800, 3]."""
        frames = self._made.frames()
        return None if frames is None else tuple(frames[world] for world in self.worlds)

    def save(self, world: int) -> Saved:  # type: ignore[override]  # it returns more than the base class
        """An exact copy of world number `world`, and which of its sub-environments begin anew with the next step."""
        return *self._made.save(world), self._over[self.worlds == world]

    def restore(self, world: int, saved: Saved) -> NDArray[np.float32]:
        """Put a saved world back; all observations, float32[num_envs, D]. It continues identically.

        Raises:
            OrbitccError: there is no such world, it has another number of flows than the saved one, or the journal does
                not reach back to it.
        """
        mine = self.worlds == self._made.checked_world(world)
        if not isinstance(saved, tuple) or len(saved) != 3 or not _flags(saved[2]):
            raise OrbitccError("state", saved, "what save() returned")
        scenario, state, over = saved
        if over.size != np.count_nonzero(mine):
            raise OrbitccError("saved", f"{over.size} sub-environments", f"a world that has {np.count_nonzero(mine)}")
        self._made.restore(world, (scenario, state))
        self._over[mine] = over
        return self._after_restoring()

    def journal(self) -> dict[str, Any]:
        """All that :meth:`replay` needs, as plain values and arrays: networks, their actions so far, the random state.

        Raises:
            OrbitccError: no journal is kept, or nothing runs yet.
        """
        return {**self._made.journal(), "waiting": self._feed.buckets.journal(), "over": self._over.copy()}

    def replay(self, journal: dict[str, Any]) -> NDArray[np.float32]:
        """Run all worlds to where they were when the journal was taken; all observations, f32[num_envs, D].

        They continue identically, and so does what is drawn. It takes as long as it took.

        Raises:
            OrbitccError: it is the journal of another environment, it is damaged, or this one keeps none.
        """
        self._made.check_journal(journal, "waiting", "over")
        over = journal["over"]
        if not _flags(over) or over.shape != (self.num_envs,):
            raise OrbitccError("journal.over", over, f"bool[{self.num_envs}]")
        self.reset(seed=0)
        self._feed.buckets.replay(journal["waiting"])
        self._made.replay(journal, self._feed.sizes)
        self._over[:] = over
        return self._after_restoring()

    def set_reward(self, reward: str | Mapping[str, Any] | Native) -> None:
        """Use another native reward, or other parameters, from the next step on (a curriculum)."""
        self._running.set_reward(reward)

    @property
    def _feed(self) -> Connections:
        feed = self._made.feed
        assert isinstance(feed, Connections)
        return feed

    @property
    def _running(self) -> Batch:
        return self._made.batch

    def _after_restoring(self) -> NDArray[np.float32]:
        obs = self.observations()
        if self.autoreset_mode is AutoresetMode.SAME_STEP:  # the connection that ended here has been replaced
            status = self._running.status.reshape(-1)[self._rows]
            obs[(status & (TERMINATED | TRUNCATED)) != 0] = self._made.nothing_seen
        return obs

    def _move(self, actions: NDArray[np.float32]) -> None:
        values = checked_actions("actions", actions, self.preset, (self.num_envs,))
        self._actions.reshape(-1, self._actions.shape[-1])[self._rows] = values
        self._made.step(self._actions)

    def _outcome(self) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Rewards, terminated, truncated of the last interval."""
        rewards, status = (a.reshape(-1)[self._rows] for a in (self._running.reward, self._running.status))
        rewards *= self._reward_scale
        return rewards, (status & TERMINATED) != 0, (status & TRUNCATED) != 0

    def _final_infos(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        """The infos of connections that have just ended, for same-step autoreset."""
        if not ended.any():
            return {}
        obs, final = self.observations(), np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            final[i] = obs[i]
        found = {"final_info": self._totals(ended), "final_obs": final, "final_state": self.state()}
        return found | {f"_{key}": ended.copy() for key in found}

    def _totals(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        return self._made.final_infos(ended, self.worlds, self._agents) if ended.any() else {}

    def _step_infos(self) -> dict[str, Any]:
        figures = self._running.step_figures()
        return step_infos(figures.reshape(len(figures), -1).take(self._rows, axis=1), self._everybody)


def _flags(given: Any) -> bool:
    """Is it bool[n]?"""
    return isinstance(given, np.ndarray) and given.dtype == np.bool_ and given.ndim == 1
