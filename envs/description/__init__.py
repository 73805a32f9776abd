"""What a scenario is: links, flows, schedules, ranges to draw from; checked, kept in files, compiled for backends."""
