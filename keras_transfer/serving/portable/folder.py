"""The folder of a portable export: the model, the tokenizer, the labels, and a program that answers."""

import functools
import importlib.util
import inspect
import pathlib

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.files import read_json, write_json
from keras_transfer.core.lazy import tf
from keras_transfer.encoders import is_quantized
from keras_transfer.keras_internals import layer_tracking
from keras_transfer.serving.export_format import Exported, ExportFormat
from keras_transfer.serving.portable import predict
from keras_transfer.serving.portable.kinds import kind_of, rows_for_test
from keras_transfer.serving.portable.proof import prove
from keras_transfer.text import FAST_FILE, TokenPreprocessor, fast_content
from keras_transfer.version import __version__


class Portable(ExportFormat):
    """A format of exports that run without TensorFlow and Keras: a model from ids to answers, and its tokenizer.

    A subclass has these attributes, the file of the model as the last of `FILES`, and two static methods:

    - `convert(function, specs, weights, quantization, folder)` writes a function from tensors, by the names in `specs`,
      to a dict of tensors, and its weights, as the file of the model.
    - `open_model(folder, num_threads)` returns the function in this file, from a dict of arrays to a dict of arrays.
      Each export contains its source in `predict.py`, so it uses only the runtime and what is imported there.

    Attributes:
        RUNTIME: String. The package that runs the model.
        PACKAGES: Dict from the modules that an export requires to their packages.
        QUANTIZATIONS: Tuple of the values of `quantization`.
    """

    OPTIONS = ("quantization", "texts", "max_difference", "min_equal_labels")
    FILES: tuple[str, ...] = ("export.json", "labels.json", "tokenizer.json")
    LABELS = "labels.json"

    @classmethod
    def check(cls, model, pairs, verbose, quantization=None, texts=None, max_difference=None, min_equal_labels=None):
        """Returns the settings of `write`, or raises an error if a task cannot be exported."""
        name = type(model).__name__
        if quantization not in cls.QUANTIZATIONS:
            hint = " Did you mean 'int8_dynamic'?" if "int8" in str(quantization) else ""
            raise ValueError(
                f"`quantization` must be one of {cls.QUANTIZATIONS} for the format {cls.NAME!r}.{hint} "
                f"Received: quantization={quantization!r}"
            )
        kind = kind_of(model)
        rule = f"A `{name}` has no labels. Use `max_difference` instead."
        expect(kind.has_labels or min_equal_labels is None, rule, min_equal_labels=min_equal_labels)
        rule = f"The format {cls.NAME!r} does not support a model that Keras has quantized. Export the float model with"
        expect(not is_quantized(model), f"{rule} `quantization='int8_dynamic'`.", model=name)
        layers = [layer for layer in layer_tracking.layers_in(model) if layer.compute_dtype in ("bfloat16", "float16")]
        if layers:
            raise ValueError(
                f"The format {cls.NAME!r} requires a model that computes in float32. Create the task with "
                "`encoder={'dtype': 'float32'}` (or its encoder with `dtype='float32'`), call `set_weights` with the "
                f"weights of this one, and export it. Received: the dtype policy {layers[0].dtype_policy.name!r}"
            )
        preprocessor = model.preprocessor
        rule = f"The format {cls.NAME!r} requires a `TokenPreprocessor` or a `BertPreprocessor`. Use"
        rule += " `format='savedmodel'`, which contains any preprocessor."
        expect(isinstance(preprocessor, TokenPreprocessor), rule, preprocessor=type(preprocessor).__name__)
        try:
            fast_content(preprocessor.tokenizer, preprocessor.packing)
        except NotImplementedError as error:
            raise ValueError(f"{error} Use `format='savedmodel'`, which contains any tokenizer.") from None
        packages = {**cls.PACKAGES, "tokenizers": "tokenizers"}
        if missing := [each for module, each in packages.items() if importlib.util.find_spec(module) is None]:
            raise ImportError(
                f"The format {cls.NAME!r} requires {', '.join(missing)}. Run `pip install keras_transfer[{cls.NAME}]`."
            )
        limits = {"max_difference": max_difference, "min_equal_labels": min_equal_labels}
        return {"quantization": quantization, "rows": rows_for_test(kind, texts, pairs), "limits": limits}

    @classmethod
    def write(cls, model, folder, label_names, quantization, rows, limits):
        """Writes a task into an empty folder, runs it there, and returns what `prove` has measured.

        Args:
            limits: Dict of `max_difference` and `min_equal_labels`, which may be `None`.
        """
        kind, preprocessor, function = kind_of(model), model.preprocessor, graph_of(model)
        inputs = {name: tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in model.input.items()}
        cls.convert(function, inputs, model.weights, quantization, folder)
        facts = {
            "format": cls.NAME,
            "quantization": quantization,
            "task": type(model).__name__,
            "answers": kind.name,
            "rows": kind.rows or ("texts" if isinstance(rows[0], str) else "pairs of texts"),
            "inputs": list(inputs),
            "output": kind.output,
            "max_length": preprocessor.sequence_length,
            "pad_id": preprocessor.pad_id,
            "width": model.output.shape[-1],
            "prompt": "",
            "prompts": {},
            "keras_transfer": __version__,
            **kind.facts(),
        }
        write_json(folder / cls.LABELS, label_names)
        write_json(folder / FAST_FILE, fast_content(preprocessor.tokenizer, preprocessor.packing))
        write_json(folder / "export.json", facts)
        program, runtime = inspect.getsource(predict), inspect.getsource(cls.open_model)
        program = program.replace(inspect.getsource(predict.open_model), runtime).replace("RUNTIME", cls.RUNTIME)
        (folder / "predict.py").write_text(program, "utf-8")
        measured = prove(kind, function, folder, rows, limits)
        write_json(folder / "export.json", {**facts, "measured": measured})
        return measured

    @classmethod
    def wrote(cls, folder):
        """Returns whether a folder contains an export in this format."""
        return super().wrote(folder) and read_json(pathlib.Path(folder, "export.json"))["format"] == cls.NAME

    @classmethod
    def usage(cls, folder):
        """Returns a sentence that says how a folder is used."""
        return f"{folder / 'predict.py'} answers without TensorFlow."

    @classmethod
    def open(cls, folder):
        """Returns a dict with the function that returns the only signature of a folder as `Exported`."""
        try:
            model = predict.Model(folder, open_model=cls.open_model)
        except ImportError as error:
            raise ImportError(
                f"This export requires the runtime of the format {cls.NAME!r}. Run `pip install "
                f"keras_transfer[{cls.NAME}]`. Received: {error}"
            ) from None
        return {"serving_default": functools.partial(_exported, model)}


def _exported(model):
    rows = model.facts["rows"]
    rule = "A `Predictor` requires a model that expects one string for each row and input. Call"
    advice = f"`predict.Model(folder).predict(...)` with {rows}."
    expect(rows in ("texts", "pairs of texts"), f"{rule} {advice}", task=model.facts["task"])
    inputs = ["question", "context"] if model.facts["answers"] == "spans" else ["text", "text_pair"]
    inputs = inputs[: 1 if rows == "texts" else 2]

    def answer(texts, batch_size):
        columns = [texts[name] for name in inputs]
        found = model.predict(columns[0] if len(columns) == 1 else list(zip(*columns)), batch_size)
        if "labels" in found:  # As in a SavedModel, whose answers are arrays.
            chosen = [[name in names for name in model.labels] for names in found.pop("labels")]
            found["chosen"] = np.array(chosen, "int32").reshape(len(chosen), len(model.labels))
        return {name: _as_array(name, values) for name, values in sorted(found.items())}

    return Exported(inputs, sorted(answer({name: [] for name in inputs}, 1)), answer)


def _as_array(name, values):
    """Returns an answer as an array of the same type as in a SavedModel."""
    types = {"label": object, "answer": object, "label_id": "int32", "start": "int32", "end": "int32"}
    return np.asarray(values, types.get(name, "float32" if name != "chosen" else "int32"))


def graph_of(model):
    """Returns a function of a task's inputs, by name, that returns the dict of outputs of its kind of answers."""
    kind = kind_of(model)
    return lambda **ids: kind.outputs(model(ids, training=False))
