"""Embeddings: from ids, positions, segments, speakers or characters to vectors, and back."""
