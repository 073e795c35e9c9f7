"""The console script `keras-transfer`: its options, and its errors and exit status.

`import keras_transfer` imports Keras and its backend, which takes seconds. This module is outside the package so that
`--help`, `--version` and mistakes in the options are answered at once.
"""

import argparse
import contextlib
import dataclasses
import difflib
import importlib
import importlib.metadata
import importlib.util
import math
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Sequence

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
FORMATS = {  # Of `serving.exported.FORMATS`, from the first lines of their files.
    found[1]: found[2]
    for path in sorted(pathlib.Path(__file__).parent.glob("keras_transfer/serving/formats/*.py"))
    if (found := re.match('"""The format "(.+?)": (.+)\\."""', path.read_text("utf-8")))
}
SIZES = {  # Of a new model: blocks, width, heads, width of the feed-forward layers.
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
RATE_OF_CHECKPOINT, RATE_OF_LSTM = 5e-5, 30.0
MODEL = "folder that `train` or `quickstart` wrote, or a .keras file"
TABLE = ".csv, .tsv, .json, .jsonl or Excel file, also compressed,"
GUIDE = 'Guide: the page "Without a script" of the documentation'

# === The kinds of options, as the arguments of `add_argument` ===


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


def value(metavar, help="", default=None, **more):
    """Returns an option with a value, whose help ends with its default if that is a single value."""
    shown = [f"default: {default}"] if isinstance(default, (str, int)) else []
    return {"metavar": metavar, "help": "; ".join([*filter(None, [help]), *shown]), "default": default, **more}


def count(help, default=None, least=1, **more):
    """Returns an option with an integer."""
    return value("N", help, default, type=integer(least), **more)


def choice(choices, help="", default=None, metavar=None, **more):
    """Returns an option with one of some values."""
    return value(metavar, help, default, choices=list(choices), **more)


def flag(help):
    """Returns an option without a value."""
    return {"action": "store_true", "help": help}


def listing(title, described, width):
    """Returns names with what they are, for the end of a help page."""
    return "\n".join([f"{title}:", *(f"  {name:<{width}}{what}" for name, what in described.items())])


def sizes(title, table, form):
    """Returns the sizes of new models, with what a form shows of each, for the end of a help page."""
    return listing(title, {name: form.format(*numbers) for name, numbers in table.items()}, 12)


# === The options of several commands ===

TEXT_COLUMN = {"--text-column": value("NAME", default="text")}
FORM = {
    "--separator": value("X", "between fields, or tab; default: as found in the file"),
    "--encoding": value("NAME", "such as cp1252; default: utf-8, or utf-16 with its mark"),
    "--no-header": flag("the first row is data; columns are numbers from 0"),
}
COLUMNS = {
    **TEXT_COLUMN,
    "--label-column": value(
        "NAME",
        "default: label; with several names, there is one column of 1 and 0 for each label",
        ["label"],
        nargs="+",
    ),
    "--label-separator": value("X", "between the labels of a text; default: |"),
    **FORM,
}
ADAPTER = {
    "--adapter": value(
        "NAME", "adapters that answer; required for an export with several; default: the active ones of a .keras file"
    )
}
VALIDATION_DATA = {
    "--validation-data": value("FILE", "file of the validation texts; default: a fifth of the training texts")
}
ENCODER = {
    "--encoder": value(
        "SOURCE",
        "folder, hf://organization/name, the name of a packaged encoder, or for `train` a model that it wrote, which "
        "then continues to train",
        "minilm-l6",
    )
}
RECIPE = {"--recipe": choice(RECIPES, "how the model is adapted", "bert", metavar="RECIPE")}
SEED = {"--seed": value("N", "seed of all random numbers", 0, type=int)}
TRAINING = {
    "--epochs": count("default: the value of the recipe"),
    "--batch-size": count("default: the value of the recipe"),
    **SEED,
}
ENOUGH_STEPS = ", or more for a small table, so that there are at least 100 steps"
MEMORY = {
    "--gradient-accumulation-steps": count("number of batches for one update of the weights; default: 1"),
    "--rematerialize": flag("compute blocks twice to save memory (Transformers only)"),
}


def data(of):
    """Returns the option of a required table."""
    return {"--data": value("FILE", f"{TABLE} of {of}", required=True)}


def output(help, default):
    """Returns the options of the folder that a command writes."""
    return {"--output": value("FOLDER", help, default), "--overwrite": flag("replace what is in the folder")}


# === The commands ===


@dataclasses.dataclass
class Command:
    """A command: the file in `keras_transfer.cli` with the function of its name, its help page, and its options.

    Of each pair of options in `either`, only one can be given.
    """

    file: str
    help: str
    example: str
    options: dict
    notes: tuple = ()
    either: tuple = ()


METHODS = [recipe for recipe in RECIPES if recipe != "scalar_mix"]  # It needs a different model from the others.
RECIPE_NOTES = (listing("Recipes", RECIPES, 28),)
COMMANDS = {
    "quickstart": Command(
        "quickstart",
        "fine-tune a BERT on questions, and write the model, its report and an export",
        "keras-transfer quickstart --output questions",
        {
            "--dataset": choice(["questions", "trec6"], "default: questions, which are packaged")
            | {"default": "questions"},
            "--data-dir": value("FOLDER", "folder with train_5500.label and TREC_10.label, for --dataset trec6"),
            **RECIPE,
            **TRAINING,
            **output("folder for the model", "quickstart_model"),
        },
        RECIPE_NOTES,
    ),
    "train": Command(
        "training",
        "train a model on a table; after Ctrl-C, the same command continues the run",
        "keras-transfer train --data reviews.csv --text-column review --label-column kind --output classifier",
        {
            "--task": choice(TASKS, "; ".join(f"{name}: {what}" for name, what in TASKS.items()))
            | {"default": "classification"},
            **data("the training texts"),
            **VALIDATION_DATA,
            **COLUMNS,
            **ENCODER,
            **RECIPE,
            **TRAINING,
            "--epochs": count(f"default: the value of the recipe{ENOUGH_STEPS}"),
            "--learning-rate": value("RATE", "default: the value of the recipe", type=rate),
            **MEMORY,
            "--precision": choice(
                ["auto", "float32", "mixed_bfloat16"],
                "of the computation; auto: mixed_bfloat16 where it is fast; default: float32",
            ),
            "--sequence-length": count("tokens of a text; default: the length of the encoder"),
            **output("folder for the model and its report; default: classifier or regressor", None),
        },
        RECIPE_NOTES,
    ),
    "evaluate": Command(
        "predictions",
        "evaluate a model on a table",
        "keras-transfer evaluate classifier --data test.csv --slice-words not never --report test.html",
        {
            "model": {"help": f"{MODEL}, or an exported model"},
            **data("texts with labels"),
            **COLUMNS,
            **ADAPTER,
            "--slice-words": value("WORD", "also score the texts that contain each word", [], nargs="+"),
            "--report": value("FILE", "HTML page for the report, which is replaced if it exists"),
        },
    ),
    "inspect": Command(
        "inspecting",
        "show on one page what a model gets right, where it looks and what breaks it",
        "keras-transfer inspect classifier --data test.csv --against minilm-l6 --report inspection.html",
        {
            "model": {"help": f"{MODEL} of any task"},
            "--data": value(
                "FILE",
                f"{TABLE} of texts, with labels or targets if the model has any; for a tagger, a CoNLL file, "
                "or a .conllu file with UPOS tags; for a model that finds answers, a file of SQuAD",
                required=True,
            ),
            **COLUMNS,
            "--no-labels": flag("the file has no labels, or they are not used"),
            "--against": value("MODEL", "model to compare with, such as its start: as for --encoder, or a .keras file"),
            "--pairs": value("FILE", "minimal pairs for a language model, a file or folder of BLiMP"),
            "--rows": count("rows that are drawn from a larger table", 1000, 2),
            "--examples": count("examples of each kind", 8),
            "--folder": value("FOLDER", "folder of finished sections, where the same command continues"),
            "--report": value("FILE", "HTML page, which is replaced if it exists", "inspection.html"),
        },
    ),
    "predict": Command(
        "predictions",
        "add predictions to the rows of a table of any size",
        "keras-transfer predict classifier --data new.csv --output predicted.csv",
        {
            "model": {"help": f"{MODEL}, or an exported model"},
            **data("texts"),
            **TEXT_COLUMN,
            **FORM,
            **ADAPTER,
            "--output": value("FILE", "file of the same format; default: standard output"),
            "--overwrite": flag("replace the output file if it exists"),
            "--workers": count("processes, each with a copy of the model", 1),
        },
    ),
    "classify": Command(
        "predictions",
        "print what a model predicts for texts from the command line",
        'keras-transfer classify classifier "What a film!" "What a bore."',
        {"model": {"help": f"{MODEL}, or an exported model"}, "texts": {"nargs": "+", "metavar": "text"}, **ADAPTER},
    ),
    "export": Command(
        "exporting",
        "export a model that answers requests",
        "keras-transfer export classifier --format litert --quantization int8_dynamic --output small",
        {
            "model": {"help": f"{MODEL} of any task"},
            "--format": choice(FORMATS, default="savedmodel"),
            "--quantization": choice(
                ["float16", "int8_dynamic"],
                "int8_dynamic: a quarter of the size, and faster; float16 (litert): half of the size; default: float32",
            ),
            "--pairs": flag("the model takes pairs of texts"),
            "--adapters": value(
                "NAME",
                "two or more adapters, one of which each row of a request names (savedmodel); default: the active ones",
                nargs="+",
            ),
            "--data": value("FILE", f"{TABLE} of texts, with which a portable export is tested; default: 64 questions"),
            **TEXT_COLUMN,
            **FORM,
            "--max-difference": value("X", "write nothing if an output differs from the model by more", type=float),
            "--min-equal-labels": value("X", "write nothing if a smaller fraction of labels is equal", type=float),
            "--output": value("FOLDER", "folder for the export", required=True),
            "--overwrite": flag("replace the output folder if it exists"),
        },
        (listing("Formats", FORMATS, 12),),
    ),
    "compare": Command(
        "comparison",
        "compare recipes for a classifier on your texts, over several seeds",
        "keras-transfer compare --data train.csv --methods bert lora --seeds 3 --markdown table.md",
        {
            **data("the training texts"),
            **VALIDATION_DATA,
            "--test-data": value("FILE", "file of the test texts"),
            **COLUMNS,
            **ENCODER,
            "--methods": choice(
                METHODS, f"recipes to compare; default: {', '.join(COMPARED)}", COMPARED, nargs="+", metavar="RECIPE"
            ),
            "--baseline": choice(METHODS, "default: the first of the methods", metavar="RECIPE"),
            "--seeds": count("number of seeds", 5),
            "--epochs": count(f"default: the value of each recipe{ENOUGH_STEPS}"),
            "--batch-size": count("default: the value of each recipe"),
            "--results": value(
                "FILE", "file of the finished runs, which the same command continues", "comparison.jsonl"
            ),
            "--markdown": value("FILE", "file for the table"),
            "--plot": value("FILE", "file for a picture"),
        },
        RECIPE_NOTES,
    ),
    "pretrain": Command(
        "pretraining",
        "pretrain a language model on files of text, from random weights or a checkpoint; after Ctrl-C, the same "
        "command continues the run",
        "keras-transfer pretrain --corpus reviews.txt --objective masked --size mini --output my_bert",
        {
            "--corpus": value(
                "FILE",
                "files of text: .txt, .jsonl or .csv, each also with .gz, .parquet or .arrow",
                required=True,
                nargs="+",
            ),
            "--validation-corpus": value("FILE", "files of the validation texts", [], nargs="+"),
            "--documents": choice(["blank_line", "line"], "what separates the documents of a .txt file", "blank_line"),
            **TEXT_COLUMN,
            "--objective": choice(OBJECTIVES, default="masked"),
            "--vocabulary-size": count("tokens of a new vocabulary; default: 8000", least=300),
            "--size": choice({**SIZES, **ELECTRA_SIZES}, "size of a new model; default: tiny"),
            "--encoder": value("SOURCE", "checkpoint to continue with, as for `train`, in place of a new model"),
            "--new-head": flag("the checkpoint has no head for the objective"),
            "--sequence-length": count("tokens of a row; default: 128, or 70 with --objective awd-lstm"),
            "--batch-size": count("rows of a batch", 32),
            "--learning-rate": value(
                "RATE",
                f"highest rate; default: {', '.join(f'{rate:g} ({size})' for size, rate in RATES.items())}, "
                f"{ELECTRA_RATES['large']:g} (base and large with --objective electra), {RATE_OF_CHECKPOINT:g} (with "
                f"--encoder), {RATE_OF_LSTM:g} (with --objective awd-lstm)",
                type=float,
            ),
            "--epochs": count("default: 10"),
            "--steps": count("number of batches, in place of --epochs, rounded up"),
            **MEMORY,
            **SEED,
            **output("folder for the model", "language_model"),
        },
        (
            listing("Objectives", OBJECTIVES, 12),
            sizes("Sizes", SIZES, "{0} blocks, {1} wide"),
            sizes("Sizes of --objective electra", ELECTRA_SIZES, "{0} blocks, {1} wide, embeddings {4} wide"),
            sizes("Sizes of --objective awd-lstm", LSTM_SIZES, "{0} LSTMs, {2} wide"),
        ),
        (("--size", "--encoder"), ("--epochs", "--steps")),
    ),
    "generate": Command(
        "pretraining",
        "continue texts with a causal language model",
        'keras-transfer generate my_gpt2 "The film was"',
        {
            "model": {"help": "folder that `pretrain` wrote with a causal objective, or any such checkpoint"},
            "prompts": {"nargs": "+", "metavar": "prompt"},
            "--max-new-tokens": count("", 64),
            "--sampler": choice(["greedy", "top_p", "top_k"], "how tokens are chosen", "top_p"),
            **SEED,
        },
    ),
    "launch": Command(
        "launch",
        "run a script in several processes of this machine, which `distribute.initialize` connects",
        "keras-transfer launch --workers 2 train.py --epochs 3",
        {
            "--workers": count("number of processes", required=True),
            "script": {"help": "Python script"},
            "arguments": {"nargs": argparse.REMAINDER, "help": "arguments of the script"},
        },
    ),
    "info": Command(
        "info",
        "print what a checkpoint or a saved model contains, without loading its weights",
        "keras-transfer info classifier",
        {
            "source": {
                "help": "folder, hf://organization/name, the name of a packaged encoder, or what this library wrote"
            }
        },
    ),
}


class Parser(argparse.ArgumentParser):
    """A parser that suggests the closest name in its errors, and does not accept abbreviated options."""

    def __init__(self, *arguments, **options):
        self.commands = None
        options = {"formatter_class": argparse.RawDescriptionHelpFormatter, **options}
        super().__init__(*arguments, allow_abbrev=False, **options)

    def parse_args(self, args=None, namespace=None):
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            names = [name.split("=")[0] for name in unknown if name.startswith("--")]
            known = [name for name in COMMANDS[options.command].options if name.startswith("--")]
            hint = _closest(names[0], known) if names else ""
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


def make_parser():
    """Returns the parser of the command's arguments."""
    parser = Parser(
        "keras-transfer",
        description="Trains, evaluates and uses classifiers, regressors and language models of texts without Python.",
        epilog=f"For tagging, question answering, embeddings and saved adapters, use the library from Python.\n{GUIDE}",
    )
    parser.add_argument("--version", action=Version, nargs=0, default=argparse.SUPPRESS, help="print it")
    parser.commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        help, epilog = command.help, "\n\n".join([*command.notes, f"Example:\n  {command.example}", GUIDE])
        page = parser.commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.", epilog=epilog)
        page.add_argument("--traceback", **flag("show where an error occurred"))
        groups = {first: page.add_mutually_exclusive_group() for first, _ in command.either}
        groups |= {second: groups[first] for first, second in command.either}
        for option, settings in command.options.items():
            groups.get(option, page).add_argument(option, **settings)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns its exit status: 0, 1 after an error, 130 after Ctrl-C, or 128 plus another signal."""
    options = vars(make_parser().parse_args(arguments))
    command, traceback = options.pop("command"), options.pop("traceback")
    try:
        # `info` loads no weights, so any backend works, and JAX is imported in a third of the time.
        if command == "info" and "keras" not in sys.modules and importlib.util.find_spec("jax") is not None:
            os.environ.setdefault("KERAS_BACKEND", "jax")
        import_backend()
        module = importlib.import_module(f"keras_transfer.cli.{COMMANDS[command].file}")
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
