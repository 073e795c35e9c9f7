"""Records of the autoregressive Transformers, one architecture a file."""
