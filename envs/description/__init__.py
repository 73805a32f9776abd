"""Scenarios: links, flows, schedules and ranges, which are checked, saved in files and compiled for backends."""
