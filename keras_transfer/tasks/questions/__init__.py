"""Answers that are a part of a text."""
