"""Writing a task as a SavedModel that accepts raw text and does not need this library."""

import inspect
import pathlib

from keras_transfer.core.expect import expect
from keras_transfer.core.files import write_json
from keras_transfer.core.lazy import tf
from keras_transfer.serving.by_adapter import check_adapters, signatures_by_adapter
from keras_transfer.serving.exported import FACTS_FILE, LABELS_FILE
from keras_transfer.version import __version__


class SavedModel:
    """The format of exports that TensorFlow Serving reads, with any preprocessor."""

    OPTIONS = ("adapters", "jit_compile")

    @staticmethod
    def check(model, pairs, verbose, adapters=None, jit_compile=False):
        """Returns the settings of `write`, or raises an error if an option does not fit a task."""
        if adapters is not None:
            check_adapters(model, adapters)
        has_loop = "jit_compile" in inspect.signature(model.signatures).parameters
        rule = "`jit_compile` compiles the loop of an exported model that generates text, such as a `CausalLM`."
        fits = not jit_compile or (has_loop and "serving_default" in model.signatures(pairs))
        expect(fits, rule, jit_compile=jit_compile, task=type(model).__name__)
        return {"pairs": pairs, "adapters": adapters, "jit_compile": bool(jit_compile), "verbose": verbose}

    @staticmethod
    def write(model, folder, label_names, pairs, adapters, jit_compile, verbose):
        """Writes a task on the TensorFlow backend into a folder."""
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
            write_json(pathlib.Path(folder) / name, content)


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


def _layers(layer):
    """Yields a layer and all layers inside it."""
    yield layer
    for inside in getattr(layer, "layers", ()):
        yield from _layers(inside)


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
