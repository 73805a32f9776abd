"""`orbitcc guard`: a checkpoint with bounds outside of its network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def guard(
    checkpoint: Annotated[str, typer.Argument(help="A shipped policy by name, or a checkpoint's folder.")],
    out: Annotated[Path, typer.Option(help="The new checkpoint's folder.")],
    most_bdp: Annotated[
        float, typer.Option(help="The window is at most so many measured bandwidth-delay products; 0: no bound.")
    ] = 4.0,
    patience: Annotated[
        float,
        typer.Option(help="Cubic takes over after so many seconds (and four RTTs) outside of the envelope; 0: never."),
    ] = 1.0,
    off: Annotated[bool, typer.Option("--off", help="Take the guard away instead.")] = False,
) -> None:
    """Write a copy of a checkpoint with a guard: bounds on the window, and Cubic where it was never trained."""
    from orbitcc.agents import checkpoint as checkpoints
    from orbitcc.agents.guard import guarded, limits

    card = checkpoints.load(checkpoint).card
    chosen = None if off else limits(card.envelope, most_bdp, patience)
    print(guarded(checkpoint, out, chosen))
    if chosen is not None:
        low, high = chosen.min_rtt_ms
        print(
            f"window: at most {chosen.most_bdp:g} BDP; Cubic after {chosen.patience_s:g} s out of {low:g}-{high:g} ms, "
            f"above {chosen.most_rate_mbps:g} Mbit/s or {100 * chosen.most_loss:.3g} % of losses"
        )
