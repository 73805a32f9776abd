"""Pools of paths for training: computed at their first use and kept, or windows of measured paths."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.model import MAX_TIME_S, Model, number
from orbitcc.envs.orbits import trace_set
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


class TracePool(Model):
    """Windows of the measured paths in one part of a trace set, as a numbered pool. Window i depends only on these
    settings and on i: one of the paths, from a random time on; a path that is shorter is repeated.

    traces: a file of `orbitcc traces import`. digest: of its content, which is then checked; filled in when the set is
    first read, so that whoever states these settings names the content, too.
    """

    traces: str = ""
    split: Literal["train", "validation", "test"] = "train"
    places: tuple[str, ...] = Field(default=(), description="only paths at these places; empty: at all")
    duration_s: Annotated[float, number(1, MAX_TIME_S, "s")] = Field(default=30.0, description="length of a window")
    seed: Annotated[int, number(0, 2**53, whole=True)] = 1
    digest: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_the_content(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or not isinstance(data.get("traces"), str) or not data["traces"]:
            return data
        file = os.path.abspath(data["traces"])
        found = trace_set.opened(file)
        if data.get("digest") and data["digest"] != found.digest:
            raise OrbitccError("digest", data["digest"], f"{found.digest}, that of {data['traces']}")
        places = data.get("places", ())
        places = [word.strip() for word in places.split(",")] if isinstance(places, str) else places
        return {**data, "traces": file, "places": places, "digest": found.digest}

    @model_validator(mode="after")
    def _has_paths(self) -> TracePool:
        if self.traces:
            self._set.numbers(self.split, self.places)
        return self

    @property
    def part(self) -> str:
        """The digest of the set with the name of the part, for example `0123456789abcdef:test`."""
        return f"{self.digest}:{self.split}"

    @property
    def size(self) -> int:
        """The number of windows."""
        return 1_000_000

    @property
    def _set(self) -> trace_set.TraceSet:
        if not self.traces:
            raise OrbitccError("traces", "", "the file of a trace set, which `orbitcc traces import` makes")
        return trace_set.opened(self.traces)

    @functools.cached_property
    def _numbers(self) -> list[int]:
        return self._set.numbers(self.split, self.places)

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What the index of the set says of each path."""
        return [self._set.entries[k] for k in self._numbers]

    def held_out(self) -> TracePool:
        """The pool of the validation part, if this is one of the training part: at the same places, or if there are no
        such paths, at all."""
        if self.split != "train":
            return self
        there = {e["place"] for e in self._set.entries if e["part"] == "validation"}
        return self.changed(split="validation", places=tuple(place for place in self.places if place in there))

    def path(self, i: int) -> PathTrace:
        """Window i, 0 to size - 1. Raises OrbitccError without a set."""
        rng = np.random.default_rng((self.seed, i))
        traces, numbers = self._set, self._numbers
        trace = traces.measured(numbers[int(rng.integers(len(numbers)))]).trace()
        return trace.since(rng.random() * max(0.0, trace.duration_s - self.duration_s)).lasting(self.duration_s)

    def draw(self, rng: np.random.Generator) -> PathTrace:
        """A random window of the pool."""
        return self.path(int(rng.integers(self.size)))


def pool(value: Any) -> Any:
    """A table of a pool as that pool: a `TracePool` unless it has `paths`."""
    if not isinstance(value, Mapping):
        return value
    return (PathPool if "paths" in value else TracePool).build(value)
