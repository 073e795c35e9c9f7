"""The machinery of a run: stages inside `fit`, training checkpoints, run length, and names private to Keras.

Its public callbacks are in `keras_transfer.adaptation`, beside the methods that users combine them with.
"""

__all__ = []
