"""`orbitcc assess`: what RFC 9743 asks of a congestion controller, as a card."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from orbitcc.eval.assessment import Card

COLOURS = {"pass": "green", "concern": "yellow", "fail": "red", "not applicable": "dim"}


def assess(
    controller: Annotated[
        str | None, typer.Argument(help="NAME[:param=value,...] of a controller, or a shipped policy's name.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="Instead: a policy's folder, shipped name or package.module:factory.")
    ] = None,
    profile: Annotated[str, typer.Option(help="How many worlds and runs: quick or full.")] = "quick",
    only: Annotated[
        list[str] | None, typer.Option(help="Only this criterion (its key, e.g. bufferbloat). Repeat.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default: all cores.")] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to spread the runs over.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: a new one in results/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the assessment in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON.")] = False,
) -> None:
    """Assess a controller by RFC 9743: pass, concern or fail for each criterion, beside Cubic, BBRv3 and LeoCC."""
    from orbitcc.envs.errors import OrbitccError, StateError, UnknownNameError
    from orbitcc.eval import provenance
    from orbitcc.eval.assessment import assess as run
    from orbitcc.eval.assessment import contenders_of, criteria
    from orbitcc.eval.assessment.judgement import as_dict, write_card, write_worlds
    from orbitcc.eval.report.assessment import write_assessment

    if (controller is None) == (agent is None):
        raise OrbitccError("CONTROLLER", controller, "the name of a controller, or --agent PATH, not both")
    if resume and out is None:
        raise StateError("--resume", "which folder is to be continued? Name it with --out")
    keys = [c.key for c in criteria()]
    for key in only or ():
        if key not in keys:
            raise UnknownNameError("--only", key, keys)
    line_up = contenders_of([controller] if controller else [], [agent] if agent else [])
    folder = out or Path("results") / f"assessment__{time.strftime('%Y%m%d-%H%M%S')}"
    command = provenance.command_line()
    try:
        card = run(
            line_up, out_dir=folder, profile=profile, only=only, workers=workers, ray=ray, resume=resume,
            command=command,
        )  # fmt: skip
    except KeyboardInterrupt:
        again = command if out else f"{command} --out {folder}"
        again += "" if resume else " --resume"
        print(f"interrupted; finished runs are kept. Continue with: {again}", file=sys.stderr)
        raise typer.Exit(130) from None
    write_card(card)
    report = write_assessment(card, write_worlds(card), workers)
    if as_json:
        print(json.dumps(as_dict(card), indent=2))
        return
    print_card(card)
    print(f"report: {report}")
    print(f"worlds: {folder / 'worlds'}")


def print_card(card: Card) -> None:
    """A line per criterion: the candidate's verdict and worst figure, the references' verdicts."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from orbitcc.eval.assessment.criteria import WORST

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", border_style="dim", pad_edge=False)
    table.add_column("RFC 9743")
    table.add_column("")
    table.add_column("worst figure", overflow="fold")
    for label in card.outcomes:
        table.add_column(escape(label))
    for k, own in enumerate(card.judgements):
        worst = max(own.readings, key=lambda r: WORST[r.verdict], default=None)
        figure = (
            f"{worst.figure.format(worst.value)} {worst.figure.title.removesuffix(worst.figure.unit)}" if worst else ""
        )
        verdicts = (others[k].verdict for others in card.outcomes.values())
        table.add_row(
            own.criterion.section, escape(own.criterion.title), escape(figure),
            *(f"[{COLOURS[v]}]{'n/a' if v == 'not applicable' else v}[/]" for v in verdicts),
        )  # fmt: skip
    Console().print(table)
