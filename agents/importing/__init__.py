"""Policies of other projects as checkpoints."""
