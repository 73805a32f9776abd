"""Suites, metrics, statistics, figures and reports; :func:`orbitcc.eval.scoring.score` by its short name `score`."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "score":
        from orbitcc.eval.scoring import score

        return score
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
