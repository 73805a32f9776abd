"""Learning curves as a picture, from TensorBoard events: of one run, or of several seeds with their interquartile mean.

python -m orbitcc.training.curves RUN [RUN ...] PICTURE
"""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orbitcc.common import names
from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.eval.figures.style import CONTROLLER_COLOURS, LIGHT
from orbitcc.eval.statistics import interquartile_mean
from orbitcc.training.recipe import Recipe

Curve = tuple[list[int], list[float]]
"""Agent steps and values."""

Curves = Mapping[str, Curve]
"""Tag -> curve, of one run."""

PANELS = (
    ("reward per decision", {"train/reward": "training, exploring", "heldout/reward": "held-out worlds"}, 1.0),
    ("score", {"heldout/score": "held-out worlds"}, 1.0),
    ("utilisation [%]", {"heldout/utilisation": "held-out worlds"}, 100.0),
    ("queue delay [ms]", {"heldout/queue_delay_ms": "held-out worlds"}, 1.0),
    ("Jain index", {"heldout/jain": "held-out worlds"}, 1.0),
    ("lost packets [%]", {"heldout/loss": "held-out worlds"}, 100.0),
    ("failing windows [%]", {"heldout/flooded": "flooded", "heldout/starved": "starved"}, 100.0),
    ("policy entropy [nat]", {"learner/entropy": "learner"}, 1.0),
)
"""Title, tag -> label, factor."""

_FAILURES = ("flooded", "starved")
_COLOURS = {"heldout/starved": CONTROLLER_COLOURS["reno"]}


def read_curves(run: Path) -> dict[str, Curve]:
    """Every scalar of a run's TensorBoard events, by tag.

    Raises:
        OrbitccError: the folder holds no events.
    """
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    if not list(run.glob("events.out.tfevents.*")):
        raise FileError("run", str(run), "a run folder with TensorBoard events")
    events = EventAccumulator(str(run), size_guidance={SCALARS: 0})
    events.Reload()
    return {
        tag: ([event.step for event in events.Scalars(tag)], [event.value for event in events.Scalars(tag)])
        for tag in events.Tags()["scalars"]
    }


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Interquartile mean over runs, where all have values: at every step of any of them, straight lines between."""
    first, last = max(steps[0] for steps, _ in curves), min(steps[-1] for steps, _ in curves)
    grid = sorted({step for steps, _ in curves for step in steps if first <= step <= last})
    runs = np.array([np.interp(grid, steps, values) for steps, values in curves])  # [runs, steps]
    return grid, [float(value) for value in interquartile_mean(runs.T[:, :, None])]


def plot_curves(runs: Sequence[Curves], path: Path, marks: Mapping[str, Mapping[str, float]] | None = None) -> Path:
    """Draw one panel per figure: of several runs thin lines and a thick one for their interquartile mean.

    marks: tag -> label -> value, drawn as horizontal lines to compare with (a constant policy, Cubic).
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(LIGHT.rc()):
        figure, axes = plt.subplots(2, 4, figsize=(16, 6.2), sharex=True, layout="constrained")
        for axis, (title, tags, factor) in zip(axes.flat, PANELS, strict=True):
            axis.set_visible(any(tag in curves for curves in runs for tag in tags))  # not every learner has all
            for tag, label in tags.items():
                found = [curves[tag] for curves in runs if tag in curves]
                held_out = tag.startswith("heldout/")
                colour = _COLOURS.get(tag, CONTROLLER_COLOURS["astraea"] if held_out else LIGHT.muted)
                several = len(found) > 1
                for curve in found if several else ():
                    _draw(axis, curve, factor, color=colour, linewidth=0.6, alpha=0.5)
                if found:
                    style = {"marker": "o", "markersize": 3} if held_out and not several else {}
                    width = 2.0 if several else 1.5 if held_out else 1.0
                    curve = mean_curve(found) if several else found[0]
                    _draw(axis, curve, factor, color=colour, linewidth=width, label=names.figure(label), **style)
            lines = {label: factor * value for label, value in _marks(marks, tags).items()}
            for number, (label, value) in enumerate(lines.items()):
                colour = CONTROLLER_COLOURS.get(label.lower(), LIGHT.muted)
                axis.axhline(value, color=colour, linewidth=1.0, linestyle=((0, (4, 2)), ":")[number % 2])
            low, high = axis.get_ylim()
            for label, place in zip(lines, _apart(list(lines.values()), 0.06 * (high - low)), strict=True):
                axis.annotate(
                    names.figure(label),
                    (1.01, place),
                    xycoords=("axes fraction", "data"),
                    ha="left",
                    va="center",
                    annotation_clip=False,
                    fontsize=8,
                    color=CONTROLLER_COLOURS.get(label.lower(), LIGHT.muted),
                )
            axis.set_title(title)
            if len(tags) > 1 and axis.get_legend_handles_labels()[0]:
                axis.legend(loc="best")
        for axis in axes[-1]:
            axis.set_xlabel("agent steps [million]")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        plt.close(figure)
    return path


def _draw(axis: Any, curve: Curve, factor: float, **style: Any) -> None:
    steps, values = curve
    axis.plot([step / 1e6 for step in steps], [factor * value for value in values], **style)


def _marks(marks: Mapping[str, Mapping[str, float]] | None, tags: Mapping[str, str]) -> dict[str, float]:
    return {label: value for tag in tags for label, value in (marks or {}).get(tag, {}).items()}


def _apart(values: list[float], gap: float) -> list[float]:
    """Places for the labels of lines at `values`, in that order: each at least `gap` above the next lower one."""
    places = list(values)
    lowest = -math.inf
    for index in sorted(range(len(values)), key=values.__getitem__):
        places[index] = lowest = max(values[index], lowest + gap)
    return places


def _as_long_as(other: Recipe, plan: Recipe) -> Recipe:
    """A recipe with the length of another one, and so with its schedules."""
    if other.algorithm != plan.algorithm:
        return other
    schedules = {name: getattr(plan.learner, name) for name in plan.kind.schedules}
    learner = other.learner.changed(**schedules)
    return other.changed(agent_steps=plan.agent_steps, learner=learner)


def draw(folders: Sequence[Path], picture: Path) -> Path:
    """Draw the curves of these run folders, with Cubic, the best constant action and random actions to compare with.

    Raises:
        OrbitccError: a folder is no run, or the runs are not of one recipe.
    """
    from orbitcc.agents.runs.run_folder import RunFolder
    from orbitcc.envs import controllers
    from orbitcc.training.compare import CONSTANTS
    from orbitcc.training.heldout import HeldOut, constant, uniform

    plans = [Recipe.build(RunFolder(folder).config()["recipe"]) for folder in folders]
    plan = plans[0]
    for folder, other in zip(folders, plans, strict=True):
        if _as_long_as(other, plan).changed(start_from=plan.start_from) != plan:
            raise OrbitccError("run", str(folder), f"a run of the same recipe as {folders[0]}")
    heldout = HeldOut(plan.held_out_world(), plan.preset, plan.evaluation.worlds, plan.evaluation.seed)
    cubic, _ = controllers.make("cubic", {})
    figures = heldout.run(cubic)
    if not plan.evaluation.score.reward:  # Cubic has none
        figures["score"] = plan.evaluation.score.score(figures)
    marks = {f"heldout/{tag}": {"Cubic": value} for tag, value in figures.items() if tag not in _FAILURES}
    marks["heldout/reward"] = {
        "best constant": max(heldout.reward(constant(value)) for value in CONSTANTS),
        "random": heldout.reward(uniform(plan.evaluation.seed)),
    }
    return plot_curves([read_curves(folder) for folder in folders], picture, marks)


def main(arguments: list[str]) -> None:
    """The command line: run folders and a picture.

    Raises:
        OrbitccError: no run or picture is named, or as :func:`draw`.
    """
    if len(arguments) < 2:
        raise OrbitccError("arguments", arguments, "one run folder or more, then the picture to write")
    *folders, picture = (Path(argument) for argument in arguments)
    draw(folders, picture)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OrbitccError as error:
        sys.exit(f"error: {error}")
