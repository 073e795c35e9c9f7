"""Transformers that predict the next token, one architecture a file."""
