"""The classical controllers: names, parameters, papers and presets. Importing this package registers them."""

from orbitcc.baselines import delay_based, loss_based, model_based, quinn, unresponsive

__all__ = ["delay_based", "loss_based", "model_based", "quinn", "unresponsive"]
