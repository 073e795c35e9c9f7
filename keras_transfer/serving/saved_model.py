"""Writing a task as a SavedModel that accepts raw text and does not need this library."""

import json
import pathlib

from keras_transfer.serving.by_adapter import signatures_by_adapter
from keras_transfer.serving.signature import concrete_signature, in_tensorflow

# A SavedModel stores files in this folder that belong to it but are not loaded with it.
LABELS_FILE = "assets.extra/labels.json"


def write_saved_model(model, folder, label_names, pairs, adapters, jit_compile, verbose=0):
    """Writes a task on the TensorFlow backend into a folder. For the arguments, see `export`."""
    import tensorflow as tf

    # A module of plain variables: tracking the Keras model would write every weight twice.
    module = tf.Module()
    module.weights = [weight.value for weight in model.weights]
    module.preprocessor = model.preprocessor
    # Tables and other objects of TF Hub modules, besides their weights.
    module.resources = [layer.resources for layer in _layers(model) if hasattr(layer, "resources")]
    signatures = make_signatures(model, label_names, pairs, adapters, jit_compile, verbose)
    if verbose and adapters is not None:
        print("Writing the SavedModel", flush=True)
    tf.saved_model.save(module, str(folder), signatures=signatures)
    file = pathlib.Path(folder) / LABELS_FILE
    file.parent.mkdir()
    file.write_text(json.dumps(label_names, ensure_ascii=False, indent=2) + "\n", "utf-8")


def make_signatures(model, labels, pairs=False, adapters=None, jit_compile=False, verbose=0):
    """Returns a task's signatures as a dict of concrete functions, by name.

    Args:
        model: Task with a preprocessor, on the TensorFlow backend.
        labels: List of strings. Class names, in order.
        pairs: Boolean. Whether the task accepts pairs of texts. Defaults to `False`.
        adapters: List of names of adapters to choose from. Defaults to `None`.
        jit_compile: Boolean. Whether XLA compiles the loop of a model that generates text. Defaults to `False`.
        verbose: Integer. `1` prints a line for each signature with adapters. Defaults to `0`.

    Returns:
        Dict from the names of `model.signatures(pairs)` to `tf.types.experimental.ConcreteFunction`s.
    """
    import tensorflow as tf

    concrete, signatures = {}, model.signatures(pairs, **({"jit_compile": True} if jit_compile else {}))
    if adapters is not None:
        signatures = signatures_by_adapter(model, signatures, adapters)
    for name, signature in signatures.items():
        if verbose and adapters is not None:
            print(f"Tracing the signature {name!r} for {len(adapters)} adapters", flush=True)
        specs = {key: tf.TensorSpec(spec.shape, spec.dtype, name=key) for key, spec in signature.inputs.items()}
        axes = signature.shared_axes, signature.input_axes
        concrete[name] = concrete_signature(in_tensorflow(signature, labels), specs, *axes)
    return concrete


def _layers(layer):
    """Yields a layer and all layers inside it."""
    yield layer
    for inside in getattr(layer, "layers", ()):
        yield from _layers(inside)
