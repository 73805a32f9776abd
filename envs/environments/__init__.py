"""What an agent steps: one batch of worlds, and the views of it that libraries ask for."""
