"""Records of the encoder-decoders, one family a file."""
