"""Figures of results, runs, paths and scenarios."""
