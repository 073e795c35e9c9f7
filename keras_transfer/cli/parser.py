"""The arguments of the command `keras-transfer`."""

import argparse
import re

from keras_transfer.core.names import closest, did_you_mean, equivalent

CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")  # An error message of argparse.

RECIPES = {  # The names in `adaptation.recipe.RECIPES`.
    "bert": "all weights train, with warm-up and linear decay",
    "feature_extraction": "only the head trains, on a frozen encoder",
    "last_layers": "the head and the three top blocks train",
    "linear_probe_then_finetune": "first the head trains, then all weights",
    "ulmfit_classifier": "gradual unfreezing, with lower rates for lower layers",
    "chain_thaw": "one layer after the other trains, then all of them (slow)",
    "adapters": "bottleneck adapters and the head train",
    "lora": "LoRA of rank 8 and the head train",
    "scalar_mix": "the head and a weighted mean of all layers train",
}
COMPARED = ("bert", "feature_extraction", "ulmfit_classifier")  # Slow ones are excluded by default.
TASKS = {
    "classification": "one label for each text",
    "multi-label": "any number of labels for each text",
    "regression": "one number for each text",
}
OBJECTIVES = {  # The keys of `pretraining.PLANS`.
    "masked": "a BERT predicts hidden tokens",
    "bert": "a BERT predicts hidden tokens, and whether two segments belong together (one sentence to a line)",
    "permutation": "an XLNet predicts a sixth of the tokens one after the other, in a random order",
    "causal": "a GPT-2 predicts the next token, and can write texts",
    "awd-lstm": "an AWD-LSTM predicts the next token, window by window, and can write texts",
    "electra": "an ELECTRA finds tokens that a smaller model has replaced",
}
SIZES = {  # Blocks, width, heads, width of the feed-forward layers.
    "tiny": (2, 128, 2, 512),
    "mini": (4, 256, 4, 1024),
    "small": (4, 512, 8, 2048),
    "medium": (8, 512, 8, 2048),
    "base": (12, 768, 12, 3072),
    "tutorial": (16, 410, 10, 2100),
}
# As in `SIZES`, plus the width of the embeddings, the generator's width as a fraction, and the fraction of hidden
# tokens. For small, base and large, see table 6 of Clark et al. 2020.
ELECTRA_SIZES = {
    "tiny": (*SIZES["tiny"], 128, 1 / 4, 0.15),
    "mini": (*SIZES["mini"], 256, 1 / 4, 0.15),
    "small": (12, 256, 4, 1024, 128, 1 / 4, 0.15),
    "medium": (*SIZES["medium"], 512, 1 / 4, 0.15),
    "base": (*SIZES["base"], 768, 1 / 3, 0.15),
    "large": (24, 1024, 16, 4096, 1024, 1 / 4, 0.25),
}
# LSTMs, width of the embeddings, width of all LSTMs except the last one, factor of the paper's dropout rates.
LSTM_SIZES = {
    "tiny": (2, 128, 256, 0.1),
    "mini": (2, 256, 512, 0.25),
    "small": (3, 400, 600, 0.5),
    "medium": (3, 400, 1150, 0.75),
    "base": (3, 400, 1150, 1.0),
}
RATES = {"tiny": 1e-3, "mini": 7e-4, "small": 5e-4, "medium": 3e-4, "base": 1e-4, "tutorial": 2.5e-4}
ELECTRA_RATES = {**RATES, "base": 2e-4, "large": 2e-4}
RATE_OF_CHECKPOINT = 5e-5
RATE_OF_LSTM = 30.0
ENOUGH_STEPS = ", or more for a small table, so that there are at least 100 steps"
LENGTH, WINDOW = 128, 70  # Tokens of a row, and of an LSTM's part of a text.
TASKS_HELP = "; ".join(f"{name}: {what}" for name, what in TASKS.items())
QUANTIZATIONS = {"savedmodel": (), "litert": ("int8_dynamic", "float16"), "onnx": ("int8_dynamic",)}  # Of each format.
MODEL = "folder that `train` or `quickstart` wrote, or a .keras file"
TABLE = ".csv, .tsv, .json, .jsonl or Excel file, also compressed,"
GUIDE = 'Guide: the page "Without a script" of the documentation'
EXAMPLES = {
    "quickstart": "keras-transfer quickstart --output questions",
    "train": "keras-transfer train --data reviews.csv --text-column review --label-column kind --output classifier",
    "evaluate": "keras-transfer evaluate classifier --data test.csv --slice-words not never --report test.html",
    "predict": "keras-transfer predict classifier --data new.csv --output predicted.csv",
    "classify": 'keras-transfer classify classifier "What a film!" "What a bore."',
    "export": "keras-transfer export classifier --format litert --quantization int8_dynamic --output small",
    "compare": "keras-transfer compare --data train.csv --methods bert lora --seeds 3 --markdown table.md",
    "pretrain": "keras-transfer pretrain --corpus reviews.txt --objective masked --size mini --output my_bert",
    "generate": 'keras-transfer generate my_gpt2 "The film was"',
    "launch": "keras-transfer launch --workers 2 train.py --epochs 3",
    "info": "keras-transfer info classifier",
}


class Parser(argparse.ArgumentParser):
    """A parser that suggests the closest name in its errors, and does not accept abbreviated options."""

    def __init__(self, *arguments, **options):
        self.names, self.commands = [], None
        options = {"formatter_class": argparse.RawDescriptionHelpFormatter, **options}
        super().__init__(*arguments, allow_abbrev=False, **options)

    def add_argument(self, *names, **options):
        self.names += [name for name in names if name.startswith("--")]
        return super().add_argument(*names, **options)

    def parse_args(self, args=None, namespace=None):
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parser = self.commands.choices[options.command]
            names = [name.split("=")[0] for name in unknown if name.startswith("--")]
            hint = _closest_option(names[0], parser.names) if names else ""
            parser.error(f"unrecognized arguments: {' '.join(unknown)}.{hint}")
        return options

    def error(self, message):
        if found := CHOICE.search(message):
            choices = [name.strip(" '") for name in found[2].split(",")]
            message = f"{message}.{did_you_mean(found[1], choices)}"
        super().error(message)


def _closest_option(name, options):
    """Returns a question with the option that replaces one of another library, or with the closest one, or `""`."""
    known = {option.removeprefix("--").replace("-", "_"): option for option in options}
    own, _ = equivalent(name.removeprefix("--").replace("-", "_"), known) or ("", "")
    if own:
        return f" Did you mean {known[own]!r}?"
    near = closest(name.removeprefix("--"), [option.removeprefix("--") for option in options])
    return "" if near is None else f" Did you mean '--{near}'?"


def make_parser(version):
    """Returns the parser of the command's arguments, given the version that `--version` prints."""
    parser = Parser(
        "keras-transfer",
        description="Trains, evaluates and uses classifiers, regressors and language models of texts without Python.",
        epilog=f"For tagging, question answering, embeddings and saved adapters, use the library from Python.\n{GUIDE}",
    )
    parser.add_argument("--version", action="version", version=version)
    parser.commands = commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add_command(name, help, *notes):
        epilog = "\n\n".join([*notes, f"Example:\n  {EXAMPLES[name]}", GUIDE])
        command = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.", epilog=epilog)
        command.add_argument("--traceback", action="store_true", help="show where an error occurred")
        return command

    recipes = "Recipes:\n" + "\n".join(f"  {name:<28}{what}" for name, what in RECIPES.items())

    command = add_command(
        "quickstart", "fine-tune a BERT on questions, and write the model, its report and an export", recipes
    )
    command.add_argument(
        "--dataset", choices=["questions", "trec6"], default="questions", help="default: questions, which are packaged"
    )
    command.add_argument(
        "--data-dir", metavar="FOLDER", help="folder with train_5500.label and TREC_10.label, for --dataset trec6"
    )
    _add_recipe(command)
    _add_training(command)
    _add_output(command, "folder for the model", "quickstart_model")

    command = add_command(
        "train", "train a model on a table; after Ctrl-C, the same command continues the run", recipes
    )
    command.add_argument("--task", choices=list(TASKS), default="classification", help=TASKS_HELP)
    command.add_argument("--data", required=True, metavar="FILE", help=f"{TABLE} of the training texts")
    _add_validation_data(command)
    _add_columns(command)
    _add_encoder(command)
    _add_recipe(command)
    _add_training(command, ENOUGH_STEPS)
    command.add_argument("--learning-rate", type=float, metavar="RATE", help="default: the value of the recipe")
    _add_memory(command)
    command.add_argument(
        "--precision",
        choices=["auto", "float32", "mixed_bfloat16"],
        help="of the computation; auto: mixed_bfloat16 where it is fast; default: float32",
    )
    command.add_argument(
        "--sequence-length", type=int, metavar="N", help="tokens of a text; default: the length of the encoder"
    )
    _add_output(command, "folder for the model and its report", None, "classifier or regressor")

    command = add_command("evaluate", "evaluate a model on a table")
    command.add_argument("model", help=f"{MODEL}, or an exported model")
    command.add_argument("--data", required=True, metavar="FILE", help=f"{TABLE} of texts with labels")
    _add_columns(command)
    _add_adapter(command)
    command.add_argument(
        "--slice-words", nargs="+", default=[], metavar="WORD", help="also score the texts that contain each word"
    )
    command.add_argument("--report", metavar="FILE", help="HTML page for the report, which is replaced if it exists")

    command = add_command("predict", "add predictions to the rows of a table of any size")
    command.add_argument("model", help=f"{MODEL}, or an exported model")
    command.add_argument("--data", required=True, metavar="FILE", help=f"{TABLE} of texts")
    _add_text_column(command)
    _add_form(command)
    _add_adapter(command)
    command.add_argument("--output", metavar="FILE", help="file of the same format; default: standard output")
    command.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    command.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes, each with a copy of the model; default: 1"
    )

    command = add_command("classify", "print what a model predicts for texts from the command line")
    command.add_argument("model", help=f"{MODEL}, or an exported model")
    command.add_argument("texts", nargs="+", metavar="text")
    _add_adapter(command)

    command = add_command("export", "export a model for TensorFlow Serving, LiteRT or ONNX Runtime")
    command.add_argument("model", help=f"{MODEL} of any task")
    command.add_argument(
        "--format",
        choices=list(QUANTIZATIONS),
        default="savedmodel",
        help="savedmodel: takes raw text; litert, onnx: small and fast, without TensorFlow; default: savedmodel",
    )
    command.add_argument(
        "--quantization",
        choices=sorted({name for names in QUANTIZATIONS.values() for name in names}),
        help="int8_dynamic: a quarter of the size, and faster; float16 (litert): half of the size; default: float32",
    )
    command.add_argument("--pairs", action="store_true", help="the model takes pairs of texts")
    command.add_argument(
        "--adapters",
        nargs="+",
        metavar="NAME",
        help="two or more adapters, one of which each row of a request names (savedmodel); default: the active ones",
    )
    command.add_argument(
        "--data", metavar="FILE", help=f"{TABLE} of texts, with which litert and onnx are tested; default: 64 questions"
    )
    _add_text_column(command)
    _add_form(command)
    command.add_argument(
        "--max-difference", type=float, metavar="X", help="write nothing if an output differs from the model by more"
    )
    command.add_argument(
        "--min-equal-labels", type=float, metavar="X", help="write nothing if a smaller fraction of labels is equal"
    )
    command.add_argument("--output", required=True, metavar="FOLDER", help="folder for the export")
    command.add_argument("--overwrite", action="store_true", help="replace the output folder if it exists")

    methods = [recipe for recipe in RECIPES if recipe != "scalar_mix"]  # It needs a different model from the others.
    names = {"choices": methods, "metavar": "RECIPE"}
    command = add_command("compare", "compare recipes for a classifier on your texts, over several seeds", recipes)
    command.add_argument("--data", required=True, metavar="FILE", help=f"{TABLE} of the training texts")
    _add_validation_data(command)
    command.add_argument("--test-data", metavar="FILE", help="file of the test texts")
    _add_columns(command)
    _add_encoder(command)
    shown = ", ".join(COMPARED)
    command.add_argument(
        "--methods", nargs="+", default=COMPARED, help=f"recipes to compare; default: {shown}", **names
    )
    command.add_argument("--baseline", help="default: the first of the methods", **names)
    command.add_argument("--seeds", type=int, default=5, metavar="N", help="number of seeds; default: 5")
    command.add_argument("--epochs", type=int, metavar="N", help=f"default: the value of each recipe{ENOUGH_STEPS}")
    command.add_argument("--batch-size", type=int, metavar="N", help="default: the value of each recipe")
    command.add_argument(
        "--results",
        default="comparison.jsonl",
        metavar="FILE",
        help="file of the finished runs, which the same command continues; default: comparison.jsonl",
    )
    command.add_argument("--markdown", metavar="FILE", help="file for the table")
    command.add_argument("--plot", metavar="FILE", help="file for a picture")

    objectives = "\n".join(f"  {name:<12}{what}" for name, what in OBJECTIVES.items())
    sizes = "\n".join(f"  {name:<12}{blocks} blocks, {width} wide" for name, (blocks, width, *_) in SIZES.items())
    electra_sizes = "\n".join(
        f"  {name:<12}{blocks} blocks, {width} wide, embeddings {embeddings} wide"
        for name, (blocks, width, _, _, embeddings, *_) in ELECTRA_SIZES.items()
    )
    lstm_sizes = "\n".join(
        f"  {name:<12}{count} LSTMs, {width} wide" for name, (count, _, width, _) in LSTM_SIZES.items()
    )
    command = add_command(
        "pretrain",
        "pretrain a language model on files of text, from random weights or a checkpoint; after Ctrl-C, the same "
        "command continues the run",
        f"Objectives:\n{objectives}",
        f"Sizes:\n{sizes}",
        f"Sizes of --objective electra:\n{electra_sizes}",
        f"Sizes of --objective awd-lstm:\n{lstm_sizes}",
    )
    files = {"nargs": "+", "metavar": "FILE"}
    command.add_argument(
        "--corpus",
        required=True,
        help="files of text: .txt, .jsonl or .csv, each also with .gz, .parquet or .arrow",
        **files,
    )
    command.add_argument("--validation-corpus", default=[], help="files of the validation texts", **files)
    command.add_argument(
        "--documents",
        choices=["blank_line", "line"],
        default="blank_line",
        help="what separates the documents of a .txt file; default: blank_line",
    )
    _add_text_column(command)
    command.add_argument("--objective", choices=list(OBJECTIVES), default="masked", help="default: masked")
    command.add_argument("--size", choices=list({**SIZES, **ELECTRA_SIZES}), help="size of a new model; default: tiny")
    command.add_argument("--vocabulary-size", type=int, metavar="N", help="tokens of a new vocabulary; default: 8000")
    command.add_argument(
        "--encoder", metavar="SOURCE", help="checkpoint to continue with, as for `train`, in place of a new model"
    )
    command.add_argument("--new-head", action="store_true", help="the checkpoint has no head for the objective")
    command.add_argument(
        "--sequence-length",
        type=int,
        metavar="N",
        help=f"tokens of a row; default: {LENGTH}, or {WINDOW} with --objective awd-lstm",
    )
    command.add_argument("--batch-size", type=int, default=32, metavar="N", help="rows of a batch; default: 32")
    command.add_argument(
        "--learning-rate",
        type=float,
        metavar="RATE",
        help=f"highest rate; default: {', '.join(f'{rate:g} ({size})' for size, rate in RATES.items())}, "
        f"{ELECTRA_RATES['large']:g} (base and large with --objective electra), "
        f"{RATE_OF_CHECKPOINT:g} (with --encoder), {RATE_OF_LSTM:g} (with --objective awd-lstm)",
    )
    command.add_argument("--epochs", type=int, metavar="N", help="default: 10")
    command.add_argument("--steps", type=int, metavar="N", help="number of batches, in place of --epochs, rounded up")
    _add_memory(command)
    _add_seed(command)
    _add_output(command, "folder for the model", "language_model")

    command = add_command("generate", "continue texts with a causal language model")
    command.add_argument("model", help="folder that `pretrain` wrote with a causal objective, or any such checkpoint")
    command.add_argument("prompts", nargs="+", metavar="prompt")
    command.add_argument("--max-new-tokens", type=int, default=64, metavar="N", help="default: 64")
    command.add_argument(
        "--sampler", choices=["greedy", "top_p", "top_k"], default="top_p", help="how tokens are chosen; default: top_p"
    )
    _add_seed(command)

    command = add_command(
        "launch", "run a script in several processes of this machine, which `distribute.initialize` connects"
    )
    command.add_argument("--workers", type=int, required=True, metavar="N", help="number of processes")
    command.add_argument("script", help="Python script")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")

    command = add_command("info", "print what a checkpoint or a saved model contains, without loading its weights")
    command.add_argument(
        "source", help="folder, hf://organization/name, the name of a packaged encoder, or what this library wrote"
    )
    return parser


def _add_text_column(command):
    command.add_argument("--text-column", default="text", metavar="NAME", help="default: text")


def _add_form(command):
    command.add_argument("--separator", metavar="X", help="between fields, or tab; default: as found in the file")
    command.add_argument("--encoding", metavar="NAME", help="such as cp1252; default: utf-8, or utf-16 with its mark")
    command.add_argument("--no-header", action="store_true", help="the first row is data; columns are numbers from 0")


def _add_columns(command):
    _add_text_column(command)
    command.add_argument(
        "--label-column",
        nargs="+",
        default=["label"],
        metavar="NAME",
        help="default: label; with several names, there is one column of 1 and 0 for each label",
    )
    command.add_argument("--label-separator", metavar="X", help="between the labels of a text; default: |")
    _add_form(command)


def _add_adapter(command):
    command.add_argument(
        "--adapter",
        metavar="NAME",
        help="adapters that answer; required for an export with several; default: the active ones of a .keras file",
    )


def _add_validation_data(command):
    command.add_argument(
        "--validation-data", metavar="FILE", help="file of the validation texts; default: a fifth of the training texts"
    )


def _add_encoder(command):
    command.add_argument(
        "--encoder",
        default="minilm-l6",
        metavar="SOURCE",
        help="folder, hf://organization/name, the name of a packaged encoder, or for `train` a model "
        "that it wrote, which then continues to train; default: minilm-l6",
    )


def _add_recipe(command):
    command.add_argument(
        "--recipe",
        choices=list(RECIPES),
        default="bert",
        metavar="RECIPE",
        help="how the model is adapted; default: bert",
    )


def _add_training(command, more=""):
    command.add_argument("--epochs", type=int, metavar="N", help=f"default: the value of the recipe{more}")
    command.add_argument("--batch-size", type=int, metavar="N", help="default: the value of the recipe")
    _add_seed(command)


def _add_memory(command):
    command.add_argument(
        "--gradient-accumulation-steps",
        type=int,
        metavar="N",
        help="number of batches for one update of the weights; default: 1",
    )
    command.add_argument(
        "--rematerialize", action="store_true", help="compute blocks twice to save memory (Transformers only)"
    )


def _add_seed(command):
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random numbers; default: 0")


def _add_output(command, help, default, shown=None):
    command.add_argument("--output", default=default, metavar="FOLDER", help=f"{help}; default: {shown or default}")
    command.add_argument("--overwrite", action="store_true", help="replace what is in the folder")
