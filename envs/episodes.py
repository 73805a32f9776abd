"""N running episodes drawn from one source: the engine room shared by the single, vector and parallel environments."""

import copy
import json
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs import backends
from orbitcc.envs.batch import ACTIVE, Batch, WorldState
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.presets import STATS, Preset
from orbitcc.envs.scenario import Scenario
from orbitcc.envs.source import EpisodeSource, agent_flows

FINAL_INFO = ("goodput_mbps", "sent_packets", "retransmitted_packets", "lost_packets")
"""Totals of a flow that its last info carries, all numbers (see `orbitcc run --json`)."""

SHORTEST_S = 2.0
"""No episode that is cut at random is shorter."""


class Episodes:
    """N worlds, each in some episode of `source`.

    Args:
        source: draws scenarios.
        preset: what agents see, do and are paid for.
        n: worlds.
        threads: of the native pool; 0 = one per core.
        backend: what plays them (:data:`orbitcc.envs.backends.Backend`); the emulator plays one world at a time.
    """

    def __init__(
        self, source: EpisodeSource, preset: Preset, n: int, threads: int = 1, backend: str = "simulator"
    ) -> None:
        self._emulator: str | None = None
        if backends.check(backend) == "emulator":
            from orbitcc.emulator import program

            self._emulator = program.path(agents=True)
        self.source = source
        self.preset = preset
        self.observation_space = preset.observation_space()
        self.action_space = preset.action_space()
        self._n = n
        self._threads = threads
        self._batch: Batch | None = None
        self._scenarios: list[Scenario | None] = [None] * n
        self._networks = [""] * n

    @property
    def batch(self) -> Batch:
        """The worlds; there are none before the first :meth:`begin`."""
        if self._batch is None:
            raise OrbitccError("step", "called before reset()", "reset() first")
        return self._batch

    def begin(
        self,
        index: int,
        rng: np.random.Generator,
        seed: int | None = None,
        scenario: Scenario | None = None,
        *,
        cut: bool = False,
    ) -> None:
        """Start a new episode in world `index`, at the first decision of its first agent; the others stand still.

        cut: it ends at a random moment, after two seconds or an agent's third decision at the earliest.
        """
        if scenario is None:
            scenario = self.source.draw(rng, seed)
        else:
            if not isinstance(scenario, Scenario):
                raise OrbitccError("options.scenario", scenario, "a Scenario")
            scenario = self.source.mark_agents(scenario)
        agents = len(agent_flows(scenario))
        if not 1 <= agents <= self.source.slots:
            raise OrbitccError("scenario", f"{agents} agents in {scenario.name}", f"1 to {self.source.slots}")
        if self._emulator is not None:
            from orbitcc.emulator.run import refuse

            refuse(scenario, plain=False)
        network, policies = scenario.compile(), scenario.policies()
        if cut:
            network = _shortened(network, max(round(SHORTEST_S * 1e9), 3 * self.preset.interval_ns), rng)
        if self._batch is None:
            self._batch = Batch(
                [network] * self._n,
                slots=self.source.slots,
                preset=self.preset,
                threads=self._threads,
                policies=policies,
                emulator=self._emulator,
            )
        self._batch.reset(index, network)
        self._scenarios[index] = scenario
        self._networks[index] = network

    def close(self) -> None:
        """End emulated episodes; simulated ones are only memory."""
        if self._emulator is not None:
            self._batch = None

    def network(self, index: int) -> str:
        """The network that world `index` was made from."""
        return self._networks[index]

    def put(self, scenarios: list[Scenario]) -> None:
        """Of worlds that were brought elsewhere: the scenarios of their episodes."""
        self._scenarios = list(scenarios)

    def scenario(self, index: int) -> Scenario:
        """The scenario of the running episode of world `index`."""
        scenario = self._scenarios[index]
        if scenario is None:
            raise OrbitccError("step", "called before reset()", "reset() first")
        return scenario

    def final_info(self, index: int, slot: int) -> dict[str, float]:
        """What a leaving flow leaves behind: its totals (:data:`FINAL_INFO`)."""
        flow = agent_flows(self.scenario(index))[slot]
        totals = self.batch.totals(index)[0][flow]
        return {key: float(totals[key]) for key in FINAL_INFO}

    def live_info(self, index: int) -> dict[str, Any]:
        """What every step says of an emulated world: `overruns` so far; empty for a simulated one."""
        return {} if self._emulator is None else {"overruns": self.batch.overruns(index)}

    def statistics(self, index: int, slot: int) -> dict[str, float]:
        """Raw statistics of one flow over the last interval, by name (``orbitcc._sim.STATS_FIELDS``)."""
        row = self.batch.statistics()[index, slot]
        return {name: float(row[column]) for name, column in STATS.items()}

    def clone(self) -> Self:
        """An exact copy of all running episodes, on worlds of its own; they continue identically."""
        twin = copy.copy(self)
        if self._batch is not None:
            twin._batch, twin._scenarios = self._batch.clone(), list(self._scenarios)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """The configuration: running worlds are not pickled."""
        return {**self.__dict__, "_batch": None, "_scenarios": [None] * self._n}

    def active(self, index: int) -> NDArray[np.bool_]:
        """Slots of world `index` that act on the next step, bool[S]."""
        return self.batch.status[index] == ACTIVE

    def save(self, index: int) -> tuple[Scenario, WorldState]:
        """An exact copy of a running episode."""
        return self.scenario(index), self.batch.save(index)

    def restore(self, index: int, saved: tuple[Scenario, WorldState]) -> None:
        """Go back to a saved episode; it continues identically."""
        self._scenarios[index] = saved[0]
        self.batch.restore(index, saved[1])
        self.batch.observe()


def _shortened(network: str, shortest_ns: int, rng: np.random.Generator) -> str:
    """A compiled network that ends at a random moment; its first agent must have come by then."""
    data = json.loads(network)
    first = min(flow.get("start", 0) for flow in data["flows"] if flow["controller"]["name"] == "external")
    if data["duration"] > first + shortest_ns:
        data["duration"] = int(rng.integers(first + shortest_ns, data["duration"]))
    return json.dumps(data)
