"""Layers between an encoder and the loss: pooling, mixing, picking positions, and a random field."""
