"""Records of the bidirectional Transformers, one architecture a file."""
