"""The pictures of docs/baselines.md: `python -m benches.lives [CONTROLLER ...]`, from the top of the repository.

Each is what `orbitcc run SCENARIO --flow CONTROLLER --interval SECONDS --plot FILE` draws, in fewer dots and colours.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

import orbitcc  # noqa: F401  (registers the controllers)
from orbitcc.envs import controllers, scenarios
from orbitcc.envs.files import atomic_write_bytes
from orbitcc.envs.simulate import simulate
from orbitcc.eval.figures import render
from orbitcc.eval.run_figure import draw_run
from orbitcc.eval.style import LIGHT

FOLDER = Path("docs/images/baselines")
SCENES: Mapping[str, tuple[str, Mapping[str, Any], float]] = {
    "dumbbell": ("dumbbell", {}, 0.02),
    "leo": ("leo-responsiveness", {"run": 1, "duration_s": 150}, 0.02),
    "geo": ("geo-ideal", {}, 0.1),
}
"""Suffix of the picture -> scenario, its parameters, and seconds between the points."""
ALSO = {"hybla": ("geo",)}
"""Whose life shows best elsewhere."""
DPI = 90
COLOURS = (64, 48, 32, 16)
"""As many as fit into MAX_BYTES."""
MAX_BYTES = 60_000


def draw(controller: str, suffix: str) -> Path:
    name, params, interval_s = SCENES[suffix]
    recording = simulate(scenarios.get(name, controller=controller, **params), record_interval_s=interval_s)
    picture = Image.open(io.BytesIO(render(draw_run(recording, LIGHT), dpi=DPI))).convert("RGB")
    for colours in COLOURS:
        out = io.BytesIO()
        picture.quantize(colours, dither=Image.Dither.NONE).save(out, "png", optimize=True)
        if out.tell() < MAX_BYTES:
            break
    return atomic_write_bytes(FOLDER / f"{controller}-{suffix}.png", out.getvalue())


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for controller in sys.argv[1:] or [name for name in controllers.names("baseline") if name != "udp"]:
        for suffix in ("dumbbell", "leo", *ALSO.get(controller, ())):
            path = draw(controller, suffix)
            print(f"{path}  {path.stat().st_size / 1e3:.0f} kB")
