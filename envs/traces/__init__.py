"""Trace sets of measured paths: from the folders in which data sets are published, and what looks wrong in them."""
