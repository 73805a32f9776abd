"""`orbitcc reproduce`: a paper's experiments, and what of its claims holds."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orbitcc.eval.findings import Finding, Outcome

COLOURS = {"holds": "green", "fails": "red", "undecidable": "yellow"}


def reproduce(
    study: Annotated[str, typer.Argument(help="leo or geo.")],
    agent: Annotated[
        list[str] | None,
        typer.Option(help="A policy beside the classics: folder, shipped name or package.module:factory. Repeat."),
    ] = None,
    profile: Annotated[str, typer.Option(help="How many runs: quick, reduced or full.")] = "reduced",
    workers: Annotated[int | None, typer.Option(help="Processes; default: all cores.")] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to spread the runs over.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: a new one in results/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the campaign in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Run all experiments of the LEO study or the GEO papers, and check their claims."""
    from orbitcc.envs.errors import StateError
    from orbitcc.eval import provenance, studies
    from orbitcc.eval.report import write_report
    from orbitcc.eval.report.study import write_study_report

    chosen = studies.get(study)
    if resume and out is None:
        raise StateError("--resume", "which folder is to be continued? Name it with --out")
    folder = out or Path("results") / f"{study}__{time.strftime('%Y%m%d-%H%M%S')}"
    began, command = time.monotonic(), provenance.command_line()
    try:
        campaigns = studies.run_study(
            chosen,
            agent or [],
            out_dir=folder,
            profile=profile,
            workers=workers,
            ray=ray,
            resume=resume,
            command=command,
            done=lambda campaign: write_report(campaign),
        )
    except KeyboardInterrupt:
        again = command if out else f"{command} --out {folder}"
        again += "" if resume else " --resume"
        print(f"interrupted; finished runs are kept. Continue with: {again}", file=sys.stderr)
        raise typer.Exit(130) from None
    judged = studies.judge(chosen, campaigns)
    table = studies.write_findings(judged, folder)
    report = write_study_report(chosen, campaigns, judged, folder, command)
    if as_json:
        print(json.dumps(studies.as_rows(judged), indent=2))
        return
    print_findings(judged)
    runs = sum(len(campaign.rows) for campaign in campaigns.values())
    print(f"{runs} runs, {time.monotonic() - began:.0f} s")
    print(f"report:   {report}")
    print(f"findings: {table}")


def print_findings(judged: Sequence[tuple[Finding, Outcome]]) -> None:
    """Claim, expected, measured, verdict."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", border_style="dim", pad_edge=False)
    for title in ("", "claim", "expected", "measured", "verdict"):
        table.add_column(title, overflow="fold")
    for finding, outcome in judged:
        why = f" [dim]({escape(outcome.reason)})[/dim]" if outcome.reason else ""
        table.add_row(
            finding.key,
            escape(finding.claim),
            escape(finding.expected),
            escape(outcome.measured),
            f"[{COLOURS[outcome.verdict]}]{outcome.verdict}[/]{why}",
        )
    console = Console()
    console.print(table)
    counts = {verdict: sum(o.verdict == verdict for _, o in judged) for verdict in COLOURS}
    decided = counts["holds"] + counts["fails"]
    console.print(
        f"{counts['holds']} of {decided} decidable claims hold; {counts['undecidable']} undecidable", highlight=False
    )
