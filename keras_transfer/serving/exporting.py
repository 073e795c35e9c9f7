"""Exports a trained task in a format that needs neither this library nor Keras."""

import contextlib
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_transfer.core.expect import FRACTION, expect, expects, number, one_of
from keras_transfer.core.files import atomic_folder, check_folder
from keras_transfer.core.names import listed
from keras_transfer.distribute import in_first_process, write_together
from keras_transfer.serving.exported import FORMATS
from keras_transfer.tasks import Task

_SUMMARY = (
    "{folder}: {megabytes:.1f} MB; in one thread 1 text {milliseconds_of_1:.1f} ms, 32 texts {milliseconds_of_32:.1f} "
    "ms; compared with the model on {texts} texts: largest difference {max_difference:.2g}"
)


@expects(format=one_of(*FORMATS), max_difference=number(0), min_equal_labels=FRACTION)
def export(
    model: Task,
    folder: str | os.PathLike[str],
    *,
    format: str = "savedmodel",
    quantization: str | None = None,
    label_names: Any = None,
    pairs: bool = False,
    texts: Any = None,
    max_difference: float | None = None,
    min_equal_labels: float | None = None,
    adapters: Sequence[str] | None = None,
    jit_compile: bool = False,
    overwrite: bool = False,
    verbose: int = 1,
) -> pathlib.Path:
    """Writes a task into a folder that answers requests without Keras and this library.

    # LiteRT and ONNX

    With `format="litert"` or `"onnx"`, the folder contains the model from token ids to answers (`model.tflite` or
    `model.onnx`), `tokenizer.json`, which Hugging Face `tokenizers` reads, `labels.json`, `export.json` (what the model
    is and what was measured), and `predict.py`, which answers texts with the runtime, `tokenizers` and NumPy alone. A
    `TextClassifier`, `TextRegressor`, `TokenClassifier`, `MultipleChoice`, `SpanExtractor` or `TextEmbedder` can be
    exported, for any number of texts of any length up to the preprocessor's.

    Before the folder appears, its runtime answers `texts` in a separate process. The size, the time of 1 text and of 32
    texts in one thread, the largest difference from the model's outputs (logits, values or embeddings) and the share of
    equal labels are printed.

    # SavedModel

    With `format="savedmodel"`, the folder is a TensorFlow SavedModel that contains the weights (only once) and the
    vocabulary. TensorFlow Serving and `tf.saved_model.load` offer the signatures that the method `signatures` of the
    task describes. Most tasks have:

    - `serving_default`: from strings [batch], such as `text`, to the answers, such as `label_id` [batch] int32 and
      `probabilities` [batch, classes] float32, in the order of `label_names`. For each `label_id`, there is a `label`,
      a string.
    - `tokens`: from the encoder's inputs, [batch, length] int32, to `logits`, unless the encoder accepts text

    Words are [batch, words] strings. Texts with fewer words than the longest are padded with "", and their answers with
    "", -1 and 0.

    Texts are UTF-8. A request may be empty (no texts, words or ids). The outputs then have as many rows as the
    request. To load the model, import `tensorflow` and `tensorflow_text` (for the text operations); nothing else is
    needed. TensorFlow Serving expects a folder for each version: `served/1`. The file `assets.extra/labels.json` in it
    lists the labels, and `assets.extra/export.json` the task, the inputs and outputs of each signature with their
    shapes, and the names of the adapters to choose from.

    On the JAX and torch backends, another process exports the model with the TensorFlow backend on the CPU.

    Args:
        model: Task with a preprocessor.
        folder: String or path. Folder that does not exist yet. It is written completely or not at all.
        format: String, `"savedmodel"`, `"litert"` or `"onnx"`. Defaults to `"savedmodel"`.
        quantization: String. `"int8_dynamic"`: weights are 8-bit integers, and activations become so in each product,
            for a quarter of the size and less than half of the time on a CPU. `"float16"` (LiteRT only): weights are
            stored in half of the size, and computed with in float32. With `"int8_dynamic"`, ONNX quantizes the
            activations of a batch together, so an answer depends slightly on the other texts of its batch. In LiteRT,
            it does not. Defaults to `None`, for float32.
        label_names: List of strings, the class names in order, or a dict from class numbers to names, such as
            `id2label` of Transformers. Defaults to `None`, for `model.label_names`.
        pairs: Boolean. Whether the task accepts pairs of texts. Defaults to `False`.
        texts: Data in a form that `predict` of the task accepts, with which a LiteRT or ONNX model is tested: a list of
            texts, or a pair of lists with `pairs=True` and for a `SpanExtractor` (questions and contexts); for a
            `TokenClassifier` a list of lists of words; for a `MultipleChoice` a pair of contexts and lists of choices.
            Defaults to `None`, for 64 questions that the library contains.
        max_difference: Float of at least 0. Largest allowed difference of an output of a LiteRT or ONNX model. Defaults
            to `None`, for no limit.
        min_equal_labels: Float between 0 and 1. Smallest allowed share of equal labels of a LiteRT or ONNX model.
            Defaults to `None`, for no limit.
        adapters: List of names of adapters of the model. The signatures that accept texts then also accept `adapter`
            `[batch]` strings, the name for each row, and use its head. There are no other signatures. Defaults to
            `None`, for a model with its active adapters.
        jit_compile: Boolean. Whether XLA compiles the loop of a `CausalLM` or `Seq2SeqLM`, as in `generate`. The loop
            is faster then, but the first request of each shape waits until it is compiled. To limit the number of
            shapes, the number of texts is padded to a power of two, and their lengths to multiples of 16. Defaults to
            `False`.
        overwrite: Boolean. Whether to replace an existing folder. Defaults to `False`.
        verbose: Integer. `1` prints what was measured of a LiteRT or ONNX model, and the steps of an export with
            several `adapters`, which takes longer. `0` prints nothing. Defaults to `1`.

    Returns:
        `folder` as a `pathlib.Path`.

    Raises:
        FileExistsError: If `folder` exists and `overwrite=False`.
        PermissionError: If the parent of `folder` cannot be written.
        ValueError: If `model` is not a task, has no preprocessor, does not accept pairs, or is a classifier without
            `multi_label=True` whose loss trains several labels per text; if `label_names` does not have one unique name
            for each class, or has names of the model in a different order; if `pairs` does not match the texts that a
            classifier or regressor was trained on; if `jit_compile=True` and the exported model does not generate text;
            or if a weight is not finite. It is also raised if `format` is unknown or does not support an argument; if a
            limit is out of range, or applies to labels of a task without labels; if only a SavedModel can contain the
            task, its settings or its preprocessor; and for LiteRT and ONNX, if the task does not compute in float32 or
            was quantized by Keras, if `texts` is empty or invalid for the task, if the model cannot be converted, if
            its runtime cannot run it, if `tokenizer.json` splits `texts` differently, if an output is not finite, or if
            the answers differ by more than the limits.
        ImportError: If a package of the format is not installed.
        RuntimeError: If the process with the TensorFlow backend fails.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.serving.export(model, "served/1", label_names=["bad", "good"])
    ```

    For a CPU, after `pip install keras_transfer[litert]`:

    ```
    keras_transfer.serving.export(model, "small", format="litert", quantization="int8_dynamic")
    ```
    """
    if not isinstance(model, Task):
        raise ValueError(f"`model` must be a task, such as a `TextClassifier`. Received: {type(model).__name__}")
    rule = "`export` requires a model with a preprocessor. Create the task with `preprocessor=...`."
    expect(model.preprocessor is not None, rule, preprocessor=None)
    model.reader.require_whole("exported")
    in_first_process(lambda: check_folder(folder, overwrite), model)
    model.head_adapters.check()
    model.signatures(pairs)  # Raises an error if the task cannot answer requests.
    options = {"quantization": quantization, "texts": texts, "adapters": adapters, "jit_compile": jit_compile or None}
    options |= {"max_difference": max_difference, "min_equal_labels": min_equal_labels}
    options = {name: value for name, value in options.items() if value is not None}
    unknown = {name: value for name, value in options.items() if name not in FORMATS[format].OPTIONS}
    others = [name for name, each in FORMATS.items() if unknown.keys() <= {*each.OPTIONS}]
    rule = f"The format {format!r} has no {listed(unknown)}. Leave this out, or use one of the formats {others}."
    expect(not unknown, rule, format=format, **unknown)
    settings = FORMATS[format].check(model, bool(pairs), verbose, **options)
    _check_weights(model)
    settings["label_names"] = _names(label_names, list(model.label_names or ()))
    write = write_export if keras.backend.backend() == "tensorflow" else _write_with_tensorflow_backend

    def write_folder(folder):
        with atomic_folder(folder, overwrite) as temporary:
            measured = write(model, temporary, format, settings)
            if measured and verbose:
                equal = measured["equal_labels"]
                labels = "" if equal is None else f", equal labels {equal:.4g}"
                print(_SUMMARY.format(folder=folder, **measured) + labels)

    write_together(write_folder, folder, model)
    return pathlib.Path(folder)


def write_export(model, folder, format, settings):
    """Writes a task on the TensorFlow backend into an empty folder, and returns the measurements, if there are any."""
    logger = logging.getLogger("tensorflow")
    logger.addFilter(_names_no_temporary_folder)
    try:
        return FORMATS[format].write(model, folder, **settings)
    finally:
        logger.removeFilter(_names_no_temporary_folder)


def _names_no_temporary_folder(record):
    """Returns whether to log a record of TensorFlow: not the one with the folder that is renamed afterwards."""
    return "Assets written to" not in record.getMessage()


def _check_weights(model):
    """Raises a `ValueError` if a weight is not finite. The exported model would answer with arbitrary labels."""
    for weight in model.weights:
        expect(
            not keras.backend.is_float_dtype(weight.dtype) or keras.ops.all(keras.ops.isfinite(weight)),
            "The weights of the model must be finite numbers. Its training has probably diverged: train it again with "
            "a lower learning rate, from the pretrained weights.",
            weight=weight.path,
        )


def _names(labels, own):
    """Returns the names of the classes in order, given the user's names and the names of the task."""
    if labels is None:
        return own
    if isinstance(labels, Mapping):  # The keys in JSON are strings.
        by_number = {str(number): name for number, name in labels.items()}
        numbers = [str(number) for number in range(len(own))]
        rule = f"A dict of `label_names` must have the keys 0 to {len(own) - 1}, as `id2label` of Transformers."
        expect(by_number.keys() == set(numbers), rule, label_names=labels)
        labels = [by_number[number] for number in numbers]
    expect(not isinstance(labels, str), "`label_names` must be a list of names.", label_names=labels)
    labels = [str(label) for label in labels]
    rule = f"`label_names` must be {len(own)} different names, one for each class."
    expect(len(labels) == len(set(labels)) == len(own), rule, label_names=labels)
    moved = [name for i, name in enumerate(labels) if name in own and name != own[i]]
    # Numbers may be renamed to other numbers, such as classes 0 to 4 to 1 to 5 stars.
    if moved and (sorted(labels) == sorted(own) or not all(map(str.isdecimal, own))):
        raise ValueError(
            "`label_names` must name the classes in the order of `model.label_names`. Leave the argument out for the "
            "model's own names, or rename classes with names that it does not use for others. "
            f"Received: {moved[0]!r} at position {labels.index(moved[0])}, which is class {own.index(moved[0])} of the "
            "model"
        )
    return labels


def export_saved():
    """Exports the model of a file, in a process that `_write_with_tensorflow_backend` starts."""
    path, folder, format, settings = json.load(sys.stdin)
    model = keras.saving.load_model(path, compile=False, safe_mode=False)  # The caller has just saved it.
    try:
        print(json.dumps([write_export(model, pathlib.Path(folder), format, settings), None]))
    except ValueError as error:
        print(json.dumps([None, str(error)]))


@contextlib.contextmanager
def _without_optimizer(model):
    """Lets `save` write a compiled model without the state of its optimizer, which may be two thirds of a file."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        model.optimizer = None
    try:
        yield
    finally:
        if optimizer is not None:
            model.optimizer = optimizer


def _write_with_tensorflow_backend(model, folder, format, settings):
    """Saves the model and exports it in a process with the TensorFlow backend."""
    if settings.get("verbose") and settings.get("adapters") is not None:
        print("Exporting in another process, with the TensorFlow backend", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "model.keras"
        with _without_optimizer(model):
            model.save(path)
        result = subprocess.run(
            [sys.executable, "-P", "-c", "from keras_transfer.serving.exporting import export_saved; export_saved()"],
            input=json.dumps([str(path), str(folder.absolute()), format, settings]),
            env={
                **os.environ,
                "KERAS_BACKEND": "tensorflow",
                "PYTHONPATH": os.pathsep.join(sys.path),
                "CUDA_VISIBLE_DEVICES": "-1",  # This process may occupy the accelerator's memory.
            },
            capture_output=True,
            encoding="utf-8",
        )
    if result.returncode:
        raise RuntimeError(
            "The process with the TensorFlow backend failed to export the model. It finds your own classes only if a "
            "module registers them. If so, save the model, and load and export it in a program that imports this "
            f"module, with `KERAS_BACKEND=tensorflow`. Received:\n{result.stderr[-4000:]}"
        )
    measured, error = json.loads(result.stdout.splitlines()[-1])
    if error:
        raise ValueError(error)
    return measured
