"""Return and length of the episodes of a learner's sub-environments."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class EpisodeTotals:
    """Counts episodes over the iterations of a learner.

    count: shape of the sub-environments, for example 256 flows, or worlds and agents. reward_scale: the factor on the
    rewards that it is given; returns are without it.
    """

    def __init__(self, count: int | tuple[int, ...], reward_scale: float = 1.0) -> None:
        self._scale = reward_scale
        self._returns, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        self._ended: list[tuple[float, int]] = []

    def add(self, rewards: NDArray[Any], acted: NDArray[np.bool_], ended: NDArray[np.bool_]) -> None:
        """One step: who decided, its rewards, and whose episode ended then."""
        self._returns += np.where(acted, rewards, 0.0)
        self._lengths += acted
        if not ended.any():
            return
        over = ended & (self._lengths > 0)
        self._ended += zip(self._returns[over].tolist(), self._lengths[over].tolist(), strict=True)
        self._returns[over], self._lengths[over] = 0.0, 0

    def take(self) -> dict[str, float]:
        """Means over the episodes that have ended since the last call; empty where none has."""
        ended, self._ended = self._ended, []
        if not ended:
            return {}
        total, steps = (float(np.mean(values)) for values in zip(*ended, strict=True))
        return {"train/episode_return": total / self._scale, "train/episode_length": steps}

    def state(self) -> dict[str, NDArray[Any]]:
        """Of the running episodes, to continue exactly."""
        return {"returns": self._returns.copy(), "lengths": self._lengths.copy()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._returns[...], self._lengths[...] = state["returns"], state["lengths"]
