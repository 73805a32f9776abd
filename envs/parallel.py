"""Every agent of a world at once: the PettingZoo environment, and the core of the multi-agent adapters."""

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from orbitcc.envs.batch import GLOBAL_STATE, TERMINATED, TRUNCATED, WorldState
from orbitcc.envs.episodes import Episodes
from orbitcc.envs.errors import OrbitccError, UnknownNameError
from orbitcc.envs.presets import ActionLike, ObservationLike, Preset, RewardLike, preset
from orbitcc.envs.render import FPS, MODES, pictures
from orbitcc.envs.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.source import EpisodeSource


class ParallelCongestionEnv(ParallelEnv[str, NDArray[np.float32], NDArray[np.float32]]):
    """
    ## Description

    Flows of one simulated network, each with an agent, decide at the same moments (every 30 ms of simulated time).
    Flows with the controller `external` are agents, called `flow_0`, `flow_1`, ... in the scenario's order; a scenario
    without one lends all its flows. The other flows run the controllers the scenario names.

    Agents join late and leave early: `possible_agents` lists all who may ever join, `agents` who acts now. Whoever
    joins appears in the step's results with its first observation and reward 0. Whoever leaves gets its last
    observation and reward, `terminated` if its object was delivered, else `truncated`, and does not come back in this
    episode. While nobody is there but someone will come, the environment advances to the next arrival.

    ## Action, observation, reward

    Those of :class:`orbitcc.envs.single.CongestionEnv`, one of each per agent. The preset `astraea` pays all agents of
    a world the same.

    ## State

    `state()` is the critic's global view, float32[12]: sum, minimum, maximum of throughput; mean RTT; minimum,
    maximum, mean cwnd; mean loss; number of flows; one-way delay; buffer; bandwidth (scaled as in Astraea, EuroSys
    2024).

    ## Episode End

    When nobody is left and nobody will come. The last `info` of each agent holds its flow's totals.

    ## Arguments

    * `scenario`: a `Scenario`, a `ScenarioDistribution`, or the name or file of one.
    * `preset`, `observation`, `action`, `reward`, `interval_ms`: as in the single environment.
    * `render_mode`: as in the single environment.
    * `backend`: as in the single environment.
    * `max_agents`: at most so many agents; further external flows get the controller `background`.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": list(MODES),
        "render_fps": FPS,
        "name": "orbitcc_parallel_v0",
        "is_parallelizable": True,
    }

    def __init__(
        self,
        scenario: str | Scenario | ScenarioDistribution,
        *,
        preset: str | Mapping[str, Any] | Preset = "astraea",
        observation: ObservationLike | None = None,
        action: ActionLike | None = None,
        reward: RewardLike | None = None,
        interval_ms: float | None = None,
        max_agents: int | None = None,
        background: str = "cubic",
        render_mode: str | None = None,
        backend: str = "simulator",
    ) -> None:
        pieces = _preset(preset, observation=observation, action=action, reward=reward, interval_ms=interval_ms)
        self._episodes = Episodes(
            EpisodeSource(scenario, max_agents=max_agents, background=background), pieces, 1, backend=backend
        )
        self.render_mode = render_mode
        self._pictures = pictures(render_mode)
        self.possible_agents = [f"flow_{slot}" for slot in range(self._episodes.source.slots)]
        self.agents: list[str] = []
        self._slot = {agent: slot for slot, agent in enumerate(self.possible_agents)}
        # one space object per agent: each has its own generator, and PettingZoo asks for the same object every time
        pattern = self._episodes
        self.observation_spaces = {a: _copy(pattern.observation_space) for a in self.possible_agents}
        self.action_spaces = {a: _copy(pattern.action_space) for a in self.possible_agents}
        self.state_space = spaces.Box(-np.inf, np.inf, (GLOBAL_STATE,), np.float32)
        self._state = np.zeros((1, GLOBAL_STATE), np.float32)
        self._actions = np.zeros((1, len(self.possible_agents), *pattern.action_space.shape), np.float32)
        self.np_random: np.random.Generator | None = None

    def observation_space(self, agent: str) -> spaces.Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Box:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, dict[str, Any]]]:
        if seed is not None or self.np_random is None:
            self.np_random, _ = seeding.np_random(seed)
        self._episodes.begin(0, self.np_random, seed, (options or {}).get("scenario"))
        self._episodes.batch.observe()
        self.agents = self._present()
        if self._pictures is not None:
            self._pictures.clear(0)
            self._pictures.add(self._episodes.batch)
        return {agent: self._obs(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, NDArray[np.float32]]
    ) -> tuple[
        dict[str, NDArray[np.float32]],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        if not self.agents:
            raise OrbitccError("step", "called on an episode that is over", "reset() first")
        batch = self._episodes.batch
        self._fill(actions)
        batch.step(self._actions)
        if self._pictures is not None:
            self._pictures.add(batch)
        acted = self.agents
        obs = {agent: self._obs(agent) for agent in acted}
        rewards = {agent: float(batch.reward[0, self._slot[agent]]) for agent in acted}
        status = {agent: int(batch.status[0, self._slot[agent]]) for agent in acted}
        terminated = {agent: bool(status[agent] & TERMINATED) for agent in acted}
        truncated = {agent: bool(status[agent] & TRUNCATED) for agent in acted}
        infos: dict[str, dict[str, Any]] = {
            agent: self._episodes.final_info(0, self._slot[agent]) if terminated[agent] or truncated[agent] else {}
            for agent in acted
        }
        live = self._episodes.live_info(0)
        self.agents = self._present()
        while not self.agents and not batch.finished()[0]:
            batch.step(self._actions)
            self.agents = self._present()
        for agent in self.agents:
            if agent not in status:
                obs[agent], rewards[agent], infos[agent] = self._obs(agent), 0.0, {}
                terminated[agent] = truncated[agent] = False
        for info in infos.values():
            info.update(live)
        return obs, rewards, terminated, truncated, infos

    def render(self) -> Any:
        """As in the single environment, of the bottleneck of the first agent that is there."""
        if self._pictures is None:
            return None
        self._episodes.scenario(0)  # an error before the first reset
        frames = self._pictures.frames()
        return None if frames is None else frames[0]

    def close(self) -> None:
        self._episodes.close()
        if self._pictures is not None:
            self._pictures.close()

    def save(self) -> tuple[Scenario, WorldState]:
        """An exact copy of the running episode, for search and counterfactuals."""
        return self._episodes.save(0)

    def restore(self, saved: tuple[Scenario, WorldState]) -> dict[str, NDArray[np.float32]]:
        """Go back to a saved moment: who acts then, and what they see. The episode continues identically."""
        self._episodes.restore(0, saved)
        if self._pictures is not None:
            self._pictures.clear(0)
            self._pictures.add(self._episodes.batch)
        self.agents = self._present()
        return {agent: self._obs(agent) for agent in self.agents}

    def clone(self) -> Self:
        """An environment of its own at the same moment; both continue identically."""
        twin = copy.copy(self)
        twin._episodes = self._episodes.clone()
        twin._pictures = pictures(self.render_mode)
        twin._actions, twin._state = self._actions.copy(), self._state.copy()
        twin.agents, twin.np_random = list(self.agents), copy.deepcopy(self.np_random)
        return twin

    def state(self) -> NDArray[np.float32]:
        """The global state for centralised critics, float32[12]."""
        self._episodes.batch.global_state(self._state)
        return self._state[0].copy()

    def statistics(self, agent: str) -> dict[str, float]:
        """Raw statistics of one flow over the last interval, by name (``orbitcc._sim.STATS_FIELDS``)."""
        if agent not in self._slot:
            raise UnknownNameError("agent", agent, self.possible_agents)
        return self._episodes.statistics(0, self._slot[agent])

    @property
    def steps_to_limit(self) -> int:
        """Decisions in an episode of the scenario's full duration."""
        return math.ceil(self.scenario.duration_s * 1e9 / self._episodes.preset.interval_ns)

    @property
    def scenario(self) -> Scenario:
        """The scenario of the running episode."""
        return self._episodes.scenario(0)

    def _present(self) -> list[str]:
        return [self.possible_agents[slot] for slot in np.flatnonzero(self._episodes.active(0))]

    def _obs(self, agent: str) -> NDArray[np.float32]:
        return self._episodes.batch.obs[0, self._slot[agent]].copy()

    def _fill(self, actions: dict[str, NDArray[np.float32]]) -> None:
        self._actions[...] = 0.0
        for agent in self.agents:
            if agent not in actions:
                raise OrbitccError("actions", sorted(actions), f"an action for every agent: {agent} has none")
            values = np.asarray(actions[agent], np.float32)
            if values.shape != self._actions.shape[2:]:
                raise OrbitccError(f"action of {agent}", f"shape {values.shape}", f"shape {self._actions.shape[2:]}")
            self._actions[0, self._slot[agent]] = values


def parallel_env(scenario: str | Scenario | ScenarioDistribution, **arguments: Any) -> ParallelCongestionEnv:
    """The PettingZoo environment of a scenario; `arguments` are its own, or parameters of a named scenario.

    Raises:
        OrbitccError: an argument is neither, or has a value that is not allowed.
    """
    from orbitcc.envs.registration import sorted_out

    return ParallelCongestionEnv(**sorted_out(ParallelCongestionEnv, scenario, arguments))


def _copy(space: spaces.Box) -> spaces.Box:
    return spaces.Box(space.low, space.high, dtype=np.float32)


_preset = preset  # the constructor's argument of the same name hides the function
