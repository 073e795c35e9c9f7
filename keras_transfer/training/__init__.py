"""The machinery of a run: stages inside `fit`, training checkpoints, run length, and names private to Keras."""

__all__ = []
