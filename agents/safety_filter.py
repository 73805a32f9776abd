"""Safety filters of checkpoints: limits derived from the training range."""

from __future__ import annotations

from pathlib import Path

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import TrainingRange
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.safety import SafetyFilter

RTT_MARGIN, RATE_MARGIN = 1.25, 1.5
"""Margins on the training range, because measured minimum RTTs include queues and measured rates include bursts."""
LOSS_MARGIN = 0.1
"""Loss that a policy may cause itself, and chance: Cubic is slow under loss, and few packets tell the share."""


def limits(training_range: TrainingRange, max_bdp: float = 4.0, patience_s: float = 1.0) -> SafetyFilter:
    """The safety filter for a training range; conditions that are not stated are not limited.

    Raises:
        OrbitccError: a bound below 1.5 BDP (which would stop a connection's start), or a negative patience.
    """
    rtt, rate, loss = training_range.base_rtt_ms, training_range.rate_mbps, training_range.loss
    return SafetyFilter(
        max_bdp=max_bdp,
        min_rtt_ms=(rtt[0] / RTT_MARGIN, rtt[1] * RTT_MARGIN) if rtt is not None else SafetyFilter().min_rtt_ms,
        max_rate_mbps=rate[1] * RATE_MARGIN if rate is not None else SafetyFilter().max_rate_mbps,
        max_loss=min(1.0, loss[1] + LOSS_MARGIN) if loss is not None else SafetyFilter().max_loss,
        patience_s=patience_s,
    )


def filtered(name_or_path: str | Path, out: Path, safety_filter: SafetyFilter | None) -> Path:
    """Write a copy of a checkpoint to the folder `out`, with this safety filter or without one, and without its scores.

    Raises:
        OrbitccError: no such checkpoint, or the folder exists or cannot be written.
    """
    found = checkpoint.load(name_or_path)
    if out.exists():
        raise OrbitccError("out", str(out), "a folder that does not exist yet")
    card = found.card.model_copy(update={"safety_filter": safety_filter, "scores": {}})
    return checkpoint.save(out, card, found.tensors)
