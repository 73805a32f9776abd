"""`orbitcc mininet`: a scenario's network in Mininet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orbitcc.commands.options import Changes, ScenarioName


def mininet(
    scenario: ScenarioName,
    changes: Changes = None,
    seed: Annotated[int | None, typer.Option(help="Seed of losses and jitter. Default: the scenario's.")] = None,
    script: Annotated[
        Path | None, typer.Option(help="Run the Mininet commands of this file, one per line, instead of the prompt.")
    ] = None,
) -> None:
    """Open the Mininet prompt on a scenario's network: hosts s0 and d0 of flow 0 and so on, links emulated."""
    from orbitcc.commands.run import prepare
    from orbitcc.common.errors import FileError, OrbitccError
    from orbitcc.emulator import needs

    if script is not None and not script.is_file():
        raise FileError("--script", str(script), "a file of Mininet commands")
    chosen = prepare(scenario, [], [], changes or [], seed)
    lacks = needs.missing("mininet")
    if lacks:
        raise OrbitccError("mininet", chosen.name, f"a machine that can emulate: {lacks}")
    from mininet.cli import CLI

    from orbitcc.emulator.mininet import emulated, network

    net = network(chosen)
    try:
        CLI(net, script=None if script is None else str(script))
        for link in emulated(net):
            found = link.report()
            if found is not None:
                late = found["lateness"]
                print(f"{link}: {late['packets']} packets, {late['p50_us']:.0f} us late at the median")
    finally:
        net.stop()
