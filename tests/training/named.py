"""Recipes by name: those that ship, and those in `recipes/` beside this file, for further learners."""

from pathlib import Path

FOLDER = Path(__file__).with_name("recipes")


def of(name: str) -> str:
    """What :func:`orbitcc.training.recipe.load` takes for this name."""
    file = FOLDER / f"{name}.toml"
    return str(file) if file.exists() else name
