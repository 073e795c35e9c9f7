"""Experiments: methods compared over several seeds, with intervals and tests."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.experiments.comparison import compare
from keras_transfer.experiments.comparison_plots import plot_learning_curves
from keras_transfer.experiments.comparison_report import Comparison

__all__ = ["Comparison", "compare", "plot_learning_curves"]
open_door(sys.modules[__name__])
