"""Checks the labels in a `tf.data.Dataset` when TensorFlow reads them."""


def with_checked_labels(dataset, check):
    """Returns a `tf.data.Dataset` with the same batches, which calls a function on the labels of each batch first.

    This works on every backend, even if the labels are used in a compiled step, which cannot raise errors.

    Args:
        dataset: `tf.data.Dataset` of `(inputs, labels)` or `(inputs, labels, sample_weights)`. Any other dataset, or
            one whose labels are not one dense tensor, is returned unchanged.
        check: Function that takes a NumPy array of labels and raises an error if they are wrong.
    """
    import tensorflow as tf

    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2 or not isinstance(spec[1], tf.TensorSpec):
        return dataset

    def run(labels):
        check(labels)
        return labels

    def checked(inputs, labels, *weights):
        same = tf.numpy_function(run, [labels], labels.dtype)
        same.set_shape(labels.shape)
        return inputs, same, *weights

    return dataset.map(checked)
