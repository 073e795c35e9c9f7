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
from keras_transfer.layers import SequencePooling
from keras_transfer.text import Preprocessor


def export(model, folder, labels=None, pairs=False, overwrite=False):
    """Writes a text classifier as a TensorFlow SavedModel, weights once and vocabulary inside.

    Its signatures, which TensorFlow Serving and `tf.saved_model.load` offer by name:

    - `serving_default`: `text` [batch] strings (and `text_pair` with `pairs=True`) to `label` [batch] strings,
      `label_id` [batch] and `probabilities` [batch, classes]
    - `tokens`: the encoder's inputs, [batch, length] int32, to `logits` [batch, classes]
    - `embed`: `text` [batch] strings to `embedding` [batch, dim], pooled (and normalised) as the encoder's checkpoint
      says

    Who loads it imports tensorflow and tensorflow_text (for the text operations), nothing else. A model on the JAX or
    torch backend is saved, and exported by a process with the TensorFlow backend.

    Args:
        model: a `TextClassifier` with a preprocessor.
        folder: path that does not exist yet; it is written whole or not at all.
        labels: list of str, the classes' names in order; None for their numbers.
        pairs: bool, whether a text is a pair.
        overwrite: bool, replace a folder that exists.

    Returns:
        `folder` as a `pathlib.Path`.

    Raises:
        FileExistsError: the folder exists and `overwrite` is False.
        ValueError: the model has no preprocessor, or another number of classes than labels.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.serving.export(model, "served", labels=["bad", "good"])
    ```
    """
    if getattr(model, "preprocessor", None) is None:
        raise ValueError("an export takes raw text: the model needs a preprocessor. Received: preprocessor=None")
    labels = [str(i) for i in range(model.num_classes)] if labels is None else [str(label) for label in labels]
    if len(labels) != model.num_classes or len(set(labels)) != len(labels):
        raise ValueError(f"the model has {model.num_classes} classes, each with a name of its own. Received: {labels}")
    with written_whole(folder, overwrite) as temporary:
        if keras.backend.backend() == "tensorflow":
            _write(model, temporary, labels, pairs)
        else:
            _write_in_tensorflow(model, temporary, labels, pairs)
    return pathlib.Path(folder)


def _write(model, folder, labels, pairs):
    import tensorflow as tf

    names = tf.constant(labels)
    embedder = _embedder(model.encoder)

    def classify(*texts):
        probabilities = tf.nn.softmax(model(_ids(model, texts), training=False))
        best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return {"label": tf.gather(names, best), "label_id": best, "probabilities": probabilities}

    def embed(text):
        return {"embedding": embedder(_ids(model, [text]), training=False)}

    def tokens(**inputs):
        return {"logits": model(inputs, training=False)}

    texts = [tf.TensorSpec([None], tf.string, name=name) for name in ("text", "text_pair")[: 1 + pairs]]
    ids = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in model.input}
    # A module of plain variables: tracking the Keras model would write every weight twice.
    module = tf.Module()
    module.weights = [weight.value for weight in model.weights]
    module.preprocessor = model.preprocessor
    signatures = {
        "serving_default": tf.function(classify, autograph=False).get_concrete_function(*texts),
        "tokens": tf.function(tokens, autograph=False).get_concrete_function(**ids),
        "embed": tf.function(embed, autograph=False).get_concrete_function(texts[0]),
    }
    tf.saved_model.save(module, str(folder), signatures=signatures)


def _ids(model, texts):
    """The encoder's inputs in the graph; ours are padded only to the longest text of the request."""
    texts = tuple(texts) if len(texts) > 1 else texts[0]
    options = {"sequence_length": "longest"} if isinstance(model.preprocessor, Preprocessor) else {}
    inputs = model.preprocessor(texts, **options)
    return {name: inputs[name] for name in model.input}


def _embedder(encoder):
    """Token ids to one vector for each text, as the encoder's checkpoint makes it."""
    encoded = encode(encoder)
    pooling = getattr(encoder, "pooling", None) or ("mean" if encoded.pooled is None else "pooled")
    if pooling == "pooled":
        vector = encoded.pooled
    else:
        vector = SequencePooling(pooling, dtype=encoder.dtype_policy)(encoded.sequence, padding_mask=encoded.mask)
    if getattr(encoder, "normalize", False):
        vector = keras.layers.UnitNormalization(dtype="float32")(vector)
    return keras.Model(encoder.input, vector)


def _write_in_tensorflow(model, folder, labels, pairs):
    """Exports from a process with the TensorFlow backend, by way of a `.keras` file."""
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "model.keras"
        model.save(path)
        script = (
            "import json, sys, pathlib, keras, keras_transfer\n"
            "from keras_transfer.serving.export import _write\n"
            "path, folder, labels, pairs = json.loads(sys.stdin.read())\n"
            "_write(keras.saving.load_model(path, compile=False), pathlib.Path(folder), labels, pairs)\n"
        )
        result = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps([str(path), str(folder), labels, pairs]),
            env={**os.environ, "KERAS_BACKEND": "tensorflow"},
            capture_output=True,
            text=True,
        )
    if result.returncode:
        raise RuntimeError(f"the export under TensorFlow failed:\n{result.stderr[-4000:]}")
