"""What a training run needs to continue: its saved state, whether it is complete, and whether it can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from orbitcc.agents import checkpoint
from orbitcc.agents.runs import seal
from orbitcc.agents.runs.run_folder import METRICS, RunFolder, last_step
from orbitcc.common.errors import FileError, OrbitccError, StateError
from orbitcc.common.files import parse_json, read_text
from orbitcc.eval.heldout_metrics import Figures
from orbitcc.training.recipe import Recipe

PROGRESS = "progress.json"


@dataclass
class TrainingState:
    """The state of a run, saved with the learner's state.

    best_at: agent steps after which `best/` was saved; -1: unknown.
    """

    agent_steps: int = 0
    seconds: float = 0.0
    restarts: int = 0
    evaluated_at: int = -1
    failing: int = 0
    scores: Figures = field(default_factory=dict)
    best: Figures = field(default_factory=dict)
    best_score: float = -math.inf
    best_at: int = -1


def check_state(run: RunFolder, recipe: Recipe, trust: bool = False) -> TrainingState:
    """The progress of a run whose saved state is complete and can be trusted.

    Raises:
        OrbitccError: a file is missing or damaged, or the state may run code and was not saved with this user's key
            (unless `trust`).
    """
    try:
        seal.check(run.state)
        progress = read_progress(run)
    except OrbitccError as error:
        left = " and ".join(f"{path.name}/" for path in (run.best, run.last) if path.is_dir())
        lost = f"the run cannot continue and its training is lost{f', but not the policies in {left}' if left else ''}"
        raise StateError("resume", f"{error.value}: {error.allowed}; {lost}") from None
    if recipe.kind.library and not trust:  # its state contains pickled objects
        seal.check_owner(run.state, run.path.name)
    return progress


def read_progress(run: RunFolder) -> TrainingState:
    """The state of a run when it was last saved.

    Raises:
        OrbitccError: its state cannot be read.
    """
    path = run.state / PROGRESS
    try:
        found = TrainingState(**parse_json(read_text(path), own=True))
        if wrong := [key for key, value in vars(TrainingState()).items() if not _is_like(getattr(found, key), value)]:
            raise ValueError(f"{wrong[0]} has another type")
        return found
    except FileError as error:
        raise FileError("resume", str(path), f"the progress file of a run ({error.allowed})") from None
    except (ValueError, TypeError) as error:
        raise FileError("resume", str(path), f"the progress file of a run ({error})") from None


def _is_like(value: Any, usual: Any) -> bool:
    """Has a value of a state the type of this one?"""
    if isinstance(usual, dict):
        return isinstance(value, dict) and all(_is_like(one, 0.0) for one in value.values())
    kinds = int if isinstance(usual, int) else int | float
    return isinstance(value, kinds) and not isinstance(value, bool) and (value != value or abs(value) <= math.inf)


def mend(run: RunFolder, progress: TrainingState) -> list[str]:
    """What else in the folder of a resumed run is missing or damaged, and how the run goes on, one line each.

    The learner does not need these files. If the best policy is lost, the next evaluation writes
    it again.
    """
    found = []
    for folder in (run.best, run.last):
        try:
            checkpoint.load(folder)
        except OrbitccError as error:
            found.append(f"{error}; the next evaluation writes {folder.name}/ again")
            if folder == run.best:
                progress.best_score, progress.best_at = -math.inf, -1
    if (reached := last_step(run.path / METRICS)) < progress.evaluated_at:
        found.append(f"{run.path / METRICS}: the figures after {reached:,} of {progress.agent_steps:,} steps are lost")
    return found
