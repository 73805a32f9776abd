"""`orbitcc score`: a score for a generated controller."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from orbitcc.commands.options import AsJson, complete_controller, print_json, table
from orbitcc.common.names import plain


def score(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.py", help="A file that defines make(), the factory of a policy in Python.")
    ],
    suite_set: Annotated[str, typer.Option(help="leo, sharing, or names of suites with commas between them.")] = "leo",
    seconds: Annotated[float, typer.Option(help="The whole takes at most about so long.")] = 60.0,
    seed: Annotated[int | None, typer.Option(help="Seed of the worlds. Default: other worlds in every call.")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each suite.")] = 4,
    against: Annotated[
        str,
        typer.Option(
            help="The controller that a candidate must not be clearly worse than after a stage.",
            autocompletion=complete_controller,
        ),
    ] = "cubic",
    out: Annotated[Path | None, typer.Option(help="Folder for pictures and the table of the worst world.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score a generated controller from 0 to 1, in a sandbox, beside classical ones in the same worlds.

    A candidate that does something wrong gets 0, and exit code 0.
    """
    from orbitcc.eval import scoring

    result = scoring.score(file, suite_set, seconds=seconds, seed=seed, runs=runs, against=against, out=out)
    missing = [name for name, granted in result["protections"].items() if not granted]
    if missing:
        print(f"warning: this system does not confine a candidate's {', '.join(missing)}", file=sys.stderr)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console

    from orbitcc.common.names import terminal

    columns = {"candidate": result, **result["classical"]}
    shown = table("utility", *map(terminal, columns))
    for name, own in result["suites"].items():
        shown.add_row(terminal(name), *(f"{own[label]['utility']:.3f}" for label in columns))
    shown.add_section()
    measured = result["worlds"] or result["fault"]  # without either, 0 says that the time was too short
    shown.add_row("combined score", *(f"{one['combined_score']:.3f}" if measured else "–" for one in columns.values()))
    bounds = [one["interval"] for one in columns.values()]
    known = (f"{low:.3f}–{high:.3f}" if low is not None and low == low else "–" for low, high in bounds)
    shown.add_row("95 % interval", *known)
    Console().print(shown)
    print(f"{result['worlds']} of {result['planned']} worlds, seed {result['seed']}, {result['seconds']:.1f} s")
    for words in filter(None, (result["stopped"], result["reason"])):
        print(plain(words))
    for file in result.get("files", ()):
        print(plain(file))
