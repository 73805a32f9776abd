"""The subcommands of `orbitcc`, one module each; heavy imports happen inside the functions."""
