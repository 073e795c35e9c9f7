"""Attention: its masks, its positions, and its kinds."""
