"""Calls observation, action and reward functions in Python: rows, memory per connection, checks of results."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError
from orbitcc.common.numbers import REAL
from orbitcc.envs.environments.presets import Action, Observation, Preset, Reward, Stats, Who

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Remembered:
    """The part of a roster about one world: an entry per agent index."""

    flow: Index
    place: Index
    fresh: NDArray[np.bool_]
    memory: dict[str, NDArray[np.float64]]


class Roster:
    """The connection of each agent index of N worlds, and the memory of Python functions about it."""

    def __init__(self, preset: Preset, worlds: int, max_agents: int) -> None:
        self._flow = np.full((worlds, max_agents), -1)
        self._place = np.full((worlds, max_agents), -1)
        self._fresh = np.zeros((worlds, max_agents), np.bool_)
        self._memory = {
            kind: np.zeros((worlds, max_agents, function.memory)) for kind, function in preset.python().items()
        }
        self._numbered = 0

    def clear(self, world: int) -> None:
        """Start a new world: all its connections are new."""
        self._flow[world] = self._place[world] = -1

    def meet(self, world: Index, agent: Index, place: Index) -> None:
        """End an interval for the connections of these agents; place[n]: the flow's place in its network."""
        fresh = self._place[world, agent] != place
        self._fresh[world, agent] = fresh
        new = (world[fresh], agent[fresh])
        self._place[new] = place[fresh]
        self._flow[new] = self._numbered + np.arange(len(new[0]))
        self._numbered += len(new[0])
        for memory in self._memory.values():
            memory[new] = 0.0

    def who(self, kind: str, world: Index, agent: Index) -> Who:
        """The connections of these agents, with the memory of this kind of function; call :meth:`keep` afterwards."""
        at = (world, agent)
        return Who(world, agent, self._flow[at], self._fresh[at], self._memory[kind][at])

    def keep(self, kind: str, who: Who) -> None:
        """Store the memory that the function wrote."""
        self._memory[kind][who.world, who.agent] = who.memory

    def save(self, world: int) -> Remembered:
        """A copy of the entries of one world."""
        memory = {kind: rows[world].copy() for kind, rows in self._memory.items()}
        return Remembered(self._flow[world].copy(), self._place[world].copy(), self._fresh[world].copy(), memory)

    def restore(self, world: int, saved: Remembered) -> None:
        """Restore the entries of one world; new connections get other numbers."""
        self._flow[world], self._place[world], self._fresh[world] = saved.flow, saved.place, saved.fresh
        self._numbered = max(self._numbered, int(saved.flow.max()) + 1)
        for kind, rows in saved.memory.items():
            self._memory[kind][world] = rows


def observe(function: Observation, stats: Stats, who: Who) -> NDArray[np.float32]:
    """The observations of these flows from a Python function, clipped to its bounds, f32[n, D].

    Raises:
        OrbitccError: it returned another shape, NaN or infinity.
    """
    values = _finite("observation", function.function(stats, who), (len(stats), function.low.size))
    return np.clip(values, function.low, function.high).astype(np.float32)


def control(function: Action, actions: NDArray[np.float32], stats: Stats, who: Who) -> NDArray[np.float64]:
    """Windows in packets and pacing rates in bit/s (0: none) from a Python action and actions [n, dim], f64[2, n].

    Raises:
        OrbitccError: it returned another shape, NaN, infinity or a negative number.
    """
    result = function.function(actions, stats, who)
    pair = result if isinstance(result, tuple) and len(result) == 2 else (result, np.zeros(len(stats)))
    values = np.stack([_finite("action", part, (len(stats),)) for part in pair])
    if (values < 0).any():
        raise OrbitccError("custom action", float(values.min()), "windows and pacing rates of 0 or more")
    return values


def rewards(function: Reward, stats: Stats, who: Who) -> NDArray[np.float64]:
    """The rewards of these flows from a Python function, f64[n].

    Raises:
        OrbitccError: it returned another shape, NaN or infinity.
    """
    return _finite("reward", function.function(stats, who), (len(stats),))


def _finite(kind: str, values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind not in REAL:
        raise OrbitccError(f"custom {kind}", f"values of the type {array.dtype}", "real numbers")
    array = array.astype(np.float64)
    if array.shape != shape:
        raise OrbitccError(f"custom {kind}", f"an array of shape {array.shape}", f"shape {shape}: a row per flow")
    if not np.isfinite(array).all():
        raise OrbitccError(f"custom {kind}", "NaN or infinity", "finite numbers")
    return array
