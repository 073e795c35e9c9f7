"""The console script `keras-transfer`: its options, and its errors and exit status.

`import keras_transfer` imports Keras and its backend, which takes seconds. This module is outside the package so that
`--help`, `--version` and mistakes in the options are answered at once.
"""

import argparse
import contextlib
import difflib
import importlib
import importlib.metadata
import importlib.util
import math
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Sequence

# From each command to the file in `keras_transfer.cli` with the function of this name.
COMMANDS = {
    "quickstart": "quickstart",
    "train": "training",
    "evaluate": "predictions",
    "predict": "predictions",
    "classify": "predictions",
    "export": "exporting",
    "compare": "comparison",
    "pretrain": "pretraining",
    "generate": "pretraining",
    "launch": "launch",
    "info": "info",
}
CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")  # An error message of argparse.

RECIPES = {  # Of `adaptation.recipe.RECIPES`, those for tasks with labels.
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
OBJECTIVES = {  # The keys of `cli.pretraining.PLANS`.
    "masked": "a BERT predicts hidden tokens",
    "bert": "a BERT predicts hidden tokens, and whether two segments belong together (one sentence to a line)",
    "permutation": "an XLNet predicts a sixth of the tokens one after the other, in a random order",
    "causal": "a GPT-2 predicts the next token, and can write texts",
    "awd-lstm": "an AWD-LSTM predicts the next token, window by window, and can write texts",
    "electra": "an ELECTRA finds tokens that a smaller model has replaced",
}
SIZES = """Sizes:
  tiny        2 blocks, 128 wide
  mini        4 blocks, 256 wide
  small       4 blocks, 512 wide
  medium      8 blocks, 512 wide
  base        12 blocks, 768 wide
  tutorial    16 blocks, 410 wide

Sizes of --objective electra:
  tiny        2 blocks, 128 wide, embeddings 128 wide
  mini        4 blocks, 256 wide, embeddings 256 wide
  small       12 blocks, 256 wide, embeddings 128 wide
  medium      8 blocks, 512 wide, embeddings 512 wide
  base        12 blocks, 768 wide, embeddings 768 wide
  large       24 blocks, 1024 wide, embeddings 1024 wide

Sizes of --objective awd-lstm:
  tiny        2 LSTMs, 256 wide
  mini        2 LSTMs, 512 wide
  small       3 LSTMs, 600 wide
  medium      3 LSTMs, 1150 wide
  base        3 LSTMs, 1150 wide"""
RATES = (
    "0.001 (tiny), 0.0007 (mini), 0.0005 (small), 0.0003 (medium), 0.0001 (base), 0.00025 (tutorial), 0.0002 (base and "
    "large with --objective electra), 5e-05 (with --encoder), 30 (with --objective awd-lstm)"
)
ENOUGH_STEPS = ", or more for a small table, so that there are at least 100 steps"
TASKS_HELP = "; ".join(f"{name}: {what}" for name, what in TASKS.items())
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
            names = [name.split("=")[0] for name in unknown if name.startswith("--")]
            hint = _closest(names[0], self.commands.choices[options.command].names) if names else ""
            self.commands.choices[options.command].error(f"unrecognized arguments: {' '.join(unknown)}.{hint}")
        return options

    def error(self, message):
        if found := CHOICE.search(message):
            choices = [name.strip(" '") for name in found[2].split(",")]
            message = f"{message}.{_closest(found[1], choices)}"
        super().error(message)


class Version(argparse.Action):
    """Prints the version of the installed package."""

    def __call__(self, parser, *arguments):
        print(importlib.metadata.version("keras_transfer"))
        parser.exit()


def _closest(name, known):
    """Returns a question with the most similar name, or with the option that replaces one of another library."""
    by_name = {each.removeprefix("--"): each for each in known}
    near = [by_name[each] for each in difflib.get_close_matches(name.removeprefix("--").lower(), by_name, n=1)]
    if not near and name.startswith("--"):
        from keras_transfer.core.names import equivalent

        by_argument = {option.removeprefix("--").replace("-", "_"): option for option in known}
        own, _ = equivalent(name.removeprefix("--").replace("-", "_"), by_argument) or ("", "")
        near = [by_argument[own]] if own else []
    return f" Did you mean {near[0]!r}?" if near else ""


def integer(least=1):
    """Returns a function that converts the value of an option to an integer."""

    def convert(text):
        if not re.fullmatch(r"-?\d+", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {least}. Received: {text}")
        return int(text)

    return convert


def rate(text):
    """Converts the value of an option to a positive number."""
    with contextlib.suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be positive and finite. Received: {text}")


def make_parser():
    """Returns the parser of the command's arguments."""
    parser = Parser(
        "keras-transfer",
        description="Trains, evaluates and uses classifiers, regressors and language models of texts without Python.",
        epilog=f"For tagging, question answering, embeddings and saved adapters, use the library from Python.\n{GUIDE}",
    )
    parser.add_argument("--version", action=Version, nargs=0, default=argparse.SUPPRESS, help="print it")
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
    command.add_argument("--learning-rate", type=rate, metavar="RATE", help="default: the value of the recipe")
    _add_memory(command)
    command.add_argument(
        "--precision",
        choices=["auto", "float32", "mixed_bfloat16"],
        help="of the computation; auto: mixed_bfloat16 where it is fast; default: float32",
    )
    command.add_argument(
        "--sequence-length", type=integer(), metavar="N", help="tokens of a text; default: the length of the encoder"
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
        "--workers", type=integer(), default=1, metavar="N", help="processes, each with a copy of the model; default: 1"
    )

    command = add_command("classify", "print what a model predicts for texts from the command line")
    command.add_argument("model", help=f"{MODEL}, or an exported model")
    command.add_argument("texts", nargs="+", metavar="text")
    _add_adapter(command)

    command = add_command("export", "export a model for TensorFlow Serving, LiteRT or ONNX Runtime")
    command.add_argument("model", help=f"{MODEL} of any task")
    command.add_argument(
        "--format",
        choices=["savedmodel", "litert", "onnx"],
        default="savedmodel",
        help="savedmodel: takes raw text; litert, onnx: small and fast, without TensorFlow; default: savedmodel",
    )
    command.add_argument(
        "--quantization",
        choices=["float16", "int8_dynamic"],
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
    command.add_argument("--seeds", type=integer(), default=5, metavar="N", help="number of seeds; default: 5")
    command.add_argument(
        "--epochs", type=integer(), metavar="N", help=f"default: the value of each recipe{ENOUGH_STEPS}"
    )
    command.add_argument("--batch-size", type=integer(), metavar="N", help="default: the value of each recipe")
    command.add_argument(
        "--results",
        default="comparison.jsonl",
        metavar="FILE",
        help="file of the finished runs, which the same command continues; default: comparison.jsonl",
    )
    command.add_argument("--markdown", metavar="FILE", help="file for the table")
    command.add_argument("--plot", metavar="FILE", help="file for a picture")

    objectives = "\n".join(f"  {name:<12}{what}" for name, what in OBJECTIVES.items())
    command = add_command(
        "pretrain",
        "pretrain a language model on files of text, from random weights or a checkpoint; after Ctrl-C, the same "
        "command continues the run",
        f"Objectives:\n{objectives}",
        SIZES,
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
    command.add_argument(
        "--vocabulary-size", type=integer(300), metavar="N", help="tokens of a new vocabulary; default: 8000"
    )
    start = command.add_mutually_exclusive_group()
    start.add_argument(
        "--size",
        choices=["tiny", "mini", "small", "medium", "base", "tutorial", "large"],
        help="size of a new model; default: tiny",
    )
    start.add_argument(
        "--encoder", metavar="SOURCE", help="checkpoint to continue with, as for `train`, in place of a new model"
    )
    command.add_argument("--new-head", action="store_true", help="the checkpoint has no head for the objective")
    command.add_argument(
        "--sequence-length",
        type=integer(),
        metavar="N",
        help="tokens of a row; default: 128, or 70 with --objective awd-lstm",
    )
    command.add_argument("--batch-size", type=integer(), default=32, metavar="N", help="rows of a batch; default: 32")
    command.add_argument(
        "--learning-rate",
        type=float,
        metavar="RATE",
        help=f"highest rate; default: {RATES}",
    )
    length = command.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=integer(), metavar="N", help="default: 10")
    length.add_argument(
        "--steps", type=integer(), metavar="N", help="number of batches, in place of --epochs, rounded up"
    )
    _add_memory(command)
    _add_seed(command)
    _add_output(command, "folder for the model", "language_model")

    command = add_command("generate", "continue texts with a causal language model")
    command.add_argument("model", help="folder that `pretrain` wrote with a causal objective, or any such checkpoint")
    command.add_argument("prompts", nargs="+", metavar="prompt")
    command.add_argument("--max-new-tokens", type=integer(), default=64, metavar="N", help="default: 64")
    command.add_argument(
        "--sampler", choices=["greedy", "top_p", "top_k"], default="top_p", help="how tokens are chosen; default: top_p"
    )
    _add_seed(command)

    command = add_command(
        "launch", "run a script in several processes of this machine, which `distribute.initialize` connects"
    )
    command.add_argument("--workers", type=integer(), required=True, metavar="N", help="number of processes")
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
    command.add_argument("--epochs", type=integer(), metavar="N", help=f"default: the value of the recipe{more}")
    command.add_argument("--batch-size", type=integer(), metavar="N", help="default: the value of the recipe")
    _add_seed(command)


def _add_memory(command):
    command.add_argument(
        "--gradient-accumulation-steps",
        type=integer(),
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns its exit status: 0, 1 after an error, 130 after Ctrl-C, or 128 plus another signal."""
    options = vars(make_parser().parse_args(arguments))
    command, traceback = options.pop("command"), options.pop("traceback")
    try:
        # `info` loads no weights, so any backend works, and JAX is imported in a third of the time.
        if command == "info" and "keras" not in sys.modules and importlib.util.find_spec("jax") is not None:
            os.environ.setdefault("KERAS_BACKEND", "jax")
        import_backend()
        module = importlib.import_module(f"keras_transfer.cli.{COMMANDS[command]}")
        return getattr(module, command)(**options) or 0
    except BrokenPipeError:  # The reader of the output, such as `head`, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"keras-transfer {command}: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if traceback:
            raise
        print(f"keras-transfer {command}: error: {_message(error, options)}", file=sys.stderr)
        return 1


def _message(error, options):
    """Returns the message of an error, with the names of arguments replaced by the names of options."""
    message = str(error).replace('`head="new"`', "`--new-head`" if "new_head" in options else '`head="new"`')
    for name in options:
        message = re.sub(rf"`{name}(=True)?`", f"`--{name.replace('_', '-')}`", message)
    if isinstance(error, (ValueError, OSError, ImportError)):
        return message
    return f"{type(error).__name__}: {message}\nTo see where it occurred, pass --traceback."


def import_backend():
    """Imports TensorFlow, if it is the backend, without the lines that it logs on import, whatever its log level.

    C++ writes these lines to file descriptor 2, which is redirected during the import. If the import raises an
    exception, the redirected lines are shown. Afterwards the log level hides everything that does not end the program.
    If the environment variable `TF_CPP_MIN_LOG_LEVEL` is 0 or 1, nothing is hidden.
    """
    if "tensorflow" in sys.modules or os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
        return
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") in ("0", "1"):
        return
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            held_back.seek(0)
            os.write(stderr, held_back.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


if multiprocessing.parent_process() is not None:  # A process of `predict --workers` imports this script first.
    import_backend()
if __name__ == "__main__":
    sys.exit(main())
