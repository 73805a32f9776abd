"""Every baseline and every policy over every suite, on fresh schedules: makes docs/leaderboard.md.

    python -m benches.leaderboard results/leaderboard [--profile quick] [--first-run 4001] [--suites SUITE ...]
        [--policy NAME [CHECKPOINT ...]] ... [--page docs/leaderboard.md]

A policy with several checkpoints has one of each training seed: its cell is the interquartile mean of the seeds'
medians with its 95 % interval; every other cell is a median over runs with its 95 % bootstrap interval. Policies that
ship are there without being named. Nothing is ranked: on the front (bold) is who is not beaten in all that a suite
measures. Beside the page lies a picture of goodput against delay, images/leaderboard.png.
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np

from benches import pictures
from orbitcc.agents import checkpoint
from orbitcc.envs import controllers
from orbitcc.envs.files import atomic_write_text
from orbitcc.eval import contenders, suites
from orbitcc.eval.contenders import Contender
from orbitcc.eval.figures import style
from orbitcc.eval.front import pareto, trade
from orbitcc.eval.provenance import version
from orbitcc.eval.results import Results
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import Estimate, aggregate
from orbitcc.eval.suites import Suite
from orbitcc.eval.suites.base import Metric

SKIPPED = ("responsiveness-shown", "responsiveness-loss-shown", "rate-step", "hystart", "buffers")
"""Single runs that a paper shows, and experiments about Cubic's switches."""

HEAD = """# Leaderboard

Every controller that ships and every policy, over every suite, on schedules and seeds that nothing was developed on.
Nothing is ranked: a controller in **bold** is on the Pareto front of its suite, that is, no other is at least as good
in all of the suite's metrics and better in one. Cells are medians over runs with 95 % bootstrap intervals; of a policy
with several training seeds the interquartile mean of the seeds' medians.

Made on {date} with version {version} by

    {command}

![Goodput against delay in the suites that measure both, the Pareto front named](images/leaderboard.png)

**To enter**, open a pull request with either a checkpoint (a folder with `card.json` and `policy.safetensors` under
`checkpoints/`, below 1 MB, with the recipe that trained it and five seeds' scores on the card) or a Python module whose
factory gives a policy (`module:factory`, docs/training.md), and the page this command writes with it. Schedules are
drawn from `first_run`: take a number nobody has used, and say so.
"""


Row = tuple[str, Sequence[Contender]]
"""A name and its contenders: one, or one for each training seed."""


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--profile", default="quick", choices=["quick", "reduced", "full"])
    parser.add_argument("--first-run", type=int, default=4001)
    names = [name for name in suites.names() if name not in SKIPPED]
    parser.add_argument("--suites", nargs="*", default=names, choices=names)
    parser.add_argument("--policy", nargs="+", action="append", default=[], metavar=("NAME", "CHECKPOINT"))
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args(argv)
    given: Mapping[str, list[str]] = {name: paths for name, *paths in arguments.policy}
    policies = {name: given.get(name, [name]) for name in (*checkpoint.shipped(), *given)}
    classics = [name for name in controllers.names("baseline") if name != "udp"]
    rows: list[Row] = [(name, contenders.line_up([name], [])) for name in classics]
    rows += [(name, contenders.line_up([], paths)) for name, paths in policies.items()]
    command = f"python -m benches.leaderboard {shlex.join(argv)}"
    all_results = []
    page = [HEAD.format(date=datetime.date.today().isoformat(), version=version(), command=command)]
    for name in arguments.suites:
        suite = suites.get(name, {"first_run": arguments.first_run})
        everybody = [contender for _, group in rows for contender in group]
        results = run_suite(
            suite, everybody, out_dir=arguments.out / name, profile=arguments.profile, resume=True, quiet=True
        )
        all_results.append(results)
        page.append(section(suite, results, rows))
        print(page[-1], flush=True)
    if arguments.page is not None:
        atomic_write_text(arguments.page, "\n".join(page))
        draw(all_results, rows, arguments.page.parent / "images" / "leaderboard.png")


def section(suite: Suite, results: Results, rows: Sequence[Row]) -> str:
    """A suite's table."""
    estimates = results.estimates()
    found = {
        name: [cell([estimates[c.label][metric.key] for c in group]) for metric in suite.metrics]
        for name, group in rows
    }
    front = pareto({name: [e.value for e in cells] for name, cells in found.items()}, suite.metrics)
    runs = "One run" if results.runs == 1 else f"{results.runs} runs"
    lines = [f"## {suite.title} (`{suite.name}`)", "", f"{suite.description} {runs} at each point.", ""]
    titles = [f"{metric.title}{' %' if metric.percent else metric.unit}" for metric in suite.metrics]
    lines += [f"| | {' | '.join(titles)} |", "|---|" + "---|" * len(titles)]
    for name, cells in found.items():
        label = f"**{name}**" if name in front else name
        lines.append(f"| {label} | {' | '.join(map(shown, suite.metrics, cells))} |")
    return "\n".join([*lines, ""])


@dataclass(frozen=True)
class Cell:
    """What a table says of a contender, or of a policy's training seeds."""

    value: float
    low: float
    high: float


def cell(group: Sequence[Estimate]) -> Cell:
    """A contender's estimate, or the interquartile mean of the training seeds' medians."""
    if len(group) == 1:
        return Cell(group[0].median, group[0].low, group[0].high)
    over_seeds = aggregate([estimate.median for estimate in group])
    return Cell(over_seeds.value, over_seeds.low, over_seeds.high)


def typical(results: Results, metric: Metric, group: Sequence[Contender]) -> float:
    """The value of :func:`cell`, without its interval."""
    medians = [float(np.nanmedian(list(results.by_case(c, metric.key).values()))) for c in group]
    return medians[0] if len(medians) == 1 else aggregate(medians).value


def draw(all_results: Sequence[Results], rows: Sequence[Row], path: Path) -> None:
    """Goodput against delay, a panel for each suite that measures both; who is on that front is named."""
    from matplotlib.figure import Figure

    panels = [(results, axes) for results in all_results if (axes := trade(results)) is not None]
    theme = style.LIGHT
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(11, 3.0 * -(-len(panels) // 3)), layout="constrained")
        grid = figure.subplots(-(-len(panels) // 3), 3, squeeze=False).ravel()
        for ax in grid[len(panels) :]:
            ax.set_axis_off()
        for ax, (results, (goodput, delay)) in zip(grid, panels, strict=False):
            points = {name: [typical(results, metric, group) for metric in (goodput, delay)] for name, group in rows}
            on_it = pareto(points, (goodput, delay))
            edge = sorted((points[name][1], points[name][0], name) for name in on_it)
            ax.plot([x for x, _, _ in edge], [y for _, y, _ in edge], color=theme.muted, linewidth=0.9, zorder=1)
            for name, (y, x) in points.items():
                ax.plot(x, y, "o", color=theme.ink if name in on_it else theme.edge, markersize=5, zorder=3)
            for k, (x, y, name) in enumerate(edge):
                up = 5 if k % 2 else -5
                ax.annotate(
                    name, (x, y), (4, up), textcoords="offset points", fontsize=7, va="bottom" if k % 2 else "top"
                )
            ax.set_title(results.suite.title, fontsize=9)
            ax.set_xlabel(delay.title, fontsize=8)
            ax.set_ylabel(goodput.title, fontsize=8)
    pictures.write(figure, path, max_bytes=250_000)


def shown(metric: Metric, estimate: Cell) -> str:
    scale = 100 if metric.percent else 1
    value, low, high = (f"{scale * x:.{metric.decimals}f}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low}–{high})"


if __name__ == "__main__":
    main(sys.argv[1:])
