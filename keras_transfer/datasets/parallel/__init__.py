"""Parallel texts: translations, summaries and corrections."""
