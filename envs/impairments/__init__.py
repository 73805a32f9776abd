"""What happens to links: processes that make schedules, outages and losses."""
