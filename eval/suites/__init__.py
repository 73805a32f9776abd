"""The experiments by name: `names()`, `get("responsiveness")`."""

from __future__ import annotations

from collections.abc import Callable

from orbitcc.envs.errors import UnknownNameError
from orbitcc.eval.suites.base import Case, Figure, Metric, Point, Suite
from orbitcc.eval.suites.responsiveness import Responsiveness

SUITES: dict[str, Callable[[], Suite]] = {"responsiveness": Responsiveness}
"""Name -> factory."""


def names() -> list[str]:
    """Every suite, alphabetically."""
    return sorted(SUITES)


def get(name: str) -> Suite:
    """The suite of that name. Raises UnknownNameError naming the nearest one."""
    if name not in SUITES:
        raise UnknownNameError("suite", name, names())
    return SUITES[name]()


__all__ = ["SUITES", "Case", "Figure", "Metric", "Point", "Suite", "get", "names"]
