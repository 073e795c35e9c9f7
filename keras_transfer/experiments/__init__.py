"""Experiments: methods and orders of tasks compared over several seeds, with intervals and tests."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.experiments.comparison import compare
from keras_transfer.experiments.comparison_report import Comparison
from keras_transfer.experiments.continual import ContinualComparison, compare_continual
from keras_transfer.experiments.learning_curves import plot_learning_curves
from keras_transfer.experiments.studies import Restarts, RunCost, ScalingCurve
from keras_transfer.experiments.transfer import TransferMatrix, transfer_matrix

__all__ = [
    "Comparison",
    "ContinualComparison",
    "Restarts",
    "RunCost",
    "ScalingCurve",
    "TransferMatrix",
    "compare",
    "compare_continual",
    "plot_learning_curves",
    "transfer_matrix",
]
open_door(sys.modules[__name__])
