"""docs/baselines.md describes every controller there is, with pictures that are there."""

import re
from pathlib import Path

import orbitcc  # noqa: F401  (registers the controllers)
from orbitcc.envs import controllers

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "baselines.md").read_text(encoding="utf-8")


def test_every_controller_and_parameter_is_described():
    for name in controllers.names("baseline"):
        assert f"`{name}`" in TEXT, name
        for param, about in controllers.get(name).params.items():
            assert f"`{param}`" in TEXT, f"{name}: {param}"
            for choice in about.choices:
                assert re.search(rf"`([\w, =+]*=)?{re.escape(str(choice))}`", TEXT), f"{name}: {param}={choice}"


def test_pictures_are_there_and_small():
    shown = re.findall(r"\]\((images/baselines/[^)]+)\)", TEXT)
    assert {DOCS / path for path in shown} == set((DOCS / "images/baselines").glob("*.png"))
    assert all((DOCS / path).stat().st_size < 60_000 for path in shown)
