"""Learned controllers: policy networks and their checkpoints."""
