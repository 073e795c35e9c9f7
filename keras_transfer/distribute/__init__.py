"""Training on several devices: what Keras leaves open under `tf.distribute`."""

from keras_transfer.distribute.strings import StringInputs

__all__ = ["StringInputs"]
