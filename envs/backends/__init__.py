"""What runs a scenario: the packet simulator, through `orbitcc._sim`."""
