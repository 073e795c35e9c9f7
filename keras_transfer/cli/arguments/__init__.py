"""What the command reads before it imports Keras: arguments, tables, and what it wrote before."""

from keras_transfer.cli.arguments import ask, checks, labelled_texts, own_files, run_folder
from keras_transfer.cli.arguments.checks import PREDICTIONS, check_comparison, check_quickstart
from keras_transfer.cli.arguments.labelled_texts import SEPARATOR
from keras_transfer.cli.arguments.parser import RATE_OF_CHECKPOINT, RATES, SIZES, make_parser
from keras_transfer.cli.arguments.run_folder import CHECKPOINTS, MODEL, REPORT, check_run

__all__ = [
    "CHECKPOINTS",
    "MODEL",
    "PREDICTIONS",
    "RATES",
    "RATE_OF_CHECKPOINT",
    "REPORT",
    "SEPARATOR",
    "SIZES",
    "ask",
    "check_comparison",
    "check_quickstart",
    "check_run",
    "checks",
    "labelled_texts",
    "make_parser",
    "own_files",
    "run_folder",
]
