"""Wrappers that let other libraries use the tasks."""

from keras_transfer.wrappers.scikit_learn import KerasTransferClassifier

__all__ = ["KerasTransferClassifier"]
