"""What all environments of a core share: copies, totals, scenarios and pictures of its worlds."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.batch import Totals, WorldState
from orbitcc.envs.environments.core import Core


class View:
    """An environment of any number of worlds."""

    _core: Core | None = None  # gymnasium also closes environments whose constructor failed

    @property
    def _made(self) -> Core:
        assert self._core is not None
        return self._core

    def close_extras(self, **_: Any) -> None:
        """End an emulated episode, and close the window."""
        if self._core is not None:
            self._core.close()

    def clone(self) -> Self:
        """An environment of its own at the same moment; both continue identically. So does `copy.deepcopy`."""
        return copy.deepcopy(self)


class WorldsView(View):
    """An environment of several worlds; methods take the number of a world."""

    def scenario(self, world: int) -> Scenario:
        """The scenario of the running episode of a world."""
        return self._made.scenario(world)

    def totals(self, world: int) -> Totals:
        """Totals of the flows and of the links of a world so far, as `orbitcc run --json` has them."""
        return self._made.totals(world)

    def save(self, world: int) -> tuple[Scenario, WorldState]:
        """An exact copy of the running episode of a world, for search and counterfactuals."""
        return self._made.save(world)

    def state(self) -> NDArray[np.float32]:
        """The global state of each world, float32[N, 12], for centralised critics."""
        return self._made.state()

    def render(self) -> Any:
        """With `rgb_array` a frame of every world, uint8[450, 800, 3] each (a tenth of a second each)."""
        return self._made.frames()


class WorldView(View):
    """An environment of a single world."""

    render_mode: str | None

    def close(self) -> None:
        """End an emulated episode, and close the window."""
        self.close_extras()

    @property
    def scenario(self) -> Scenario:
        """The scenario of the running episode."""
        return self._made.scenario(0)

    def totals(self) -> Totals:
        """Totals of the flows and of the links of the running episode so far, as `orbitcc run --json` has them."""
        return self._made.totals(0)

    def save(self) -> tuple[Scenario, WorldState]:
        """An exact copy of the running episode, for search and counterfactuals."""
        return self._made.save(0)

    def render(self) -> Any:
        """With `rgb_array` a frame, uint8[450, 800, 3]; with `human` every step updates the window."""
        if self.render_mode is None:
            return None
        frames = self._made.frames()
        return None if frames is None else frames[0]
