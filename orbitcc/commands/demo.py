"""`orbitcc demo`: what the gym can show in a minute."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orbitcc.commands.eval_ import finish, new_folder

SUITE, PROFILE, FIRST_RUN = "responsiveness", "quick", 8001
"""On a schedule that nothing was developed on."""
CONTROLLERS, POLICY = ("cubic", "bbr3", "leocc:trigger=global"), "perigee"


def demo(
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: a new one in results/.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Evaluate the LEO policy beside Cubic, BBRv3 and LeoCC: a table, a picture of a run, a report."""
    from orbitcc.agents import checkpoint
    from orbitcc.eval import contenders, provenance, suites
    from orbitcc.eval.runner import run_suite

    suite = suites.get(SUITE, {"first_run": FIRST_RUN})
    agents = [POLICY] if POLICY in checkpoint.shipped() else []
    if agents:
        print(f"A LEO path that jumps every 15 s: {POLICY}, learned, beside the classics.", file=sys.stderr)
    else:
        print("No trained checkpoint is installed: the demo shows the classical controllers only.", file=sys.stderr)
    line_up = contenders.line_up(CONTROLLERS, agents)
    folder = out or new_folder("demo")
    results = run_suite(suite, line_up, out_dir=folder, profile=PROFILE, resume=True, command=provenance.command_line())
    finish(results, line_up, as_json=as_json)
    if not as_json:
        shown = len(line_up) if agents else 1
        print(f"a run:  {folder / 'figures' / f'run-{shown}.png'}")
