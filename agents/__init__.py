"""Learned controllers: policy networks and their checkpoints."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitcc.agents.checkpoint import Checkpoint, load, save, shipped
    from orbitcc.agents.model_card import ModelCard

__all__ = ["Checkpoint", "ModelCard", "load", "save", "shipped"]


def __getattr__(name: str) -> Any:
    # What reads checkpoints is imported when it is asked for: names of policies are known without it.
    if name in __all__:
        from orbitcc.agents import checkpoint

        return getattr(checkpoint, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
