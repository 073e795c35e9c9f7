"""The command `keras-transfer`, which checks its arguments before it imports anything slow."""

import importlib.util
import os
import pathlib
import runpy
import sys

# These files are run instead of imported, since `from keras_transfer import ...` would import the whole package.
FOLDER = pathlib.Path(__file__).parent / "arguments"
VERSION, PARSER, ARGUMENTS = FOLDER.parents[1] / "version.py", FOLDER / "parser.py", FOLDER / "checks.py"
LABELLED_TEXTS, RUN_FOLDER, ASK = FOLDER / "labelled_texts.py", FOLDER / "run_folder.py", FOLDER / "ask.py"
OWN_FILES = FOLDER / "own_files.py"


def main(arguments=None):
    """Runs the command.

    Args:
        arguments: List of strings. Defaults to the arguments of the command line.

    Returns:
        The exit status: 0, 1 after an error that the user can fix, or 130 after Ctrl-C.
    """
    parser = runpy.run_path(str(PARSER))["make_parser"](runpy.run_path(str(VERSION))["__version__"])
    options = vars(parser.parse_args(arguments))
    commands = {
        "quickstart": _quickstart,
        "info": _info,
        "compare": _compare,
        "classify": _classify,
        "train": _train,
        "evaluate": _evaluate,
        "predict": _predict,
    }
    try:
        return commands[options.pop("command")](**options) or 0
    except BrokenPipeError:  # The reader of the output, such as `head`, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ImportError) as error:
        print(f"keras-transfer: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("keras-transfer: interrupted", file=sys.stderr)
        return 130


def _classify(model, texts):
    runpy.run_path(str(ASK))["print_answers"](model, texts)


def _info(source):
    own = runpy.run_path(str(OWN_FILES))["describe_own"](source)
    if own is not None:
        print("\n".join(own))
        return
    runpy.run_path(str(ARGUMENTS))["check_source"](source)
    # No weights are loaded, so any backend will do, and JAX is imported in a third of the time.
    if importlib.util.find_spec("jax") is not None:
        os.environ.setdefault("KERAS_BACKEND", "jax")
    if os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
        _import_tensorflow()
    from keras_transfer.cli.actions import print_info

    print_info(source)


def _compare(data, validation, test, text, label, results, markdown, plot, **options):
    arguments = runpy.run_path(str(ARGUMENTS))
    arguments["check_comparison"](results, markdown, plot)
    arguments["check_training"](**options)
    read_parts = runpy.run_path(str(LABELLED_TEXTS))["read_parts"]
    parts, label_names = read_parts(data, validation, test, text, label)
    _import_tensorflow()
    from keras_transfer.cli.actions import run_comparison

    run_comparison(parts, label_names, results=results, markdown=markdown, plot=plot, **options)


def _quickstart(dataset, data_dir, output, epochs, batch_size, overwrite, **options):
    check_arguments = runpy.run_path(str(ARGUMENTS))["check_arguments"]
    check_arguments(dataset, data_dir, output, epochs, batch_size, overwrite)
    _import_tensorflow()
    from keras_transfer.cli.actions import run_quickstart

    run_quickstart(dataset, data_dir, output, epochs=epochs, batch_size=batch_size, overwrite=overwrite, **options)


def _train(task, data, validation, text, label, output, overwrite, **options):
    output = output or ("regressor" if task == "regress" else "classifier")
    runpy.run_path(str(ARGUMENTS))["check_training"](**options)
    run_folder = runpy.run_path(str(RUN_FOLDER))
    read_parts = runpy.run_path(str(LABELLED_TEXTS))["read_parts"]
    parts, label_names = read_parts(data, validation, None, text, label, task)
    settings = run_folder["describe"](data, validation, task=task, text=text, label=label, **options)
    run_folder["check_run"](output, settings, overwrite)
    _import_tensorflow()
    from keras_transfer.cli.actions import run_training

    several = task == "multi_label"
    stopped_by = run_training(parts, label_names, output, settings, overwrite, multi_label=several, **options)
    return 128 + stopped_by if stopped_by else 0


def _evaluate(model, data, text, label, **options):
    path, kind = _find_model(model)
    runpy.run_path(str(ARGUMENTS))["check_evaluation"](kind, **options)
    texts, labels = runpy.run_path(str(LABELLED_TEXTS))["read_texts"](data, text, label, kind)
    _import_tensorflow()
    from keras_transfer.cli.actions import run_evaluation

    run_evaluation(path, kind, data, texts, labels, **options)


def _predict(model, input, text, output, overwrite):
    path, kind = _find_model(model)
    table = runpy.run_path(str(LABELLED_TEXTS))["Table"](input, [text])
    runpy.run_path(str(ARGUMENTS))["check_predictions"](table, kind, output, overwrite)
    _import_tensorflow()
    from keras_transfer.cli.actions import run_predictions

    run_predictions(path, kind, table, text, output)


def _find_model(model):
    """Returns the path of a model, and what it predicts."""
    run_folder = runpy.run_path(str(RUN_FOLDER))
    path = run_folder["find_model"](model)
    return path, run_folder["read_kind"](path)


def _import_tensorflow():
    """Imports TensorFlow before the package does, so that its log lines do not precede the output."""
    runpy.run_path(str(ASK))["import_tensorflow"]()


if __name__ == "__main__":
    sys.exit(main())
