"""`orbitcc compare`: compare the results in two folders, or two contenders of one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import COLOURS, print_json, table
from orbitcc.common.names import plain

if TYPE_CHECKING:
    from orbitcc.eval.comparison import Difference


def compare(
    run_a: Annotated[Path, typer.Argument(help="Results folder of a suite, or folder of a paper.")],
    run_b: Annotated[
        Path | None, typer.Argument(help="Results folder to compare with. Not needed with --a and --b.")
    ] = None,
    a: Annotated[
        list[str] | None,
        typer.Option(
            "--a",
            metavar="CONTENDER",
            help="The contender of side A, as the report names it; * stands for any letters. Several are training "
            "seeds of one design. Repeatable.",
        ),
    ] = None,
    b: Annotated[
        list[str] | None,
        typer.Option("--b", metavar="CONTENDER", help="The contender of side B, from RUN_B if given. Repeatable."),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:CLASS", help="A suite of your own, with which a folder was made. Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compare two folders of results, or with --a and --b two contenders of one, run by run: is B better than A, worse,
    or tied?"""
    from orbitcc.eval import suites

    for own in suite or ():
        suites.named(own)
    from orbitcc.eval.comparison import differences, warnings

    found = differences(run_a, run_b, a or [], b or [])
    for warning in warnings(found):
        print(f"warning: {plain(warning)}", file=sys.stderr)
    if as_json:
        print_json([_as_dict(d) for d in found])
        return
    _print(found)


def _as_dict(d: Difference) -> dict[str, Any]:
    return {
        "suite": d.suite,
        "contender": d.contender,
        **({"other": d.other} if d.other != d.contender else {}),
        "metric": d.metric.key,
        "a": d.a.median,
        "b": d.b.median,
        "difference": d.change.median,
        "low": d.change.low,
        "high": d.change.high,
        "training_seeds" if d.seeds else "runs": d.change.n,
        "verdict": d.verdict,
    }


def _print(found: list[Difference]) -> None:
    """One table per suite and pair of contenders."""
    from itertools import groupby

    from rich.console import Console

    from orbitcc.common.names import terminal
    from orbitcc.eval.statistics import MIN_PAIRS

    console = Console()
    for (suite, contender, other, seeds), group in groupby(
        found, key=lambda d: (d.suite, d.contender, d.other, d.seeds)
    ):
        who = contender if contender == other else f"A {contender}, B {other}"
        heads = ("A", "B", "B − A", "seeds" if seeds else "runs", "")
        shown = table("metric", *heads, title=f"{terminal(suite)}: {terminal(who)}")
        for d in group:
            m = d.metric
            scale, unit = (100, " points") if m.percent else (1, m.unit)
            marks = ["*" if unused else "" for unused in d.unused]
            low, high = (f"{scale * x:+.{m.decimals}f}" for x in (d.change.low, d.change.high))
            interval = f"\n[dim]{low} to {high}[/dim]" if d.change.has_interval else ""
            shown.add_row(
                m.title,
                m.format(d.a.median) + marks[0],
                m.format(d.b.median) + marks[1],
                f"{scale * d.change.median:+.{m.decimals}f}{unit}{interval}" if d.change.n else "–",
                str(d.change.n),
                f"[{COLOURS[d.verdict]}]{d.verdict}[/]",
            )
        console.print(shown)
    any_unused = any(any(d.unused) for d in found)
    pairs = "training seed" if any(d.seeds for d in found) else "run"
    console.print(
        f"median of the differences, paired by {pairs}, and below it its 95 % bootstrap interval; tied: it holds zero; "
        f"fewer than {MIN_PAIRS} pairs decide nothing" + ("; * uses less than 80 % of the link" if any_unused else ""),
        style="dim",
        highlight=False,
    )
