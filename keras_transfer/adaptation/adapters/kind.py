"""The base class of all kinds of adapters, dataclasses that add layers to an encoder, and their registry."""

import dataclasses
import functools
import numbers
from typing import Any, Self

import keras
import numpy as np

KINDS = {}  # Maps names in specifications to functions that create a kind.
_CLASSES = {}  # Maps the class names in files to classes.


class AdapterKind:
    """Base class of the kinds of adapters, dataclasses whose fields are their sizes.

    Attributes:
        for_backbones: Boolean. Whether KerasHub backbones can have adapters of this kind.
        merges: Boolean. Whether `merge_adapters` can merge adapters of this kind, whose layers all have `merged`.
        lengthens: Boolean. Whether the sequences inside the encoder are longer than its inputs.
    """

    for_backbones = False
    merges = False
    lengthens = False

    def attach(self, encoder: Any, name: str) -> None:
        """Adds the layers of this kind to an encoder. `add_adapters` calls it.

        Args:
            encoder: Encoder with blocks.
            name: String. Name of the adapters.

        Raises:
            ValueError: If the encoder cannot have adapters of this kind.
        """
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the fields of the kind.

        Returns:
            Dict of plain values.
        """
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Returns a kind from its config.

        Args:
            config: Dict that `get_config` returned.

        Returns:
            The kind.
        """
        return cls(**config)

    def check(self, **rules: Any) -> None:
        """Raises a `ValueError` for the first field whose rule is not satisfied.

        Args:
            **rules: Tuples of a boolean, whether the field is valid, and a string, the expected value.
        """
        for field, (right, expected) in rules.items():
            value = getattr(self, field)
            if not right:
                raise ValueError(
                    f"Invalid value for argument `{field}` of `{type(self).__name__}`. Expected {expected}. "
                    f"Received: {field}={value!r}"
                )
            if isinstance(value, np.generic):  # Configs are JSON.
                object.__setattr__(self, field, value.item())


def register_kind(**names):
    """Returns a decorator for the class of a kind. `add_adapters` finds it by these names, each with its arguments."""

    def register(cls):
        cls = dataclasses.dataclass(frozen=True)(cls)
        keras.saving.register_keras_serializable(package="keras_transfer")(cls)
        _CLASSES[cls.__name__] = cls
        KINDS.update({name: functools.partial(cls, **arguments) for name, arguments in names.items()})
        return cls

    return register


def kind_of(class_name, config):
    """Returns the kind for a class name and a config from a file."""
    if class_name not in _CLASSES:
        raise ValueError(f"Unknown kind of adapters. Expected one of {sorted(_CLASSES)}. Received: {class_name!r}")
    return _CLASSES[class_name].from_config(config)


def positive(value):
    """Returns the rule of `AdapterKind.check` for a positive integer."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value > 0, "a positive integer"


def fraction(value):
    """Returns the rule of `AdapterKind.check` for a dropout rate."""
    return isinstance(value, numbers.Real) and 0 <= value < 1, "a number from 0 to below 1"


def boolean(value):
    """Returns the rule of `AdapterKind.check` for a boolean."""
    return isinstance(value, bool), "a boolean"


def strings(value):
    """Returns a string, or a list of strings, as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)
