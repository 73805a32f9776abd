"""Paths for training: as many different ones as wanted, each computed when it is first used, then kept."""

from __future__ import annotations

import functools
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from orbitcc.envs.description.model import MAX_TIME_S, Model, number
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.orbits.routing import PathSpec, find_path
from orbitcc.envs.orbits.trace import PathTrace


class PathPool(Model):
    """A numbered pool of paths. Path i is a function of these settings and i alone: one of `paths`, with a seed of its
    own for what that leaves open (where the satellites are, the phase of the slots, random choices)."""

    paths: tuple[PathSpec, ...]
    duration_s: Annotated[float, number(1, MAX_TIME_S, "s")] = 300.0
    size: Annotated[int, number(1, 100_000, whole=True)] = Field(
        default=512, description="how many different paths there are; a path of 300 s takes some 20 kB"
    )
    seed: Annotated[int, number(0, 2**53, whole=True)] = 1
    knot_s: Annotated[float, number(0.01, 1e4, "s")] = Field(
        default=5.0, description="time between knots inside a slot, in place of the paths' own: errs by microseconds"
    )

    @model_validator(mode="after")
    def _not_empty(self) -> PathPool:
        if not self.paths:
            raise OrbitccError("paths", [], "one path or more")
        return self

    def path(self, i: int) -> PathTrace:
        """Path i, 0 to size - 1; OrbitccError for any other number."""
        if i not in self._kept:
            if not 0 <= i < self.size:
                raise OrbitccError("i", i, f"a whole number in [0, {self.size - 1}]")
            rng = np.random.default_rng((self.seed, i))
            spec = self.paths[int(rng.integers(len(self.paths)))]
            self._kept[i] = find_path(spec.changed(knot_s=self.knot_s), self.duration_s, int(rng.integers(2**53)))
        return self._kept[i]

    def draw(self, rng: np.random.Generator) -> PathTrace:
        """One of the paths."""
        return self.path(int(rng.integers(self.size)))

    @functools.cached_property
    def _kept(self) -> dict[int, PathTrace]:
        return {}
