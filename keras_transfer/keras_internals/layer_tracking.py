"""The layers that a layer tracks."""

import contextlib


@contextlib.contextmanager
def unlocked(layer):
    """Allows adding layers to a built layer in this context, as Keras does for `Dense.enable_lora`."""
    tracker = layer._tracker
    locked = tracker.locked
    try:
        tracker.unlock()
        yield
    finally:
        tracker.locked = locked


def forget(layer, part):
    """Removes `part` from the layers that `layer` tracks."""
    layer._tracker.untrack(part)


def layers_in(model):
    """Returns a list of all layers in a model, also inside other layers."""
    return model._flatten_layers(include_self=False)
