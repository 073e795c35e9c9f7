"""The folder of a portable export: the model, the tokenizer, the labels, and a program that answers."""

import importlib.util
import pathlib
import shutil

from keras_transfer.core.expect import expect
from keras_transfer.core.files import write_json
from keras_transfer.core.lazy import tf
from keras_transfer.encoders import is_quantized
from keras_transfer.keras_internals import layer_tracking
from keras_transfer.serving.portable.kinds import kind_of, rows_for_test
from keras_transfer.serving.portable.proof import prove
from keras_transfer.text import FAST_FILE, TokenPreprocessor, fast_content
from keras_transfer.version import __version__

PREDICT_FILE = pathlib.Path(__file__).with_name("predict.py")  # A copy of this file runs without this library.


class Portable:
    """A format of exports that run without TensorFlow and Keras: a model from ids to answers, and its tokenizer.

    A subclass is the file of a format. It has these attributes, and a static method `convert`.

    Attributes:
        NAME: String.
        FILE: String. Name of the file of the model.
        PACKAGES: Dict from modules to the packages that have them.
        QUANTIZATIONS: Tuple of the values of `quantization`.
    """

    OPTIONS = ("quantization", "texts", "max_difference", "min_equal_labels")
    NAME: str
    FILE: str
    PACKAGES: dict
    QUANTIZATIONS: tuple

    @staticmethod
    def convert(function, specs, weights, quantization, folder):
        """Writes a function of named tensors, and of weights, as the file of the model.

        Args:
            function: Function that accepts tensors by the names in `specs` and returns a dict of tensors.
        """
        raise NotImplementedError

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
        write_json(folder / "labels.json", label_names)
        write_json(folder / FAST_FILE, fast_content(preprocessor.tokenizer, preprocessor.packing))
        write_json(folder / "export.json", facts)
        shutil.copyfile(PREDICT_FILE, folder / PREDICT_FILE.name)
        measured = prove(kind, function, folder, rows, limits)
        write_json(folder / "export.json", {**facts, "measured": measured})
        return measured


def graph_of(model):
    """Returns a function of a task's inputs, by name, that returns the dict of outputs of its kind of answers."""
    kind = kind_of(model)
    return lambda **ids: kind.outputs(model(ids, training=False))
