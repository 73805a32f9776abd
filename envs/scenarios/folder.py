"""A folder of scenarios as a distribution: one of its files for each episode."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.errors import FileError


class Folder(ScenarioDistribution):
    """Scenarios drawn with equal probability, each time with a new seed."""

    kind: Literal["folder"] = "folder"
    scenarios: tuple[Scenario, ...] = Field(min_length=1)

    @property
    def max_agents(self) -> int:
        return max(sum(flow.controller.name == "external" for flow in world.flows) for world in self.scenarios)

    def sample(self, rng: np.random.Generator) -> Scenario:
        world = self.scenarios[int(rng.integers(len(self.scenarios)))]
        return world.with_seed(int(rng.integers(2**53)))


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """The scenario files of a folder, sorted by name. Raises FileError if there are none."""
    found = sorted(Path(path).glob("*.toml"))
    if not found:
        raise FileError("scenario", str(path), "a folder with scenarios in it (*.toml)")
    return found


def load_folder(path: str | os.PathLike[str]) -> Folder:
    """The distribution of a folder's scenarios."""
    return Folder(name=Path(path).name or "folder", scenarios=tuple(Scenario.load(file) for file in files_of(path)))
