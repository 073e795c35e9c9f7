"""Encoder-decoders, which encode one text and write another."""
