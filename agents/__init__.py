"""Learned controllers: policy networks and their checkpoints."""

from orbitcc.agents.card import Card
from orbitcc.agents.checkpoint import Checkpoint, load, save, shipped

__all__ = ["Card", "Checkpoint", "load", "save", "shipped"]
