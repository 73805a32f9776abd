"""`orbitcc eval`: put controllers and checkpoints through a suite."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from orbitcc.eval.campaign import Campaign
    from orbitcc.eval.contenders import Contender

DEFAULT_CONTROLLERS = ("cubic", "reno")


def evaluate(
    suite: Annotated[str, typer.Argument(help="Which suite; `orbitcc list suites` shows them.")],
    controller: Annotated[
        list[str] | None,
        typer.Option(help="NAME[:param=value,...], e.g. cubic:hystart=off. Repeat. Without any: cubic and reno."),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(help="A policy: a checkpoint's folder or shipped name, or package.module:factory. Repeat."),
    ] = None,
    profile: Annotated[str, typer.Option(help="How many runs: quick, reduced or full.")] = "quick",
    runs: Annotated[int | None, typer.Option(help="Runs per contender, instead of the profile's number.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default: all cores.")] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to spread the runs over.")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE: another value of a parameter of the suite's scenario, e.g. rtt=paper."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: a new one in results/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the evaluation in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
    backend: Annotated[
        str, typer.Option(help="simulator, or emulator: this machine's own TCP, one run after another in real time.")
    ] = "simulator",
) -> None:
    """Evaluate controllers and policies under one experiment: table, CSV, pictures, report."""
    from orbitcc.commands.run import settings
    from orbitcc.envs.description.flows import parse_value
    from orbitcc.envs.errors import StateError
    from orbitcc.eval import contenders, provenance, suites
    from orbitcc.eval.runner import run_suite

    chosen = suites.get(suite, {k: parse_value(v) for k, v in settings(changes or []).items()})
    if resume and out is None:
        raise StateError("--resume", "which folder is to be continued? Name it with --out")
    line_up = contenders.line_up(controller or ([] if agent else DEFAULT_CONTROLLERS), agent or [])
    folder = out or new_folder(suite)
    try:
        campaign = run_suite(
            chosen,
            line_up,
            out_dir=folder,
            profile=profile,
            runs=runs,
            workers=workers,
            ray=ray,
            resume=resume,
            command=provenance.command_line(),
            backend=backend,
        )
    except KeyboardInterrupt:
        again = provenance.command_line() if out else f"{provenance.command_line()} --out {folder}"
        again += "" if resume else " --resume"
        print(f"interrupted; finished runs are kept. Continue with: {again}", file=sys.stderr)
        raise typer.Exit(130) from None
    finish(campaign, line_up, as_json=as_json)


def new_folder(suite: str) -> Path:
    """results/<suite>__<time>."""
    return Path("results") / f"{suite}__{time.strftime('%Y%m%d-%H%M%S')}"


def finish(campaign: Campaign, line_up: list[Contender], *, as_json: bool) -> None:
    """Report and table of a finished campaign; what both `eval` and `demo` end with."""
    from orbitcc.eval.extrapolation import warnings
    from orbitcc.eval.report import write_report

    notes = warnings(campaign)
    for note in notes:
        print(f"warning: {note}", file=sys.stderr)
    report = write_report(campaign, notes)
    if as_json:
        print(json.dumps(as_dict(campaign, report), indent=2))
        return
    print_table(campaign)
    print(f"report: {report}")
    print(f"table:  {campaign.out_dir / 'runs.csv'}")


def as_dict(campaign: Campaign, report: Path) -> dict[str, Any]:
    """The table for `--json`; a bound that a single run does not allow is null."""
    estimates = campaign.estimates()
    return {
        "suite": campaign.suite.name,
        "profile": campaign.profile,
        "runs": campaign.runs,
        "version": campaign.version,
        "contenders": [
            {
                "contender": contender.label,
                "controller": contender.controller,
                "params": dict(contender.params),
                **{
                    key: {"median": finite(e.median), "low": finite(e.low), "high": finite(e.high), "runs": e.n}
                    for key, e in estimates[contender.label].items()
                },
            }
            for contender in campaign.contenders
        ],
        "csv": str(campaign.out_dir / "runs.csv"),
        "report": str(report),
    }


def print_table(campaign: Campaign) -> None:
    """Medians and 95 % intervals, one line per contender."""
    from rich.console import Console
    from rich.table import Table

    from orbitcc.eval.figures.style import DARK, lines_of

    runs = f"{campaign.runs} run{'s' if campaign.runs != 1 else ''}"
    table = Table(
        title=f"{campaign.suite.title}, {runs} each",
        caption="median, and below it its 95 % bootstrap interval" if campaign.runs > 1 else None,
        caption_justify="left",
        title_justify="left",
        title_style="bold",
        header_style="bold",
        border_style="dim",
    )
    table.add_column("contender", no_wrap=True)
    for metric in campaign.suite.metrics:
        arrow = "↑" if metric.better == "higher" else "↓"
        table.add_column(f"{metric.title} {arrow}", justify="right")
    estimates, lines = campaign.estimates(), lines_of(campaign)
    for label in campaign.labels:
        cells = []
        for metric in campaign.suite.metrics:
            e = estimates[label][metric.key]
            interval = f"\n[dim]{metric.format(e.low)} – {metric.format(e.high)}[/dim]" if e.has_interval else ""
            cells.append(f"[bold]{metric.format(e.median)}[/bold]{interval}")
        table.add_row(f"[{DARK.tone(lines[label].colour)}]●[/] {label}", *cells)
    Console().print(table)


def finite(value: float) -> float | None:
    """For JSON, which knows no NaN."""
    return None if value != value else value
