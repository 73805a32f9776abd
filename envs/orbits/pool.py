"""A pool of paths for training; each path is computed at its first use and kept."""

from __future__ import annotations

import functools
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.model import MAX_TIME_S, Model, number
from orbitcc.envs.orbits.routing import PathSpec, find_path
from orbitcc.envs.orbits.trace import PathTrace


class PathPool(Model):
    """A numbered pool of paths. Path i depends only on these settings and on i.

    It is one of `paths`, with its own seed for the positions of the satellites, the phase of the slots and random
    selections.
    """

    paths: tuple[PathSpec, ...]
    duration_s: Annotated[float, number(1, MAX_TIME_S, "s")] = 300.0
    size: Annotated[int, number(1, 100_000, whole=True)] = Field(
        default=512, description="number of different paths; a path of 300 s takes about 20 kB"
    )
    seed: Annotated[int, number(0, 2**53, whole=True)] = 1
    knot_s: Annotated[float, number(0.01, 1e4, "s")] = Field(
        default=5.0,
        description="time between points of the delay in a slot, instead of the paths' knot_s; errors are microseconds",
    )

    @model_validator(mode="after")
    def _not_empty(self) -> PathPool:
        if not self.paths:
            raise OrbitccError("paths", [], "at least one path")
        return self

    def path(self, i: int) -> PathTrace:
        """Path i, 0 to size - 1. Raises OrbitccError for other numbers."""
        if i not in self._kept:
            if not 0 <= i < self.size:
                raise OrbitccError("i", i, f"a whole number in [0, {self.size - 1}]")
            rng = np.random.default_rng((self.seed, i))
            spec = self.paths[int(rng.integers(len(self.paths)))]
            self._kept[i] = find_path(spec.changed(knot_s=self.knot_s), self.duration_s, int(rng.integers(2**53)))
        return self._kept[i]

    def draw(self, rng: np.random.Generator) -> PathTrace:
        """A random path of the pool."""
        return self.path(int(rng.integers(self.size)))

    @functools.cached_property
    def _kept(self) -> dict[int, PathTrace]:
        return {}
