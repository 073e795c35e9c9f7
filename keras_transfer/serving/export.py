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
from keras_transfer.serving.signature import concrete_signature
from keras_transfer.tasks import TextClassifier, TokenClassifier
from keras_transfer.text import Preprocessor
from keras_transfer.text.preprocessor import preprocess

# Where a SavedModel keeps what belongs to it and is not loaded with it.
LABELS_FILE = "assets.extra/labels.json"


def export(model, folder, labels=None, pairs=False, overwrite=False):
    """Writes a task as a TensorFlow SavedModel, weights once and vocabulary inside.

    Signatures of a `TextClassifier`, which TensorFlow Serving and `tf.saved_model.load` offer by name:

    - `serving_default`: `text` [batch] strings (and `text_pair` with `pairs=True`) to `label` [batch] strings,
      `label_id` [batch] int32 and `probabilities` [batch, classes] float32, in the order of `labels`
    - `tokens`: the encoder's inputs, [batch, length] int32, to `logits` [batch, classes] float32; an encoder that takes
      text has no such
    - `embed`: `text` [batch] strings to `embedding` [batch, dim] float32, pooled (and normalised) as the encoder's
      checkpoint says; where it does not say, pooled as the classifier does

    Signatures of a `TokenClassifier`:

    - `serving_default`: `text` [batch] strings, which the preprocessor splits, to `words` [batch, words] strings, their
      `label` strings, `label_id` int32 and `probabilities` [batch, words, labels] float32; where a text has fewer words
      than the longest, these are "", "", -1 and 0
    - `words`: `words` [batch, words] strings, "" behind a sentence's last, to the same without `words`
    - `tokens`: the encoder's inputs to `logits` [batch, length, labels] float32

    Texts are UTF-8. A request may be empty (no texts, words or ids). The outputs then have as many rows as the
    request. To load the model, import `tensorflow` and `tensorflow_text` (for the text operations); nothing else is
    needed. TensorFlow Serving looks for a folder per version: `served/1`. The file `assets.extra/labels.json` in it
    lists the labels.

    A model on the JAX or torch backend is exported by another process, with the TensorFlow backend on the CPU.

    Args:
        model: a `TextClassifier` or `TokenClassifier` with a preprocessor.
        folder: path that does not exist yet; it is written whole or not at all.
        labels: list of str, the classes' names in order; None for the tagger's own names, or a classifier's numbers.
        pairs: bool, whether the classifier takes pairs of texts.
        overwrite: bool, replace a folder that exists.

    Returns:
        `folder` as a `pathlib.Path`.

    Raises:
        FileExistsError: the folder exists and `overwrite` is False.
        ValueError: the model is neither or has no preprocessor; there are not as many labels as classes, or two are
            the same; pairs for a tagger.
        RuntimeError: the process with the TensorFlow backend failed, on another backend.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.serving.export(model, "served/1", labels=["bad", "good"])
    ```
    """
    if not isinstance(model, (TextClassifier, TokenClassifier)):
        raise ValueError(f"`export` takes a TextClassifier or a TokenClassifier. Received: {type(model).__name__}")
    tagger = isinstance(model, TokenClassifier)
    if tagger and pairs:
        raise ValueError("a TokenClassifier takes single texts. Received: pairs=True")
    if model.preprocessor is None:
        raise ValueError("an export takes raw text: the model needs a preprocessor. Received: preprocessor=None")
    if isinstance(labels, str):
        raise ValueError(f"`labels` must be a list of names. Received: {labels!r}")
    own = model.label_names if tagger else [str(number) for number in range(model.num_classes)]
    labels = own if labels is None else [str(label) for label in labels]
    if len(labels) != len(own) or len(set(labels)) != len(labels):
        raise ValueError(f"the model has {len(own)} classes, each with a name of its own. Received: {labels}")
    with written_whole(folder, overwrite) as temporary:
        if keras.backend.backend() == "tensorflow":
            _write(model, temporary, labels, pairs)
        else:
            _write_with_tensorflow_backend(model, temporary, labels, pairs)
    return pathlib.Path(folder)


def _write(model, folder, labels, pairs):
    import tensorflow as tf

    # A module of plain variables: tracking the Keras model would write every weight twice.
    module = tf.Module()
    module.weights = [weight.value for weight in model.weights]
    module.preprocessor = model.preprocessor
    module.resources = [layer.resources for layer in _layers(model) if isinstance(layer, HubLayer)]
    tf.saved_model.save(module, str(folder), signatures=make_signatures(model, labels, pairs))
    file = pathlib.Path(folder) / LABELS_FILE
    file.parent.mkdir()
    file.write_text(json.dumps(labels, ensure_ascii=False, indent=2) + "\n", "utf-8")


def make_signatures(model, labels, pairs=False):
    """Returns a task's signatures as a dict of concrete functions, by name.

    Args:
        model: `TextClassifier` or `TokenClassifier` with a preprocessor, on the TensorFlow backend.
        labels: List of strings. Names of the classes, in order.
        pairs: Boolean. Whether the classifier takes pairs of texts. Defaults to `False`.

    Returns:
        Dict from names of signatures to `tf.types.experimental.ConcreteFunction`s: `"serving_default"`; `"embed"` of a
        `TextClassifier`, or `"words"` of a `TokenClassifier`; and `"tokens"` if the encoder does not take text.
    """
    import tensorflow as tf

    tagger, names = isinstance(model, TokenClassifier), tf.constant(labels)
    signatures = _of_words(model, names) if tagger else _of_texts(model, names, pairs)
    if "text" not in model.input:
        ids = {name: tf.TensorSpec(tensor.shape, tensor.dtype, name=name) for name, tensor in model.input.items()}

        def tokens(**inputs):
            return {"logits": model(inputs, training=False)}

        signatures["tokens"] = concrete_signature(tokens, ids, axes=2 if tagger else 1)
    return signatures


def _of_texts(model, names, pairs):
    """The signatures of a classifier that take strings."""
    import tensorflow as tf

    embedder = _embedder(model)

    def classify(**texts):
        probabilities = tf.nn.softmax(model(_ids(model, list(texts.values())), training=False))
        best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return {"label": tf.gather(names, best), "label_id": best, "probabilities": probabilities}

    def embed(text):
        return {"embedding": tf.cast(embedder(_ids(model, [text]), training=False), tf.float32)}

    texts = {name: tf.TensorSpec([None], tf.string, name=name) for name in ("text", "text_pair")[: 1 + pairs]}
    return {
        "serving_default": concrete_signature(classify, texts),
        "embed": concrete_signature(embed, {"text": texts["text"]}),
    }


def _of_words(model, names):
    """The signatures of a tagger that take strings."""
    import tensorflow as tf

    def tag(words, width=-1):
        rows = model.preprocessor.encode_words(words, sequence_length="longest")
        # Each sentence has a row, but there may be no word in any: the network and the softmax see whole rows.
        probabilities = tf.nn.softmax(model({name: rows.inputs[name] for name in model.input}, training=False))
        probabilities = tf.gather_nd(probabilities, tf.stack([rows.row, rows.position], axis=1))
        best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        shape = tf.stack([-1, width])
        return {
            "label": words.with_values(tf.gather(names, best)).to_tensor("", shape=shape),
            "label_id": words.with_values(best).to_tensor(-1, shape=shape),
            "probabilities": words.with_values(probabilities).to_tensor(0.0, shape=tf.concat([shape, [-1]], 0)),
        }

    def tag_texts(text):
        words = model.preprocessor.split_words(text)
        return {"words": words.to_tensor(""), **tag(words)}

    def tag_words(words):
        width = tf.shape(words)[1]
        last = tf.reduce_max(tf.where(words != "", tf.range(1, width + 1)[None], 0), axis=1)
        return tag(tf.RaggedTensor.from_tensor(words, lengths=last), width)

    return {
        "serving_default": concrete_signature(tag_texts, {"text": tf.TensorSpec([None], tf.string, name="text")}),
        "words": concrete_signature(tag_words, {"words": tf.TensorSpec([None, None], tf.string, name="words")}, axes=2),
    }


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
