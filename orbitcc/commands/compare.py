"""`orbitcc compare`: compare the results in two folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.eval_ import finite

if TYPE_CHECKING:
    from orbitcc.eval.comparison import Difference

COLOURS = {"better": "green", "worse": "red", "tied": "dim", "too few runs": "yellow"}


def compare(
    run_a: Annotated[Path, typer.Argument(help="Folder with the results of a suite, or of a paper.")],
    run_b: Annotated[Path, typer.Argument(help="Folder with the results to compare.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compare two folders of results, run by run: is B better than A, worse, or tied?"""
    from orbitcc.eval.comparison import differences

    found = differences(run_a, run_b)
    if as_json:
        print(json.dumps([_as_dict(d) for d in found], indent=2))
        return
    _print(found)


def _as_dict(d: Difference) -> dict[str, Any]:
    return {
        "suite": d.suite,
        "contender": d.contender,
        "metric": d.metric.key,
        "a": finite(d.a.median),
        "b": finite(d.b.median),
        "difference": finite(d.change.median),
        "low": finite(d.change.low),
        "high": finite(d.change.high),
        "runs": d.change.n,
        "verdict": d.verdict,
    }


def _print(found: list[Difference]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", border_style="dim", pad_edge=False)
    for head in ("suite", "contender", "metric"):
        table.add_column(head, overflow="fold")
    for head in ("A", "B", "B − A, run by run", ""):
        table.add_column(head, justify="right")
    for d in found:
        scale, m = (100, d.metric) if d.metric.percent else (1, d.metric)
        low, high = (f"{scale * x:+.{m.decimals}f}" for x in (d.change.low, d.change.high))
        interval = f" [dim]({low} to {high})[/dim]" if d.change.has_interval else ""
        table.add_row(
            d.suite,
            escape(d.contender),
            m.title,
            m.format(d.a.median),
            m.format(d.b.median),
            f"{scale * d.change.median:+.{m.decimals}f}{interval}" if d.change.n else "–",
            f"[{COLOURS[d.verdict]}]{d.verdict}[/]",
        )
    Console().print(table)
