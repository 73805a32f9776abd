"""`orbitcc eval`: evaluate controllers and policies with a suite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import (
    AsJson,
    Backend,
    Controllers,
    Out,
    Policies,
    Profile,
    Programs,
    Ray,
    Resume,
    Servers,
    Trust,
    Workers,
    chosen_backend,
    complete_suite,
    each_once,
    print_json,
    results_folder,
    resumable,
)
from orbitcc.common.names import plain

if TYPE_CHECKING:
    from orbitcc.eval.contenders import Contender
    from orbitcc.eval.results import Results
    from orbitcc.eval.suites import Metric

DEFAULT_CONTROLLERS = ("cubic", "reno")
WIDEST_LABEL = 32
"""Longer names of contenders take several lines."""


def evaluate(
    suite: Annotated[
        str,
        typer.Argument(
            help="A name from `orbitcc list suites`, or a folder of scenario files, where the flows to evaluate have "
            'controller = "contender".',
            autocompletion=complete_suite,
        ),
    ],
    controller: Controllers = None,
    policy: Policies = None,
    program: Programs = None,
    server: Servers = None,
    beside_simulator: Annotated[
        bool,
        typer.Option("--beside-simulator", help="Run --controller and --policy in the simulator, too: NAME@simulator."),
    ] = False,
    profile: Profile = "quick",
    runs: Annotated[int | None, typer.Option(help="Runs per contender, instead of the profile's number.")] = None,
    workers: Workers = None,
    ray: Ray = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set first_run (schedules and seeds start there), traces (the set of the suite `traces`), or a "
            "parameter of the suite's scenario. Repeatable.",
            callback=each_once,
        ),
    ] = None,
    out: Out = None,
    resume: Resume = False,
    as_json: AsJson = False,
    backend: Backend = None,
    trust: Trust = None,
) -> None:
    """Evaluate controllers and policies with a suite of experiments: table, CSV, pictures, report.

    Without --controller, --policy and --program: cubic and reno.
    """
    from orbitcc.commands.run import settings
    from orbitcc.common import provenance
    from orbitcc.common.errors import StateError
    from orbitcc.emulator.programs import specs
    from orbitcc.envs.description.flows import parse_value
    from orbitcc.eval import contenders, suites
    from orbitcc.eval.runner import run_suite

    suite = suites.named(suite)
    chosen = suites.get(suite, {k: parse_value(v, k) for k, v in settings(changes or []).items()})
    folder = results_folder(out, resume, suite)
    programs = specs(program or [], server or [])
    backend = chosen_backend(backend, programs)
    if beside_simulator and backend != "emulator":
        raise StateError("--beside-simulator", "it is for --program and --backend emulator")
    given = controller or ([] if policy or programs else DEFAULT_CONTROLLERS)
    line_up = contenders.line_up(given, policy or [], programs, beside_simulator=beside_simulator)
    command = provenance.command_line()
    with resumable(command, out, folder, resume):
        results = run_suite(
            chosen,
            line_up,
            out_dir=folder,
            profile=profile,
            runs=runs,
            workers=workers,
            ray=ray,
            resume=resume,
            command=command,
            backend=backend,
        )
        finish(results, line_up, as_json=as_json)


def finish(results: Results, line_up: list[Contender], *, as_json: bool) -> None:
    """Write the report and print the table of finished results, for `eval` and `demo`."""
    from orbitcc.eval.extrapolation import warnings
    from orbitcc.eval.report import write_report

    notes = warnings(results)
    for note in notes:
        print(f"warning: {plain(note)}", file=sys.stderr)
    report = write_report(results, notes)
    if as_json:
        print_json(as_dict(results, report))
        return
    print_table(results)
    print(f"report: {report}")
    print(f"table:  {results.out_dir / 'runs.csv'}")


def as_dict(results: Results, report: Path) -> dict[str, Any]:
    """The table for `--json`; a bound that so few runs do not allow is null."""
    estimates = results.estimates()
    return {
        "suite": results.suite.name,
        "profile": results.profile,
        "runs": results.runs,
        "version": results.version,
        "contenders": [
            {
                "contender": contender.label,
                "controller": contender.controller,
                "params": dict(contender.params),
                **{
                    key: {"median": e.median, "low": e.low, "high": e.high, "runs": e.n}
                    for key, e in estimates[contender.label].items()
                },
            }
            for contender in results.contenders
        ],
        "csv": str(results.out_dir / "runs.csv"),
        "report": str(report),
    }


def print_table(results: Results) -> None:
    """Medians and 95 % intervals, one line per contender; several tables where one does not fit the terminal.

    Where the suite says so, rows for each level of a factor follow those for all runs.
    """
    from rich.console import Console
    from rich.table import Table

    from orbitcc.common.names import terminal
    from orbitcc.eval.figures.style import DARK, lines_of
    from orbitcc.eval.front import SHARES, unused
    from orbitcc.eval.report import OVER_ALL, lacking, pairs
    from orbitcc.eval.statistics import MIN_PAIRS

    console, lines, levels = Console(), lines_of(results), results.levels()
    groups = [("", results.estimates(), unused(results))] if len(levels) != 1 else []
    groups += [(level, results.estimates(**at), unused(results, **at)) for level, at in levels.items()]
    columns: list[tuple[str, list[list[str]]]] = []
    for metric in results.suite.metrics:
        cells = []
        for _, estimates, marks in groups:
            for label in results.labels:
                e = estimates[label][metric.key]
                marked = "*" if label in marks and metric.key not in SHARES else ""
                interval = [f"{metric.format(e.low)} – {metric.format(e.high)}"] if e.has_interval else []
                cells.append([metric.format(e.median) + marked, *interval])
        columns.append((f"{metric.title} {goal(metric)}", cells))

    def width(column: tuple[str, list[list[str]]]) -> int:
        heading, cells = column
        return max(map(len, [*heading.split(), *(line for lines in cells for line in lines)]))

    headings = [len(level) for level in levels]
    first = min(max(len("contender"), *(len(label) + 2 for label in results.labels), *headings), WIDEST_LABEL)
    parts: list[list[tuple[str, list[list[str]]]]] = []
    left = 0
    for column in columns:
        needed = width(column) + 3  # a border and two spaces
        if not parts or needed > left:
            parts.append([])
            left = console.width - first - 4
        parts[-1].append(column)
        left -= needed
    few = all(not e.has_interval for _, estimates, _ in groups for own in estimates.values() for e in own.values())
    bounds = "and below it its 95 % bootstrap interval"
    notes = [f"median; fewer than {MIN_PAIRS} runs allow no interval" if few else f"median, {bounds}"]
    notes += [f"first rows: {OVER_ALL}"] if len(groups) > 1 else []
    notes += ["* uses less than 80 % of the link"] if any(marks for *_, marks in groups) else []
    notes += [f"figures are of {results.suite.window}"] if results.suite.window else []
    notes += [terminal(gap) for gap in lacking(results)]
    for number, part in enumerate(parts, start=1):
        table = Table(
            title=f"{results.suite.title}, {pairs(results)}" if number == 1 else None,
            caption="\n".join(notes) if number == len(parts) else None,
            caption_justify="left",
            title_justify="left",
            title_style="bold",
            header_style="bold",
            border_style="dim",
        )
        table.add_column("contender", overflow="fold", width=first)
        spare = console.width - first - 4 - sum(width(column) + 3 for column in part)
        for column in part:
            more = max(0, min(spare, len(column[0]) - width(column)))  # so that the heading is one line
            spare -= more
            table.add_column(column[0], justify="right", width=width(column) + more)
        rows = [(level, label) for level, *_ in groups for label in results.labels]
        for row, (level, label) in enumerate(rows):
            if level and label == results.labels[0]:
                table.add_section()
                table.add_row(f"[bold]{terminal(level)}[/bold]")
            shown = (cells[row] for _, cells in part)
            table.add_row(
                f"[{DARK.tone(lines[label].colour)}]●[/] {terminal(label)}",
                *(f"[bold]{median}[/bold]" + "".join(f"\n[dim]{i}[/dim]" for i in rest) for median, *rest in shown),
            )
        console.print(table)


def goal(metric: Metric) -> str:
    """An arrow to the better direction, or the ideal value where it lies in between."""
    if metric.unit == "" and 0.0 < metric.ideal < 1.0:
        return f"→ {metric.ideal:g}"
    return "↑" if metric.better == "higher" else "↓"
