"""The command `keras-transfer`, which parses its arguments before it imports anything slow."""

import argparse
import pathlib
import runpy
import sys

# These files are run, since `from keras_transfer import ...` would import the whole package.
FOLDER = pathlib.Path(__file__).parent
VERSION, ARGUMENTS, ASK = FOLDER.parent / "version.py", FOLDER / "arguments.py", FOLDER / "ask.py"
LABELLED_TEXTS = FOLDER / "labelled_texts.py"
# Names in `adaptation.RECIPES`.
RECIPES = (
    "adapters",
    "bert",
    "chain_thaw",
    "feature_extraction",
    "last_layers",
    "linear_probe_then_finetune",
    "lora",
    "scalar_mix",
    "ulmfit_classifier",
)
COMPARED = ("bert", "feature_extraction", "ulmfit_classifier")  # by default, without those that take much longer


def main(arguments=None):
    """Runs the command.

    Args:
        arguments: List of strings. Defaults to the arguments of the command line.

    Returns:
        The exit status: 0, or 1 after an error that the user can fix.
    """
    options = vars(_parser().parse_args(arguments))
    command = options.pop("command")
    try:
        if command == "quickstart":
            _quickstart(**options)
        elif command == "info":
            _info(**options)
        elif command == "compare":
            _compare(**options)
        else:
            runpy.run_path(str(ASK))["print_answers"](options["model"], options["texts"])
    except (ValueError, OSError) as error:
        print(f"keras-transfer: {error}", file=sys.stderr)
        return 1
    return 0


def _parser():
    version = runpy.run_path(str(VERSION))["__version__"]
    parser = argparse.ArgumentParser("keras-transfer", description="Transfer learning for NLP in plain Keras 3.")
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("quickstart", help="fine-tune a BERT on questions and export it")
    command.add_argument("--dataset", choices=["questions", "trec6"], default="questions")
    command.add_argument("--data-dir", help="folder with train_5500.label and TREC_10.label, for --dataset trec6")
    command.add_argument("--output", default="quickstart_model", help="folder of the SavedModel")
    command.add_argument("--recipe", choices=RECIPES, default="bert", help="how the model is adapted")
    command.add_argument("--epochs", type=int, help="default: that of the recipe")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--batch-size", type=int, help="default: that of the recipe")
    command.add_argument("--overwrite", action="store_true", help="replace the output folder if it exists")

    command = commands.add_parser("classify", help="classify texts with an exported model")
    command.add_argument("model", help="folder of the SavedModel")
    command.add_argument("texts", nargs="+", metavar="text")

    command = commands.add_parser("compare", help="compare recipes on your texts, over several seeds")
    command.add_argument("--data", required=True, help=".csv or .tsv file of the training texts, with a line of names")
    command.add_argument("--validation", help="file of the validation texts; default: a fifth of the training texts")
    command.add_argument("--test", help="file of the test texts")
    command.add_argument("--text", default="text", help="column of the texts; default: text")
    command.add_argument("--label", default="label", help="column of the labels; default: label")
    command.add_argument("--encoder", default="minilm-l6", help="folder, hf://... or the name of a packaged encoder")
    methods = [recipe for recipe in RECIPES if recipe != "scalar_mix"]  # It needs another model than the others.
    recipes = {"choices": methods, "metavar": "RECIPE"}
    command.add_argument("--methods", nargs="+", default=COMPARED, help=f"some of {', '.join(methods)}", **recipes)
    command.add_argument("--baseline", help="default: the first of the methods", **recipes)
    command.add_argument("--seeds", type=int, default=5, help="number of seeds; default: 5")
    command.add_argument("--epochs", type=int, help="default: those of each recipe")
    command.add_argument("--batch-size", type=int, help="default: that of each recipe")
    command.add_argument("--results", default="comparison.jsonl", help="file of the runs, which go on after a kill")
    command.add_argument("--markdown", help="file for the table")
    command.add_argument("--plot", help="file for a picture")

    command = commands.add_parser("info", help="what a checkpoint contains and what loads, without loading its weights")
    command.add_argument("source", help="folder, hf://organisation/name, or the name of a packaged encoder")
    return parser


def _info(source):
    runpy.run_path(str(ASK))["import_tensorflow"]()  # first, so that its log lines do not precede the output
    from keras_transfer.cli.info import print_info

    print_info(source)


def _compare(data, validation, test, text, label, **options):
    read_parts = runpy.run_path(str(LABELLED_TEXTS))["read_parts"]
    parts, label_names = read_parts(data, validation, test, text, label)
    runpy.run_path(str(ASK))["import_tensorflow"]()  # first, so that its log lines do not precede the output
    from keras_transfer.cli.comparison import run_comparison

    run_comparison(parts, label_names, **options)


def _quickstart(dataset, data_dir, output, epochs, batch_size, overwrite, **options):
    check_arguments = runpy.run_path(str(ARGUMENTS))["check_arguments"]
    check_arguments(dataset, data_dir, output, epochs, batch_size, overwrite)
    runpy.run_path(str(ASK))["import_tensorflow"]()  # first, so that its log lines do not precede the output
    from keras_transfer.cli.quickstart import run_quickstart

    run_quickstart(dataset, data_dir, output, epochs=epochs, batch_size=batch_size, overwrite=overwrite, **options)


if __name__ == "__main__":
    sys.exit(main())
