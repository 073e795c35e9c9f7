"""What a run needs: optimizers, stages inside `fit`, and training checkpoints.

Its public names are in `keras_transfer.adaptation`, together with the methods that users combine them with.
"""

__all__ = []
