"""Training on several devices: what Keras does not handle under `tf.distribute` and `keras.distribution`.

Names imported `as` themselves are for the other rooms of the library.
"""

from keras_transfer.distribute.replicas import check_accumulation as check_accumulation
from keras_transfer.distribute.replicas import check_distribution as check_distribution
from keras_transfer.distribute.replicas import check_scope as check_scope
from keras_transfer.distribute.replicas import replicas_of as replicas_of
from keras_transfer.distribute.replicas import share as share
from keras_transfer.distribute.strings import StringInputs

__all__ = [
    "StringInputs",
]
