"""The command `keras-transfer`."""

import argparse
import sys

from keras_transfer.adaptation import RECIPES
from keras_transfer.cli.ask import print_answers
from keras_transfer.cli.quickstart import quickstart
from keras_transfer.version import __version__


def main(arguments=None):
    """Runs the command.

    Args:
        arguments: list of str; None for the command line's.

    Returns:
        The exit status: 0, or 1 after an error that the user can mend.
    """
    parser = argparse.ArgumentParser("keras-transfer", description="Transfer learning for NLP in plain Keras 3.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("quickstart", help="fine-tune a pretrained BERT on questions, export it, ask it")
    command.add_argument("--dataset", choices=["questions", "trec6"], default="questions")
    command.add_argument("--data-dir", help="folder with train_5500.label and TREC_10.label, for --dataset trec6")
    command.add_argument("--output", default="quickstart_model", help="folder of the SavedModel")
    command.add_argument("--recipe", choices=sorted(RECIPES), default="bert", help="how the model is adapted")
    command.add_argument("--epochs", type=int, help="the recipe's if not given")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--batch-size", type=int, help="the recipe's if not given")
    command.add_argument("--overwrite", action="store_true", help="replace the output folder if it exists")

    command = commands.add_parser("classify", help="ask an exported model")
    command.add_argument("model", help="folder of the SavedModel")
    command.add_argument("texts", nargs="+", metavar="text")

    options = vars(parser.parse_args(arguments))
    try:
        if options.pop("command") == "quickstart":
            quickstart(**options)
        else:
            print_answers(options["model"], options["texts"])
    except (ValueError, OSError) as error:
        print(f"keras-transfer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
