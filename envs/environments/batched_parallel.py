"""All agents of N worlds as arrays: the parallel environment for learners that work on batches."""

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import TERMINATED, TRUNCATED, WorldState
from orbitcc.envs.environments.config import EnvConfig, Settings
from orbitcc.envs.environments.core import (
    Core,
    checked_actions,
    checked_count,
    checked_flag,
    checked_options,
    checked_seed,
    scenarios_of,
)
from orbitcc.envs.environments.episodes import ScenarioEpisodes
from orbitcc.envs.environments.presets import Native
from orbitcc.envs.environments.view import WorldsView

Step = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, NDArray[Any]]]


class BatchedParallelEnv(WorldsView):
    """N worlds of :class:`orbitcc.ParallelCongestionEnv`, stepped together by native threads.

    N worlds, S agents (the most agents a world may have), D numbers in an observation, A in an action. World i of a
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
        scenario: str | Scenario | ScenarioDistribution | EnvConfig,
        *,
        stagger: bool = False,
        statistics: bool = False,
        journal: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        self.config = EnvConfig.of(scenario, settings, type(self))
        self.render_mode = self.config.render_mode
        self._stagger = checked_flag("stagger", stagger)
        self._with_statistics = checked_flag("statistics", statistics)
        self.num_worlds = checked_count("num_worlds", num_worlds)
        self._core: Core = Core(
            self.config, ScenarioEpisodes(self.config), self.num_worlds, journal=checked_flag("journal", journal)
        )
        self.max_agents = self._core.max_agents
        self.single_observation_space = self._core.observation_space
        self.single_action_space = self._core.action_space
        self.state_space = self._core.state_space

    @property
    def obs(self) -> NDArray[np.float32]:
        """Observations of the agents that act on the next step, float32[N, S, D]; the next step overwrites them."""
        return self._core.batch.obs

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which agents act on the next step, bool[N, S]."""
        return self._core.active()

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which agents have been observed and go on, bool[N, S]: :attr:`active`, and with the clock `flow` of a preset
        those that wait for their next decision. They keep their observation, with reward 0."""
        return self._core.batch.present()

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[np.bool_]]]:
        """Draw all worlds anew: observations float32[N, S, D], and `active` bool[N, S].

        `options["scenario"]` is played instead of the next: one for all, or a list with one for each (None: the next).
        """
        first, core = checked_seed(seed), self._core
        for index, scenario in enumerate(scenarios_of(checked_options(options, "scenario"), self.num_worlds)):
            own = None if first is None else first + index
            core.begin(index, core.generator(index, own), own, scenario, cut=self._stagger)
        core.batch.observe()
        core.look()
        return self.obs.copy(), {"active": self.active}

    def step(self, actions: NDArray[np.float32]) -> Step:
        """Advance every world one interval.

        Args:
            actions: float32[N, S, A], heeded where `active`.

        Returns:
            Observations float32[N, S, D] and rewards float32[N, S] at the end of the interval; who terminated and who
            was truncated in it, bool[N, S], for whom these observations are the last; and `infos`:
            `state` float32[N, 12], the global state at the end of the interval; `active` bool[N, S], who acts next;
            `due` bool[N, S], whose interval ended with this step and who goes on; `renewed` bool[N], which worlds
            were drawn anew; `statistics` f64[N, S, fields], if asked for.
        """
        core, rows = self._core, (self.num_worlds, self.max_agents)
        values, batch = checked_actions("actions", actions, core.preset, rows), core.batch
        present = self.present
        core.step(values)
        obs, rewards = batch.obs.copy(), np.where(present, batch.reward, np.float32(0))
        terminated, truncated = (batch.status & TERMINATED) != 0, (batch.status & TRUNCATED) != 0
        infos: dict[str, NDArray[Any]] = {"state": self.state(), "due": self.active, "renewed": batch.finished()}
        if self._with_statistics:
            infos["statistics"] = self.statistics()
        if infos["renewed"].any():
            core.renew(infos["renewed"])
        core.look()
        return obs, rewards, terminated, truncated, {**infos, "active": self.active}

    def close(self) -> None:
        """Free the worlds."""
        self.close_extras()

    def restore(self, index: int, saved: tuple[Scenario, WorldState]) -> NDArray[np.float32]:
        """Put a saved world into place `index`; all observations, float32[N, S, D]. It continues identically.

        Raises:
            OrbitccError: the past of this world is not in the journal that is kept.
        """
        self._core.restore(index, saved)
        return self.obs.copy()

    def journal(self) -> dict[str, Any]:
        """Networks, actions and random state of all worlds as plain values and arrays, for :meth:`replay`.

        Raises:
            OrbitccError: the environment was made without `journal`.
        """
        return self._core.journal()

    def replay(self, journal: dict[str, Any]) -> None:
        """Run all worlds again to the moment at which `journal` was written; they continue identically.

        Raises:
            OrbitccError: the environment was made without `journal`, or it is one of another environment, or damaged.
        """
        self._core.check_journal(journal)
        self.reset(seed=0)
        self._core.replay(journal, [1] * self.num_worlds)

    def set_reward(self, reward: str | Mapping[str, Any] | Native) -> None:
        """Use another native reward, or other parameters, from the next step on (a curriculum)."""
        self._core.batch.set_reward(reward)

    def statistics(self) -> NDArray[np.float64]:
        """Raw statistics of every agent's flow over the last interval, f64[N, S, len(STATS)]."""
        return self._core.batch.statistics().copy()
