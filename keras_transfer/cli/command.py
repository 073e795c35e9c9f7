"""The command `keras-transfer`, which checks its arguments before it imports anything slow."""

import importlib.util
import os
import sys

from keras_transfer.cli.arguments import ask, checks, labelled_texts, make_parser, own_files, run_folder
from keras_transfer.version import __version__


def main(arguments=None):
    """Runs the command.

    Args:
        arguments: List of strings. Defaults to the arguments of the command line.

    Returns:
        The exit status: 0, 1 after an error that the user can fix, or 130 after Ctrl-C.
    """
    options = vars(make_parser(__version__).parse_args(arguments))
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
    ask.print_answers(model, texts)


def _info(source):
    own = own_files.describe_own(source)
    if own is not None:
        print("\n".join(own))
        return
    checks.check_source(source)
    # No weights are loaded, so any backend will do, and JAX is imported in a third of the time.
    if importlib.util.find_spec("jax") is not None:
        os.environ.setdefault("KERAS_BACKEND", "jax")
    _import_package()
    from keras_transfer.cli.actions import print_info

    print_info(source)


def _compare(data, validation, test, text, label, results, markdown, plot, **options):
    checks.check_comparison(results, markdown, plot)
    checks.check_training(**options)
    parts, label_names = labelled_texts.read_parts(data, validation, test, text, label)
    _import_package()
    from keras_transfer.cli.actions import run_comparison

    run_comparison(parts, label_names, results=results, markdown=markdown, plot=plot, **options)


def _quickstart(dataset, data_dir, output, epochs, batch_size, overwrite, **options):
    checks.check_arguments(dataset, data_dir, output, epochs, batch_size, overwrite)
    _import_package()
    from keras_transfer.cli.actions import run_quickstart

    run_quickstart(dataset, data_dir, output, epochs=epochs, batch_size=batch_size, overwrite=overwrite, **options)


def _train(task, data, validation, text, label, output, overwrite, **options):
    output = output or ("regressor" if task == "regress" else "classifier")
    checks.check_training(**options)
    parts, label_names = labelled_texts.read_parts(data, validation, None, text, label, task)
    settings = run_folder.describe(data, validation, task=task, text=text, label=label, **options)
    run_folder.check_run(output, settings, overwrite)
    _import_package()
    from keras_transfer.cli.actions import run_training

    several = task == "multi_label"
    stopped_by = run_training(parts, label_names, output, settings, overwrite, multi_label=several, **options)
    return 128 + stopped_by if stopped_by else 0


def _evaluate(model, data, text, label, **options):
    path, kind = _find_model(model)
    checks.check_evaluation(kind, **options)
    texts, labels = labelled_texts.read_texts(data, text, label, kind)
    _import_package()
    from keras_transfer.cli.actions import run_evaluation

    run_evaluation(path, kind, data, texts, labels, **options)


def _predict(model, input, text, output, overwrite):
    path, kind = _find_model(model)
    table = labelled_texts.Table(input, [text])
    checks.check_predictions(table, kind, output, overwrite)
    _import_package()
    from keras_transfer.cli.actions import run_predictions

    run_predictions(path, kind, table, text, output)


def _find_model(model):
    """Returns the path of a model, and what it predicts."""
    path = run_folder.find_model(model)
    return path, run_folder.read_kind(path)


def _import_package():
    """Imports the package, and TensorFlow before it, so that the lines that it logs do not precede the output."""
    if os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
        ask.import_tensorflow()
    package = sys.modules["keras_transfer"]
    if not hasattr(package, "__version__"):  # The console script has not run its `__init__.py`.
        package.__spec__.loader.exec_module(package)
