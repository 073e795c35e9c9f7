"""Corpora: running text, minimal pairs and dialogues."""
