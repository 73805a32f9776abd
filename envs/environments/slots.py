"""Every flow of N worlds as one sub-environment: what libraries for single agents need to train one shared policy."""

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import ACTIVE, GLOBAL_STATE, TERMINATED, TRUNCATED, Batch, WorldState
from orbitcc.envs.environments.connections import Dealer, never_idle
from orbitcc.envs.environments.episodes import FINAL_INFO
from orbitcc.envs.environments.journal import Journal
from orbitcc.envs.environments.presets import ActionLike, ObservationLike, Preset, RewardLike, preset
from orbitcc.envs.environments.render import FPS, MODES, Pictures, pictures
from orbitcc.envs.environments.source import EpisodeSource
from orbitcc.envs.environments.vector import autoreset_of, check_counts
from orbitcc.envs.errors import OrbitccError

Saved = tuple[Scenario, WorldState, NDArray[np.bool_]]
"""A world as :meth:`FlowVectorEnv.save` keeps it."""


class FlowVectorEnv(VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """Slot per flow: sub-environment i is one place for a flow in one of several worlds.

    A world lends as many slots as it has learning flows, so their number varies from world to world; with a
    distribution it is drawn for each world once and kept, and scenarios are dealt to the worlds they fit. The last
    world lends what is still needed; its other flows run `background`.

    A slot is never idle. A flow that leaves is truncated and replaced at once by a new connection on the same path,
    with a lifetime drawn from `connections.LIFETIME_SHARE`; before a flow that comes late there is another
    one. When the time of a world is up all its slots are truncated and it is drawn anew. Episodes begin when all flows
    of a world have been observed for part of an interval.

    Observation, action and reward are those of :class:`orbitcc.CongestionEnv`. In a slot's reset step of
    next-step autoreset the new connection has run for one interval. With same-step autoreset it has only just begun:
    its observation is all zeros, and it first heeds the action after the next.

    Args:
        num_envs: slots of all worlds together.
        scenario: as in the single environment. Learning flows must not end by themselves (traffic `bytes`).
        max_agents: learning flows per world at most; further ones run `background`.
        reward_scale: a factor on every reward (the rewards of `astraea` are small).
        stagger: cut the first episode of each world at a random moment, so that they do not end together.
        journal: keep what :meth:`journal` tells.
        autoreset_mode, threads, render_mode, and the preset's pieces: as in the vector environment; slots of the same
            world have the same picture.
    """

    _pictures: Pictures | None = None  # gymnasium closes even what was never made whole

    def __init__(
        self,
        num_envs: int,
        scenario: str | Scenario | ScenarioDistribution,
        *,
        preset: str | Mapping[str, Any] | Preset = "astraea",
        observation: ObservationLike | None = None,
        action: ActionLike | None = None,
        reward: RewardLike | None = None,
        interval_ms: float | None = None,
        max_agents: int | None = None,
        background: str = "cubic",
        stagger: bool = False,
        journal: bool = False,
        reward_scale: float = 1.0,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int = 0,
        render_mode: str | None = None,
    ) -> None:
        check_counts(num_envs, threads)
        self._mode = autoreset_of(autoreset_mode)
        self.metadata = {"render_modes": list(MODES), "render_fps": FPS, "autoreset_mode": self._mode}
        self.render_mode = render_mode
        self.preset = _preset(preset, observation=observation, action=action, reward=reward, interval_ms=interval_ms)
        self._dealer = Dealer(EpisodeSource(scenario, max_agents=max_agents, background=background))
        self._flows, lent = self._dealer.sizes(num_envs)
        self._sizes = [*self._flows[:-1], lent]
        self._pictures = pictures(render_mode, len(self._sizes))
        self._stagger, self._threads, self._reward_scale = stagger, threads, float(reward_scale)
        self._batch: Batch | None = None
        self._rng: np.random.Generator | None = None
        self._scenarios: list[Scenario | None] = [None] * len(self._sizes)
        self._journal = Journal(len(self._sizes)) if journal else None
        self.num_envs = num_envs
        self.worlds = np.repeat(np.arange(len(self._sizes)), self._sizes)
        """World of each slot, int[num_envs]."""
        self._slots = np.concatenate([np.arange(size) for size in self._sizes])
        self._rows = self.worlds * max(self._sizes) + self._slots
        """Row of each slot in the batch's arrays, flattened over worlds and their slots."""
        seen = self.preset.observation_space()
        self.single_observation_space = seen
        self._nothing_seen = np.clip(np.float32(0), seen.low, seen.high)
        self.single_action_space = self.preset.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.state_space = spaces.Box(-np.inf, np.inf, (GLOBAL_STATE,), np.float32)
        self._over = np.zeros(num_envs, np.bool_)
        self._ended: NDArray[np.bool_] | None = None

    @property
    def num_worlds(self) -> int:
        return len(self._sizes)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draw all worlds anew. They share one generator; of a list of seeds the first counts."""
        if options:
            raise OrbitccError("options", sorted(options), "nothing: slots of a world cannot be reset by themselves")
        first = seed[0] if isinstance(seed, list) else seed
        if first is not None or self._rng is None:
            self._rng, _ = seeding.np_random(first)
            self._dealer.forget()
        for world in range(self.num_worlds):
            self._begin(world, None if first is None else first + world, cut=self._stagger)
        self._running.observe()
        self._over[:] = False
        self._ended = None
        self._look()
        return self.observations(), {}

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        if self._mode is AutoresetMode.SAME_STEP:
            paid, terminated, truncated = self.advance(actions)
            infos = self._last_words(terminated | truncated)
            return self.renew(), paid.astype(np.float64), terminated, truncated, infos
        renewed, over = self._over, self._running.finished()
        self._move(actions)
        if over.any():  # this step is the reset of worlds whose time was up in the last one
            self._begin_anew(over)
        paid, terminated, truncated = self._outcome()
        for array in (paid, terminated, truncated):
            array[renewed] = 0
        self._over = terminated | truncated
        self._look()
        return self.observations(), paid.astype(np.float64), terminated, truncated, self._totals(self._over)

    def advance(self, actions: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """The first half of a step with same-step autoreset, for learners: let all worlds run for one interval.

        Until :meth:`renew`, :meth:`observations`, :meth:`state` and :meth:`statistics` are those at the end of this
        interval, final ones where a connection ended. Nothing is gathered that only `infos` tell.

        Args:
            actions: f32[num_envs, A] in [-1, 1].

        Returns:
            rewards f32[num_envs], terminated bool[num_envs], truncated bool[num_envs].

        Raises:
            OrbitccError: :meth:`renew` has not been called since the last time, or a wrong shape.
        """
        if self._ended is not None:
            raise OrbitccError("advance", "called twice", "renew() in between")
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
            raise OrbitccError("renew", "called before advance()", "advance() first")
        ended, self._ended = self._ended, None
        if not ended.any():
            self._look()
            return self.observations()
        over = self._running.finished()
        if over.any():
            self._begin_anew(over)
        obs = self.observations()
        obs[ended & ~over[self.worlds]] = self._nothing_seen
        self._look()
        return obs

    def observations(self) -> NDArray[np.float32]:
        """What every slot's flow has observed by now, f32[num_envs, D]; a copy."""
        return self._running.obs.reshape(-1, *self._nothing_seen.shape)[self._rows]

    def active(self) -> NDArray[np.bool_]:
        """Slots that heed the next action, bool[num_envs].

        After a same-step autoreset a connection that has only just begun does not; its reward is for nobody's action.
        """
        return self._running.status.reshape(-1)[self._rows] == ACTIVE

    def state(self) -> NDArray[np.float32]:
        """For each slot the global state of its world, float32[num_envs, 12], for centralised critics.

        With same-step autoreset `infos["final_state"]` holds it beside `final_obs`, before worlds are drawn anew. See
        :meth:`orbitcc.ParallelCongestionEnv.state`.
        """
        self._running.global_state(self._state)
        return self._state[self.worlds]

    def statistics(self) -> NDArray[np.float64]:
        """Raw statistics of every slot's flow over the last interval, f64[num_envs, len(STATS_FIELDS)]."""
        rows = self._running.statistics()
        return rows.reshape(-1, rows.shape[-1])[self._rows]

    def render(self) -> Any:
        """With `rgb_array` a frame for every slot: that of its world, uint8[450, 800, 3]."""
        self.scenario(0)  # an error before the first reset
        frames = None if self._pictures is None else self._pictures.frames()
        return None if frames is None else tuple(frames[world] for world in self.worlds)

    def close_extras(self, **_: Any) -> None:
        if self._pictures is not None:
            self._pictures.close()

    def save(self, world: int) -> Saved:
        """An exact copy of world number `world`, and which of its slots begin anew with the next step."""
        return self.scenario(world), self._running.save(world), self._over[self.worlds == world]

    def restore(self, world: int, saved: Saved) -> NDArray[np.float32]:
        """Put a saved world back; all observations, float32[num_envs, D]. It continues identically.

        Raises:
            OrbitccError: the saved world lends another number of slots, or its past is not in the journal that is kept.
        """
        if self._journal is not None:
            raise OrbitccError("restore", "an environment that keeps a journal", "one without")
        scenario, state, over = saved
        mine = self.worlds == world
        if over.size != np.count_nonzero(mine):
            raise OrbitccError("saved", f"{over.size} slots", f"a world that lends {np.count_nonzero(mine)}")
        self._scenarios[world] = scenario
        self._running.restore(world, state)
        self._running.observe()
        self._over[mine] = over
        if self._pictures is not None:
            self._pictures.clear(world)
        self._look()
        return self._after_restoring()

    def journal(self) -> dict[str, Any]:
        """All that :meth:`relive` needs, to be pickled: networks, actions since they began, and what is drawn next.

        Raises:
            OrbitccError: no journal is kept, or nothing runs yet.
        """
        if self._journal is None or self._rng is None:
            raise OrbitccError("journal", "not there", "an environment with journal=True, after reset()")
        return {
            **self._journal.written(),
            "scenarios": self._scenarios,
            "dealer": self._dealer.waiting,
            "generator": self._rng.bit_generator.state,
            "over": self._over,
        }

    def relive(self, journal: dict[str, Any]) -> NDArray[np.float32]:
        """Run all worlds to where they were when the journal was taken; all observations, f32[num_envs, D].

        They continue identically, and so does what is drawn. It takes as long as it took.

        Raises:
            OrbitccError: it is the journal of another environment, or this one keeps none.
        """
        if self._journal is None:
            raise OrbitccError("relive", "without a journal", "an environment with journal=True")
        self.reset(seed=0)
        self._rng, _ = seeding.np_random(0)
        self._rng.bit_generator.state = journal["generator"]
        self._dealer.waiting = journal["dealer"]
        self._scenarios = list(journal["scenarios"])
        self._journal.relive(journal, self._running, self._sizes, self._running.alone())
        self._over[:] = journal["over"]
        self._look()
        return self._after_restoring()

    def clone(self) -> Self:
        """An environment of its own at the same moment; both continue identically."""
        twin = copy.copy(self)
        twin._pictures = pictures(self.render_mode, self.num_worlds)
        twin._rng, twin._dealer, twin._over = copy.deepcopy(self._rng), self._dealer.clone(), self._over.copy()
        if self._batch is not None:
            twin._batch, twin._scenarios = self._batch.clone(), list(self._scenarios)
            twin._actions, twin._state = self._actions.copy(), self._state.copy()
        if self._journal is not None:
            twin._journal = copy.deepcopy(self._journal)
        return twin

    def scenario(self, world: int) -> Scenario:
        """The scenario world number `world` was made from; new connections are not in it."""
        scenario = self._scenarios[world]
        if scenario is None:
            raise OrbitccError("step", "called before reset()", "reset() first")
        return scenario

    def __getstate__(self) -> dict[str, Any]:
        """The configuration: running worlds are not pickled."""
        return {**self.__dict__, "_batch": None, "_scenarios": [None] * self.num_worlds}

    @property
    def _running(self) -> Batch:
        if self._batch is None:
            raise OrbitccError("step", "called before reset()", "reset() first")
        return self._batch

    def _after_restoring(self) -> NDArray[np.float32]:
        obs = self.observations()
        if self._mode is AutoresetMode.SAME_STEP:  # the connection that ended here has been replaced
            status = self._running.status.reshape(-1)[self._rows]
            obs[(status & (TERMINATED | TRUNCATED)) != 0] = self._nothing_seen
        return obs

    def _look(self) -> None:
        if self._pictures is not None:
            self._pictures.add(self._running)

    def _move(self, actions: NDArray[np.float32]) -> None:
        values = np.asarray(actions, np.float32)
        if values.shape != self.action_space.shape:
            raise OrbitccError("actions", f"an array of shape {values.shape}", f"shape {self.action_space.shape}")
        batch = self._running
        self._actions.reshape(-1, self._actions.shape[-1])[self._rows] = values
        batch.step(self._actions)
        if self._journal is not None:
            self._journal.step(self._actions)

    def _outcome(self) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Rewards, terminated, truncated of the last interval."""
        rewards, status = (a.reshape(-1)[self._rows] for a in (self._running.reward, self._running.status))
        rewards *= self._reward_scale
        return rewards, (status & TERMINATED) != 0, (status & TRUNCATED) != 0

    def _last_words(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        """The infos of a step with same-step autoreset: what is known of connections that have just ended."""
        if not ended.any():
            return {}
        obs, final = self.observations(), np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            final[i] = obs[i]
        found = {"final_info": self._totals(ended), "final_obs": final, "final_state": self.state()}
        return found | {f"_{key}": ended.copy() for key in found}

    def _begin_anew(self, over: NDArray[np.bool_]) -> None:
        for world in np.flatnonzero(over):
            self._begin(int(world))
        self._running.observe()

    def _begin(self, world: int, seed: int | None = None, *, cut: bool = False) -> None:
        assert self._rng is not None
        size = self._sizes[world]
        scenario = self._dealer.deal(self._flows[world], self._rng, seed)
        if size < self._flows[world]:
            scenario = self._dealer.source.mark_agents(scenario, size)
        network = never_idle(scenario.compile(), self.preset.interval_ns, self._rng, cut=cut)
        if self._batch is None:
            slots = max(self._sizes)
            self._batch = Batch(
                [network] * self.num_worlds,
                slots=slots,
                preset=self.preset,
                threads=self._threads,
                policies=scenario.policies(),
            )
            self._actions = np.zeros((self.num_worlds, slots, *self._batch.action_space.shape), np.float32)
            self._state = np.zeros((self.num_worlds, GLOBAL_STATE), np.float32)
        self._batch.reset(world, network, agents=size)
        if self._journal is not None:
            self._journal.begin(world, network)
        self._scenarios[world] = scenario
        if self._pictures is not None:
            self._pictures.clear(world)

    def _totals(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        if not ended.any():
            return {}
        infos: dict[str, Any] = {}
        for key in FINAL_INFO:
            infos[key], infos[f"_{key}"] = np.zeros(self.num_envs), ended.copy()
        for world in np.unique(self.worlds[ended]):
            totals, _ = self._running.totals(int(world))
            for i in np.flatnonzero(ended & (self.worlds == world)):
                flow = self._running.flow_of(int(world), int(self._slots[i]))
                assert flow is not None
                for key in FINAL_INFO:
                    infos[key][i] = float(totals[flow][key])
        return infos


_preset = preset  # the constructor's argument of the same name hides the function
