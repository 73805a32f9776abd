"""`orbitcc reproduce`: the experiments of a paper and the check of its claims."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitcc.commands.options import (
    COLOURS,
    AsJson,
    Out,
    Policies,
    Profile,
    Ray,
    Resume,
    Trust,
    Workers,
    each_once,
    print_json,
    results_folder,
    resumable,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orbitcc.eval.claims import Claim, ClaimResult


def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            help="leo (Mazilu et al. 2026), geo (Claypool et al. 2020-2021) or c4 (Huitema et al. 2026).",
            autocompletion=lambda: ["leo", "geo", "c4"],
        ),
    ],
    policy: Policies = None,
    profile: Profile = "reduced",
    workers: Workers = None,
    ray: Ray = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set first_run (schedules and seeds start there), or a parameter of those scenarios that have it, "
            "e.g. shaper=tbf. Repeatable.",
            callback=each_once,
        ),
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option("--with", help="A folder with another draw, judged together with this one. Repeatable."),
    ] = None,
    out: Out = None,
    resume: Resume = False,
    as_json: AsJson = False,
    trust: Trust = None,
) -> None:
    """Run all experiments of a paper and check its claims."""
    from orbitcc.commands.run import settings
    from orbitcc.common import provenance
    from orbitcc.envs.description.flows import parse_value
    from orbitcc.eval import papers
    from orbitcc.eval.claims.claim import LEAST_RUNS
    from orbitcc.eval.report import write_report
    from orbitcc.eval.report.paper import write_paper_report

    chosen = papers.named(paper)
    folder = results_folder(out, resume, paper)
    began, command = time.monotonic(), provenance.command_line()
    others = [papers.load_paper(chosen, other) for other in beside or []]
    if others:
        papers.together(others)  # refused before anything is run
    papers.check_folder(chosen, folder)
    given = {k: parse_value(v, k) for k, v in settings(changes or []).items()}
    papers.check_apart(chosen, profile, given, others)
    found, reduced = (len(papers.decidable(chosen, policy or [], p, given, others)) for p in (profile, "reduced"))
    if found < reduced:
        print(
            f"warning: the profile {profile} decides {found or 'none'} of the {len(chosen.claims)} claims (reduced: "
            f"{reduced}), because a claim takes {LEAST_RUNS} runs of everything that it compares",
            file=sys.stderr,
        )
    with resumable(command, out, folder, resume):
        all_results = papers.run_paper(
            chosen,
            policy or [],
            out_dir=folder,
            profile=profile,
            workers=workers,
            ray=ray,
            resume=resume,
            settings=given,
            command=command,
            done=lambda results: write_report(results),
        )
        all_results = papers.together([all_results, *others])
        judged = papers.judge(chosen, all_results)
        table = papers.write_claims(judged, folder)
        report = write_paper_report(chosen, all_results, judged, folder, command)
    if as_json:
        print_json(papers.as_rows(judged))
        return
    print_claims(judged)
    runs = sum(len(results.rows) for results in all_results.values())
    print(f"{runs} runs, {time.monotonic() - began:.0f} s")
    print(f"report:   {report}")
    print(f"claims: {table}")


def print_claims(judged: Sequence[tuple[Claim, ClaimResult]]) -> None:
    """Claim, expected, measured, verdict."""
    from rich.console import Console

    from orbitcc.common.names import terminal
    from orbitcc.eval import papers

    shown = table(["", "claim", "expected", "measured", "verdict"])
    for claim, outcome in judged:
        notes = [outcome.reason, "calibrated" if outcome.calibrated else ""]
        notes += [f"met in {outcome.share:.1%} of resamples"] if outcome.verdict == "within noise" else []
        why = "".join(f" [dim]({terminal(note)})[/dim]" for note in notes if note)
        shown.add_row(
            claim.key,
            terminal(claim.statement),
            terminal(claim.expected),
            terminal(outcome.measured),
            f"[{COLOURS[outcome.verdict]}]{outcome.verdict}[/]{why}",
        )
    console = Console()
    console.print(shown)
    console.print(papers.counts(judged), highlight=False)
