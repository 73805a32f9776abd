"""The last steps of a run: [finish] in the recipe says how `best/`, the policy to use, is made of the selected one.

A run that joins its policy with one for long paths trains that one, too: in its folder `long/`, itself a run folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from orbitcc.agents import checkpoint
from orbitcc.agents.actions import with_parameters
from orbitcc.agents.joining import joined
from orbitcc.agents.runs.folders import replace_folder, scratch
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.agents.safety_filter import filtered, limits
from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.training.recipe import Finish, Recipe, next_one

TrainNext = Callable[[Recipe, RunFolder], str | None]
"""Trains a recipe in a run folder, or goes on with it. Returns None at its end, "" after an interrupt, or why it has
diverged."""


def is_lost(policy: Path) -> bool:
    """Whether a checkpoint is missing or damaged."""
    try:
        checkpoint.load(policy)
    except OrbitccError:
        return True
    return False


def selected(recipe: Recipe, run: RunFolder) -> Path:
    """Where the training keeps the policy with the highest score: `selected/`, if the recipe makes `best/` of it."""
    return run.best if recipe.finish is None else run.selected


def is_finished(recipe: Recipe, run: RunFolder) -> bool:
    """Whether `best/` is the policy to use."""
    return recipe.finish is None or not is_lost(run.best)


def begin_anew(run: RunFolder) -> None:
    """Remove what an earlier training in this folder has made of its policy."""
    for folder in (run.best, run.selected, run.long.path):
        shutil.rmtree(folder, ignore_errors=True)


def finish(recipe: Recipe, run: RunFolder, train_next: TrainNext) -> str | None:
    """Train what is still to be trained, and write `best/`. Returns None, or what `train_next` returned if it was
    stopped.

    Raises:
        OrbitccError: a policy that cannot be joined, or a folder that cannot be written.
    """
    plan = recipe.finish
    if plan is None or is_finished(recipe, run):
        return None
    if plan.join and (stopped := train_next(next_one(recipe, str(run.selected)), run.long)) is not None:
        return stopped
    steps = scratch(run.best)
    try:
        steps.mkdir()
        replace_folder(_made(plan, run, steps), run.best)
    except OSError as error:
        raise FileError("out", str(run.path), f"a writable folder ({error.strerror or error})") from None
    finally:
        shutil.rmtree(steps, ignore_errors=True)
    return None


def _made(plan: Finish, run: RunFolder, steps: Path) -> Path:
    """The policy, in a folder in `steps`."""
    policy = run.selected
    if plan.join:
        policy = joined(policy, run.long.best, steps / "joined", plan.above_ms)
    if plan.action or plan.interval_rtts or plan.preference:
        changed = steps / "action"
        policy = with_parameters(
            policy, changed, plan.action, interval_rtts=plan.interval_rtts, preference=plan.preference
        )
    safe = limits(checkpoint.load(policy).card.training_range, plan.max_bdp, plan.patience_s)
    return filtered(policy, steps / "filtered", safe)
