"""Datasets of classified texts: reviews, news, questions, and tables of one's own."""
