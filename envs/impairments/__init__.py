"""Impairments of links: processes that produce schedules, outages and losses."""
