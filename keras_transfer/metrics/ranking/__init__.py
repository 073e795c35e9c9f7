"""Metrics of rankings."""
