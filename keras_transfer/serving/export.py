"""A trained task as a SavedModel that takes raw text and needs nothing of this library."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import keras

from keras_transfer.encoders import encode
from keras_transfer.files import written_whole
from keras_transfer.hub import HubLayer
from keras_transfer.layers import SequencePooling
from keras_transfer.layers.pooling import POOLINGS
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import Preprocessor
from keras_transfer.text.preprocessor import preprocess

# Where a SavedModel keeps what belongs to it and is not loaded with it.
LABELS_FILE = "assets.extra/labels.json"


def export(model, folder, labels=None, pairs=False, overwrite=False):
    """Writes a text classifier as a TensorFlow SavedModel, weights once and vocabulary inside.

    Its signatures, which TensorFlow Serving and `tf.saved_model.load` offer by name:

    - `serving_default`: `text` [batch] strings (and `text_pair` with `pairs=True`) to `label` [batch] strings,
      `label_id` [batch] int32 and `probabilities` [batch, classes] float32, in the order of `labels`
    - `tokens`: the encoder's inputs, [batch, length] int32, to `logits` [batch, classes] float32; an encoder that takes
      text has no such
    - `embed`: `text` [batch] strings to `embedding` [batch, dim] float32, pooled (and normalised) as the encoder's
      checkpoint says; where it does not say, pooled as the classifier does

    Texts are UTF-8, the batch may have any size, 0 too. Who loads it imports tensorflow and tensorflow_text (for the
    text operations), nothing else. TensorFlow Serving looks for a folder per version: `served/1`. The file
    `assets.extra/labels.json` in it lists the labels.

    A model on the JAX or torch backend is exported by another process, with the TensorFlow backend on the CPU.

    Args:
        model: a `TextClassifier` with a preprocessor.
        folder: path that does not exist yet; it is written whole or not at all.
        labels: list of str, the classes' names in order; None for their numbers.
        pairs: bool, whether the classifier takes pairs of texts.
        overwrite: bool, replace a folder that exists.

    Returns:
        `folder` as a `pathlib.Path`.

    Raises:
        FileExistsError: the folder exists and `overwrite` is False.
        ValueError: the model is no `TextClassifier` or has no preprocessor; there are not as many labels as classes,
            or two are the same.
        RuntimeError: the process with the TensorFlow backend failed, on another backend.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.serving.export(model, "served/1", labels=["bad", "good"])
    ```
    """
    if not isinstance(model, TextClassifier):
        raise ValueError(f"`export` takes a TextClassifier. Received: {type(model).__name__}")
    if model.preprocessor is None:
        raise ValueError("an export takes raw text: the model needs a preprocessor. Received: preprocessor=None")
    if isinstance(labels, str):
        raise ValueError(f"`labels` must be a list of names. Received: {labels!r}")
    labels = [str(label) for label in (range(model.num_classes) if labels is None else labels)]
    if len(labels) != model.num_classes or len(set(labels)) != len(labels):
        raise ValueError(f"the model has {model.num_classes} classes, each with a name of its own. Received: {labels}")
    with written_whole(folder, overwrite) as temporary:
        if keras.backend.backend() == "tensorflow":
            _write(model, temporary, labels, pairs)
        else:
            _write_with_tensorflow_backend(model, temporary, labels, pairs)
    return pathlib.Path(folder)


def _write(model, folder, labels, pairs):
    import tensorflow as tf

    names = tf.constant(labels)
    embedder = _embedder(model)

    def classify(*texts):
        probabilities = tf.nn.softmax(model(_ids(model, texts), training=False))
        best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return {"label": tf.gather(names, best), "label_id": best, "probabilities": probabilities}

    def embed(text):
        return {"embedding": tf.cast(embedder(_ids(model, [text]), training=False), tf.float32)}

    def tokens(**inputs):
        return {"logits": model(inputs, training=False)}

    texts = [tf.TensorSpec([None], tf.string, name=name) for name in ("text", "text_pair")[: 1 + pairs]]
    ids = {name: tf.TensorSpec(tensor.shape, tensor.dtype, name=name) for name, tensor in model.input.items()}
    # A module of plain variables: tracking the Keras model would write every weight twice.
    module = tf.Module()
    module.weights = [weight.value for weight in model.weights]
    module.preprocessor = model.preprocessor
    module.resources = [layer.resources for layer in _layers(model) if isinstance(layer, HubLayer)]
    signatures = {
        "serving_default": tf.function(classify, autograph=False).get_concrete_function(*texts),
        "embed": tf.function(embed, autograph=False).get_concrete_function(texts[0]),
    }
    if "text" not in model.input:
        signatures["tokens"] = tf.function(tokens, autograph=False).get_concrete_function(**ids)
    tf.saved_model.save(module, str(folder), signatures=signatures)
    file = pathlib.Path(folder) / LABELS_FILE
    file.parent.mkdir()
    file.write_text(json.dumps(labels, ensure_ascii=False, indent=2) + "\n", "utf-8")


def _layers(layer):
    """A layer and all layers inside it."""
    yield layer
    for inside in getattr(layer, "layers", ()):
        yield from _layers(inside)


def _ids(model, texts):
    """The encoder's inputs in the graph; ours are padded only to the longest text of the request."""
    texts = tuple(texts) if len(texts) > 1 else texts[0]
    options = {"sequence_length": "longest"} if isinstance(model.preprocessor, Preprocessor) else {}
    inputs = preprocess(model.preprocessor, texts, **options)
    return {name: inputs[name] for name in model.input}


def _embedder(model):
    """A model from token ids to one vector for each text."""
    encoder = model.encoder
    encoded = encode(encoder)
    pooling = getattr(encoder, "pooling", None) or model.pooling
    if pooling not in POOLINGS:  # the encoder's own
        vector = encoded.pooled
    else:
        vector = SequencePooling(pooling, dtype=encoder.dtype_policy)(encoded.sequence, padding_mask=encoded.mask)
    if getattr(encoder, "normalize", False):
        vector = keras.layers.UnitNormalization(dtype="float32")(vector)
    return keras.Model(encoder.input, vector)


_EXPORT_SAVED = """
import json, sys
import keras, keras_transfer
path, folder, labels, pairs = json.load(sys.stdin)
model = keras.saving.load_model(path, compile=False, safe_mode=False)  # it was the caller's own a moment ago
keras_transfer.serving.export(model, folder, labels, pairs, overwrite=True)
"""


def _write_with_tensorflow_backend(model, folder, labels, pairs):
    """Saves the model and exports it again in a process whose backend is TensorFlow."""
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "model.keras"
        model.save(path)
        result = subprocess.run(
            [sys.executable, "-P", "-c", _EXPORT_SAVED],
            input=json.dumps([str(path), str(folder.absolute()), labels, bool(pairs)]),
            env={
                **os.environ,
                "KERAS_BACKEND": "tensorflow",
                "PYTHONPATH": os.pathsep.join(sys.path),
                "CUDA_VISIBLE_DEVICES": "-1",  # this process may have taken the accelerator's memory
            },
            capture_output=True,
            encoding="utf-8",
        )
    if result.returncode:
        raise RuntimeError(
            "the export by a process with the TensorFlow backend failed. A class of your own it finds only if it is "
            "registered by a module of yours; if so, save the model, and load and export it in a program that imports "
            f"this module, with KERAS_BACKEND=tensorflow. Received:\n{result.stderr[-4000:]}"
        )
