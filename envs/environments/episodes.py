"""Episodes as a scenario describes them: agents join and leave at its times."""

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.controllers import EXTERNAL
from orbitcc.envs.description.compile import CompiledNetwork, as_text
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.config import EnvConfig
from orbitcc.envs.environments.core import WorldEpisode
from orbitcc.envs.environments.source import BACKGROUND, agent_flows

SHORTEST_S = 2.0
"""Seconds; an episode that ends at a random moment is at least this long."""


class ScenarioEpisodes:
    """A :class:`~orbitcc.envs.environments.core.Feed`: an episode begins with the first decision of its first agent."""

    shared = False

    def __init__(self, config: EnvConfig) -> None:
        self._source = config.source()
        if config.background != BACKGROUND and self._source.names_controllers:
            allowed = f"{BACKGROUND}, where the scenario names the controllers of its flows: change them there"
            raise OrbitccError("background", config.background, allowed)
        self._shortest_ns = max(round(SHORTEST_S * 1e9), 3 * config.preset.interval_ns)
        self.max_agents = self._source.max_agents

    def next(
        self, world: int, rng: np.random.Generator, seed: int | None, scenario: Scenario | None, cut: bool
    ) -> WorldEpisode:
        """Drawn, or as given, then with the noise of `seed` if there is one. cut: it ends at a random moment, after two
        seconds or an agent's third decision at the earliest."""
        if scenario is None:
            scenario = self._source.draw(rng, seed)
        else:
            scenario = self._source.mark_agents(scenario if seed is None else scenario.with_seed(seed))
        agents = len(agent_flows(scenario))
        if not 1 <= agents <= self.max_agents:
            raise OrbitccError("scenario", f"{agents} agents in {scenario.name}", f"1 to {self.max_agents}")
        network = scenario.network()
        if cut:
            _shorten(network, self._shortest_ns, rng)
        return WorldEpisode(scenario, as_text(network), agents=1)

    def clone(self) -> "ScenarioEpisodes":
        return self  # it remembers nothing


def _shorten(network: CompiledNetwork, shortest_ns: int, rng: np.random.Generator) -> None:
    """Let a network end at a random moment after its first agent has joined."""
    first = min(flow.get("start", 0) for flow in network["flows"] if flow["controller"]["name"] == EXTERNAL)
    if network["duration"] > first + shortest_ns:
        network["duration"] = int(rng.integers(first + shortest_ns, network["duration"]))
