"""Compression of models: a vocabulary without unused tokens."""
