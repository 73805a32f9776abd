"""A guard for a checkpoint: bounds outside of its network, read off the envelope it was trained in."""

from __future__ import annotations

from pathlib import Path

from orbitcc.agents import checkpoint
from orbitcc.agents.card import Envelope, Guard
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.numbers import checked_number

RTT_MARGIN, RATE_MARGIN = 1.25, 1.5
"""What is measured strays beyond the ranges of training by so much: queues are in smallest RTTs, bursts in rates."""
LOSS_MARGIN = 0.1
"""Losses of its own, beside those of the links."""


def limits(envelope: Envelope, most_bdp: float = 4.0, patience_s: float = 1.0) -> Guard:
    """What a guard allows by these conditions; where they say nothing, it bounds nothing.

    Raises:
        OrbitccError: a bound below 1.5 BDP (which would stop a connection's start), or a negative patience.
    """
    if most_bdp != 0:
        _check("most_bdp", most_bdp, 1.5, 1e3, "BDP", "0 or ")
    _check("patience_s", patience_s, 0.0, 1e4, "s")
    rtt, rate, loss = envelope.base_rtt_ms, envelope.rate_mbps, envelope.loss
    return Guard(
        most_bdp=most_bdp,
        min_rtt_ms=(rtt[0] / RTT_MARGIN, rtt[1] * RTT_MARGIN) if rtt is not None else Guard().min_rtt_ms,
        most_rate_mbps=rate[1] * RATE_MARGIN if rate is not None else Guard().most_rate_mbps,
        most_loss=min(1.0, loss[1] + LOSS_MARGIN) if loss is not None else Guard().most_loss,
        patience_s=patience_s,
    )


def guarded(name_or_path: str | Path, out: Path, guard: Guard | None) -> Path:
    """A copy of a checkpoint in the folder `out`, with this guard, or without one.

    Raises:
        OrbitccError: no such checkpoint, or the folder exists or cannot be written.
    """
    found = checkpoint.load(name_or_path)
    if out.exists():
        raise OrbitccError("out", str(out), "a folder that does not exist yet")
    card = found.card.model_copy(update={"guard": guard})
    return checkpoint.save(out, card, checkpoint.read_tensors(found.path))


def _check(field: str, value: float, low: float, high: float, unit: str, otherwise: str = "") -> None:
    try:
        checked_number(value, low, high, unit, otherwise=otherwise)
    except OrbitccError as error:
        raise error.at(field) from None
