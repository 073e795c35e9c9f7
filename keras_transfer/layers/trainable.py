"""Which weights of a model train: flags of single weights, and of each layer of which none or some do."""

import keras


def set_trainable(model, trainable):
    """Makes exactly these weights trainable, and no layer so of which none are.

    A layer without trainable weights is marked as Keras would (`layer.trainable = False`), so that batch
    normalisation stops to count, and the state survives `.keras` files of models that keep such marks only.

    Args:
        model: a built Keras layer or model.
        trainable: collection of its weights (`keras.Variable`).

    Returns:
        The model.
    """
    wanted = {id(weight) for weight in trainable}
    model.trainable = True  # and all layers inside; a layer that is marked as frozen would hide its weights
    for weight in model.weights:
        weight.trainable = id(weight) in wanted
    layers, seen = [model], set()
    while layers:
        layer = layers.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        if layer.weights and not any(weight.trainable for weight in layer.weights) and layer is not model:
            layer.trainable = False
        else:
            inside = keras.tree.flatten([getattr(layer, "layers", []), list(vars(layer).values())])
            layers += [part for part in inside if isinstance(part, keras.layers.Layer)]
    return model
