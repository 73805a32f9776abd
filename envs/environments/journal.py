"""A record of running worlds, from which they can be run again to the same moment, bit for bit.

The state of a world lives in memory alone (`_sim.WorldState`). What can be written down is what it was made of, and
what was done in it since.
"""

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.batch import Batch


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

    def replay(self, written: dict[str, Any], batch: Batch, agents: list[int], alone: Batch) -> None:
        """Run all worlds of a batch to the moment at which a journal was written, and continue the record.

        Args:
            written: what :meth:`written` gave.
            batch: N worlds, which are replaced.
            agents: with how many flows each world began (:meth:`Batch.reset`).
            alone: a batch of one world with the same functions, in which each world is run again.

        Raises:
            OrbitccError: it is the journal of another number of worlds.
        """
        networks, ages, actions = written["networks"], written["ages"], written["actions"]
        if len(networks) != batch.num_worlds:
            raise OrbitccError("journal", f"{len(networks)} worlds", f"{batch.num_worlds} worlds")
        for world, (network, age) in enumerate(zip(networks, ages, strict=True)):
            alone.reset(0, network, agents=agents[world])
            alone.observe()
            for t in range(len(actions) - age, len(actions)):
                alone.step(actions[t, world : world + 1])
            batch.restore(world, alone.save(0))
        batch.observe()
        self._networks, self._now = list(networks), len(actions)
        self._births = [self._now - age for age in ages]
        self._actions = deque(actions)
