"""A folder of scenarios as a distribution: one of its files for each episode."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution


class Folder(ScenarioDistribution):
    """Scenarios drawn with equal probability, each time with a new seed."""

    kind: Literal["folder"] = "folder"
    scenarios: tuple[Scenario, ...] = Field(min_length=1)

    @property
    def max_agents(self) -> int:
        return max(sum(flow.controller.name == "external" for flow in world.flows) for world in self.scenarios)

    def _draw(self, rng: np.random.Generator) -> Scenario:
        world = self.scenarios[int(rng.integers(len(self.scenarios)))]
        return world.with_seed(int(rng.integers(2**53)))


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """The scenario files of a folder, sorted by name. Raises FileError if there are none."""
    found = sorted(Path(path).glob("*.toml"))
    if not found:
        raise FileError("scenario", str(path), "a folder with scenarios in it (*.toml)")
    return found


def load_files(path: str | os.PathLike[str]) -> dict[Path, Scenario]:
    """File -> scenario, for those of a folder. An error in a file names it."""
    return {file: _load(file) for file in files_of(path)}


def _load(file: Path) -> Scenario:
    try:
        return Scenario.load(file)
    except FileError:  # it names the file
        raise
    except OrbitccError as error:
        raise error.at(f"{file}, {error.field}" if error.field else str(file)) from None


def load_folder(path: str | os.PathLike[str]) -> Folder:
    """The distribution of a folder's scenarios."""
    return Folder(name=Path(path).name or "folder", scenarios=tuple(load_files(path).values()))
