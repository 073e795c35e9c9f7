"""The folder of a portable export: the model, the tokenizer, the labels, and a program that answers."""

import importlib.util
import pathlib
import shutil

from keras_transfer.core.expect import expect
from keras_transfer.core.files import write_json
from keras_transfer.core.lazy import tf
from keras_transfer.encoders import is_quantized
from keras_transfer.keras_internals import layer_tracking
from keras_transfer.serving.portable import litert, onnx
from keras_transfer.serving.portable.proof import prove
from keras_transfer.serving.portable.rows import rows_of
from keras_transfer.tasks import (
    MultipleChoice,
    SpanExtractor,
    TextClassifier,
    TextEmbedder,
    TextRegressor,
    TokenClassifier,
)
from keras_transfer.text import FAST_FILE, ByteBPETokenizer, TokenPreprocessor, fast_content
from keras_transfer.version import __version__

FORMATS = {"litert": litert, "onnx": onnx}
ROWS = {"words": "lists of words", "choices": "contexts and their choices", "spans": "pairs of texts"}
OUTPUTS = {"values": "values", "embedding": "embedding", "choices": "logits", "spans": "logits"}
PREDICT_FILE = pathlib.Path(__file__).with_name("predict.py")  # A copy of this file runs without this library.

# From each task to the kind of its answers, which determines the outputs of the graph and how `predict.py` uses them.
KINDS = {
    TextClassifier: "classes",
    TextRegressor: "values",
    TokenClassifier: "words",
    MultipleChoice: "choices",
    SpanExtractor: "spans",
    TextEmbedder: "embedding",
}


def check_portable(model, format, quantization, texts, pairs, limits):
    """Raises an error before anything is converted if a task cannot be exported. Returns the rows for its test."""
    converter = FORMATS[format]
    if quantization not in converter.QUANTIZATIONS:
        hint = " Did you mean 'int8_dynamic'?" if "int8" in str(quantization) else ""
        raise ValueError(
            f"`quantization` must be one of {converter.QUANTIZATIONS} for the format {format!r}.{hint} "
            f"Received: quantization={quantization!r}"
        )
    kind = kind_of_answers(model)
    least, rule = limits["min_equal_labels"], f"A `{_name(model)}` has no labels. Use `max_difference` instead."
    expect(kind not in ("values", "embedding") or least is None, rule, min_equal_labels=least)
    rule = f"The format {format!r} does not support a model that Keras has quantized. Export the float model with"
    expect(not is_quantized(model), f"{rule} `quantization='int8_dynamic'`.", model=_name(model))
    layers = [layer for layer in layer_tracking.layers_in(model) if layer.compute_dtype in ("bfloat16", "float16")]
    if layers:
        raise ValueError(
            f"The format {format!r} requires a model that computes in float32. Create the task with "
            "`encoder={'dtype': 'float32'}` (or its encoder with `dtype='float32'`), call `set_weights` with the "
            f"weights of this one, and export it. Received: the dtype policy {layers[0].dtype_policy.name!r}"
        )
    preprocessor = model.preprocessor
    rule = f"The format {format!r} requires a `TokenPreprocessor` or a `BertPreprocessor`. Use `format='savedmodel'`,"
    is_supported = isinstance(preprocessor, TokenPreprocessor)
    expect(is_supported, f"{rule} which contains any preprocessor.", preprocessor=type(preprocessor).__name__)
    try:
        fast_content(preprocessor.tokenizer, preprocessor.packing)
    except NotImplementedError as error:
        raise ValueError(f"{error} Use `format='savedmodel'`, which contains any tokenizer.") from None
    packages = {**converter.PACKAGES, "tokenizers": "tokenizers"}
    if missing := [name for module, name in packages.items() if importlib.util.find_spec(module) is None]:
        raise ImportError(
            f"The format {format!r} requires {', '.join(missing)}. Run `pip install keras_transfer[{format}]`."
        )
    return rows_of(model, kind, texts, pairs)


def write_portable(model, folder, label_names, format, quantization, rows, limits):
    """Writes a task into an empty folder, runs it there, and returns what `prove` has measured.

    Args:
        limits: Dict of `max_difference` and `min_equal_labels`, which may be `None`.
    """
    kind, preprocessor = kind_of_answers(model), model.preprocessor
    function = graph_of(model, kind)
    inputs = {name: tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in model.input.items()}
    FORMATS[format].convert(function, inputs, model.weights, quantization, folder)
    facts = {
        "format": format,
        "quantization": quantization,
        "task": type(model).__name__,
        "answers": kind,
        "rows": ROWS.get(kind, "texts" if isinstance(rows[0], str) else "pairs of texts"),
        "inputs": list(inputs),
        "output": OUTPUTS.get(kind, "probabilities"),
        "max_length": preprocessor.sequence_length,
        "pad_id": preprocessor.pad_id,
        "width": model.output.shape[-1],
        "prompt": model.reader.prompt if kind == "embedding" else "",
        "prompts": model.prompts if kind == "embedding" else {},
        "keras_transfer": __version__,
    }
    if kind == "words":  # Byte-level BPE encodes a word like one in the middle of a text.
        facts["word_prefix"] = " " if isinstance(preprocessor.tokenizer, ByteBPETokenizer) else ""
    if kind == "several_classes":
        facts["thresholds"] = [float(value) for value in model.labels.thresholds]
    if kind == "spans":
        names = "max_answer_length", "no_answer_threshold", "doc_stride", "overlap"
        facts |= {name: getattr(model, name) for name in names}
        strips = getattr(preprocessor.tokenizer, "strip_accents", False)
        facts["strip_accents"] = preprocessor.tokenizer.lowercase if strips is None else strips
    write_json(folder / "labels.json", label_names)
    write_json(folder / FAST_FILE, fast_content(preprocessor.tokenizer, preprocessor.packing))
    write_json(folder / "export.json", facts)
    shutil.copyfile(PREDICT_FILE, folder / PREDICT_FILE.name)
    measured = prove(model, function, folder, kind, rows, limits)
    write_json(folder / "export.json", {**facts, "measured": measured})
    return measured


def kind_of_answers(model):
    """Returns the kind of a task's answers, as a key of `predict.py`."""
    kind = next((kind for task, kind in KINDS.items() if type(model) is task), None)
    if kind is None:
        names = ", ".join(f"`{task.__name__}`" for task in KINDS)
        raise ValueError(
            f'Only the format "savedmodel" supports this task. LiteRT and ONNX support {names}, but no subclasses of '
            f"these. Received: {_name(model)}"
        )
    for setting in ("windows", "siamese", "crf"):
        value, rule = getattr(model, setting, None), f"a `{_name(model)}` with `{setting}`."
        expect(not value, f'Only the format "savedmodel" supports {rule}', **{setting: value})
    return "several_classes" if kind == "classes" and model.multi_label else kind


def graph_of(model, kind):
    """Returns a function of the encoder's inputs, by name, that returns a dict of named outputs.

    The outputs are `logits` and `probabilities` of classes, [batch, classes] or, for words, [batch, length, labels];
    `values` [batch, targets]; `embedding` [batch, dim]; `logits` [batch, 1] of choices; and `logits` [batch, length, 2]
    of the starts and ends of spans.
    """

    def answer(**ids):
        outputs = model(ids, training=False)
        if kind in ("values", "embedding"):
            return {kind: outputs}
        if kind in ("choices", "spans"):
            return {"logits": tf.transpose(outputs, [0, 2, 1]) if kind == "spans" else outputs}
        probabilities = tf.sigmoid(outputs) if kind == "several_classes" else tf.nn.softmax(outputs)
        return {"logits": outputs, "probabilities": probabilities}

    return answer


def _name(model):
    return type(model).__name__
