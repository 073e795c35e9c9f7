"""Transformers that read a text in both directions, one architecture a file."""
