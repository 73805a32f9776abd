"""Scenarios on a real kernel: this machine's TCP over the simulator's own links, in real time (docs/emulation.md)."""
