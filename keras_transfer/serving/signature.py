"""How a function of batches becomes a signature that takes requests of any size, empty ones too."""


def concrete_signature(function, specs, axes=1):
    """Returns `function` as a concrete function that never computes with an empty tensor.

    Kernels cannot be trusted with tensors that have no rows: oneDNN's concatenations and fused matrix products give
    them wrong shapes. Encoders need at least one time step. An empty batch is therefore padded to one row, rows without
    steps to one step, with zeros or "", and the outputs are cut back to the request's size. Other requests cost nothing
    more: `tf.pad` by nothing and a slice of everything return their input. Where there are several inputs, their sizes
    are compared first: different ones are an `InvalidArgumentError`.

    Args:
        function: Function that takes tensors by the names in `specs` and returns a dict of tensors.
        specs: Dict of `tf.TensorSpec`s, all of shape [batch], or all of shape [batch, length, ...].
        axes: Integer, 1 or 2. Number of leading axes that the outputs have in common with the inputs. Defaults to `1`.

    Returns:
        A `tf.types.experimental.ConcreteFunction`.
    """
    import tensorflow as tf

    def answer(**inputs):
        sizes = tf.shape(next(iter(inputs.values())))
        request = tuple(slice(sizes[axis]) for axis in range(axes))
        missing = tf.cast(tf.equal(sizes, 0), tf.int32)
        with tf.control_dependencies(_checks(inputs)):
            inputs = {name: _pad(tensor, missing) for name, tensor in inputs.items()}
        outputs = function(**inputs)
        return {name: output[request] for name, output in outputs.items()}

    return tf.function(answer, autograph=False).get_concrete_function(**specs)


def _checks(inputs):
    """The operations that fail where the inputs of a request differ in size, before any of them is broadcast."""
    import tensorflow as tf

    if len(inputs) == 1:
        return []
    sizes = tf.stack([tf.shape(tensor)[:2] for tensor in inputs.values()])
    message = f"Inputs must have the same batch size and the same length. Received for {list(inputs)}:"
    return [tf.debugging.Assert(tf.reduce_all(tf.equal(sizes, sizes[0])), [message, sizes], summarize=2 * len(inputs))]


def _pad(tensor, missing):
    """A tensor with `missing` further entries along its batch axis and its length axis, where these are dynamic."""
    import tensorflow as tf

    paddings = [[0, 0]] * tensor.shape.rank
    for axis, size in enumerate(tensor.shape[:2]):
        if size is None:
            paddings[axis] = [0, missing[axis]]
    return tf.pad(tensor, paddings)
