"""Tokenizers: from strings to ids, exactly as their originals do it."""
