"""`orbitcc policy`: trained policies: show a model card, verify a checkpoint, copy it with other settings, join two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import AsJson, WholeSentences, complete_policy, each_once

if TYPE_CHECKING:
    from orbitcc.envs.environments.safety import SafetyFilter

app = typer.Typer(
    cls=WholeSentences,
    help="Show a policy's model card, verify its files, or copy it with other settings.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[
    str,
    typer.Argument(metavar="POLICY", help="A shipped name, or a checkpoint's folder.", autocompletion=complete_policy),
]


@app.command()
def show(policy: Name, as_json: AsJson = False) -> None:
    """Print the model card: what the policy observes and does, its training range, its training, its scores."""
    from rich.console import Console

    from orbitcc.agents import checkpoint
    from orbitcc.common.names import terminal

    card = checkpoint.read_card(checkpoint.resolve(policy))
    if as_json:
        print(card.model_dump_json(indent=2))
        return
    interval = f"{card.interval_rtts:g} RTT" if card.interval_rtts else f"{card.interval_ms:g} ms"
    layers = " → ".join(str(layer.units) for layer in card.layers)
    if card.gate is not None:
        gate = " → ".join(str(layer.units) for layer in card.gate.layers)
        layers += f" experts (of {len(card.gate.expert_inputs)} inputs), weighed by {len(card.gate.inputs)} → {gate}"
    inside = card.training_range.model_dump(exclude={"scenario", "links", "remarks"}, exclude_none=True)
    console = Console(highlight=False)
    console.print(f"[bold]{terminal(card.name)}[/bold]: {terminal(card.description)}")
    console.print(f"network         {card.observation.dim} inputs → {layers}, one decision per {interval}")
    console.print(f"observation     {terminal(card.observation.preset)}    action {terminal(card.action.preset)}")
    if card.training:
        console.print(f"trained on      {terminal(card.training_range.scenario)} by: {terminal(card.training.command)}")
    if card.imported:
        console.print(f"imported from   {terminal(card.imported.source)} (licence: {terminal(card.imported.licence)})")
    ranges = ", ".join(f"{k} {low:g} to {high:g}" for k, (low, high) in inside.items())
    console.print(f"training range  {ranges or 'not stated'}")
    console.print(f"safety filter   {'none' if card.safety_filter is None else _said(card.safety_filter)}")


@app.command()
def verify(policy: Name) -> None:
    """Check the files of a checkpoint: digests, shapes, and whether this version has the same observation and action.

    Exit code 0: all are as they were written. 2: one line names the file and the reason.
    """
    from orbitcc.agents import checkpoint

    loaded = checkpoint.load(policy)
    print(f"{loaded.path}: intact; weights SHA-256 {loaded.card.weights_sha256}, card {loaded.card.digest}")


@app.command()
def seal(policy: Name) -> None:
    """Write new digests into a checkpoint whose files were changed on purpose."""
    from orbitcc.agents import checkpoint

    folder = checkpoint.resolve(policy)
    checkpoint.seal(folder)
    checkpoint.load(folder)
    print(f"{folder}: sealed")


@app.command()
def push(
    policy: Name,
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository on the Hugging Face hub.")],
    use: Annotated[str, typer.Option(help="When to use the policy; a sentence for its page.")] = "",
    weakness: Annotated[str, typer.Option(help="What it does badly; a sentence for its page.")] = "",
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
) -> None:
    """Upload a checkpoint to the Hugging Face hub: weights, card, a page with its figures and a picture.

    Others use it as --policy hf:OWNER/NAME. The account is that of `hf auth login` or HF_TOKEN.
    """
    from orbitcc.agents import checkpoint
    from orbitcc.eval import zoo

    address = zoo.push(
        checkpoint.resolve(policy), repository, zoo.PolicyWords(use=use, weakness=weakness), private=private
    )
    print(f"{address}\norbitcc eval responsiveness --policy hf:{repository} --controller cubic")


@app.command("filter")
def add_filter(
    policy: Name,
    out: Annotated[Path, typer.Option(help="Folder of the new checkpoint.")],
    max_bdp: Annotated[
        float | None,
        typer.Option(help="Limit the window to so many measured bandwidth-delay products. 0: no limit. Default: 4."),
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option(
            help="Hand over to Cubic after so many seconds (and four RTTs) outside the training range. 0: never. "
            "Default: 1."
        ),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Remove the safety filter instead.")] = False,
) -> None:
    """Write a copy of a checkpoint with a safety filter: a window limit, and Cubic outside the training range."""
    from orbitcc.agents import checkpoint as checkpoints
    from orbitcc.agents.safety_filter import filtered, limits
    from orbitcc.common.errors import OrbitccError

    for option, value in (("--max-bdp", max_bdp), ("--patience", patience)):
        if off and value is not None:
            raise OrbitccError(option, value, "none beside --off")
    card = checkpoints.load(policy).card
    limit, seconds = 4.0 if max_bdp is None else max_bdp, 1.0 if patience is None else patience
    chosen = None if off else limits(card.training_range, limit, seconds)
    print(filtered(policy, out, chosen))
    if chosen is not None:
        print(_said(chosen))


@app.command("action")
def change_action(
    policy: Name,
    out: Annotated[Path, typer.Option(help="Folder of the new checkpoint.")],
    changes: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A parameter of the action (docs/presets.md); can be given repeatedly.",
            callback=each_once,
        ),
    ] = [],  # noqa: B006
    interval_rtts: Annotated[
        float, typer.Option(help="Time between decisions, in RTTs; at least a fixed interval. 0: as it is.")
    ] = 0.0,
) -> None:
    """Write a copy of a checkpoint with another action or interval. Nothing is trained."""
    from orbitcc.agents.actions import with_parameters
    from orbitcc.common.errors import OrbitccError
    from orbitcc.envs.description.flows import parse_value

    values: dict[str, Any] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise OrbitccError("--set", change, "KEY=VALUE, e.g. occupancy_range=0.1")
        values[key.strip()] = value = parse_value(text, key.strip())
        if not isinstance(value, bool | int | float | str | list):
            raise OrbitccError("--set", change, "a number, a text or a list")
    if not values and not interval_rtts:
        raise OrbitccError("--set", "", "KEY=VALUE, or --interval-rtts")
    try:
        print(with_parameters(policy, out, values, interval_rtts=interval_rtts))
    except OrbitccError as error:
        if error.field == "interval_rtts":
            raise error.at("--interval-rtts") from None
        raise


def _said(bounds: SafetyFilter) -> str:
    """A safety filter in words."""
    window = f"window: at most {bounds.max_bdp:g} BDP" if bounds.max_bdp else "window: no limit"
    if bounds.patience_s == 0:
        return f"{window}; never Cubic"
    low, high = bounds.min_rtt_ms
    return (
        f"{window}; Cubic after {bounds.patience_s:g} s outside {low:g}-{high:g} ms, "
        f"above {bounds.max_rate_mbps:g} Mbit/s or {100 * bounds.max_loss:.3g} % of losses"
    )
