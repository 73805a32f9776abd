"""The learning curves of a run as a picture, from its TensorBoard events.

python -m orbitcc.training.curves RUN_FOLDER PICTURE
"""

import math
import sys
from collections.abc import Mapping
from pathlib import Path

from orbitcc.envs.errors import FileError
from orbitcc.eval.style import CONTROLLER_COLOURS, LIGHT

Curve = tuple[list[int], list[float]]
"""Agent steps and values."""

PANELS = (
    ("reward per decision", {"train/reward": "training, exploring", "heldout/reward": "held-out worlds"}, 1.0),
    ("utilisation [%]", {"heldout/utilisation": "held-out worlds"}, 100.0),
    ("queue delay [ms]", {"heldout/queue_delay_ms": "held-out worlds"}, 1.0),
    ("Jain index", {"heldout/jain": "held-out worlds"}, 1.0),
    ("lost packets [%]", {"heldout/loss": "held-out worlds"}, 100.0),
    ("policy entropy [nat]", {"learner/entropy": "learner"}, 1.0),
)
"""Title, tag -> label, factor."""


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


def plot_curves(
    curves: Mapping[str, Curve], path: Path, marks: Mapping[str, Mapping[str, float]] | None = None
) -> Path:
    """Draw one panel per score.

    marks: tag -> label -> value, drawn as horizontal lines to compare with (a constant policy, Cubic).
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(LIGHT.rc()):
        figure, axes = plt.subplots(2, 3, figsize=(12, 6.2), sharex=True, layout="constrained")
        for axis, (title, tags, factor) in zip(axes.flat, PANELS, strict=True):
            for tag, label in tags.items():
                if tag not in curves:
                    continue
                steps, values = curves[tag]
                held_out = tag.startswith("heldout/")
                axis.plot(
                    [step / 1e6 for step in steps],
                    [factor * value for value in values],
                    color=CONTROLLER_COLOURS["astraea"] if held_out else LIGHT.muted,
                    marker="o" if held_out else None,
                    markersize=3,
                    linewidth=1.5 if held_out else 1.0,
                    label=label,
                )
            lines = {label: factor * value for label, value in _marks(marks, tags).items()}
            for number, (label, value) in enumerate(lines.items()):
                colour = CONTROLLER_COLOURS.get(label.lower(), LIGHT.muted)
                axis.axhline(value, color=colour, linewidth=1.0, linestyle=((0, (4, 2)), ":")[number % 2])
            low, high = axis.get_ylim()
            for label, place in zip(lines, _apart(list(lines.values()), 0.06 * (high - low)), strict=True):
                axis.annotate(
                    label,
                    (1.01, place),
                    xycoords=("axes fraction", "data"),
                    ha="left",
                    va="center",
                    annotation_clip=False,
                    fontsize=8,
                    color=CONTROLLER_COLOURS.get(label.lower(), LIGHT.muted),
                )
            axis.set_title(title)
            if len(tags) > 1:
                axis.legend(loc="lower right")
        for axis in axes[-1]:
            axis.set_xlabel("agent steps [million]")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        plt.close(figure)
    return path


def _marks(marks: Mapping[str, Mapping[str, float]] | None, tags: Mapping[str, str]) -> dict[str, float]:
    return {label: value for tag in tags for label, value in (marks or {}).get(tag, {}).items()}


def _apart(values: list[float], gap: float) -> list[float]:
    """Places for the labels of lines at `values`, in that order: each at least `gap` above the next lower one."""
    places = list(values)
    lowest = -math.inf
    for index in sorted(range(len(values)), key=values.__getitem__):
        places[index] = lowest = max(values[index], lowest + gap)
    return places


def main(arguments: list[str]) -> None:
    """The command line: a run folder, a picture, and Cubic, a constant and a random policy to compare with."""
    from orbitcc.agents.runs import RunFolder
    from orbitcc.envs import controllers
    from orbitcc.training.compare import CONSTANTS
    from orbitcc.training.heldout import HeldOut, constant, uniform
    from orbitcc.training.recipe import Recipe

    run, picture = Path(arguments[0]), Path(arguments[1])
    plan = Recipe.build(RunFolder(run).config()["recipe"])
    heldout = HeldOut(plan.world(), plan.preset, plan.evaluation.worlds, plan.evaluation.seed)
    cubic, _ = controllers.make("cubic", {})
    marks = {f"heldout/{tag}": {"Cubic": value} for tag, value in heldout.run(cubic).items()}
    marks["heldout/reward"] = {
        "best constant": max(heldout.reward(constant(value)) for value in CONSTANTS),
        "random": heldout.reward(uniform(plan.evaluation.seed)),
    }
    plot_curves(read_curves(run), picture, marks)


if __name__ == "__main__":
    main(sys.argv[1:])
