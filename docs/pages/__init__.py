"""Programs that generate pages of the documentation."""
