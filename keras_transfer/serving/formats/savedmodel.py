"""The format "savedmodel": for TensorFlow Serving, with any task and preprocessor."""

import functools
import inspect
import pathlib
import re

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.files import read_json, write_json
from keras_transfer.core.lazy import tf
from keras_transfer.keras_internals import layer_tracking
from keras_transfer.serving.by_adapter import check_adapters, signatures_by_adapter
from keras_transfer.serving.export_format import Exported, ExportFormat
from keras_transfer.version import __version__

FACTS_FILE = "assets.extra/export.json"  # A SavedModel stores files in this folder that are not loaded with it.
# The sentence of a failed check of an export, and what it received, inside TensorFlow's message.
ASSERTION = re.compile(r"assertion failed: \[(.+?:)\] (\[.*?\])\n", re.DOTALL)


class SavedModel(ExportFormat):
    """A SavedModel that accepts raw text."""

    NAME, OPTIONS = "savedmodel", ("adapters", "jit_compile")
    FILES = "saved_model.pb", "variables/variables.index"  # The index has the checksums of the variables.
    LABELS = "assets.extra/labels.json"

    @classmethod
    def check(cls, model, pairs, verbose, adapters=None, jit_compile=False):
        """Returns the settings of `write`, or raises an error if an option does not fit a task."""
        if adapters is not None:
            check_adapters(model, adapters)
        has_loop = "jit_compile" in inspect.signature(model.signatures).parameters
        rule = "`jit_compile` compiles the loop of an exported model that generates text, such as a `CausalLM`."
        fits = not jit_compile or (has_loop and "serving_default" in model.signatures(pairs))
        expect(fits, rule, jit_compile=jit_compile, task=type(model).__name__)
        return {"pairs": pairs, "adapters": adapters, "jit_compile": bool(jit_compile), "verbose": verbose}

    @classmethod
    def write(cls, model, folder, label_names, pairs, adapters, jit_compile, verbose):
        """Writes a task on the TensorFlow backend into a folder."""
        # A module of plain variables: tracking the Keras model would write every weight twice.
        module = tf.Module()
        module.weights = [weight.value for weight in model.weights]
        module.preprocessor = model.preprocessor
        # Tables and other objects of TF Hub modules, besides their weights.
        layers = layer_tracking.layers_in(model)
        module.resources = [layer.resources for layer in layers if hasattr(layer, "resources")]
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
        (pathlib.Path(folder) / FACTS_FILE).parent.mkdir()
        for name, content in ((cls.LABELS, label_names), (FACTS_FILE, facts)):
            write_json(pathlib.Path(folder) / name, content)

    @classmethod
    def usage(cls, folder):
        """Returns the signatures of a folder with their inputs."""
        signatures = read_json(pathlib.Path(folder) / FACTS_FILE)["signatures"]
        lines = [f"  {name}: {', '.join(each['inputs'])}" for name, each in signatures.items()]
        return "\n".join(["Its signatures:", *lines])

    @classmethod
    def open(cls, folder):
        """Returns a dict from the names of the signatures of a folder to functions that return each as `Exported`."""
        import tensorflow_text  # noqa: F401  Its operations are in the graph.

        loaded = tf.saved_model.load(folder)
        return {name: functools.partial(_exported, loaded, name) for name in loaded.signatures}


def _exported(loaded, signature):
    function = loaded.signatures[signature]
    inputs = function.structured_input_signature[1]
    unusual = {name: spec for name, spec in inputs.items() if spec.shape.rank != 1 or spec.dtype != "string"}
    rule = "A `Predictor` requires a signature that expects one string for each row and input."
    expect(not unusual, rule, signature=signature, inputs=unusual)
    return Exported(list(inputs), list(function.structured_outputs), functools.partial(_in_batches, function))


def _in_batches(function, texts, batch_size):
    """Returns the outputs for all rows as arrays, from batches of rows of similar length."""
    texts = {name: np.array([text.encode("utf-8") for text in column], object) for name, column in texts.items()}
    lengths = sum(np.array([len(text) for text in column], "int64") for column in texts.values())
    order = np.argsort(-lengths, kind="stable")
    parts = []
    for start in range(0, max(len(order), 1), batch_size):  # Without rows, an empty batch determines the types.
        rows = order[start : start + batch_size]
        inputs = {name: tf.constant(column[rows], tf.string) for name, column in texts.items()}
        try:
            outputs = function(**inputs)
        except tf.errors.InvalidArgumentError as error:
            if found := ASSERTION.search(str(error)):  # Such as an unknown adapter.
                raise ValueError(" ".join(found.groups()).replace("\\'", "'")) from None
            raise
        parts.append({name: value.numpy() for name, value in outputs.items()})
    places = np.argsort(order)
    return {name: _decode(_together([part[name] for part in parts])[places]) for name in sorted(parts[0])}


def _together(parts):
    """Concatenates arrays. Arrays of words are first padded to the longest text, as the export pads a request."""
    shape = np.max([part.shape[1:] for part in parts], axis=0).astype(int)
    padding = {"O": b"", "i": -1}.get(parts[0].dtype.kind, 0)
    padded = []
    for part in parts:
        missing = [(0, 0), *((0, most - size) for most, size in zip(shape, part.shape[1:]))]
        padded.append(np.pad(part, missing, constant_values=padding) if np.any(missing) else part)
    return np.concatenate(padded)


def _decode(values):
    """Returns strings as `str` and other arrays unchanged."""
    if values.dtype != object:
        return values
    found = np.empty(values.shape, object)
    found.ravel()[:] = [text.decode("utf-8") for text in values.ravel()]
    return found


def make_signatures(model, labels, pairs=False, adapters=None, jit_compile=False, verbose=0):
    """Returns a task's signatures as a dict of concrete functions, by the names of `model.signatures(pairs)`."""
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


def in_tensorflow(signature, labels):
    """Returns the function of a `Signature` on dense tensors, with `label` for each `label_id`."""
    names, padding = tf.constant(labels, tf.string), {tf.string: "", tf.int32: -1, tf.float32: 0.0}

    def function(**inputs):
        width = -1  # The width of the longest row.
        if signature.ragged:
            [(key, words)] = inputs.items()
            width = tf.shape(words)[1]
            lengths = tf.reduce_max(tf.where(words != "", tf.range(1, width + 1)[None], 0), axis=1)
            inputs = {key: tf.RaggedTensor.from_tensor(words, lengths=lengths)}
        outputs = dict(signature.function(**inputs))
        if "label_id" in outputs:
            outputs["label"] = tf.ragged.map_flat_values(lambda ids: tf.gather(names, ids), outputs["label_id"])
        for key, values in outputs.items():
            if isinstance(values, tf.RaggedTensor):
                shape = tf.stack([-1, width, *[-1] * (values.shape.rank - 2)])
                outputs[key] = values.to_tensor(padding[values.dtype], shape=shape)
        return outputs

    return function


def concrete_signature(function, specs, axes=1, input_axes=2):
    """Returns `function` as a concrete function that never computes with an empty tensor.

    Kernels fail on tensors without rows: oneDNN's concatenations and fused products return wrong shapes. Encoders need
    at least one time step. An empty batch is therefore padded to one row, and rows without steps to one step, with
    zeros or "", and the outputs are cut back to the request's size. This costs other requests nothing, since `tf.pad`
    and slices that change nothing return their input. Several inputs must have the same size. Otherwise the function
    raises an `InvalidArgumentError`.

    Args:
        function: Function that accepts tensors by the names in `specs` and returns a dict of tensors.
        axes: Integer, 1 or 2. Number of leading axes that the outputs have in common with the inputs.
        input_axes: Integer, 1 or 2. Number of leading axes that several inputs have in common.
    """

    def answer(**inputs):
        # A single string is no batch. TensorFlow would not say so, and not which input it is.
        inputs = {name: tf.ensure_shape(inputs[name], spec.shape, f"batch_of_{name}") for name, spec in specs.items()}
        sizes = tf.shape(next(iter(inputs.values())))
        request = tuple(slice(sizes[axis]) for axis in range(axes))
        with tf.control_dependencies(_checks(inputs, input_axes)):
            inputs = {name: _pad(tensor) for name, tensor in inputs.items()}
        outputs = function(**inputs)
        return {name: output[request] for name, output in outputs.items()}

    return tf.function(answer, autograph=False).get_concrete_function(**specs)


def _checks(inputs, axes):
    """Returns operations that fail if the inputs of a request differ in size, before one of them is broadcast."""
    if len(inputs) == 1:
        return []
    axes = min(axes, *(tensor.shape.rank for tensor in inputs.values()))
    sizes = tf.stack([tf.shape(tensor)[:axes] for tensor in inputs.values()])
    same = "batch size" if axes == 1 else "batch size and the same length"
    message = f"Inputs must have the same {same}. Received for {list(inputs)}:"
    return [tf.debugging.Assert(tf.reduce_all(tf.equal(sizes, sizes[0])), [message, sizes], summarize=2 * len(inputs))]


def _pad(tensor):
    """Returns a tensor with at least one entry along its batch axis and its length axis if these are dynamic."""
    missing = tf.cast(tf.equal(tf.shape(tensor), 0), tf.int32)
    paddings = [[0, 0]] * tensor.shape.rank
    for axis, size in enumerate(tensor.shape[:2]):
        if size is None:
            paddings[axis] = [0, missing[axis]]
    return tf.pad(tensor, paddings)
