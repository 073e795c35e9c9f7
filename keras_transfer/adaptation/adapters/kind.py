"""The base class of all kinds of adapters, dataclasses that add layers to an encoder, and their registry."""

import dataclasses
import functools
from typing import Any, ClassVar, Self

import keras

from keras_transfer.core.expect import Rule, expect, expects

KINDS = {}  # Maps names in specifications to functions that create a kind.
_CLASSES = {}  # Maps the class names in files to classes.


class AdapterKind:
    """Base class of the kinds of adapters, dataclasses whose fields are their sizes.

    Attributes:
        for_backbones: Boolean. Whether KerasHub backbones can have adapters of this kind.
        merges: Boolean. Whether `merge_adapters` can merge adapters of this kind, whose layers all have `merged`.
        lengthens: Boolean. Whether the sequences inside the encoder are longer than its inputs.
        peft_type: String. What PEFT calls a kind that its folders can have, with `to_peft` and `from_peft`, or `None`.
    """

    for_backbones = False
    merges = False
    lengthens = False
    peft_type: ClassVar[str | None] = None

    def attach(self, encoder: Any, name: str) -> None:
        """Adds the layers of this kind to an encoder. `add_adapters` calls it.

        Args:
            encoder: Encoder with blocks.
            name: String. Name of the adapters.

        Raises:
            ValueError: If the encoder cannot have adapters of this kind.
        """
        raise NotImplementedError

    def to_peft(self, modules: dict, arrays: dict, prefix: str) -> tuple:
        """Returns what a PEFT folder has of adapters of this kind.

        Args:
            modules: Dict from the names of modules in Transformers to lists of `Segment`s.
            arrays: Dict from the names of adapter weights to arrays.
            prefix: String. Prefix of the names of modules in PEFT.

        Returns:
            A tuple of a dict of tensors, the list of their modules, the set of the arrays in them, and a dict of
            settings.
        """
        raise NotImplementedError

    @classmethod
    def from_peft(cls, config: dict, modules: dict, folder: Any) -> tuple:
        """Returns a kind that computes the same as the adapters in a PEFT folder.

        Args:
            config: Dict of the folder's settings.
            modules: Dict from the names of modules to pairs: their list of `Segment`s, and a dict of their tensors.
            folder: Path of the folder, for errors.

        Returns:
            A tuple of the kind, and a dict of its tensors.
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


def register_kind(**names):
    """Returns a decorator for the class of a kind. `add_adapters` finds it by these names, each with its arguments."""

    def register(cls):
        rules = [getattr(base.__init__, "rules", {}) for base in reversed(cls.__mro__[1:])]
        cls = dataclasses.dataclass(frozen=True)(cls)  # Its constructor is new, and has the rules of its bases.
        cls = expects(**{name: rule for each in rules for name, rule in each.items()})(cls)
        keras.saving.register_keras_serializable(package="keras_transfer")(cls)
        _CLASSES[cls.__name__] = cls
        KINDS.update({name: functools.partial(cls, **arguments) for name, arguments in names.items()})
        return cls

    return register


def kind_of(class_name, config):
    """Returns the kind for a class name and a config from a file."""
    rule = f"Unknown kind of adapters. Expected one of {sorted(_CLASSES)}."
    expect(class_name in _CLASSES, rule, class_name=class_name)
    return _CLASSES[class_name].from_config(config)


def kinds_of_peft():
    """Returns a dict from what PEFT calls a kind to the class of the kind."""
    return {kind.peft_type: kind for kind in _CLASSES.values() if kind.peft_type is not None}


def strings(value):
    """Returns a string, or a list of strings, as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)


NAMES = Rule(
    "a name or a list of names",
    lambda value: len(names := strings(value)) > 0 and all(isinstance(name, str) and name for name in names),
    ("", (), [1]),
    convert=strings,
)
