"""Writing a task as a SavedModel that accepts raw text and does not need this library."""

import json
import pathlib

from keras_transfer.serving.by_adapter import signatures_by_adapter
from keras_transfer.serving.signature import concrete_signature, in_tensorflow
from keras_transfer.version import __version__

# A SavedModel stores files in this folder that belong to it but are not loaded with it.
LABELS_FILE, FACTS_FILE = "assets.extra/labels.json", "assets.extra/export.json"


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
    facts = {
        "task": type(model).__name__,
        "adapters": list(adapters or ()),
        "signatures": {name: _shapes_of(signature) for name, signature in signatures.items()},
        "keras_transfer": __version__,
    }
    (pathlib.Path(folder) / LABELS_FILE).parent.mkdir()
    for name, content in ((LABELS_FILE, label_names), (FACTS_FILE, facts)):
        text = json.dumps(content, ensure_ascii=False, indent=2)
        (pathlib.Path(folder) / name).write_text(f"{text}\n", "utf-8")


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


def _shapes_of(signature):
    """Returns the shapes of the inputs and of the outputs of a concrete function by name, as lists.

    A dynamic size is `None`, and so is a shape of unknown rank.
    """

    def shape_of(spec):
        return None if spec.shape.rank is None else spec.shape.as_list()

    sides = {"inputs": signature.structured_input_signature[1], "outputs": signature.structured_outputs}
    return {side: {name: shape_of(spec) for name, spec in specs.items()} for side, specs in sides.items()}


def _layers(layer):
    """Yields a layer and all layers inside it."""
    yield layer
    for inside in getattr(layer, "layers", ()):
        yield from _layers(inside)
