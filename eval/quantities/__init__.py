"""Quantities of suite results and the limits that they have to meet, as data: of claims, and of an assessment."""
