"""`orbitcc fit`: a scenario fitted to recordings of a path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import table

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.envs.fitting.model import Fit

SHOWN = ("cubic", "bbr")
"""The controllers that --plot runs in the fitted scenario."""


def fit(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            help="Recordings of one path: output of ping or fping, JSON of iperf3 or irtt, captures, CSV of LENS or "
            "WetLinks, a pair of files of LeoReplayer or Mahimahi (the direction of the data first).",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Write the scenario to this .toml file.")],
    name: Annotated[str | None, typer.Option(help="Name of the scenario. Default: that of the file.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Write a picture of recordings and scenario, with a run of Cubic and of BBR, to this file."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing --out.")] = False,
) -> None:
    """Fit a scenario to recordings of a path, and write what was fitted to what (docs/fitting.md)."""
    from orbitcc.common.errors import FileError
    from orbitcc.common.files import atomic_write_bytes, atomic_write_text, check_ending, check_place
    from orbitcc.envs.fitting.files import gather
    from orbitcc.envs.fitting.fit import fit as fitted

    check_ending("--out", out, ".toml")
    for path in filter(None, (out, plot)):
        check_place(path)
    if out.exists() and not overwrite:
        raise FileError("--out", str(out), "a file that does not exist yet, or --overwrite")
    if plot is not None:
        from orbitcc.eval.figures.base import check_name, render
        from orbitcc.eval.figures.fit import draw_fit
        from orbitcc.eval.figures.style import LIGHT

        file_format = check_name(plot)
    found = fitted(gather(traces), name or out.stem)
    scenario = found.scenario()
    atomic_write_text(out, found.to_toml())
    _print(found)
    if plot is not None:
        runs = _runs(scenario)
        _print_runs(found, runs)
        print(f"picture: {atomic_write_bytes(plot, render(draw_fit(found, runs, LIGHT), file_format))}")
    print(f"scenario: {out}")


def _runs(scenario: Any) -> list[Recording]:
    from orbitcc.commands.run import RunProgress
    from orbitcc.envs.backends.simulator import simulate

    recordings = []
    for controller in SHOWN:
        with RunProgress(f"{scenario.name}, {controller}") as progress:
            run = scenario.with_controller(controller)
            recordings.append(simulate(run, record_interval_s=min(1.0, run.duration_s), progress=progress))
    return recordings


def _print(found: Fit) -> None:
    from rich.console import Console

    from orbitcc.common.names import terminal

    console = Console()
    console.print(f"[bold]{terminal(found.name)}[/bold] · {found.duration_s:g} s", highlight=False)
    shown = table("fitted")
    shown.add_column("value", overflow="fold")
    shown.add_column("from", overflow="fold")
    for note in found.notes:
        origin = terminal(note.origin)
        shown.add_row(note.quantity, terminal(note.value), f"[yellow]{origin}[/yellow]" if note.defaulted else origin)
    console.print(shown)


def _print_runs(found: Fit, runs: list[Recording]) -> None:
    from rich.console import Console

    from orbitcc.common.names import terminal

    shown = table("flow", "goodput\nMbit/s", "srtt\nms", "p95\nms")
    for flow in found.flows:
        shown.add_row(f"recorded: {terminal(Path(flow.file).name)}", f"{flow.goodput_mbps:.2f}", "", "")
    for run in runs:
        total = run.flow_totals[0]
        figures = (f"{total['goodput_mbps']:.2f}", f"{total['srtt_ms']:.1f}", f"{total['srtt_p95_ms']:.1f}")
        shown.add_row(f"fitted scenario: {terminal(run.scenario.flows[0].controller)}", *figures)
    Console().print(shown)
