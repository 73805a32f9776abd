"""What the documentation's pages are made of that nobody writes by hand."""
