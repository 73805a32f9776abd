"""The figures of docs/baselines.md: `python -m benches.lives [CONTROLLER ...]`, from the top of the repository.

Each is the figure of `orbitcc run SCENARIO --flow CONTROLLER --interval SECONDS --plot FILE`, with fewer pixels and
colours.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orbitcc  # noqa: F401  (registers the controllers)
from benches.pictures import write
from orbitcc.envs import controllers, scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.eval.figures.run import draw_run
from orbitcc.eval.figures.style import LIGHT

FOLDER = Path("docs/images/baselines")
SCENES: Mapping[str, tuple[str, Mapping[str, Any], float]] = {
    "dumbbell": ("dumbbell", {}, 0.02),
    "leo": ("leo-responsiveness", {"run": 1, "rtt": "repo", "duration_s": 150}, 0.02),
    "geo": ("geo-ideal", {}, 0.1),
}
"""Suffix of the file -> scenario, its parameters, and seconds between the points."""
ALSO = {"hybla": ("geo",)}
"""Controllers with additional scenarios."""


def draw(controller: str, suffix: str) -> Path:
    name, params, interval_s = SCENES[suffix]
    recording = simulate(scenarios.get(name, controller=controller, **params), record_interval_s=interval_s)
    folder = FOLDER if controllers.get(controller).kind == "baseline" else FOLDER.parent
    return write(draw_run(recording, LIGHT), folder / f"{controller}-{suffix}.png")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for controller in sys.argv[1:] or [name for name in controllers.names("baseline") if name != "udp"]:
        for suffix in ("dumbbell", "leo", *ALSO.get(controller, ())):
            draw(controller, suffix)
