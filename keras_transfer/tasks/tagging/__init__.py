"""One label for each word."""
