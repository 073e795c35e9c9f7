"""Configs of objects that keep the arguments of their constructors."""

import inspect

import keras


class Configured:
    """A mixin for a class whose config is the arguments of its constructor, kept as attributes of the same names."""

    def get_config(self):
        names = inspect.signature(type(self)).parameters
        return {name: keras.saving.serialize_keras_object(getattr(self, name)) for name in names}

    @classmethod
    def from_config(cls, config):
        return cls(**{name: keras.saving.deserialize_keras_object(value) for name, value in config.items()})
