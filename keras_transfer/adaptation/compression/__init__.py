"""Compression: models that need less space."""
