"""OrbitCC: a training gym for congestion control over satellite links."""

__version__ = "0.1.0"
