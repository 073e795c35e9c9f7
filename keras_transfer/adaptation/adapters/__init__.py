"""Adapters: what all kinds share (`base`), the `kinds`, and their `files`. `adaptation` lists what users need."""
