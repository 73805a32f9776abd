"""Every agent of N worlds at once, as arrays: the parallel environment for learners that take whole batches."""

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import NDArray

from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import ACTIVE, GLOBAL_STATE, TERMINATED, TRUNCATED, WorldState
from orbitcc.envs.environments.episodes import Episodes
from orbitcc.envs.environments.journal import Journal
from orbitcc.envs.environments.presets import ActionLike, Native, ObservationLike, Preset, RewardLike, preset
from orbitcc.envs.environments.render import pictures
from orbitcc.envs.environments.source import EpisodeSource
from orbitcc.envs.environments.vector import check_counts, scenarios_of
from orbitcc.envs.errors import OrbitccError

Step = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, NDArray[Any]]]


class BatchedParallelEnv:
    """N worlds of :class:`orbitcc.ParallelCongestionEnv`, stepped together by native threads.

    N worlds, S slots (the most agents a world may have), D numbers in an observation, A in an action. World i of a
    batch reset with `seed` is, bit for bit, the parallel environment reset with `seed + i`. Slots of agents that are
    not there hold zeros. A world that is over is drawn anew within the step (same-step autoreset): the arrays of that
    step are the ends of its last episode, `infos` tells who acts in the new one, and :attr:`obs` is what they see.

    Args:
        num_worlds: N.
        stagger: cut the first episode of each world at a random moment, so that they do not go through the same part of
            an episode together.
        statistics: `infos` of a step hold the raw statistics at its end, too.
        journal: remember how each running episode came about, for :meth:`journal`.
        threads: of the native pool; 0 = one per core.
        render_mode: `rgb_array`: :meth:`render` gives a frame of every world; `human`: a window shows the first one.
        other arguments: as in the parallel environment.
    """

    def __init__(
        self,
        num_worlds: int,
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
        statistics: bool = False,
        journal: bool = False,
        threads: int = 0,
        render_mode: str | None = None,
    ) -> None:
        check_counts(num_worlds, threads)
        self.render_mode = render_mode
        self._stagger, self._with_statistics = stagger, statistics
        self._pictures = pictures(render_mode, num_worlds)
        pieces = _preset(preset, observation=observation, action=action, reward=reward, interval_ms=interval_ms)
        source = EpisodeSource(scenario, max_agents=max_agents, background=background)
        self._episodes = Episodes(source, pieces, num_worlds, threads)
        self.num_worlds, self.slots = num_worlds, source.slots
        self.single_observation_space = self._episodes.observation_space
        self.single_action_space = self._episodes.action_space
        self.state_space = spaces.Box(-np.inf, np.inf, (GLOBAL_STATE,), np.float32)
        self._state = np.zeros((num_worlds, GLOBAL_STATE), np.float32)
        self._rngs: list[np.random.Generator | None] = [None] * num_worlds
        self._journal = Journal(num_worlds) if journal else None

    @property
    def obs(self) -> NDArray[np.float32]:
        """What those who act on the next step see, float32[N, S, D]; the next step writes over it."""
        return self._episodes.batch.obs

    @property
    def active(self) -> NDArray[np.bool_]:
        """Who acts on the next step, bool[N, S]."""
        return self._episodes.batch.status == ACTIVE

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[np.bool_]]]:
        """Draw all worlds anew: observations float32[N, S, D], and `active` bool[N, S].

        `options["scenario"]` is played instead of the next: one for all, or a list with one for each (None: the next).
        """
        for index, scenario in enumerate(scenarios_of(options, self.num_worlds)):
            self._begin(index, None if seed is None else seed + index, scenario, cut=self._stagger)
        self._episodes.batch.observe()
        self._look()
        return self.obs.copy(), {"active": self.active}

    def step(self, actions: NDArray[np.float32]) -> Step:
        """Advance every world one interval.

        Args:
            actions: float32[N, S, A], heeded where `active`.

        Returns:
            Observations float32[N, S, D] and rewards float32[N, S] at the end of the interval; who terminated and who
            was truncated in it, bool[N, S], for whom these observations are the last; and `infos`:
            `state` float32[N, 12], the global state at the end of the interval; `active` bool[N, S], who acts next; and
            `renewed` bool[N], the worlds that were drawn anew; `statistics` f64[N, S, fields], if asked for.
        """
        batch = self._episodes.batch
        values = np.asarray(actions, np.float32)
        expected = (self.num_worlds, self.slots, *self.single_action_space.shape)
        if values.shape != expected:
            raise OrbitccError("actions", f"an array of shape {values.shape}", f"shape {expected}")
        acted = self.active
        batch.step(values)
        if self._journal is not None:
            self._journal.step(values)
        obs, rewards = batch.obs.copy(), np.where(acted, batch.reward, np.float32(0))
        terminated, truncated = (batch.status & TERMINATED) != 0, (batch.status & TRUNCATED) != 0
        infos: dict[str, NDArray[Any]] = {"state": self.state(), "renewed": batch.finished()}
        if self._with_statistics:
            infos["statistics"] = self.statistics()
        renewed = infos["renewed"]
        if renewed.any():
            for index in np.flatnonzero(renewed):
                self._begin(int(index))
            batch.observe()
        self._look()
        return obs, rewards, terminated, truncated, {**infos, "active": self.active}

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """With `rgb_array` a frame of every world, as in the parallel environment."""
        self._episodes.scenario(0)  # an error before the first reset
        return None if self._pictures is None else self._pictures.frames()

    def close(self) -> None:
        if self._pictures is not None:
            self._pictures.close()

    def save(self, index: int) -> tuple[Scenario, WorldState]:
        """An exact copy of world `index`."""
        return self._episodes.save(index)

    def restore(self, index: int, saved: tuple[Scenario, WorldState]) -> NDArray[np.float32]:
        """Put a saved world into place `index`; all observations, float32[N, S, D]. It continues identically.

        Raises:
            OrbitccError: the past of this world is not in the journal that is kept.
        """
        if self._journal is not None:
            raise OrbitccError("restore", "an environment that keeps a journal", "one without")
        self._episodes.restore(index, saved)
        if self._pictures is not None:
            self._pictures.clear(index)
        self._look()
        return self.obs.copy()

    def clone(self) -> Self:
        """An environment of its own at the same moment; both continue identically."""
        twin = copy.copy(self)
        twin._episodes = self._episodes.clone()
        twin._pictures = pictures(self.render_mode, self.num_worlds)
        twin._rngs, twin._state = copy.deepcopy(self._rngs), self._state.copy()
        twin._journal = copy.deepcopy(self._journal)
        return twin

    def journal(self) -> dict[str, Any]:
        """How all worlds came to where they are, to be pickled: what :meth:`relive` needs to bring them there again.

        Raises:
            OrbitccError: the environment was made without `journal`.
        """
        return {
            **self._written.written(),
            "scenarios": [self._episodes.scenario(index) for index in range(self.num_worlds)],
            "rngs": copy.deepcopy(self._rngs),
        }

    def relive(self, journal: dict[str, Any]) -> None:
        """Bring all worlds to where they were when `journal` was written; they continue identically.

        Raises:
            OrbitccError: the environment was made without `journal`, or it is one of another number of worlds.
        """
        worlds = self._written
        self.reset(seed=0)
        batch = self._episodes.batch
        worlds.relive(journal, batch, [1] * self.num_worlds, batch.alone())
        self._rngs = copy.deepcopy(journal["rngs"])
        self._episodes.put(journal["scenarios"])
        self._look()

    @property
    def _written(self) -> Journal:
        if self._journal is None:
            raise OrbitccError("journal", "False", "an environment made with journal=True")
        return self._journal

    def state(self) -> NDArray[np.float32]:
        """The global state of each world as those see it who act next, float32[N, 12], for centralised critics."""
        self._episodes.batch.global_state(self._state)
        return self._state.copy()

    def set_reward(self, reward: str | Mapping[str, Any] | Native) -> None:
        """Pay by another native reward, or by other parameters of one, from the next step on (a curriculum)."""
        self._episodes.batch.set_reward(reward)

    def statistics(self) -> NDArray[np.float64]:
        """Raw statistics of every agent's flow over the last interval, f64[N, S, len(STATS_FIELDS)]."""
        return self._episodes.batch.statistics().copy()

    def scenario(self, index: int) -> Scenario:
        """The scenario of the running episode of world `index`."""
        return self._episodes.scenario(index)

    def _begin(
        self, index: int, seed: int | None = None, scenario: Scenario | None = None, *, cut: bool = False
    ) -> None:
        rng = self._rngs[index]
        if seed is not None or rng is None:
            rng, _ = seeding.np_random(seed)
            self._rngs[index] = rng
        self._episodes.begin(index, rng, seed, scenario, cut=cut)
        if self._journal is not None:
            self._journal.begin(index, self._episodes.network(index))
        if self._pictures is not None:
            self._pictures.clear(index)

    def _look(self) -> None:
        if self._pictures is not None:
            self._pictures.add(self._episodes.batch)


_preset = preset  # the constructor's argument of the same name hides the function
