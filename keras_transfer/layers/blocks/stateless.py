"""A block as a function of its variables: run twice to save memory, or traced once for all blocks that are equal."""

import functools

import keras

from keras_transfer.core.expect import expect
from keras_transfer.keras_internals import call_shared, in_plain_graph, layers_within, without_autocast

_ACTIVATIONS = {None, keras.activations.linear, keras.activations.gelu}
_PLAIN = (bool, int, float, str, list, tuple, type(None))


def rematerialized(layer, function):
    """Returns a function that computes the same, but keeps only its inputs for the gradient.

    `keras.remat` knows neither the weights of a layer nor the random numbers of its dropout. Here, both are inputs, so
    that the second time has the same random numbers as the first. On TensorFlow, a weight of the layer that the
    function does not use gets a gradient of zeros instead of none, so that weight decay reaches it.

    Args:
        function: Function that returns a tensor, given structures of tensors and of anything else. It must not add
            losses, nor change other variables of the layer than the states of its random numbers.
    """
    variables = _variables_of(layer)

    @functools.wraps(function)
    def compute(*structures):
        with without_autocast():
            # `convert_to_tensor` would return the variables themselves on TensorFlow, and their gradients twice.
            values = [keras.ops.reshape(variable, variable.shape) for variable in variables]
        parts = [*values, *keras.tree.flatten(structures)]
        # TensorFlow differentiates all arguments, and nothing else.
        places = [place for place, part in enumerate(parts) if keras.ops.is_tensor(part) and _is_float(part)]

        def run(*floats):
            now = _put(floats, places, parts)
            given = keras.tree.pack_sequence_as(structures, now[len(values) :])
            outputs, states, losses = _run(function, given, variables, now)
            rule = "A block that is rematerialized cannot add losses, such as those of `activity_regularizer`."
            expect(not losses, rule, block=layer.path)
            return outputs, states

        outputs, states = keras.remat(run)(*(parts[place] for place in places))
        _keep(variables, states)
        return outputs

    return compute


def traced_once(layer, function, kinds):
    """Returns a function that computes the same, but that TensorFlow traces once for all equal layers of a graph.

    Before the first step of a model, tracing equal blocks takes long. Here, each of them is a call of one function,
    with its weights and the states of its random numbers as arguments, and TensorFlow merges the calls into the graph.
    The results are the same numbers. What may differ from layer to layer in another way is traced as usual: a layer
    with frozen weights, with a layer that is not one of `kinds`, or with losses.

    Args:
        function: Function that returns a tensor, given structures of tensors and of plain values. It must not change
            other variables of the layer than the states of its random numbers.
        kinds: Set of the classes of layers of which the layer may consist.
    """
    layers = [part for part, _ in layers_within(layer)] if in_plain_graph() else []
    known = layers and all(type(part) in kinds and part.activity_regularizer is None for part in layers)
    known = known and {getattr(part, "activation", None) for part in layers} <= _ACTIVATIONS
    variables = _variables_of(layer) if known else []
    if not known or not all(variable.trainable for variable in variables if _is_float(variable)):
        return function

    @functools.wraps(function)
    def compute(*structures):
        parts = keras.tree.flatten(structures)
        places = [place for place, part in enumerate(parts) if keras.ops.is_tensor(part)]
        others = [part for part in parts if not keras.ops.is_tensor(part)]
        if not all(isinstance(part, _PLAIN) for part in others):  # Functions that record what a layer computes.
            return function(*structures)

        def run(tensors, values):
            given = keras.tree.pack_sequence_as(structures, _put(tensors, places, parts))
            return _run(function, given, variables, values)[:2]

        form = repr(keras.tree.map_structure(lambda part: "" if keras.ops.is_tensor(part) else part, structures))
        key = (form, *map(_form_of, layers))
        with without_autocast():
            tensors, values = [parts[place] for place in places], [variable.value for variable in variables]
            outputs, states = call_shared(run, key, tensors, values)
        _keep(variables, states)
        return outputs

    return compute


def _form_of(layer):
    """Returns what two layers of the same class must have in common to compute the same with the same weights."""
    plain = {name: value for name, value in vars(layer).items() if name[0] != "_" and isinstance(value, _PLAIN)}
    return type(layer), layer.dtype_policy.name, getattr(layer, "activation", None), repr({**plain, "name": None})


def _variables_of(layer):
    return list({id(v): v for part, _ in layers_within(layer) for v in part.variables}.values())


def _seeds_among(variables):
    return [v for v in variables if not v.trainable and not _is_float(v)]


def _run(function, structures, variables, values):
    """Returns the outputs of a function if variables have given values, the new states of seeds, and the losses."""
    with keras.StatelessScope(collect_losses=True, state_mapping=list(zip(variables, values))) as scope:
        outputs = function(*structures)
    return outputs, [scope.get_current_value(seed) for seed in _seeds_among(variables)], scope.losses


def _put(values, places, parts):
    """Returns parts of which those at some places are replaced by values."""
    found = dict(zip(places, values, strict=True))
    return [found.get(place, part) for place, part in enumerate(parts)]


def _keep(variables, states):
    for seed, state in zip(_seeds_among(variables), states, strict=True):
        seed.assign(state)


def _is_float(value):
    return keras.backend.is_float_dtype(keras.backend.standardize_dtype(value.dtype))
