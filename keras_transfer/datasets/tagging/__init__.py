"""Datasets of tagged sentences."""
