"""What the subcommands do once the package is imported."""

from keras_transfer.cli.actions.comparison import run_comparison
from keras_transfer.cli.actions.exported import ExportedModel
from keras_transfer.cli.actions.exporting import run_export
from keras_transfer.cli.actions.info import print_info
from keras_transfer.cli.actions.predictions import answer_texts, run_evaluation, run_predictions
from keras_transfer.cli.actions.progress import bar_or_lines
from keras_transfer.cli.actions.quickstart import run_quickstart
from keras_transfer.cli.actions.texts import print_texts
from keras_transfer.cli.actions.training import run_training

__all__ = [
    "ExportedModel",
    "answer_texts",
    "bar_or_lines",
    "print_info",
    "print_texts",
    "run_comparison",
    "run_evaluation",
    "run_export",
    "run_predictions",
    "run_quickstart",
    "run_training",
]
