"""The base of all kinds of adapters, small dataclasses that add their layers to an encoder, and their names."""

import ast
import dataclasses
import functools

import keras

from keras_transfer.names import check_foreign_arguments, did_you_mean, hint_for

KINDS = {}  # From names in specifications to functions that create a kind.


class AdapterKind:
    """Base class of the kinds of adapters, dataclasses whose fields are their sizes.

    Attributes:
        for_backbones: Boolean. Whether KerasHub backbones can have adapters of this kind.
        lengthens: Boolean. Whether the sequences inside the encoder are longer than its inputs.
    """

    for_backbones = False
    lengthens = False

    def __new__(cls, *args, **kwargs):
        check_foreign_arguments(cls, kwargs)
        return super().__new__(cls)

    def attach(self, encoder, name):
        """Adds the layers of this kind to an encoder under a name."""
        raise NotImplementedError

    def get_config(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def check(self, **rules):
        """Raises a `ValueError` for the first field whose rule is False."""
        for field, (right, expected) in rules.items():
            if not right:
                raise ValueError(
                    f"Invalid value for argument `{field}` of `{type(self).__name__}`. Expected {expected}. "
                    f"Received: {field}={getattr(self, field)!r}"
                )


def register_kind(**names):
    """Returns a decorator that turns the class of a kind into a registered dataclass.

    Args:
        **names: Dicts of arguments by the names under which `add_adapters` finds the kind with them.
    """

    def register(cls):
        cls = dataclasses.dataclass(frozen=True)(cls)
        keras.saving.register_keras_serializable(package="keras_transfer")(cls)
        KINDS.update({name: functools.partial(cls, **arguments) for name, arguments in names.items()})
        return cls

    return register


def kind_of(class_name, config):
    """Returns the kind for a class name and a config that were read from a file.

    Raises:
        ValueError: If the name is unknown.
    """
    known = {cls.__name__: cls for cls in AdapterKind.__subclasses__()}
    if class_name not in known:
        raise ValueError(f"Unknown kind of adapters. Expected one of {sorted(known)}. Received: {class_name!r}")
    return known[class_name].from_config(config)


def get_adapters(spec):
    """Returns the kinds of adapters that a specification describes, as a list.

    Args:
        spec: See `add_adapters`.

    Raises:
        ValueError: If a name is unknown or an argument invalid.

    Example:
    ```python
    [kind] = keras_transfer.adaptation.get_adapters("lora:rank=8,alpha=16")
    ```
    """
    if isinstance(spec, (list, tuple)) and spec:
        return [kind for part in spec for kind in get_adapters(part)]
    if isinstance(spec, AdapterKind):
        return [spec]
    word, _, arguments = str(spec).partition(":")
    if not isinstance(spec, str) or word not in KINDS:
        raise ValueError(
            "`spec` must be a kind of adapters, a list, or a name, one of "
            f"{list(KINDS)}.{did_you_mean(word, KINDS)} Received: {spec!r}"
        )
    fields, values = [field.name for field in dataclasses.fields(KINDS[word].func)], {}
    for i, argument in enumerate(part for part in arguments.split(",") if part):
        key, equals, value = argument.partition("=")
        key, value = (key.strip(), value) if equals else (fields[i] if i < len(fields) else argument, key)
        found = [field for field in fields if key and field.startswith(key)]
        if not found:
            raise ValueError(
                f"Unknown argument of {word!r}.{hint_for(key, fields)} Expected some of {fields}. Received: {spec!r}"
            )
        if found[0] in values:
            raise ValueError(f"The argument {found[0]!r} of {word!r} occurs twice. Received: {spec!r}")
        try:
            values[found[0]] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            values[found[0]] = value.strip()
    return [KINDS[word](**values)]


def positive(value):
    """Returns the rule of `AdapterKind.check` for a positive integer."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0, "a positive integer"


def fraction(value):
    """Returns the rule of `AdapterKind.check` for a dropout rate."""
    return isinstance(value, (int, float)) and 0 <= value < 1, "a number from 0 to below 1"


def boolean(value):
    """Returns the rule of `AdapterKind.check` for a boolean."""
    return isinstance(value, bool), "a boolean"


def strings(value):
    """Returns a string, or a list of strings, as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)
