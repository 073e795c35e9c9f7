"""Checks the labels and sample weights in a `tf.data.Dataset` when TensorFlow reads them."""


def with_checked_labels(dataset, check, check_weights):
    """Returns a `tf.data.Dataset` with the same batches, which first calls functions on the labels and weights of each.

    This works on every backend, even if the labels are used in a compiled step, which cannot raise errors.

    Args:
        dataset: `tf.data.Dataset` of `(inputs, labels)` or `(inputs, labels, sample_weights)`. Any other dataset, or
            one whose labels are not one dense tensor, is returned unchanged.
        check: Function that takes a NumPy array of labels and raises an error if they are wrong.
        check_weights: The same for sample weights. Weights that are not one dense tensor are not checked.
    """
    import tensorflow as tf

    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2 or not isinstance(spec[1], tf.TensorSpec):
        return dataset

    def after(check, values):
        def run(values):
            check(values)
            return values

        same = tf.numpy_function(run, [values], values.dtype)
        same.set_shape(values.shape)
        return same

    def checked(inputs, labels, *weights):
        weights = [after(check_weights, each) if isinstance(each, tf.Tensor) else each for each in weights]
        return inputs, after(check, labels), *weights

    return dataset.map(checked)
