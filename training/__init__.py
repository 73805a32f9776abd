"""Recipes and learners."""
