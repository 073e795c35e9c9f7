"""Checks the labels and sample weights in a `tf.data.Dataset` when TensorFlow reads them."""


def with_checked_labels(dataset, check, check_weights):
    """Returns a `tf.data.Dataset` with the same batches, which first calls functions on the labels and weights of each.

    This works on every backend, even if the labels are used in a compiled step, which cannot raise errors.

    Args:
        dataset: `tf.data.Dataset` of `(inputs, labels)` or `(inputs, labels, sample_weights)`. Any other dataset, or
            one whose labels are not dense tensors, is returned unchanged.
        check: Function that takes labels, a NumPy array or a dict of arrays, and raises an error if they are wrong.
        check_weights: The same for sample weights. Weights that are not dense tensors are not checked.
    """
    import tensorflow as tf

    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2 or not _is_dense(spec[1], tf.TensorSpec):
        return dataset

    def after(check, values):
        parts = tf.nest.flatten(values)

        def run(*arrays):
            check(tf.nest.pack_sequence_as(values, arrays))
            return arrays

        same = tf.numpy_function(run, parts, [part.dtype for part in parts])
        for part, before in zip(same, parts):
            part.set_shape(before.shape)
        return tf.nest.pack_sequence_as(values, same)

    def checked(inputs, labels, *weights):
        weights = [after(check_weights, each) if _is_dense(each, tf.Tensor) else each for each in weights]
        return inputs, after(check, labels), *weights

    return dataset.map(checked)


def _is_dense(values, kind):
    return isinstance(values, kind) or (
        isinstance(values, dict) and bool(values) and all(isinstance(value, kind) for value in values.values())
    )
