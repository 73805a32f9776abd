"""Copies of checkpoints that act otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orbitcc.agents import checkpoint
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.presets import definition_hash


def with_parameters(
    name_or_path: str | Path,
    out: Path,
    changes: Mapping[str, Any],
    *,
    name: str = "",
    interval_rtts: float = 0.0,
) -> Path:
    """Write a copy of a checkpoint to the folder `out` with these parameters of its action, and perhaps with another
    interval; the network stays the same. The scores of the original are not the copy's and are left out.

    name: of the copy; empty: that of the original.
    interval_rtts: time between decisions in RTTs, at least what a fixed interval was; 0: as it is.

    Raises:
        OrbitccError: no such checkpoint, a parameter that its action lacks, a value that is not allowed, or a folder
            that exists or cannot be written.
    """
    found = checkpoint.load(name_or_path)
    if out.exists():
        raise OrbitccError("out", str(out), "a folder that does not exist yet")
    action = found.card.action
    definition = {"name": action.preset, **action.parameters, **changes}
    update = {"parameters": {**action.parameters, **changes}, "hash": definition_hash("action", definition)}
    changed = {"name": name or found.card.name, "action": action.model_copy(update=update), "scores": {}}
    card = found.card.model_copy(update=changed)
    if not 0 <= interval_rtts <= 100:
        raise OrbitccError("interval_rtts", interval_rtts, "a number of RTTs in 0 .. 100")
    if interval_rtts:
        least_ms = card.interval_least_ms if card.interval_rtts else card.interval_ms
        card = card.model_copy(update={"interval_rtts": interval_rtts, "interval_least_ms": least_ms})
    return checkpoint.save(out, card, found.tensors)
