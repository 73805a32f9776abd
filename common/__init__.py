"""What every package uses: errors, files, names, numbers, and which code made a result."""
