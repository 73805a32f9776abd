"""`orbitcc demo`: a trained policy beside classical controllers in half a minute."""

from __future__ import annotations

import sys

from orbitcc.commands.eval_ import finish, new_folder
from orbitcc.commands.options import AsJson, Out

SUITE, PROFILE, FIRST_RUN = "responsiveness", "quick", 8021
"""Schedules on which nothing was developed: the first six from 8001 on that stay inside the policy's training range."""
CONTROLLERS, POLICY = ("cubic", "bbr3", "leocc:trigger=global"), "zenith"


def demo(
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a trained policy beside Cubic, BBRv3 and LeoCC: table, picture, report (half a minute)."""
    from orbitcc.agents import checkpoint
    from orbitcc.eval import contenders, provenance, suites
    from orbitcc.eval.runner import run_suite

    suite = suites.get(SUITE, {"first_run": FIRST_RUN})
    policies = [POLICY] if POLICY in checkpoint.shipped() else []
    if policies:
        print(
            "Six LEO paths of 300 s whose rate and RTT change every 15 s, with an interruption at each change:\n"
            f"the trained policy {POLICY} beside Cubic, BBRv3 and LeoCC.",
            file=sys.stderr,
        )
    else:
        print("No trained checkpoint is installed: the demo shows the classical controllers only.", file=sys.stderr)
    line_up = contenders.line_up(CONTROLLERS, policies)
    folder = out or new_folder("demo")
    results = run_suite(suite, line_up, out_dir=folder, profile=PROFILE, resume=True, command=provenance.command_line())
    finish(results, line_up, as_json=as_json)
    if not as_json:
        shown = len(line_up) if policies else 1
        print(f"run:    {folder / 'figures' / f'run-{shown}.png'}")
