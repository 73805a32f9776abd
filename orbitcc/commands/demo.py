"""`orbitcc demo`: what the gym can show in a minute."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orbitcc.commands.eval_ import DEFAULT_CONTROLLERS, finish, new_folder

SUITE, PROFILE = "responsiveness", "quick"


def demo(
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: a new one in results/.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Evaluate the shipped policy beside cubic and reno on a LEO path: a table, a picture of a run, a report."""
    from orbitcc.agents import checkpoint
    from orbitcc.eval import contenders, provenance, suites
    from orbitcc.eval.runner import run_suite

    suite, agents = suites.get(SUITE), checkpoint.shipped()
    if agents:
        print(f"A LEO path that jumps every 15 s: {', '.join(agents)}, learned, beside the classics.", file=sys.stderr)
    else:
        print("No trained checkpoint is installed: the demo shows the classical controllers only.", file=sys.stderr)
    line_up = contenders.line_up(DEFAULT_CONTROLLERS, agents)
    folder = out or new_folder("demo")
    campaign = run_suite(
        suite, line_up, out_dir=folder, profile=PROFILE, resume=True, command=provenance.command_line()
    )
    finish(campaign, line_up, as_json=as_json)
    if not as_json:
        shown = len(DEFAULT_CONTROLLERS) + 1 if agents else 1
        print(f"a run:  {folder / 'figures' / f'run-{shown}.png'}")
