"""Every baseline and every policy over every suite, on fresh schedules: makes docs/leaderboard.md.

    python -m benches.leaderboard results/leaderboard [--profile quick] [--first-run 4001] [--suites SUITE ...]
        [--policy NAME [CHECKPOINT ...]] ... [--page docs/leaderboard.md]

A policy with several checkpoints has one of each training seed: its cell is the interquartile mean of the seeds'
medians with its 95 % interval; every other cell is a median over runs with its 95 % bootstrap interval. Policies that
ship are there without being named. Nothing is ranked: on the front (bold) is who is not beaten in all that a suite
measures.
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbitcc.agents import checkpoint
from orbitcc.envs import controllers
from orbitcc.envs.files import atomic_write_text
from orbitcc.eval import contenders, suites
from orbitcc.eval.campaign import Campaign
from orbitcc.eval.contenders import Contender
from orbitcc.eval.front import pareto
from orbitcc.eval.provenance import version
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import aggregate
from orbitcc.eval.suites import Suite
from orbitcc.eval.suites.base import Metric

SKIPPED = ("responsiveness-shown", "responsiveness-loss-shown", "rate-step", "hystart", "buffers")
"""Single runs that a study shows, and experiments about Cubic's switches."""

HEAD = """# Leaderboard

Every controller that ships and every policy, over every suite, on schedules and seeds that nothing was developed on.
Nothing is ranked: a controller in **bold** is on the Pareto front of its suite, that is, no other is at least as good
in all of the suite's metrics and better in one. Cells are medians over runs with 95 % bootstrap intervals; of a policy
with several training seeds the interquartile mean of the seeds' medians.

Made on {date} with version {version} by

    {command}

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
    page = [HEAD.format(date=datetime.date.today().isoformat(), version=version(), command=command)]
    for name in arguments.suites:
        suite = suites.get(name, {"first_run": arguments.first_run})
        everybody = [contender for _, group in rows for contender in group]
        campaign = run_suite(
            suite, everybody, out_dir=arguments.out / name, profile=arguments.profile, resume=True, quiet=True
        )
        page.append(section(suite, campaign, rows))
        print(page[-1], flush=True)
    if arguments.page is not None:
        atomic_write_text(arguments.page, "\n".join(page))


def section(suite: Suite, campaign: Campaign, rows: Sequence[Row]) -> str:
    """A suite's table."""
    found = {name: [cell(campaign, metric, group) for metric in suite.metrics] for name, group in rows}
    front = pareto({name: [e.value for e in cells] for name, cells in found.items()}, suite.metrics)
    lines = [f"## {suite.title} (`{suite.name}`)", "", f"{suite.description} {campaign.runs} runs at each point.", ""]
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


def cell(campaign: Campaign, metric: Metric, group: Sequence[Contender]) -> Cell:
    estimates = [campaign.estimates()[contender.label][metric.key] for contender in group]
    if len(group) == 1:
        return Cell(estimates[0].median, estimates[0].low, estimates[0].high)
    over_seeds = aggregate([estimate.median for estimate in estimates])
    return Cell(over_seeds.value, over_seeds.low, over_seeds.high)


def shown(metric: Metric, estimate: Cell) -> str:
    scale = 100 if metric.percent else 1
    value, low, high = (f"{scale * x:.{metric.decimals}f}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low}–{high})"


if __name__ == "__main__":
    main(sys.argv[1:])
