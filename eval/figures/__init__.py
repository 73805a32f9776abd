"""Pictures: of campaigns, runs, paths and scenarios, each drawn from what it is given."""
