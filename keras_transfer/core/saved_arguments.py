"""The classes that Keras saves by the arguments of their constructors."""

from keras_transfer.core.names import argument_names


class SavedByArguments:
    """Mixin of the classes whose config is the arguments of the constructor, each an attribute of the same name.

    A subclass that keeps an argument elsewhere extends `get_config`, as for any class of Keras.

    Attributes:
        assets: Tuple of the names of arguments that are saved as files, and not in the config.
    """

    assets: tuple[str, ...] = ()

    def get_config(self):
        names = [name for name in argument_names(type(self), of_keras=True) if name not in self.assets]
        if type(self).get_config is not SavedByArguments.get_config:  # A subclass adds what it keeps elsewhere.
            names = [name for name in names if hasattr(self, name)]
        return {name: _saved(getattr(self, name)) for name in names}

    @classmethod
    def from_config(cls, config):
        return cls(**{name: _loaded(value) for name, value in config.items()})


def _saved(value):
    import keras

    if isinstance(value, (list, tuple)):
        return [_saved(each) for each in value]
    return keras.saving.serialize_keras_object(value) if hasattr(value, "get_config") else value


def _loaded(value):
    import keras

    if isinstance(value, list):
        return [_loaded(each) for each in value]
    is_object = isinstance(value, dict) and "class_name" in value
    return keras.saving.deserialize_keras_object(value) if is_object else value
