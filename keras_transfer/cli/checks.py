"""Checks of the commands' arguments, before any slow import."""

import importlib.util
import os
import pathlib
import re

from keras_transfer.cli.parser import ELECTRA_SIZES, LSTM_SIZES, QUANTIZATIONS, SIZES
from keras_transfer.core.files import check_folder
from keras_transfer.core.names import did_you_mean

PACKAGED = ("minilm-l6",)  # The names in `checkpoints.registry.PACKAGED`.
LEAST_VOCABULARY = 300  # There are 256 bytes, and special tokens.
PREDICTIONS = {  # From what a model predicts to the columns that `predict` adds.
    "classification": ("prediction", "probability"),
    "multi-label": ("prediction", "probability"),
    "regression": ("prediction",),
}


def check_quickstart(dataset, data_dir, output, epochs=None, batch_size=None, overwrite=False):
    """Raises an error for arguments of `quickstart` that are invalid or cannot be combined."""
    check_folder_to_write(output, overwrite)
    _check_counts(epochs=epochs, batch_size=batch_size)
    if dataset == "trec6" and data_dir is None:
        raise ValueError("`--dataset trec6` requires `--data-dir`, a folder with train_5500.label and TREC_10.label")
    if dataset != "trec6" and data_dir is not None:
        raise ValueError(f"`--data-dir` can be used only with `--dataset trec6`. Received: --dataset {dataset}")


def check_folder_to_write(output, overwrite):
    """Raises an error if the folder of `--output` exists without `--overwrite`, or cannot be written."""
    if os.path.lexists(output) and not overwrite:
        raise FileExistsError(
            f"The output folder exists. Choose another --output, or pass --overwrite. Received: {output}"
        )
    check_folder(output, overwrite)


def _check_counts(**counts):
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ValueError(f"`--{name.replace('_', '-')}` must be a positive integer. Received: {value}")


def _check_rate(learning_rate):
    if learning_rate is not None and not 0 < learning_rate < float("inf"):
        raise ValueError(f"`--learning-rate` must be positive and finite. Received: {learning_rate}")


def check_source(source):
    """Raises a `ValueError` if a checkpoint is neither an existing folder nor a valid name of a packaged or remote one.

    `checkpoints.resolve` makes the same check, but only after the package has been imported.
    """
    if source in PACKAGED or re.match(r"(hf|keras_hub)://.", source) or pathlib.Path(source).expanduser().is_dir():
        return
    hint = did_you_mean(source, PACKAGED)
    if not hint and not os.path.lexists(source) and not source.startswith(("hf:", "keras_hub:")):
        hint = " There is no such folder."
        if re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", source):
            hint += f" Did you mean {f'hf://{source}'!r}?"
    raise ValueError(
        f"A checkpoint must be a folder, 'hf://organization/name', 'keras_hub://preset', or one of {list(PACKAGED)}."
        f"{hint} Received: {source!r}"
    )


def check_training(
    encoder,
    epochs=None,
    batch_size=None,
    learning_rate=None,
    sequence_length=None,
    gradient_accumulation_steps=None,
    seeds=None,
    methods=(),
    baseline=None,
    trained=None,
    **others,
):
    """Raises a `ValueError` for arguments of `train` or `compare` that no encoder and no recipe accepts."""
    if trained is None:
        check_source(encoder)
    elif sequence_length is not None:
        raise ValueError(
            "A trained model keeps its sequence length. Leave out `--sequence-length`. "
            f"Received: --encoder {encoder} --sequence-length {sequence_length}"
        )
    _check_counts(epochs=epochs, batch_size=batch_size, sequence_length=sequence_length, seeds=seeds)
    _check_counts(gradient_accumulation_steps=gradient_accumulation_steps)
    _check_rate(learning_rate)
    if len(set(methods)) < len(methods):
        raise ValueError(f"`--methods` must not repeat a recipe. Received: {' '.join(methods)}")
    if baseline is not None and baseline not in methods:
        raise ValueError(f"`--baseline` must be one of `--methods`, {' '.join(methods)}. Received: {baseline}")


def check_pretraining(corpus, validation_corpus, encoder, size, vocabulary_size, new_head, epochs, steps, **options):
    """Raises an error for arguments of `pretrain` that are invalid or cannot be combined."""
    for path in [*corpus, *validation_corpus]:
        if not pathlib.Path(path).is_file():
            raise FileNotFoundError(f"The file of text does not exist. Received: {path}")
    if vocabulary_size is not None and vocabulary_size < LEAST_VOCABULARY:
        raise ValueError(f"`--vocabulary-size` must be at least {LEAST_VOCABULARY}. Received: {vocabulary_size}")
    _check_counts(epochs=epochs, steps=steps)
    _check_counts(**{name: options[name] for name in ("sequence_length", "batch_size", "gradient_accumulation_steps")})
    _check_rate(options["learning_rate"])
    for pair in (("encoder", encoder, "size", size), ("encoder", encoder, "vocabulary-size", vocabulary_size)):
        _check_alone(*pair)
    _check_alone("epochs", epochs, "steps", steps)
    objective = options["objective"]
    for name in ("gradient_accumulation_steps", "rematerialize"):
        if objective == "awd-lstm" and options[name]:
            raise ValueError(
                f"`--{name.replace('_', '-')}` cannot be used with an LSTM. Received: --objective {objective}"
            )
    sizes = {"electra": ELECTRA_SIZES, "awd-lstm": LSTM_SIZES}.get(objective, SIZES)
    if size is not None and size not in sizes:
        raise ValueError(
            f"`--size` must be one of {list(sizes)} with `--objective {objective}`. Received: --size {size}"
        )
    if encoder is not None:
        check_source(encoder)
    elif new_head:
        raise ValueError(
            "`--new-head` can be used only with `--encoder`. Leave it out: a new model has a new head. "
            "Received: --new-head"
        )


def _check_alone(name, value, other, other_value):
    if value is not None and other_value is not None:
        raise ValueError(
            f"`--{name}` and `--{other}` cannot be combined. Received: --{name} {value} --{other} {other_value}"
        )


def check_comparison(results, markdown, plot):
    """Raises a `ValueError` if `compare` cannot write one of its files, or if matplotlib is missing for `plot`."""
    for name, path in (("results", results), ("markdown", markdown), ("plot", plot)):
        if path is not None:
            _check_writable(pathlib.Path(path), f"--{name}={path}", new_folders=name == "results")
    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise ValueError(f"`--plot` requires matplotlib. Install it with `pip install matplotlib`. Received: {plot}")


def check_evaluation(kind, slice_words, report):
    """Raises a `ValueError` if arguments of `evaluate` do not match what a model predicts, or cannot be written."""
    if report is not None:
        _check_writable(pathlib.Path(report), f"--report={report}", new_folders=True)
    if kind == "regression" and (slice_words or report is not None):
        raise ValueError(
            "`--slice-words` and `--report` require a model that predicts labels. "
            "Received: a model that predicts numbers"
        )


def check_export(format, quantization, pairs, data, adapters, max_difference, min_equal_labels):
    """Raises a `ValueError` for options of `export` that the format lacks, or that cannot be combined."""
    tested = {"data": data, "max-difference": max_difference, "min-equal-labels": min_equal_labels}
    for name, value in {"quantization": quantization, **tested}.items():
        if format == "savedmodel" and value is not None:
            raise ValueError(f"`--{name}` requires `--format litert` or `--format onnx`. Received: --{name} {value}")
    if quantization is not None and quantization not in QUANTIZATIONS[format]:
        raise ValueError(
            f"`--quantization` with `--format {format}` must be one of {QUANTIZATIONS[format]}. "
            f"Received: --quantization {quantization}"
        )
    if adapters is not None and format != "savedmodel":
        raise ValueError(
            "Only a SavedModel can choose among adapters. Leave out `--adapters`, which exports the active ones. "
            f"Received: --format {format} --adapters {' '.join(adapters)}"
        )
    if adapters is not None and len(set(adapters)) < max(2, len(adapters)):
        raise ValueError(f"`--adapters` must be two or more different names. Received: {' '.join(adapters)}")
    if pairs and data is not None:
        raise ValueError(
            "`--data` has one text in a row, and cannot test a model of pairs. Use `serving.export(..., texts=pairs)` "
            f"in Python, or leave it out. Received: --pairs --data {data}"
        )


def check_predictions(table, kind, output, overwrite, workers=1):
    """Raises an error for arguments of `predict` that are invalid or cannot be combined."""
    _check_counts(workers=workers)
    if taken := [name for name in PREDICTIONS[kind] if name in table.names]:
        raise ValueError(
            f"{table.path}: The columns {list(PREDICTIONS[kind])} are added to the table and must not exist. "
            f"Received: a table with {taken}"
        )
    if output is None:
        return
    output = pathlib.Path(output)
    if output.suffix.lower() != table.kind:
        raise ValueError(f"The output must be a {table.kind} file for this table. Received: {output}")
    if os.path.lexists(output) and not overwrite:
        raise FileExistsError(f"The output exists. Choose another file, or pass --overwrite. Received: {output}")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"The folder of the output does not exist. Create it first. Received: {output}")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"The folder of the output cannot be written. Choose another one. Received: {output}")


def _check_writable(path, received, new_folders=False):
    """Raises a `ValueError` if a file cannot be written. This check precedes the work that produces its content."""
    parent = path.parent
    while new_folders and not os.path.lexists(parent) and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir() or path.is_dir():
        raise ValueError(f"Expected a file in an existing folder. Received: {received}")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise ValueError(f"Expected a file that can be written. Received: {received}")
