"""The PettingZoo environment: all agents of a world at once."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from orbitcc.common.errors import OrbitccError, UnknownNameError
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import IDLE, TERMINATED, TRUNCATED, WorldState
from orbitcc.envs.environments.config import EnvConfig, Settings
from orbitcc.envs.environments.core import (
    FINAL_INFO,
    STEP_INFO,
    Core,
    ResetNeededError,
    checked_actions,
    checked_flag,
    checked_options,
    checked_seed,
)
from orbitcc.envs.environments.episodes import ScenarioEpisodes
from orbitcc.envs.environments.render import FPS, MODES
from orbitcc.envs.environments.view import WorldView

Obs = dict[str, NDArray[np.float32]]
Infos = dict[str, dict[str, Any]]

_ABSENT: dict[str, Any] = dict.fromkeys((*STEP_INFO, *FINAL_INFO), 0.0)
"""Infos of a fixed population for agents that are absent, and totals before the end."""


class ParallelCongestionEnv(WorldView, ParallelEnv[str, NDArray[np.float32], NDArray[np.float32]]):
    """
    ## Description

    Several flows of one simulated network have an agent each. All agents decide at the same moments, every 30 ms of
    simulated time. Flows with the controller `external` are agents, called `flow_0`, `flow_1`, ... in the scenario's
    order; without such a flow, all flows but `udp` are agents. The other flows run the controllers that the scenario
    names.

    With the clock `flow` of a preset each agent decides by the RTT of its own flow, and a step ends when some agent is
    due. `infos[agent]["due"]` says which are: the others repeat their last observation with reward 0, and their next
    action has no effect.

    Agents can join late and leave early. `possible_agents` lists all agents of the episode, `agents` those that act
    now. An agent that joins appears in the results of the step with its first observation and reward 0. An agent that
    leaves gets its last observation and reward, is `terminated` if its object was delivered and `truncated` otherwise,
    and does not return in this episode. While no agent is active but one will join, the environment advances to the
    time when it joins.

    With `pad_absent` the set of agents is fixed, for libraries that only know the agents of the reset: `agents` equals
    `possible_agents` until the episode ends for all of them. `infos[agent]["present"]` says which agents act next. An
    absent agent observes zeros, gets reward 0, and its action has no effect. The episode ends for all agents at once:
    terminated if every object was delivered, else truncated. Infos have the same keys in every step; totals are 0
    except in the step in which the flow leaves.

    ## Action, observation, reward

    As in :class:`orbitcc.CongestionEnv`, for each agent. With the default preset all agents of a world get the same
    reward. What an episode is drawn from is described there, too: `run=1` of a named scenario fixes its run.

    ## State

    `state()` is the critic's global view, float32[12]: sum, minimum, maximum of throughput; mean RTT; minimum,
    maximum, mean cwnd; mean loss; number of flows; one-way delay; buffer; bandwidth (scaled as in Astraea, EuroSys
    2024).

    ## Episode End

    When no agent is active and none will join. Infos are as in the single environment; the last info of an agent holds
    the totals of its flow.

    ## Arguments

    * `scenario`: a `Scenario`, a `ScenarioDistribution`, or the name or file of one.
    * `preset`, `observation`, `action`, `reward`, `interval_ms`: as in the single environment.
    * `render_mode`, `backend`: as in the single environment.
    * `max_agents`: the largest number of agents; further external flows get the controller `background`.
    * `pad_absent`: keep the set of agents fixed (default false).
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": list(MODES),
        "render_fps": FPS,
        "name": "orbitcc_parallel_v0",
        "is_parallelizable": True,
    }

    def __init__(
        self,
        scenario: str | Scenario | ScenarioDistribution | EnvConfig,
        *,
        pad_absent: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        self.config = EnvConfig.of(scenario, settings, type(self))
        self.render_mode = self.config.render_mode
        self.pad_absent = checked_flag("pad_absent", pad_absent)
        self._core: Core = Core(self.config, ScenarioEpisodes(self.config), 1, threads=1)
        core = self._core
        self.possible_agents = [f"flow_{index}" for index in range(core.max_agents)]
        self.agents: list[str] = []
        self._index = {agent: index for index, agent in enumerate(self.possible_agents)}
        # one space object per agent: each has its own generator, and PettingZoo asks for the same object every time
        self.observation_spaces = {a: _copy(core.observation_space) for a in self.possible_agents}
        self.action_spaces = {a: core.preset.action_space() for a in self.possible_agents}
        self.state_space = core.state_space
        self._actions = np.zeros((1, core.max_agents, core.preset.action_dim), np.float32)
        self.np_random: np.random.Generator | None = None

    def observation_space(self, agent: str) -> spaces.Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Box | spaces.Discrete:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Infos]:
        # PettingZoo's own test of environments hands over an option called "options"
        seed, options = checked_seed(seed), checked_options(options, "scenario", "options")
        if seed is not None or self.np_random is None:
            self.np_random, _ = seeding.np_random(seed)
        self._core.begin(0, self.np_random, seed, options.get("scenario"))
        self._core.batch.observe()
        self._core.look()
        present = self._present()
        self.agents = list(self.possible_agents) if self.pad_absent else present
        infos = self._infos(self.agents)
        return {a: self._obs(a) for a in self.agents}, self._padded(infos, present) if self.pad_absent else infos

    def step(
        self, actions: dict[str, NDArray[np.float32]]
    ) -> tuple[Obs, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        if not self.agents:
            raise ResetNeededError("step", "no episode runs: reset() first")
        batch = self._core.batch
        self._fill(actions)
        acted = self._present()
        self._core.step(self._actions)
        self._core.look()
        obs = {agent: self._obs(agent) for agent in acted}
        rewards = {agent: float(batch.reward[0, self._index[agent]]) for agent in acted}
        status = {agent: int(batch.status[0, self._index[agent]]) for agent in acted}
        terminated = {agent: bool(status[agent] & TERMINATED) for agent in acted}
        truncated = {agent: bool(status[agent] & TRUNCATED) for agent in acted}
        infos = self._infos(acted)
        for agent in acted:
            if terminated[agent] or truncated[agent]:
                infos[agent] |= self._core.final_info(0, self._index[agent])
        present = self._next_present()
        for agent, info in self._infos([a for a in present if a not in status]).items():
            obs[agent], rewards[agent], infos[agent] = self._obs(agent), 0.0, info
            terminated[agent] = truncated[agent] = False
        self.agents = present
        if self.pad_absent:
            self._pad(present, obs, rewards, terminated, truncated)
            infos = self._padded(infos, present)
        return obs, rewards, terminated, truncated, infos

    def _pad(
        self,
        present: list[str],
        obs: Obs,
        rewards: dict[str, float],
        terminated: dict[str, bool],
        truncated: dict[str, bool],
    ) -> None:
        """Add absent agents, and end the episode for all agents at once."""
        over = not present
        delivered = over and self._all_delivered()
        for agent in self.possible_agents:
            obs.setdefault(agent, self._core.nothing_seen.copy())
            rewards.setdefault(agent, 0.0)
            terminated[agent] = delivered
            truncated[agent] = over and not delivered
        self.agents = [] if over else list(self.possible_agents)

    def restore(self, saved: tuple[Scenario, WorldState]) -> Obs:
        """Go back to a saved moment and return its observations by agent. The episode continues identically.

        At the end of an episode it is over again, and nobody observes.
        """
        self._core.restore(0, saved)
        present = self._next_present()
        self.agents = list(self.possible_agents) if self.pad_absent and present else present
        return {agent: self._obs(agent) for agent in self.agents}

    def state(self) -> NDArray[np.float32]:
        """The global state for centralised critics, float32[12]."""
        return self._core.state()[0]

    def statistics(self, agent: str) -> dict[str, float]:
        """Raw statistics of one flow over the last interval, by name (:data:`orbitcc.STATS`)."""
        if agent not in self._index:
            raise UnknownNameError("agent", agent, self.possible_agents)
        return self._core.statistics(0, self._index[agent])

    @property
    def steps_to_limit(self) -> int:
        """Decisions in an episode of the scenario's full duration."""
        return math.ceil(self.scenario.duration_s * 1e9 / self.config.preset.interval_ns)

    def _present(self) -> list[str]:
        return [self.possible_agents[index] for index in np.flatnonzero(self._core.batch.present()[0])]

    def _next_present(self) -> list[str]:
        """Who is present, after a pause without agents; nobody at the end of the episode."""
        present = self._present()
        while not present and not self._core.batch.finished()[0]:
            self._core.step(self._actions)
            present = self._present()
        return present

    def _all_delivered(self) -> bool:
        """Were the objects of all possible agents delivered?"""
        flows = [self._core.batch.flow_of(0, index) for index in self._index.values()]
        totals, _ = self.totals()
        return all(flow is not None and totals[flow]["finished_s"] is not None for flow in flows)

    def _obs(self, agent: str) -> NDArray[np.float32]:
        return self._core.batch.obs[0, self._index[agent]].copy()

    def _padded(self, infos: Infos, present: list[str]) -> Infos:
        """Infos of all agents, with the same keys in every step."""
        absent = _ABSENT | self._core.live_info() | ({"due": False} if self.config.preset.own_clock else {})
        return {a: absent | infos.get(a, {}) | {"present": a in present} for a in self.possible_agents}

    def _infos(self, agents: list[str]) -> Infos:
        figures = self._core.batch.step_figures()[:, 0].T.tolist()
        live = self._core.live_info()
        infos = {agent: dict(zip(STEP_INFO, figures[self._index[agent]], strict=True)) | live for agent in agents}
        if self.config.preset.own_clock:
            for agent, info in infos.items():
                info["due"] = bool(self._core.batch.status[0, self._index[agent]] != IDLE)
        return infos

    def _fill(self, actions: dict[str, NDArray[np.float32]]) -> None:
        self._actions[...] = 0.0
        if not isinstance(actions, Mapping):
            raise OrbitccError("actions", actions, "a dict with an action for every agent")
        for agent in actions:
            if agent not in self._index:
                raise OrbitccError("actions", agent, f"actions of {', '.join(self._index)}")
        for agent in self.agents:
            if agent not in actions:
                raise OrbitccError("actions", list(actions), f"an action for every agent: {agent} has none")
            values = checked_actions(f"action of {agent}", actions[agent], self._core.preset, ())
            self._actions[0, self._index[agent]] = values


def parallel_env(
    scenario: str | Scenario | ScenarioDistribution | EnvConfig, **arguments: Any
) -> ParallelCongestionEnv:
    """The PettingZoo environment of a scenario; PettingZoo's modules use the same function name."""
    return ParallelCongestionEnv(scenario, **arguments)


def _copy(space: spaces.Box) -> spaces.Box:
    return spaces.Box(space.low, space.high, dtype=np.float32)
