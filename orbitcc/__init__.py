"""OrbitCC: a training gym for congestion control over satellite links."""

from orbitcc import baselines

__version__ = "0.1.0"

__all__ = ["__version__", "baselines"]
