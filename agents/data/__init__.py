"""Decisions of flows as data sets."""
