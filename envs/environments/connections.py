"""Connections that follow each other without a gap: worlds sorted by their number of flows, and networks in which every
agent index has a flow at every time."""

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.controllers import EXTERNAL
from orbitcc.envs.description import support
from orbitcc.envs.description.compile import CompiledNetwork, as_text
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.config import EnvConfig
from orbitcc.envs.environments.core import WorldEpisode
from orbitcc.envs.environments.journal import rebuilt
from orbitcc.envs.environments.source import EpisodeSource, agent_flows

SHORTEST_CONNECTION_S = 2.0
"""No connection is shorter."""
_MOST_WAITING = 64
"""Of each number of flows, so many scenarios wait at most."""
LIFETIME_SHARE = (0.25, 1.0)
"""Lifetime of a new connection as a share of what is left of the run, as in the training distributions."""


class Buckets:
    """Scenarios by their number of agents: what was drawn and fits no world now waits, so that nothing is wasted.

    live: leave out what this machine's kernel cannot play.
    """

    def __init__(self, source: EpisodeSource, *, live: bool = False) -> None:
        self.source, self._live = source, live
        self.waiting: dict[int, deque[Scenario]] = {}
        """Scenarios that were drawn and fitted no world so far, by number of agents."""
        self._examples: dict[int, Scenario] = {}

    def sizes(self, total: int) -> tuple[list[int], int]:
        """Learning flows of each world, and how many of the last world's are used to make `total`.

        It depends on the source and on `total` only.
        """
        rng = np.random.default_rng(0)
        sizes: list[int] = []
        while sum(sizes) < total:
            scenario = self.source.draw(rng)
            sizes.append(len(agent_flows(scenario)))
            self._examples[sizes[-1]] = scenario
        return sizes, total - sum(sizes[:-1])

    def clone(self) -> "Buckets":
        twin = Buckets(self.source, live=self._live)
        twin.waiting = {size: deque(scenarios, scenarios.maxlen) for size, scenarios in self.waiting.items()}
        twin._examples = self._examples
        return twin

    def journal(self) -> dict[int, list[dict[str, Any]]]:
        """The waiting scenarios as plain values, for :meth:`replay`."""
        return {size: [scenario.model_dump() for scenario in those] for size, those in self.waiting.items()}

    def replay(self, journal: dict[int, list[dict[str, Any]]]) -> None:
        """Restore the waiting scenarios of a journal; raises OrbitccError for anything else."""
        lists = journal.items() if isinstance(journal, Mapping) else [(None, None)]
        if not all(type(size) is int and isinstance(those, list) for size, those in lists):
            raise OrbitccError("journal.waiting", journal, "lists of scenarios by number of agents")
        found = {size: rebuilt(f"waiting.{size}", those) for size, those in journal.items()}
        self.waiting = {size: deque(those, _MOST_WAITING) for size, those in found.items()}

    def next(self, size: int, rng: np.random.Generator, seed: int | None) -> Scenario:
        """The next scenario with `size` agents; the one of :meth:`sizes`, with another seed, where so many are rare."""
        if isinstance(self.source.scenario, Scenario):
            return self.source.draw(rng, seed)
        if self.waiting.get(size):
            return self.waiting[size].popleft()
        for _ in range(10_000):
            scenario = self.source.draw(rng)
            agents = len(agent_flows(scenario))
            if self._live and support.beyond_kernel(scenario.sim, scenario.flows):
                continue
            if agents == size:
                return scenario
            self.waiting.setdefault(agents, deque(maxlen=_MOST_WAITING)).append(scenario)
        if size in self._examples:
            return self._examples[size].with_seed(int(rng.integers(2**53)))
        whom = "that this kernel can play " if self._live else ""
        raise OrbitccError("num_envs", size, f"another number: no world of the distribution {whom}has so many flows")


class Connections:
    """A :class:`~orbitcc.envs.environments.core.Feed` of worlds in which every learning flow is always present.

    It cannot play a scenario on request.

    Args:
        config: of the environment.
        total: learning flows of all worlds together.
    """

    shared = True

    def __init__(self, config: EnvConfig, total: int) -> None:
        live = config.backend == "emulator"  # which plays one world at a time
        self.buckets = Buckets(config.source(), live=live)
        self.flows, last = ([total], total) if live else self.buckets.sizes(total)
        """Learning flows of each world's scenario."""
        self.sizes = [*self.flows[:-1], last]
        """Learning flows of each world that are used."""
        self.max_agents = max(self.sizes)
        # Intervals of so many RTTs have no grid.
        self._grid_ns = 1 if config.preset.interval_rtts > 0 else config.preset.interval_ns

    def next(
        self, world: int, rng: np.random.Generator, seed: int | None, scenario: Scenario | None, cut: bool
    ) -> WorldEpisode:
        drawn = self.buckets.next(self.flows[world], rng, seed)
        if self.sizes[world] < self.flows[world]:
            drawn = self.buckets.source.mark_agents(drawn, self.sizes[world])
        network = drawn.network()
        never_idle(network, self._grid_ns, rng, cut=cut)
        return WorldEpisode(drawn, as_text(network), agents=self.sizes[world])

    def clone(self) -> "Connections":
        twin = copy.copy(self)
        twin.buckets = self.buckets.clone()
        return twin


def never_idle(network: CompiledNetwork, grid_ns: int, rng: np.random.Generator, *, cut: bool = False) -> None:
    """Let flows that follow each other keep every agent index of a network in use from start to end.

    Changes of flow fall on the grid of decisions, where decisions have one.

    Args:
        network: of `Scenario.network`; it is changed.
        grid_ns: time between decisions; 1 where it changes with the RTT.
        rng: draws lifetimes.
        cut: end the world at a random moment.

    Raises:
        OrbitccError: a learning flow sends an object, so that nobody knows when it ends, or is one of the two
            connections of a proxy, which have no successors.
    """
    flows = network["flows"]
    shortest = max(round(SHORTEST_CONNECTION_S * 1e9), 3 * grid_ns)
    if cut and network["duration"] > shortest:
        network["duration"] = int(rng.integers(shortest, network["duration"]))
    end = network["duration"]

    def on_grid(at: float) -> int:  # not before `at`
        return int(-(-at // grid_ns)) * grid_ns

    split = {flow["relays"]["from"] for flow in flows if "relays" in flow}
    for index in range(len(flows)):
        flow = flows[index]
        if flow["controller"]["name"] != EXTERNAL:
            continue
        if flow.get("traffic", {}).get("kind") == "bytes":
            raise OrbitccError(f"flows.{index}.traffic", "bytes", "flows that end at a known time, in a FlowVectorEnv")
        if index in split or "relays" in flow:
            raise OrbitccError(f"flows.{index}", flow["name"], "a flow that no proxy splits, in a FlowVectorEnv")
        changes: list[int] = []  # from one connection to the next
        for at in (flow.get("start", 0), flow.get("stop")):
            if at is not None and (changes[-1] if changes else 0) + shortest <= on_grid(at) <= end - shortest:
                changes.append(on_grid(at))
        if flow.get("stop") is not None and changes:
            while end - changes[-1] >= 2 * shortest:
                life = rng.uniform(*LIFETIME_SHARE) * (end - changes[-1])
                change = on_grid(changes[-1] + max(life, shortest))
                if change > end - shortest:
                    break
                changes.append(change)
        starts, stops = [0, *changes], [*changes, None]
        place = index
        for k, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            piece = {**flow, "start": start, "stop": stop, "name": f"{flow['name']}.{k}" if k else flow["name"]}
            if k == 0:
                flows[index] = piece
            else:
                flows.append({**piece, "follows": place})
                place = len(flows) - 1
