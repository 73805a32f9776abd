"""`orbitcc mininet`: a scenario's network in Mininet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def mininet(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO_OR_FILE", help="A name (`orbitcc list scenarios`) or a TOML file.")
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter or a field, e.g. links.0.rate_mbps=50. Repeat."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of losses and jitter; default: the scenario's own.")] = None,
    script: Annotated[
        Path | None, typer.Option(help="Mininet commands to run instead of its command line, one per line.")
    ] = None,
) -> None:
    """Open Mininet's command line on a scenario's network: hosts s0, d0, ... of its flows, its links emulated."""
    from orbitcc.commands.run import prepare
    from orbitcc.emulator import needs
    from orbitcc.envs.errors import FileError, OrbitccError

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
