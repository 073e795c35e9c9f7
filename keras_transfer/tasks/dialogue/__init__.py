"""Dialogues: replies that are generated, and replies that are chosen."""
