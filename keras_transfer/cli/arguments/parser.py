"""The arguments of the command `keras-transfer`."""

import argparse
import re

from keras_transfer.names import did_you_mean

CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")  # an error of argparse

# Names in `adaptation.recipes.RECIPES`.
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
TASKS = {
    "classify": "one label for each text",
    "multi_label": "any number of labels for each text",
    "regress": "one number for each text",
}
TASKS_HELP = "; ".join(f"{name}: {what}" for name, what in TASKS.items())
MODEL = "folder of the run, or a .keras file of a text classifier or regressor"
TABLE = ".csv, .tsv or .jsonl file"


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest the closest name, and which expects the names of options in full."""

    def __init__(self, *arguments, **options):
        self.names, self.commands = [], None
        super().__init__(*arguments, allow_abbrev=False, **options)

    def add_argument(self, *names, **options):
        self.names += [name for name in names if name.startswith("--")]
        return super().add_argument(*names, **options)

    def parse_args(self, args=None, namespace=None):
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parser = self.commands.choices[options.command]
            names = [name.split("=")[0] for name in unknown if name.startswith("--")]
            hint = did_you_mean(names[0], parser.names) if names else ""
            parser.error(f"unrecognized arguments: {' '.join(unknown)}.{hint}")
        return options

    def error(self, message):
        if found := CHOICE.search(message):
            choices = [name.strip(" '") for name in found[2].split(",")]
            message = f"{message}.{did_you_mean(found[1], choices)}"
        super().error(message)


def make_parser(version):
    """Returns the parser of the command's arguments, given the version that `--version` prints."""
    parser = Parser("keras-transfer", description="Transfer learning for NLP in plain Keras 3.")
    parser.add_argument("--version", action="version", version=version)
    parser.commands = commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("quickstart", help="fine-tune a BERT on questions and export it")
    command.add_argument("--dataset", choices=["questions", "trec6"], default="questions")
    command.add_argument("--data-dir", help="folder with train_5500.label and TREC_10.label, for --dataset trec6")
    command.add_argument("--output", default="quickstart_model", help="folder of the SavedModel")
    command.add_argument("--recipe", choices=RECIPES, default="bert", help="how the model is adapted")
    command.add_argument("--epochs", type=int, help="default: the value of the recipe")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--batch-size", type=int, help="default: the value of the recipe")
    command.add_argument("--overwrite", action="store_true", help="replace the output folder if it exists")

    command = commands.add_parser("classify", help="classify texts with an exported model")
    command.add_argument("model", help="folder of the SavedModel")
    command.add_argument("texts", nargs="+", metavar="text")

    command = commands.add_parser("train", help="train a model on a table; after Ctrl-C, the same command continues")
    command.add_argument("--task", choices=list(TASKS), default="classify", help=TASKS_HELP)
    command.add_argument("--data", required=True, help=f"{TABLE} of the training texts")
    command.add_argument("--validation", help="file of the validation texts; default: a fifth of the training texts")
    _add_columns(command)
    _add_encoder(command)
    command.add_argument("--output", help="folder for the model and its report; default: classifier or regressor")
    command.add_argument("--recipe", choices=RECIPES, default="bert", help="how the model is adapted")
    command.add_argument("--epochs", type=int, help="default: the value of the recipe")
    command.add_argument("--learning-rate", type=float, help="default: the value of the recipe")
    command.add_argument("--batch-size", type=int, help="default: the value of the recipe")
    command.add_argument("--sequence-length", type=int, help="tokens of a text; default: the length of the encoder")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--overwrite", action="store_true", help="replace a finished run, or one with other settings")

    command = commands.add_parser("evaluate", help="evaluate a model of `train` on a table")
    command.add_argument("model", help=MODEL)
    command.add_argument("--data", required=True, help=f"{TABLE} of labelled texts")
    _add_columns(command)
    command.add_argument("--words", nargs="+", default=[], help="also evaluate the texts with each of these words")
    command.add_argument("--report", help="file for the report as an HTML page, which is replaced if it exists")

    command = commands.add_parser("predict", help="add predictions to the rows of a table of any size")
    command.add_argument("model", help=MODEL)
    command.add_argument("--input", required=True, help=f"{TABLE} of texts")
    command.add_argument("--output", help="file of the same format; default: standard output")
    _add_text_column(command)
    command.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")

    command = commands.add_parser("compare", help="compare recipes on your texts, over several seeds")
    command.add_argument("--data", required=True, help=f"{TABLE} of the training texts")
    command.add_argument("--validation", help="file of the validation texts; default: a fifth of the training texts")
    command.add_argument("--test", help="file of the test texts")
    _add_columns(command)
    _add_encoder(command)
    methods = [recipe for recipe in RECIPES if recipe != "scalar_mix"]  # It needs another model than the others.
    recipes = {"choices": methods, "metavar": "RECIPE"}
    command.add_argument("--methods", nargs="+", default=COMPARED, help=f"some of {', '.join(methods)}", **recipes)
    command.add_argument("--baseline", help="default: the first of the methods", **recipes)
    command.add_argument("--seeds", type=int, default=5, help="number of seeds; default: 5")
    command.add_argument("--epochs", type=int, help="default: the value of each recipe")
    command.add_argument("--batch-size", type=int, help="default: the value of each recipe")
    command.add_argument("--results", default="comparison.jsonl", help="file of the runs, which go on after a kill")
    command.add_argument("--markdown", help="file for the table")
    command.add_argument("--plot", help="file for a picture")

    command = commands.add_parser(
        "info", help="what a checkpoint or a saved model contains, without loading its weights"
    )
    source = "folder, hf://organisation/name, the name of a packaged encoder, or what this library wrote"
    command.add_argument("source", help=source)
    return parser


def _add_text_column(command):
    command.add_argument("--text-column", "--text", dest="text", default="text", help="default: text")


def _add_columns(command):
    _add_text_column(command)
    command.add_argument("--label-column", "--label", dest="label", default="label", help="default: label")


def _add_encoder(command):
    command.add_argument("--encoder", default="minilm-l6", help="folder, hf://... or the name of a packaged encoder")
