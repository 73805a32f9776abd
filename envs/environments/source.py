"""Draws the scenarios of episodes and marks the flows that are agents."""

from typing import Any

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.controllers import EXTERNAL
from orbitcc.envs.description.scenario import ControllerSpec, Scenario, ScenarioDistribution
from orbitcc.envs.scenarios import Runs, for_training

BACKGROUND = "cubic"
"""The controller of external flows that are no agents."""


class EpisodeSource:
    """Draws one scenario per episode and marks its agents.

    Agents are the flows with the controller ``external``. In a scenario without one, all flows but unresponsive ``udp``
    are agents, in order; of a connection that a proxy splits, the part behind the proxy.

    Args:
        scenario: a scenario, a distribution of scenarios, or the name or file of one. A named scenario that has runs is
            drawn anew in every episode (:func:`orbitcc.envs.scenarios.for_training`).
        max_agents: how many flows of a world may be agents at most; None = all.
        background: controller of the external flows beyond `max_agents`.
        transport: of the agents' flows; None: as the scenario says.
    """

    def __init__(
        self,
        scenario: str | Scenario | ScenarioDistribution,
        *,
        max_agents: int | None = None,
        background: str = BACKGROUND,
        transport: Any = None,
    ) -> None:
        self.scenario = for_training(scenario) if isinstance(scenario, str) else scenario
        if not isinstance(self.scenario, Scenario | ScenarioDistribution):
            raise OrbitccError("scenario", scenario, "a Scenario, a ScenarioDistribution, or the name or file of one")
        self._max_agents = max_agents
        try:
            self._background, self._transport = ControllerSpec(name=background), transport
        except OrbitccError as error:
            raise error.at("background") from None
        self.names_controllers = False
        """Does the scenario say which controllers its flows have, so that `background` is for none of them?"""
        if isinstance(self.scenario, Scenario | Runs):
            example = self.scenario.example if isinstance(self.scenario, Runs) else self.scenario
            self.names_controllers = not agent_flows(example)
            most = len(agent_flows(self.mark_agents(example)))
        else:
            most = self.scenario.max_agents
        self.max_agents = most if max_agents is None else min(most, max_agents)

    @property
    def name(self) -> str:
        return self.scenario.name

    def draw(self, rng: np.random.Generator, seed: int | None = None) -> Scenario:
        """The scenario of the next episode.

        A distribution is sampled with `rng`. A plain scenario runs with `seed` where one is given (the same noise as
        `orbitcc run --seed`), else with a number from `rng`.
        """
        if isinstance(self.scenario, Scenario):
            number = int(rng.integers(2**31)) if seed is None else seed
            return self.mark_agents(self.scenario.with_seed(number))
        return self.mark_agents(self.scenario.sample(rng))

    def mark_agents(self, scenario: Scenario, at_most: int | None = None) -> Scenario:
        """The same scenario with the controller ``external`` on its agents, and on no other flow.

        at_most: agents; None: `max_agents` of the source.

        Raises:
            OrbitccError: all its flows are `udp`.
        """
        split = {scenario.first_connection(i) for i in range(len(scenario.flows))}
        candidates = agent_flows(scenario) or [i for i in scenario.driven if i not in split]
        if not candidates:
            raise OrbitccError(
                "scenario", scenario.name, "one with a flow that an agent can drive, not udp flows alone"
            )
        agents = set(candidates[: self._max_agents if at_most is None else at_most])
        flows = []
        for index, flow in enumerate(scenario.flows):
            if index in agents:
                if flow.controller.name != EXTERNAL:
                    flow = flow.model_copy(update={"controller": ControllerSpec(name=EXTERNAL)})
            elif flow.controller.name == EXTERNAL:
                flow = flow.model_copy(update={"controller": self._background})
            flows.append(flow)
        return scenario.model_copy(update={"flows": tuple(flows)}).over(self._transport)


def agent_flows(scenario: Scenario) -> list[int]:
    """Positions of the flows that agents control; agent index k is the k-th of them."""
    return [i for i, flow in enumerate(scenario.flows) if flow.controller.name == EXTERNAL]
