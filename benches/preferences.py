"""The curve that a policy with a preference spans, beside classical controllers: a table and a picture.

    python -m benches.preferences results/preferences CHECKPOINT [CHECKPOINT ...] [--preferences 1 0.2 0.05 0.01]
        [--beside CONTROLLER ...] [--first-run 2001] [--profile quick] [--page docs/policies.md]

Give one checkpoint per training seed. Every suite runs each of them at each preference, and with the one that it has if
nothing is asked for. A cell is the interquartile mean over the seeds. With `--page`, the table replaces that of the
page, and `preferences.png` is drawn beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from benches import pictures
from benches.pages import replace
from benches.policies import ROWS, STATISTICS, Row
from orbitcc.eval import contenders, suites
from orbitcc.eval.contenders import Contender
from orbitcc.eval.figures import style
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import aggregate

OWN_COLOUR, USUAL_COLOUR = "#009E73", "#D55E00"
USUAL = "nothing asked for"


class Panel(NamedTuple):
    """One plane of the picture: titles, and suite and metric of the horizontal and of the vertical axis."""

    title: str
    x_label: str
    y_label: str
    x: tuple[str, str]
    y: tuple[str, str]


ALONE = ("responsiveness", "delay_inflation")
SHARE, RATIO, USED = "own share (0.5 is fair)", "goodput ratio", "goodput / bandwidth"
DELAY, DELAY_ALONE = "delay inflation", "delay inflation of `responsiveness`"
PANELS = (
    Panel("responsiveness", DELAY, "goodput / optimal", ALONE, ("responsiveness", "goodput_over_optimal")),
    Panel(
        "responsiveness-wide-loss",
        DELAY,
        "goodput / optimal",
        ("responsiveness-wide-loss", "delay_inflation"),
        ("responsiveness-wide-loss", "goodput_over_optimal"),
    ),
    Panel("leoem-single", DELAY, USED, ("leoem-single", "delay_inflation"), ("leoem-single", "goodput_share")),
    Panel("leo-access", DELAY, "utilisation", ("leo-access", "delay_inflation"), ("leo-access", "utilisation")),
    Panel(
        "leo-access-2024",
        DELAY,
        "utilisation",
        ("leo-access-2024", "delay_inflation"),
        ("leo-access-2024", "utilisation"),
    ),
    Panel("beside Cubic, 1 BDP", DELAY_ALONE, SHARE, ALONE, ("cubic-friendliness", "own_share")),
    Panel("beside BBRv3, 1 BDP", DELAY_ALONE, SHARE, ALONE, ("bbr3-friendliness", "own_share")),
    Panel("different RTTs, 1 BDP", DELAY_ALONE, RATIO, ALONE, ("inter-rtt", "goodput_ratio")),
)
"""Where several rows of :data:`benches.policies.ROWS` have the suite and the metric, the first one is drawn."""
SUITES = ("responsiveness-loss", "intra-rtt", "parking-lot", "efficiency", *(panel.y[0] for panel in PANELS))
SHOWN = tuple(row for row in ROWS if row.suite in SUITES)

Found = list[tuple[Row, dict[str, NDArray[np.float64]]]]
"""Rows, each with the label of a column -> a value per checkpoint (one for a classical controller)."""


def measured(out: Path, columns: Mapping[str, Sequence[Contender]], profile: str, first_run: int) -> Found:
    """The statistic of every row, for every contender of each column."""
    found: Found = []
    everyone = [contender for column in columns.values() for contender in column]
    for name in dict.fromkeys(row.suite for row in SHOWN):
        suite = suites.get(name, {"first_run": first_run})
        results = run_suite(suite, everyone, out_dir=out / name, profile=profile, resume=True, quiet=True)
        for row in (row for row in SHOWN if row.suite == name):
            values = results.values(row.metric, **row.factors)
            if all(values.values()):  # else the profile has no such point
                statistic = STATISTICS[row.statistic]
                cells = {
                    label: np.array([float(statistic(values[contender.label])) for contender in column])
                    for label, column in columns.items()
                }
                found.append((row, cells))
    return found


def middle(values: NDArray[np.float64]) -> float:
    """The interquartile mean over the checkpoints, or the value of the only one."""
    return aggregate(values).value if len(values) > 1 else float(values[0])


def table(found: Found) -> str:
    """The table, with the interquartile mean over the checkpoints in each cell."""
    labels = list(found[0][1])
    lines = [f"| suite, metric | {' | '.join(labels)} |", "|---|" + "---|" * len(labels)]
    for row, columns in found:
        cells = " | ".join(f"{middle(values):.3f}" for values in columns.values())
        lines.append(f"| `{row.suite}`, {row.label or row.metric.replace('_', ' ')} ({row.statistic}) | {cells} |")
    return "\n".join(lines)


def draw(found: Found, classics: Sequence[str], path: Path) -> Path:
    """A panel per plane: a thin line per checkpoint through its preferences, their interquartile mean, a diamond where
    nothing is asked for, and a point per classical controller."""
    from matplotlib.figure import Figure

    def of(shown: tuple[str, str], label: str) -> Any:
        return next(columns[label] for row, columns in found if (row.suite, row.metric) == shown)

    own = [label for label in found[0][1] if label not in (*classics, USUAL)]
    with mpl.rc_context(style.LIGHT.rc()):
        figure = Figure(figsize=(13, 6.6), layout="constrained")
        for ax, panel in zip(figure.subplots(2, len(PANELS) // 2).flat, PANELS, strict=True):
            x, y = (np.array([of(axis, label) for label in own]) for axis in (panel.x, panel.y))
            ax.plot(x, y, color=OWN_COLOUR, linewidth=0.8, alpha=0.35, zorder=2)
            curve = np.array([[middle(values) for values in axis] for axis in (x, y)])
            ax.plot(*curve, "o-", color=OWN_COLOUR, markersize=5, linewidth=2, zorder=4)
            for label, at in zip(own, curve.T, strict=True):
                ax.annotate(label.rpartition(" ")[2], at, (4, -9), textcoords="offset points", fontsize=7.5, zorder=6)
            usual = [middle(of(axis, USUAL)) for axis in (panel.x, panel.y)]
            ax.plot(*usual, "D", color=USUAL_COLOUR, markersize=6, zorder=5)
            ax.annotate(
                "default", usual, (5, 5), textcoords="offset points", fontsize=7.5, color=USUAL_COLOUR, zorder=6
            )
            for label in classics:
                name = label.split(":")[0]
                colour = style.CONTROLLER_COLOURS.get(name, style.AGENT_COLOURS[1])
                at = (float(of(panel.x, label)[0]), float(of(panel.y, label)[0]))
                ax.plot(*at, "s", color=colour, markersize=6, zorder=3)
                ax.annotate(name, at, (5, 3), textcoords="offset points", fontsize=7.5, color=colour, zorder=5)
            ax.margins(0.14)
            ax.set_title(panel.title)
            ax.set_xlabel(panel.x_label.replace("`", ""))
            ax.set_ylabel(panel.y_label)
    return pictures.write(figure, path, max_bytes=120_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--preferences", nargs="+", type=float, default=[1.0, 0.2, 0.05, 0.01])
    parser.add_argument("--beside", nargs="*", default=["cubic", "bbr3", "leocc:trigger=global", "vivace"])
    parser.add_argument("--first-run", type=int, default=2001)
    parser.add_argument("--profile", default="quick", choices=["quick", "reduced", "full"])
    parser.add_argument("--page", type=Path, help="page that gets the table, and beside which the picture is drawn")
    arguments = parser.parse_args()
    own = [f"{path}:delay={x:g}" for x in arguments.preferences for path in arguments.checkpoints]
    own += arguments.checkpoints
    everyone = contenders.line_up(arguments.beside, own)
    classics, seeds = everyone[: len(arguments.beside)], len(arguments.checkpoints)
    columns: dict[str, list[Contender]] = {contender.label: [contender] for contender in classics}
    for k, preference in enumerate(arguments.preferences):
        first = len(classics) + k * seeds
        columns[f"asked for {preference:g}"] = everyone[first : first + seeds]
    columns[USUAL] = everyone[-seeds:]
    found = measured(arguments.out, columns, arguments.profile, arguments.first_run)
    made = table(found)
    print(made)
    if arguments.page is None:
        draw(found, [contender.label for contender in classics], arguments.out / "preferences.png")
    else:
        replace(arguments.page, {"preferences": made})
        draw(found, [contender.label for contender in classics], arguments.page.parent / "images" / "preferences.png")


if __name__ == "__main__":
    main()
