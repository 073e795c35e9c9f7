"""Nests of tensors: their description, comparison with a module's specs, and casts."""

import operator
import reprlib

import keras
import numpy as np

from keras_transfer.core.lazy import tf
from keras_transfer.hub.errors import HubError, expect


def as_tensors(nest):
    """Converts each array, Python value and list of Python values in a nest to a tensor.

    Keras would treat a list of texts as a list of inputs.
    """
    plain = (str, bytes, int, float, np.generic)
    if isinstance(nest, dict):
        return {key: as_tensors(value) for key, value in nest.items()}
    if isinstance(nest, (list, tuple)) and not all(isinstance(leaf, plain) for leaf in keras.tree.flatten(nest)):
        return [as_tensors(value) for value in nest]
    if not isinstance(nest, (*plain, list, tuple, np.ndarray, tf.Variable, keras.Variable)):
        return nest
    try:
        return tf.convert_to_tensor(nest)
    except (ValueError, TypeError) as error:
        raise HubError(f"A list must be a regular array of texts or numbers. Received: {reprlib.repr(nest)}") from error


def spec_of(tensor):
    """Returns the `tf.TypeSpec` of an eager or symbolic tensor, and any other value unchanged."""
    if isinstance(tensor, keras.KerasTensor):
        kind = tf.RaggedTensorSpec if tensor.ragged else tf.SparseTensorSpec if tensor.sparse else tf.TensorSpec
        return kind(tensor.shape, tensor.dtype)
    return tf.type_spec_from_value(tensor) if tf.is_tensor(tensor) else tensor


def symbolic(tensor):
    """Returns a `keras.KerasTensor` with the spec of a tensor."""
    spec = spec_of(tensor)
    rule = "The module does not specify its output shape. Pass `output_shape`."
    expect(spec.shape.rank is not None, rule, received=describe(spec))
    sparse, ragged = isinstance(spec, tf.SparseTensorSpec), isinstance(spec, tf.RaggedTensorSpec)
    return keras.KerasTensor(spec.shape, spec.dtype.name, sparse=sparse, ragged=ragged)


def describe(nest):
    """Describes a nest of tensors or specs for an error message, each as `float32 [None, 8]`."""
    if isinstance(nest, dict):
        return "{" + ", ".join(f"{key}: {describe(value)}" for key, value in sorted(nest.items())) + "}"
    if isinstance(nest, (list, tuple)):
        return "[" + ", ".join(map(describe, nest)) + "]"
    spec = spec_of(nest)
    if not hasattr(spec, "shape"):
        return repr(spec)
    kind = type(spec).__name__.removesuffix("TensorSpec").lower()
    shape = "of unknown shape" if spec.shape.rank is None else list(spec.shape)
    return f"{kind} {spec.dtype.name} {shape}".lstrip()


def best_fit(inputs, specs, shapes_only=False):
    """Returns the first nest of specs that the inputs fit without a cast, or else with a cast.

    Args:
        shapes_only: Boolean. Whether any dtype fits if none does otherwise.
    """
    received = keras.tree.map_structure(spec_of, inputs)
    for accepted in (operator.eq, _can_be_cast, *([lambda ours, theirs: True] if shapes_only else [])):
        for spec in specs:
            if _fits(received, spec, accepted):
                return spec
    wanted = " or ".join(dict.fromkeys(map(describe, specs)))
    raise HubError(f"The inputs do not match the module. Expected {wanted}. Received: {describe(received)}")


def _fits(received, spec, accepted):
    try:
        keras.tree.assert_same_structure(keras.tree.lists_to_tuples(received), keras.tree.lists_to_tuples(spec))
    except (ValueError, TypeError):
        return False
    return all(
        type(a) is type(b) and b.shape.is_compatible_with(a.shape) and accepted(a.dtype, b.dtype)
        for a, b in zip(keras.tree.flatten(received), keras.tree.flatten(spec))
    )


def _can_be_cast(ours, theirs):
    """Whether a cast keeps the meaning of numbers: ids can become narrower, but fractions must not be cut off."""

    def order(dtype):
        return next((i for i, it_is in enumerate((dtype.is_bool, dtype.is_integer, dtype.is_floating)) if it_is), None)

    if order(ours) is None or order(theirs) is None:
        return ours == theirs
    return order(ours) <= order(theirs)


def placeholders(inputs, spec):
    """Replaces tensors by placeholders of the same shapes with the dtypes of the nest of specs that they fit.

    A `keras.KerasTensor` is kept, since it is part of a functional model.
    """

    def placeholder(tensor, leaf):
        keep = isinstance(tensor, keras.KerasTensor)
        return tensor if keep else tf.compat.v1.placeholder(leaf.dtype, tensor.shape)

    return keras.tree.pack_sequence_as(
        spec, list(map(placeholder, keras.tree.flatten(inputs), keras.tree.flatten(spec)))
    )


def cast(inputs, spec):
    """Casts inputs that fit a nest of specs to its dtypes, in its structure."""
    return keras.tree.pack_sequence_as(spec, list(map(_cast, keras.tree.flatten(inputs), keras.tree.flatten(spec))))


def _cast(tensor, spec):
    tensor = tf.cast(tensor, spec.dtype)
    if isinstance(tensor, tf.Tensor) and not tensor.shape.is_fully_defined():
        return tf.ensure_shape(tensor, spec.shape)  # a function with fixed shapes rejects unknown ones
    return tensor


def with_shape(outputs, shapes, batch):
    """Sets the static shapes of a nest of outputs.

    Args:
        shapes: List or tuple of integers or `None`, without the batch dimension, or a dict or list of them.
    """
    found, rule = _shaped(outputs, shapes, batch), f"`output_shape` must match {describe(outputs)} without the batch"
    expect(found is not None, f"{rule} dimension.", received=f"output_shape={shapes}")
    return found


def _shaped(outputs, shapes, batch):
    """Returns a nest of outputs with static shapes, or `None` if the shapes do not fit it."""
    if isinstance(outputs, dict):
        same = isinstance(shapes, dict) and outputs.keys() == shapes.keys()
        found = [_shaped(output, shapes[name], batch) for name, output in outputs.items()] if same else [None]
        return None if any(output is None for output in found) else dict(zip(outputs, found))
    if isinstance(outputs, (list, tuple)):
        same = isinstance(shapes, (list, tuple)) and len(outputs) == len(shapes)
        found = [_shaped(*pair, batch) for pair in zip(outputs, shapes)] if same else [None]
        return None if any(output is None for output in found) else found
    try:
        shape = batch.concatenate(shapes)
    except (TypeError, ValueError):  # These are no sizes of axes, such as the shapes of several outputs.
        return None
    return tf.ensure_shape(outputs, shape) if outputs.shape.is_compatible_with(shape) else None
