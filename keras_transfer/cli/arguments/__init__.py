"""The arguments of the command, which it reads and checks before it imports Keras."""

from keras_transfer.cli.arguments import checks
from keras_transfer.cli.arguments.checks import PREDICTIONS, check_comparison, check_quickstart
from keras_transfer.cli.arguments.parser import (
    ELECTRA_RATES,
    ELECTRA_SIZES,
    LENGTH,
    LSTM_SIZES,
    RATE_OF_CHECKPOINT,
    RATE_OF_LSTM,
    RATES,
    SIZES,
    WINDOW,
    make_parser,
)

__all__ = [
    "ELECTRA_RATES",
    "ELECTRA_SIZES",
    "LENGTH",
    "LSTM_SIZES",
    "PREDICTIONS",
    "RATES",
    "RATE_OF_CHECKPOINT",
    "RATE_OF_LSTM",
    "SIZES",
    "WINDOW",
    "check_comparison",
    "check_quickstart",
    "checks",
    "make_parser",
]
