"""Blocks, of which an encoder has several: Transformer, feed-forward, convolution and recurrent."""
