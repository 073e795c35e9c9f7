"""What the command reads before it imports the package: arguments, tables, and what it wrote before.

`command.py` runs these files by their path.
"""

from keras_transfer.cli.arguments import ask
from keras_transfer.cli.arguments.checks import PREDICTIONS, check_arguments, check_comparison
from keras_transfer.cli.arguments.labelled_texts import SEPARATOR
from keras_transfer.cli.arguments.run_folder import CHECKPOINTS, MODEL, REPORT, STATE, check_run

__all__ = [
    "CHECKPOINTS",
    "MODEL",
    "PREDICTIONS",
    "REPORT",
    "SEPARATOR",
    "STATE",
    "ask",
    "check_arguments",
    "check_comparison",
    "check_run",
]
