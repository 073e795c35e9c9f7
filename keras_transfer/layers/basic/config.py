"""The config of a layer, from the arguments of its constructor."""

import keras

from keras_transfer.core.names import argument_names
from keras_transfer.layers.basic.activations import serialize_activation


class ConfigOfArguments:
    """A mixin before `Layer`: to its config, it adds the constructor's arguments, from the attributes of their names.

    `SavedByArguments` does so for what is no layer, whose name, dtype policy and flags Keras saves.
    """

    def get_config(self):
        config = super().get_config()
        names = [name for name in argument_names(type(self)) if name not in config and hasattr(self, name)]
        return {**config, **{name: _plain(getattr(self, name)) for name in names}}


def _plain(value):
    """Returns an argument in a form for a config."""
    if isinstance(value, keras.layers.Dropout):
        return value.rate
    if isinstance(value, keras.initializers.Initializer):
        return keras.initializers.serialize(value)
    if isinstance(value, keras.layers.Layer):
        # The shape that it was built for is left out, because the layer that holds it builds it, so that the paths of
        # its weights contain that layer.
        return {key: each for key, each in keras.layers.serialize(value).items() if key != "build_config"}
    return serialize_activation(value) if callable(value) else value
