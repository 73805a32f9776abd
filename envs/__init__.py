"""What an agent lives in: scenarios, controllers by name, simulation, environments."""
