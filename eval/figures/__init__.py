"""Pictures: of results, runs, paths and scenarios, each drawn from what it is given."""
