"""Wrappers that let other libraries use the tasks."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.wrappers.scikit_learn import KerasTransferClassifier

__all__ = ["KerasTransferClassifier"]
open_door(sys.modules[__name__])
