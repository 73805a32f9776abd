"""`orbitcc doctor`: the requirements of emulation on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from orbitcc.commands.options import print_json, table


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Check what this machine has and lacks for emulation on a real kernel."""
    from rich.console import Console

    from orbitcc.common.names import terminal
    from orbitcc.emulator import needs

    results = needs.probe()
    lacks = {
        purpose: next((r.line for r in results if purpose in r.purposes and not r.found), None)
        for purpose in needs.PURPOSES
    }
    if as_json:
        rows = [
            {"need": r.name, "for": list(r.purposes), "found": r.found, "remedy": None if r.found else r.remedy}
            for r in results
        ]
        print_json({"needs": rows, "missing": lacks, "controllers": needs.controllers()})
        return
    console = Console()
    listed = table("needed", "for", "found", "remedy")
    for r in results:
        purposes = "all" if r.purposes == needs.ALL else ", ".join(r.purposes)
        listed.add_row(r.name, purposes, terminal(r.found or "missing"), "" if r.found else terminal(r.remedy))
    for column in listed.columns[1:]:
        column.justify, column.no_wrap = "left", False
    console.print(listed)
    for purpose, what in needs.PURPOSES.items():
        console.print(
            f"{purpose} ({what}): {'ready' if lacks[purpose] is None else lacks[purpose]}",
            highlight=False,
            markup=False,
        )
    console.print(f"controllers of this kernel: {', '.join(needs.controllers()) or 'none'}", highlight=False)
