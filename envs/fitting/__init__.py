"""Fits a scenario to recordings of a path: what they show becomes links, what they do not show a stated default."""
