"""Tasks in the form that other libraries expect."""

from keras_transfer.wrappers.scikit_learn import KerasTransferClassifier

__all__ = [
    "KerasTransferClassifier",
]
