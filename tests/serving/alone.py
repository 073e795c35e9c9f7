"""Called in a process that never imports this package: the outputs of an export."""

import logging
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401


def answers(folder, texts, signature=None):
    """Returns the outputs of a SavedModel for texts, or a dict of inputs, by `serve` or one of its signatures.

    Returns:
        dict with `outputs`, the names of its `signatures`, and the `warnings` of loading it.

    Raises:
        AssertionError: If `keras_transfer` or KerasHub was imported.
    """
    warnings = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())
    tf.get_logger().addHandler(handler)
    try:
        served = tf.saved_model.load(folder)
    finally:
        tf.get_logger().removeHandler(handler)
    inputs = texts if isinstance(texts, dict) else {"text": texts}
    inputs = {name: tf.constant(values, tf.string) for name, values in inputs.items()}
    outputs = served.serve(*inputs.values()) if signature is None else served.signatures[signature](**inputs)
    imported = {name.partition(".")[0] for name in sys.modules}
    assert not {"keras_transfer", "keras_hub"} & imported
    found = {"signatures": sorted(served.signatures), "warnings": warnings}
    return {**found, "outputs": tf.nest.map_structure(plain, outputs)}


def plain(tensor):
    """A tensor as lists of numbers or str."""
    values = tensor.numpy()
    if tensor.dtype == tf.string:
        values = np.array([text.decode() for text in values.ravel()], object).reshape(values.shape)
    return values.tolist()
