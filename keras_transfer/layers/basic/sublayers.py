"""Creates the layers inside a layer."""

import keras


def make_dense(layer, units, name, input_shape):
    """Returns a built `Dense` layer with the `use_bias`, `kernel_initializer` and dtype policy of `layer`."""
    dense = keras.layers.Dense(
        units,
        use_bias=layer.use_bias,
        # A clone for each kernel: kernels of one initializer instance would start from the same numbers.
        kernel_initializer=layer.kernel_initializer.clone(),
        dtype=layer.dtype_policy,
        name=name,
    )
    dense.build(input_shape)
    return dense
