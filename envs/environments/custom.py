"""Python pieces at work: whose rows they are given, what they remember of each connection, and what they may return."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.environments.presets import Action, Observation, Preset, Reward, Stats, Who
from orbitcc.envs.errors import OrbitccError

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Remembered:
    """What a roster knows of one world: an entry per slot."""

    flow: Index
    place: Index
    fresh: NDArray[np.bool_]
    memory: dict[str, NDArray[np.float64]]


class Roster:
    """Which connection is in each of S slots of N worlds, and what Python pieces remember of it."""

    def __init__(self, preset: Preset, worlds: int, slots: int) -> None:
        self._flow = np.full((worlds, slots), -1)
        self._place = np.full((worlds, slots), -1)
        self._fresh = np.zeros((worlds, slots), np.bool_)
        self._memory = {kind: np.zeros((worlds, slots, piece.memory)) for kind, piece in preset.python().items()}
        self._numbered = 0

    def clear(self, world: int) -> None:
        """A new world: all its connections are new."""
        self._flow[world] = self._place[world] = -1

    def meet(self, world: Index, slot: Index, place: Index) -> None:
        """An interval has ended for the connections in these slots; place[n]: the flow's place in its network."""
        fresh = self._place[world, slot] != place
        self._fresh[world, slot] = fresh
        new = (world[fresh], slot[fresh])
        self._place[new] = place[fresh]
        self._flow[new] = self._numbered + np.arange(len(new[0]))
        self._numbered += len(new[0])
        for memory in self._memory.values():
            memory[new] = 0.0

    def who(self, kind: str, world: Index, slot: Index) -> Who:
        """The connections in these slots, with what the piece of this kind remembers; :meth:`keep` must follow."""
        at = (world, slot)
        return Who(world, slot, self._flow[at], self._fresh[at], self._memory[kind][at])

    def keep(self, kind: str, who: Who) -> None:
        """Remember what the piece wrote."""
        self._memory[kind][who.world, who.slot] = who.memory

    def save(self, world: int) -> Remembered:
        """A copy of what is known of one world."""
        memory = {kind: rows[world].copy() for kind, rows in self._memory.items()}
        return Remembered(self._flow[world].copy(), self._place[world].copy(), self._fresh[world].copy(), memory)

    def restore(self, world: int, saved: Remembered) -> None:
        """Put it back; numbers given from now on are others than these."""
        self._flow[world], self._place[world], self._fresh[world] = saved.flow, saved.place, saved.fresh
        self._numbered = max(self._numbered, int(saved.flow.max()) + 1)
        for kind, rows in saved.memory.items():
            self._memory[kind][world] = rows


def observe(piece: Observation, stats: Stats, who: Who) -> NDArray[np.float32]:
    """What a Python observation says of these flows, clipped to its bounds, f32[n, D].

    Raises:
        OrbitccError: it returned another shape, NaN or infinity.
    """
    values = _finite("observation", piece.function(stats, who), (len(stats), piece.low.size))
    return np.clip(values, piece.low, piece.high).astype(np.float32)


def control(piece: Action, actions: NDArray[np.float32], stats: Stats, who: Who) -> NDArray[np.float64]:
    """What a Python action makes of actions [n, dim]: windows in packets, pacing rates in bit/s (0: none), f64[2, n].

    Raises:
        OrbitccError: it returned another shape, NaN, infinity or a negative number.
    """
    result = piece.function(actions, stats, who)
    pair = result if isinstance(result, tuple) and len(result) == 2 else (result, np.zeros(len(stats)))
    values = np.stack([_finite("action", part, (len(stats),)) for part in pair])
    if (values < 0).any():
        raise OrbitccError("custom action", float(values.min()), "windows and pacing rates of 0 or more")
    return values


def pay(piece: Reward, stats: Stats, who: Who) -> NDArray[np.float64]:
    """What a Python reward pays these flows, f64[n].

    Raises:
        OrbitccError: it returned another shape, NaN or infinity.
    """
    return _finite("reward", piece.function(stats, who), (len(stats),))


def _finite(kind: str, values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if array.shape != shape:
        raise OrbitccError(f"custom {kind}", f"an array of shape {array.shape}", f"shape {shape}: a row per flow")
    if not np.isfinite(array).all():
        raise OrbitccError(f"custom {kind}", "NaN or infinity", "finite numbers")
    return array
