"""The `trainable` flags of a model's layers and weights."""

import keras


class ReachesAllLayers:
    """A mixin for a model whose `trainable` reaches all of its layers, even if it has the same value already.

    On TensorFlow, Keras ignores `model.trainable = True` if only layers inside the model are frozen.
    """

    def __setattr__(self, name, value):
        if name == "trainable" and self.trainable == value:
            super().__setattr__(name, not value)
        super().__setattr__(name, value)


def set_trainable(model, trainable):
    """Makes exactly these weights of a built layer or model trainable, and returns it.

    A layer without trainable weights is frozen as a whole (`layer.trainable = False`), so the statistics of batch
    normalization do not change, and `.keras` files, which save only the flags of layers, keep the state. A layer
    without weights to train keeps its flag, unless a layer that contains it is frozen or unfrozen.
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
    """Returns the list of weights that would train if nothing were frozen."""
    restore = remember_trainable(model)
    _thaw(model, layers_within(model))
    weights = list(model.trainable_weights)
    restore()
    return weights


def remember_trainable(model):
    """Returns a function that restores the current flags of all layers and weights."""
    layers = [layer for layer, _ in layers_within(model)]
    marks = [layer.trainable for layer in layers]
    flags = [(weight, weight.trainable) for layer in layers for weight in layer.weights]

    def restore():
        # Setting a flag also sets it in all inner layers, even in those that come earlier because another layer has
        # them.
        changed = True
        while changed:
            changed = False
            for layer, mark in zip(layers, marks):
                if layer.trainable != mark:
                    layer.trainable, changed = mark, True
        for weight, flag in flags:
            weight.trainable = flag

    return restore


def layers_within(model):
    """Returns a list of `(layer, containing layer)` for a model and all layers in it, from the outermost inwards.

    It includes layers to which a layer only refers, if they share weights with the model or have none.
    """
    own = {id(weight) for weight in model.weights}
    found, seen, waiting = [], {id(model)}, [(model, None)]
    for layer, around in waiting:  # which grows meanwhile
        weights = layer.weights
        if weights and own.isdisjoint(map(id, weights)):
            continue
        found.append((layer, around))
        for part in _layers_in(vars(layer)):
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append((part, layer))
    return found


def _thaw(model, layers):
    """Unfreezes everything except weights that are not the model's own, in layers that it only refers to."""
    own = {id(weight) for weight in model.weights}
    others = [(weight, weight.trainable) for layer, _ in layers for weight in layer.weights if id(weight) not in own]
    for layer, _ in layers:
        if layer.trainable and all(weight.trainable for weight in layer.weights):
            continue  # A layer around it was unfrozen, or it never was frozen.
        layer.trainable = False  # On TensorFlow, setting the current value has no effect.
        layer.trainable = True
    for weight, flag in others:
        weight.trainable = flag


def _layers_in(held, layer=keras.layers.Layer, containers=(list, tuple, dict)):
    # `keras.tree` sorts the keys of dicts, and a compiled model has a dict whose keys are layers.
    for part in held.values() if isinstance(held, dict) else held:
        if isinstance(part, containers):
            yield from _layers_in(part)
        elif isinstance(part, layer):
            yield part
