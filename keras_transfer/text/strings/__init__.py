"""Strings in the graph: normalizing, splitting, merging, characters, and tables of strings."""
