"""`orbitcc deploy` and `orbitcc undeploy`: a policy as a congestion control of this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from orbitcc.commands.options import AsJson, complete_policy, print_json, table
from orbitcc.common.names import plain


def deploy(
    policy: Annotated[
        str | None,
        typer.Argument(
            metavar="POLICY", help="A shipped name, or a checkpoint's folder.", autocompletion=complete_policy
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the congestion control, up to 15 characters. Default: the policy's.")
    ] = None,
    safety_filter: Annotated[
        bool,
        typer.Option(
            "--safety-filter",
            help="Bound the policy to its training range, also if its card has no safety filter.",
        ),
    ] = False,
    delay: Annotated[
        float | None,
        typer.Option(min=0.01, max=1.0, help="How much delay counts, for a policy that observes a preference."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Load nothing; write the BPF object and a loader into a new folder."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what is deployed, with its counters.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a policy a congestion control of this machine's kernel (as root), or export it for another machine.

    It stays after this command, without a process, until `orbitcc undeploy` or a reboot.
    """
    from orbitcc.agents import checkpoint as checkpoints
    from orbitcc.agents import deployment
    from orbitcc.agents.safety_filter import limits
    from orbitcc.common.errors import OrbitccError

    if listed:
        _print(deployment.deployed(), as_json)
        return
    if policy is None:
        raise OrbitccError("POLICY", "", "a shipped name or a checkpoint's folder, or --list")
    if ":" in policy and not Path(policy).exists():
        raise OrbitccError("policy", policy, "a policy that can be deployed: one in Python has no fixed-point form")
    found = checkpoints.load(policy)
    if delay is not None:
        try:
            found = replace(found, policy=checkpoints.policy_with(found, delay=delay))
        except OrbitccError as error:
            raise error.at("--delay") from None
    chosen = limits(found.card.training_range) if safety_filter else found.card.safety_filter
    name = deployment.default_name(found) if name is None else name
    made = deployment.make_object(found, name, chosen)
    print(f"{plain(found.card.name)}, assessment by RFC 9743 (docs/assessment.md; a simulator is not the Internet):")
    for line in deployment.assessment(found):
        print(f"  {line}")
    if export is not None:
        for path in deployment.export(found, name, made, export):
            print(path)
        return
    deployment.deploy(name, made)
    print(f"{name} is a congestion control of this machine: iperf3 -C {name}, ip route ... congctl {name}")


def undeploy(name: Annotated[str, typer.Argument(help="A name from `orbitcc deploy --list`.")]) -> None:
    """Remove a deployed policy. Flows that use it keep it until they end; new ones cannot choose it."""
    from orbitcc.agents import deployment

    deployment.undeploy(name)
    print(f"{name} is no congestion control of this machine any more")


def _print(rows: list[dict[str, object]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    from rich.console import Console

    from orbitcc.common.names import terminal

    heads = ("name", "flows", "flows in all", "ACKs", "decisions", "fallbacks", "taken over", "handed back")
    shown = table(*heads, "ns per ACK", "ns per decision")
    for row in rows:
        shown.add_row(*(f"{x:.0f}" if isinstance(x, float) else "" if x is None else terminal(x) for x in row.values()))
    Console().print(shown)
