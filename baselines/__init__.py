"""The classical controllers: name, parameters, paper, presets. Importing this package registers them."""

from orbitcc.baselines import loss_based, unresponsive

__all__ = ["loss_based", "unresponsive"]
