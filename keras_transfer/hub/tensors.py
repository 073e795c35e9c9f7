"""Nests of tensors: what they are, whether they fit what a module takes, and their casts."""

import keras
import numpy as np

from keras_transfer.hub.errors import HubError


def as_tensors(nest):
    """Returns a nest of tensors, of which each array, Python value, or list of such makes one.

    Keras would take a list of texts for a list of inputs.

    Raises:
        HubError: a list is no tensor, since its items are of different kinds or lengths.
    """
    import tensorflow as tf

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
        raise HubError(f"a list is of texts or numbers, of one shape and kind. Received: {nest}") from error


def spec_of(tensor):
    """Returns the `tf.TypeSpec` of a tensor, eager or symbolic; anything else as it is."""
    import tensorflow as tf

    if isinstance(tensor, keras.KerasTensor):
        kind = tf.RaggedTensorSpec if tensor.ragged else tf.SparseTensorSpec if tensor.sparse else tf.TensorSpec
        return kind(tensor.shape, tensor.dtype)
    return tf.type_spec_from_value(tensor) if tf.is_tensor(tensor) else tensor


def symbolic(tensor):
    """Returns the `keras.KerasTensor` that stands for a tensor."""
    import tensorflow as tf

    spec = spec_of(tensor)
    if spec.shape.rank is None:
        raise HubError(f"the module does not say its outputs' shape: pass `output_shape`. Received: {describe(spec)}")
    sparse, ragged = isinstance(spec, tf.SparseTensorSpec), isinstance(spec, tf.RaggedTensorSpec)
    return keras.KerasTensor(spec.shape, spec.dtype.name, sparse=sparse, ragged=ragged)


def describe(nest):
    """Returns what tensors, or their specs, are: `float32 [None, 8]` for each, in their nest."""
    if isinstance(nest, dict):
        return "{" + ", ".join(f"{key}: {describe(value)}" for key, value in sorted(nest.items())) + "}"
    if isinstance(nest, (list, tuple)):
        return "[" + ", ".join(map(describe, nest)) + "]"
    spec = spec_of(nest)
    if not hasattr(spec, "shape"):
        return repr(spec)
    kind = type(spec).__name__.removesuffix("TensorSpec").lower()
    shape = "of any shape" if spec.shape.rank is None else list(spec.shape)
    return f"{kind} {spec.dtype.name} {shape}".lstrip()


def best_fit(inputs, specs):
    """Returns the first nest of specs that the inputs fit as they are, or else when cast.

    Raises:
        HubError: they fit none.
    """
    received = keras.tree.map_structure(spec_of, inputs)
    for accepted in (_same_dtype, _can_be_cast):
        for spec in specs:
            if _fits(received, spec, accepted):
                return spec
    wanted = " or ".join(dict.fromkeys(map(describe, specs)))
    raise HubError(f"the module takes {wanted}. Received: {describe(received)}")


def _fits(received, spec, accepted):
    try:
        keras.tree.assert_same_structure(keras.tree.lists_to_tuples(received), keras.tree.lists_to_tuples(spec))
    except (ValueError, TypeError):
        return False
    return all(
        type(a) is type(b) and b.shape.is_compatible_with(a.shape) and accepted(a.dtype, b.dtype)
        for a, b in zip(keras.tree.flatten(received), keras.tree.flatten(spec))
    )


def _same_dtype(ours, theirs):
    return ours == theirs


def _can_be_cast(ours, theirs):
    """Whether a cast keeps what numbers mean: ids may become narrower, but no fractions be cut off."""

    def order(dtype):
        return next((i for i, it_is in enumerate((dtype.is_bool, dtype.is_integer, dtype.is_floating)) if it_is), None)

    if order(ours) is None or order(theirs) is None:
        return ours == theirs
    return order(ours) <= order(theirs)


def cast(inputs, spec):
    """Returns inputs that fit a nest of specs as tensors of these dtypes, in the very same nest."""
    return keras.tree.pack_sequence_as(spec, list(map(_cast, keras.tree.flatten(inputs), keras.tree.flatten(spec))))


def _cast(tensor, spec):
    import tensorflow as tf

    tensor = tf.cast(tensor, spec.dtype)
    if isinstance(tensor, tf.Tensor) and not tensor.shape.is_fully_defined():
        return tf.ensure_shape(tensor, spec.shape)  # a function of a fixed length takes no tensor of an unknown one
    return tensor


def with_shape(outputs, shapes, batch):
    """Returns a nest of outputs with what is known of their shapes.

    Args:
        outputs: tensor, or dict or list of such.
        shapes: list or tuple of int or None, without the batch; or a dict or list of such.
        batch: `tf.TensorShape` of the batch.

    Raises:
        HubError: they do not fit.
    """
    import tensorflow as tf

    try:
        if isinstance(outputs, dict) and outputs.keys() == shapes.keys():
            return {name: with_shape(output, shapes[name], batch) for name, output in outputs.items()}
        if isinstance(outputs, (list, tuple)):
            return [with_shape(output, shape, batch) for output, shape in zip(outputs, shapes, strict=True)]
        shape = batch.concatenate(shapes)
        if outputs.shape.is_compatible_with(shape):
            return tf.ensure_shape(outputs, shape)
    except (AttributeError, TypeError, ValueError):  # the nests differ
        pass
    raise HubError(f"`output_shape` must fit {describe(outputs)}, without the batch. Received: {shapes}")
