"""Training on several devices: what Keras does not handle under `tf.distribute`."""

from keras_transfer.distribute.strings import StringInputs

__all__ = ["StringInputs"]
