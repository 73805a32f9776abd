"""`orbitcc assess`: the assessment of a congestion controller by RFC 9743."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orbitcc.commands.options import (
    COLOURS,
    POLICY_FORMS,
    AsJson,
    Out,
    Ray,
    Resume,
    Trust,
    Workers,
    complete_controller,
    complete_policy,
    print_json,
    results_folder,
    resumable,
    table,
)

if TYPE_CHECKING:
    from orbitcc.eval.assessment import Assessment


def assess(
    controller: Annotated[
        str | None,
        typer.Argument(
            help="A classical controller, NAME[:param=value,...], or a shipped policy.",
            autocompletion=complete_controller,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help=f"Instead: {POLICY_FORMS}.", autocompletion=complete_policy),
    ] = None,
    profile: Annotated[str, typer.Option(help="Number of worlds and runs: quick or full.")] = "quick",
    only: Annotated[
        list[str] | None, typer.Option(help="Check only this criterion, e.g. bufferbloat. Repeatable.")
    ] = None,
    workers: Workers = None,
    ray: Ray = None,
    out: Out = None,
    resume: Resume = False,
    as_json: AsJson = False,
    trust: Trust = None,
) -> None:
    """Assess a controller by RFC 9743: pass, concern or fail for each criterion, beside Cubic, BBRv3 and LeoCC."""
    from orbitcc.common import provenance
    from orbitcc.common.errors import OrbitccError, UnknownNameError
    from orbitcc.eval.assessment import assess as run
    from orbitcc.eval.assessment import contenders_of, criteria
    from orbitcc.eval.assessment.judgement import as_dict, save, write_worlds
    from orbitcc.eval.report.assessment import write_assessment

    if (controller is None) == (policy is None):
        raise OrbitccError("CONTROLLER", controller, "the name of a controller, or --policy PATH, not both")
    folder = results_folder(out, resume, "assessment")
    keys = [c.key for c in criteria()]
    for key in only or ():
        if key not in keys:
            raise UnknownNameError("--only", key, keys)
    try:
        line_up = contenders_of([controller] if controller else [], [policy] if policy else [])
    except OrbitccError as error:
        raise error.at(error.field.replace("--controller", "CONTROLLER")) from None
    command = provenance.command_line()
    with resumable(command, out, folder, resume):
        assessment = run(
            line_up, out_dir=folder, profile=profile, only=only, workers=workers, ray=ray, resume=resume,
            command=command,
        )  # fmt: skip
        save(assessment)
        report = write_assessment(assessment, write_worlds(assessment), workers)
    if as_json:
        print_json(as_dict(assessment))
        return
    print_assessment(assessment)
    print(f"report: {report}")
    print(f"worlds: {folder / 'worlds'}")


def print_assessment(assessment: Assessment) -> None:
    """A line per criterion: the candidate's verdict and worst figure, the references' verdicts."""
    from rich.console import Console

    from orbitcc.common.names import terminal

    shown = table(["RFC 9743", "", "worst figure", *map(terminal, assessment.outcomes)])
    for k, own in enumerate(assessment.judgements):
        figure = f"{own.worst.figure.title}: {own.worst.figure.format(own.worst.value)}" if own.worst else ""
        verdicts = (others[k].verdict for others in assessment.outcomes.values())
        shown.add_row(
            own.criterion.section, terminal(own.criterion.title), terminal(figure),
            *(f"[{COLOURS[v]}]{'n/a' if v == 'not applicable' else v}[/]" for v in verdicts),
        )  # fmt: skip
    Console().print(shown)
