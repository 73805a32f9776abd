"""The folders of training runs: names, locks, seals and saved state."""
