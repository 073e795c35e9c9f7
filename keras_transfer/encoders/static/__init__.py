"""Encoders without context: the vectors of words."""
