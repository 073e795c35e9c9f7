"""Which weights of a model train: flags of single weights, and of each layer of which none or some do."""

import keras


def set_trainable(model, trainable):
    """Makes exactly these weights trainable, and no layer so of which none are.

    A layer without trainable weights is marked as Keras would (`layer.trainable = False`), so that batch
    normalisation stops to count, and the state survives `.keras` files of models that keep such marks only. A layer
    in which nothing could train anyway keeps its mark, unless a layer around it is frozen or thawed.

    Args:
        model: a built Keras layer or model.
        trainable: collection of its weights (`keras.Variable`).

    Returns:
        The model.
    """
    wanted = {id(weight) for weight in trainable}
    inside = layers_within(model)
    marked = {id(layer) for layer, around in inside if not layer.trainable and (around is None or around.trainable)}
    _thaw(model, inside)
    could = {id(weight) for weight in model.trainable_weights}
    for weight in model.weights:
        weight.trainable = id(weight) in wanted
    for layer, _ in inside:
        if layer is model or not layer.trainable:
            continue
        if not any(id(weight) in could for weight in layer.weights):
            layer.trainable = id(layer) not in marked
        elif not any(weight.trainable for weight in layer.weights):
            layer.trainable = False
    return model


def could_train(model):
    """Returns the list of weights that train when nothing is frozen."""
    restore = remember_trainable(model)
    _thaw(model, layers_within(model))
    weights = list(model.trainable_weights)
    restore()
    return weights


def remember_trainable(model):
    """Returns a function that makes each layer and weight trainable, or not, as it is now."""
    layers = [layer for layer, _ in layers_within(model)]
    marks = [layer.trainable for layer in layers]
    flags = [(weight, weight.trainable) for layer in layers for weight in layer.weights]

    def restore():
        for layer, mark in zip(layers, marks):
            layer.trainable = mark
        for weight, flag in flags:
            weight.trainable = flag

    return restore


def layers_within(model):
    """Returns a list of `(layer, the layer around it)` of a model and all layers in it, from the outside to the inside.

    What it only refers to is there too if it shares weights with the model, or has none.
    """
    own = {id(weight) for weight in model.weights}
    found, seen, waiting = [], set(), [(model, None)]
    while waiting:
        layer, around = waiting.pop(0)
        if id(layer) in seen or (layer.weights and not any(id(weight) in own for weight in layer.weights)):
            continue
        seen.add(id(layer))
        found.append((layer, around))
        waiting += [(part, layer) for part in _layers_in(vars(layer))]
    return found


def _thaw(model, layers):
    """Makes all trainable that can be, and leaves weights of what the model only refers to (a task's encoder)."""
    own = {id(weight) for weight in model.weights}
    others = [(weight, weight.trainable) for layer, _ in layers for weight in layer.weights if id(weight) not in own]
    for layer, _ in layers:
        layer.trainable = False  # Keras on TensorFlow does nothing where a layer is said to be what it is
        layer.trainable = True
    for weight, flag in others:
        weight.trainable = flag


def _layers_in(held):
    # Not by `keras.tree`, which sorts the keys of dicts: a compiled model has one of which the layers are keys.
    if isinstance(held, keras.layers.Layer):
        yield held
    elif isinstance(held, (dict, list, tuple)):
        for part in held.values() if isinstance(held, dict) else held:
            yield from _layers_in(part)
