"""The command `keras-transfer`, which checks its arguments before it imports slow packages."""

import contextlib
import importlib.util
import os
import pathlib
import re
import sys
from collections.abc import Callable, Sequence

from keras_transfer.cli import ask, checks, labelled_texts, launch, own_files, run_folder, worker_pool
from keras_transfer.cli.adapter_names import check_adapter
from keras_transfer.cli.parser import (
    ELECTRA_RATES,
    LENGTH,
    RATE_OF_CHECKPOINT,
    RATE_OF_LSTM,
    RATES,
    WINDOW,
    make_parser,
)
from keras_transfer.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns its exit status: 0, 1 after an error, 130 after Ctrl-C, or 128 plus another signal."""
    options = vars(make_parser(__version__).parse_args(arguments))
    command, traceback = options.pop("command"), options.pop("traceback")
    commands: dict[str, Callable[..., int | None]] = {
        "quickstart": _quickstart,
        "train": _train,
        "evaluate": _evaluate,
        "predict": _predict,
        "classify": _classify,
        "export": _export,
        "compare": _compare,
        "pretrain": _pretrain,
        "generate": _generate,
        "launch": _launch,
        "info": _info,
    }
    try:
        return commands[command](**options) or 0
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
    message = str(error)
    if "new_head" in options:
        message = message.replace('`head="new"`', "`--new-head`")
    for name in options:
        message = re.sub(rf"`{name}(=True)?`", f"`--{name.replace('_', '-')}`", message)
    if isinstance(error, (ValueError, OSError, ImportError)):
        return message
    return f"{type(error).__name__}: {message}\nTo see where it occurred, pass --traceback."


def _quickstart(dataset, data_dir, output, epochs, batch_size, overwrite, **options):
    checks.check_quickstart(dataset, data_dir, output, epochs, batch_size, overwrite)
    _import_package()
    from keras_transfer.cli.quickstart import run_quickstart

    run_quickstart(dataset, data_dir, output, epochs=epochs, batch_size=batch_size, overwrite=overwrite, **options)


def _train(task, data, validation_data, text_column, label_column, output, overwrite, **options):
    output = output or ("regressor" if task == "regression" else "classifier")
    form, trained = _form(options), run_folder.trained_model(options["encoder"])
    checks.check_training(**options, trained=trained)
    parts, label_names = labelled_texts.read_parts(data, validation_data, None, text_column, label_column, task, **form)
    columns = {"text_column": text_column, "label_column": _only(label_column), **form}
    if options["precision"] == "auto":  # A resumed run keeps the precision that it started with.
        _import_package()
        from keras_transfer.core.precision import recommended_precision

        precision = recommended_precision()
        print(precision)
        options["precision"] = precision.policy
    if trained is not None and os.path.realpath(trained.parent) == os.path.realpath(output):
        raise ValueError(f"`--output` must be a different folder from `--encoder`. Received: {output}")
    settings = run_folder.describe(data, validation_data, task=task, **columns, **options)
    run_folder.check_run(output, settings, overwrite)
    _import_package()
    from keras_transfer.cli.training import run_training

    options |= {"multi_label": task == "multi-label", "trained": trained}
    stopped_by = run_training(parts, label_names, output, settings, overwrite, **options)
    return 128 + stopped_by if stopped_by else 0


def _evaluate(model, data, text_column, label_column, adapter, **options):
    path, kind = _find_model(model, adapter)
    form = _form(options)
    checks.check_evaluation(kind, **options)
    texts, labels = labelled_texts.read_texts(data, text_column, label_column, kind, **form)
    _import_package()
    from keras_transfer.cli.predictions import run_evaluation

    run_evaluation(path, kind, data, texts, labels, adapter=adapter, **options)


def _predict(model, data, text_column, adapter, output, overwrite, workers, **form):
    path, kind = _find_model(model, adapter)
    table = labelled_texts.Table(data, [text_column], **form)
    [text_column] = table.columns
    checks.check_predictions(table, kind, output, overwrite, workers)
    _import_package()
    from keras_transfer.cli.predictions import run_predictions

    several = worker_pool.start(workers, _import_package) if workers > 1 else contextlib.nullcontext()
    with several as map_in_order:
        run_predictions(path, kind, table, text_column, output, map_in_order, adapter)


def _classify(model, texts, adapter):
    if ask.is_exported(model):
        check_adapter(model, adapter)
        ask.print_answers(texts, ask.answers_of(model, texts, adapter))
        return
    path, kind = _find_model(model, adapter)
    _import_package()
    from keras_transfer.cli.predictions import answer_texts

    ask.print_answers(texts, answer_texts(path, kind, texts, adapter))


def _export(model, output, pairs, overwrite, format, quantization, data, text_column, adapters, **limits):
    path, form = run_folder.find_model(model), _form(limits)
    checks.check_export(format, quantization, pairs, data, adapters, **limits)
    for name in adapters or ():
        check_adapter(path, name, "--adapters")
    checks.check_folder_to_write(output, overwrite)
    texts = data and labelled_texts.read_column(data, text_column, **form)
    _import_package()
    from keras_transfer.cli.exporting import run_export

    options = {"format": format, "quantization": quantization, "texts": texts, "adapters": adapters}
    run_export(path, output, pairs, overwrite, **options, **limits)


def _compare(data, validation_data, test_data, text_column, label_column, results, markdown, plot, **options):
    form = _form(options)
    checks.check_comparison(results, markdown, plot)
    checks.check_training(**options)
    parts, label_names = labelled_texts.read_parts(data, validation_data, test_data, text_column, label_column, **form)
    _import_package()
    from keras_transfer.cli.comparison import run_comparison

    run_comparison(parts, label_names, results=results, markdown=markdown, plot=plot, **options)


def _pretrain(corpus, validation_corpus, encoder, size, vocabulary_size, output, overwrite, **options):
    checks.check_pretraining(corpus, validation_corpus, encoder, size, vocabulary_size, **options)
    if encoder is None:
        size, vocabulary_size = size or "tiny", vocabulary_size or 8000
    of_lstm = options["objective"] == "awd-lstm"
    rates = ELECTRA_RATES if options["objective"] == "electra" else RATES
    rate = RATE_OF_LSTM if of_lstm else rates[size] if size else RATE_OF_CHECKPOINT
    options["learning_rate"] = options["learning_rate"] or rate
    options["sequence_length"] = options["sequence_length"] or (WINDOW if of_lstm else LENGTH)
    if options["steps"] is None:
        options["epochs"] = options["epochs"] or 10
    options |= {"encoder": encoder, "size": size, "vocabulary_size": vocabulary_size}
    files = {"corpus": corpus, "validation_corpus": validation_corpus}
    if encoder is not None and os.path.realpath(encoder) == os.path.realpath(output):
        raise ValueError(f"`--output` must be a different folder from `--encoder`. Received: {output}")
    settings = {**{name: run_folder.describe_files(paths) for name, paths in files.items()}, **options}
    run_folder.check_run(output, settings, overwrite)
    _import_package()
    from keras_transfer.cli.pretraining import run_pretraining

    paths = [[pathlib.Path(path) for path in paths] for paths in files.values()]
    stopped_by = run_pretraining(*paths, output, settings, overwrite, **options)
    return 128 + stopped_by if stopped_by else 0


def _generate(model, prompts, max_new_tokens, sampler, seed):
    checks.check_source(model)
    if run_folder.is_unfinished(model) and not (pathlib.Path(model) / "config.json").exists():
        raise FileNotFoundError(
            f"The run is not finished. `keras-transfer pretrain` with the same settings continues it. Received: {model}"
        )
    _import_package()
    from keras_transfer.cli.texts import print_texts

    print_texts(model, prompts, max_new_tokens, sampler, seed)


def _launch(script, arguments, workers):
    launch.check(script, workers)
    return launch.run(script, arguments, workers)


def _info(source):
    own = own_files.describe_own(source)
    if own is not None:
        print("\n".join(own))
        return
    checks.check_source(source)
    # No weights are loaded, so any backend works, and JAX is imported in a third of the time.
    if importlib.util.find_spec("jax") is not None:
        os.environ.setdefault("KERAS_BACKEND", "jax")
    _import_package()
    from keras_transfer.cli.info import print_info

    print_info(source)


def _form(options):
    """Removes the options that say how tables are read, and returns those that were given."""
    found = {name: options.pop(name, None) for name in ("separator", "encoding", "no_header", "label_separator")}
    return {name: value for name, value in found.items() if value}


def _only(names):
    return names[0] if isinstance(names, list) and len(names) == 1 else names


def _find_model(model, adapter):
    """Returns the path of a model, exported or not, which has these adapters, and what it predicts."""
    path = run_folder.find_model(model, exported=True)
    kind = None if path.is_dir() else run_folder.read_kind(path)
    check_adapter(path, adapter)
    if kind is not None:
        return path, kind
    _import_package()
    from keras_transfer.cli.exported import ExportedModel

    return path, ExportedModel(path, adapter).kind


def _import_package():
    """Imports TensorFlow without its log lines, which would precede the output, and then the package."""
    if os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
        ask.import_tensorflow()
    package = sys.modules["keras_transfer"]
    if not hasattr(package, "__version__"):  # The console script has not run its `__init__.py`.
        package.__spec__.loader.exec_module(package)


if __name__ == "__main__":
    sys.exit(main())
