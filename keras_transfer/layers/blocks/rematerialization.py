"""A part of a layer whose intermediate results are computed again for the gradient instead of kept."""

import functools

import keras

from keras_transfer.keras_internals import layers_within, without_autocast


def rematerialized(layer, function):
    """Returns a function that computes the same, but keeps only its inputs for the gradient.

    `keras.remat` knows neither the weights of a layer nor the random numbers of its dropout. Here, both are inputs, so
    that the second time has the same random numbers as the first. On TensorFlow, a weight of the layer that the
    function does not use gets a gradient of zeros instead of none, so that weight decay reaches it.

    Args:
        layer: Layer whose weights the function uses.
        function: Function that returns a tensor, given structures of tensors and of anything else. It must not add
            losses, nor change other variables of the layer than the states of its random numbers.
    """

    @functools.wraps(function)
    def compute(*structures):
        variables = list({id(v): v for part, _ in layers_within(layer) for v in part.variables}.values())
        with without_autocast():
            # `convert_to_tensor` would return the variables themselves on TensorFlow, and their gradients twice.
            values = [keras.ops.reshape(variable, variable.shape) for variable in variables]
        parts = [*values, *keras.tree.flatten(structures)]
        # TensorFlow differentiates all arguments, and nothing else.
        places = [place for place, part in enumerate(parts) if _is_float(part)]

        def run(*floats):
            now = list(parts)
            for place, value in zip(places, floats, strict=True):
                now[place] = value
            given = keras.tree.pack_sequence_as(structures, now[len(values) :])
            with keras.StatelessScope(collect_losses=True, state_mapping=list(zip(variables, now))) as scope:
                outputs = function(*given)
            if scope.losses:
                raise ValueError(
                    "A block that is rematerialized cannot add losses, such as those of `activity_regularizer`. "
                    f"Received: {len(scope.losses)} losses of {layer.path}"
                )
            return outputs, [scope.get_current_value(seed) for seed in seeds]

        seeds = [v for v in variables if not v.trainable and not keras.backend.is_float_dtype(v.dtype)]
        outputs, states = keras.remat(run)(*(parts[place] for place in places))
        for seed, state in zip(seeds, states, strict=True):
            seed.assign(state)
        return outputs

    return compute


def _is_float(part):
    dtype = getattr(part, "dtype", None)
    return keras.ops.is_tensor(part) and keras.backend.is_float_dtype(keras.backend.standardize_dtype(dtype))
