"""A record of running worlds, from which they can be run again to the same moment, bit for bit.

The state of a world lives in memory alone (`_sim.WorldState`). What can be written down is what it was made of, and
what was done in it since.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.batch import Batch


def rebuilt(field: str, written: list[dict[str, Any]]) -> list[Scenario]:
    """The scenarios that a journal has as plain values in this field.

    Raises:
        OrbitccError: one cannot be used; it names the field.
    """
    made = []
    for index, values in enumerate(written):
        try:
            made.append(Scenario.build(values))
        except OrbitccError as error:
            raise error.under(f"journal.{field}.{index}") from None
    return made


class Journal:
    """The networks of N worlds and the actions of all steps since the oldest world began."""

    def __init__(self, worlds: int) -> None:
        self._networks = [""] * worlds
        self._births = [0] * worlds
        self._now = 0
        self._actions: deque[NDArray[np.float32]] = deque()

    def begin(self, world: int, network: str) -> None:
        """Record that a world begins now with this network."""
        self._networks[world], self._births[world] = network, self._now
        while len(self._actions) > self._now - min(self._births):
            self._actions.popleft()

    def step(self, actions: NDArray[np.float32]) -> None:
        """Record a step of all worlds with actions f32[N, S, A]."""
        self._actions.append(actions.copy())
        self._now += 1

    def written(self) -> dict[str, Any]:
        """The journal as plain values: networks, ages in steps, and actions f32[T, N, S, A] up to now."""
        ages = [self._now - birth for birth in self._births]
        return {"networks": list(self._networks), "ages": ages, "actions": np.array(self._actions, np.float32)}

    def check(self, written: Mapping[str, Any], max_agents: int, action_dim: int) -> None:
        """Raise OrbitccError unless :meth:`written` of so many worlds with such agents gives the like.

        The oldest world has an action for each of its steps, and no action is older.
        """
        networks, ages, actions = written["networks"], written["ages"], written["actions"]
        worlds = len(self._networks)
        if not isinstance(networks, list) or not all(isinstance(network, str) for network in networks):
            raise OrbitccError("journal.networks", networks, "a list of networks as text")
        if len(networks) != worlds:
            raise OrbitccError("journal", f"{len(networks)} worlds", f"{worlds} worlds")
        if not isinstance(ages, list) or len(ages) != worlds or not all(type(age) is int and age >= 0 for age in ages):
            raise OrbitccError("journal.ages", ages, f"a list of {worlds} whole numbers of 0 or more")
        steps = max(ages)
        shape = (steps, worlds, max_agents, action_dim) if steps else (0,)
        if not isinstance(actions, np.ndarray) or actions.dtype != np.float32 or actions.shape != shape:
            given = f"{actions.dtype}{list(actions.shape)}" if isinstance(actions, np.ndarray) else actions
            raise OrbitccError("journal.actions", given, f"float32{list(shape)}, as the oldest age is {steps}")

    def replay(self, written: Mapping[str, Any], batch: Batch, agents: list[int], alone: Batch) -> None:
        """Run all worlds of a batch to the moment at which a journal was written, and continue the record.

        Args:
            written: what :meth:`written` gave and :meth:`check` accepts.
            batch: N worlds, which are replaced.
            agents: with how many flows each world began (:meth:`Batch.reset`).
            alone: a batch of one world with the same functions, in which each world is run again.

        Raises:
            OrbitccError: a network that cannot be played, or an action that is NaN; no world of the batch is replaced.
        """
        networks, ages, actions = written["networks"], written["ages"], written["actions"]
        states = []
        for world, (network, age) in enumerate(zip(networks, ages, strict=True)):
            alone.reset(0, network, agents=agents[world])
            alone.observe()
            for t in range(len(actions) - age, len(actions)):
                alone.step(actions[t, world : world + 1])
            states.append(alone.save(0))
        for world, state in enumerate(states):
            batch.restore(world, state)
        batch.observe()
        self._networks, self._now = list(networks), len(actions)
        self._births = [self._now - age for age in ages]
        self._actions = deque(actions)
