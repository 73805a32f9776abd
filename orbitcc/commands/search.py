"""`orbitcc search`: worlds in which a controller does much worse than another."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from typing import Annotated

import typer

from orbitcc.commands.options import (
    POLICY_FORMS,
    AsJson,
    Out,
    Ray,
    Resume,
    Trust,
    Workers,
    complete_controller,
    complete_scenario,
    print_json,
    results_folder,
    resumable,
)
from orbitcc.common.names import plain


def search(
    target: Annotated[
        str,
        typer.Argument(
            help=f"A classical controller, NAME[:param=value,...], or a policy: {POLICY_FORMS}.",
            autocompletion=complete_controller,
        ),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="The reference in the same world, in the same forms. Default: cubic. Repeatable: in each world the "
            "best of them counts.",
            autocompletion=complete_controller,
        ),
    ] = None,
    objective: Annotated[
        str, typer.Option(help="The metric to compare: utilisation, delay, power, fairness, starvation or loss.")
    ] = "utilisation",
    scenario: Annotated[
        str, typer.Option(help="The distribution whose ranges are searched.", autocompletion=complete_scenario)
    ] = "train-leo",
    trials: Annotated[int, typer.Option(help="Worlds to try.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 1,
    workers: Workers = None,
    ray: Ray = None,
    out: Out = None,
    resume: Resume = False,
    as_json: AsJson = False,
    trust: Trust = None,
) -> None:
    """Search for realistic worlds in which a controller does much worse than another; save them as files."""
    from orbitcc.agents import python_policy
    from orbitcc.common import provenance
    from orbitcc.common.errors import OrbitccError, UnknownNameError
    from orbitcc.envs import scenarios
    from orbitcc.eval import contenders
    from orbitcc.eval import search as searching
    from orbitcc.eval.report.search import words, write_search

    if objective not in searching.OBJECTIVES:
        raise UnknownNameError("--objective", objective, searching.OBJECTIVES)
    if not 1 <= trials <= 1_000_000:
        raise OrbitccError("--trials", trials, "1 to 1000000")
    if not 0 <= seed < 2**31:
        raise OrbitccError("--seed", seed, "a whole number in [0, 2^31)")
    if workers is not None and workers < 1:
        raise OrbitccError("--workers", workers, "1 or more")
    folder = results_folder(out, resume, "search")

    def contender(given: str, text: str) -> contenders.Contender:
        is_policy = python_policy.is_python_policy(text) or os.path.isdir(text)
        try:
            return contenders.from_policy(text) if is_policy else contenders.from_controller(text)
        except OrbitccError as error:
            raise error.at(re.sub("^--(controller|policy)", given, error.field)) from None

    space = searching.space_of(scenarios.named(scenario))
    references = [contender("--against", text) for text in against or ["cubic"]]
    chosen = searching.Search(contender("TARGET", target), tuple(references), objective, space, trials, folder, seed)
    designs = [one.design for one in (chosen.target, *references)]
    for k, (reference, design) in enumerate(zip(references, designs[1:], strict=True), start=1):
        if design in designs[:k]:
            others = [target, *(other.label for other in references[: k - 1])]
            raise OrbitccError("--against", reference.label, f"another controller than {' and '.join(others)}")
    if objective == "starvation" and len(references) > 1:
        raise OrbitccError("--against", [one.label for one in references], "one, which is the rival, for starvation")
    command = provenance.command_line()
    with resumable(command, out, folder, resume, "trials"):
        found = searching.run_search(chosen, workers=workers, ray=ray, resume=resume)
        commands = searching.save(chosen, found)
        report = write_search(chosen, found, commands, command)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    for name, one in zip(commands, found, strict=True):
        print(f"{name}  {objective} regret {one.regret:.2f}: {plain(words(chosen, one))}")
    if not found:
        print(
            f"none of {trials} worlds costs {plain(chosen.target.label)} much more than "
            f"{' or '.join(plain(one.label) for one in references)}"
        )
    print(f"report: {report}")
    if found:
        print(f"worlds: {folder / 'worlds'}")
