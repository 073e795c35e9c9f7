"""Losses beside that of a task, which keep what its encoder has learned before."""
