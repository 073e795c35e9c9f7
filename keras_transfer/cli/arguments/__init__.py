"""The arguments of the command, which it reads and checks before it imports Keras."""

from keras_transfer.cli.arguments import checks
from keras_transfer.cli.arguments.checks import PREDICTIONS, check_comparison, check_quickstart
from keras_transfer.cli.arguments.parser import RATE_OF_CHECKPOINT, RATES, SIZES, make_parser

__all__ = [
    "PREDICTIONS",
    "RATES",
    "RATE_OF_CHECKPOINT",
    "SIZES",
    "check_comparison",
    "check_quickstart",
    "checks",
    "make_parser",
]
