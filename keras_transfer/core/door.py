"""The door of the package: what does not exist there is an error that says what to use instead, for any public name."""

import functools
import sys
import types

from keras_transfer.core.expect import explained
from keras_transfer.core.names import attribute_elsewhere, did_you_mean, elsewhere


class NamesElsewhere(type):
    """The class of classes whose missing attributes, such as `from_preset`, and constructor arguments are explained."""

    def __getattr__(cls, name):
        raise AttributeError(missing_attribute(cls, name))

    def __call__(cls, *args, **kwargs):
        with explained(cls, kwargs):
            return super().__call__(*args, **kwargs)


def missing_attribute(cls, name):
    """Returns the message of an `AttributeError` for a public attribute that a class or its object does not have."""
    own = None if name.startswith("_") else attribute_elsewhere(name, cls)
    hint = "" if own is None else f" Use {own}."
    return f"{cls.__name__!r} has no attribute {name!r}.{hint}"


def open_door(module):
    """Explains the names that a subpackage and the modules in it lack. Completion shows only those they list."""
    for each in (module, *modules_of(module).values()):
        each.__dict__["__getattr__"] = functools.partial(missing_name, each)
        each.__dict__["__dir__"] = functools.partial(sorted, each.__all__)


def missing_name(module, name):
    """Raises the `AttributeError` of a module for a name that it lacks."""
    if name.startswith("_"):
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    listed = modules_of(sys.modules["keras_transfer"])
    listed |= {f"{room}.{inner}": other for room in listed for inner, other in modules_of(listed[room]).items()}
    places = [f"`kt.{place}.{name}`" for place, other in listed.items() if name in other.__all__]
    own = places[0] if places else elsewhere(name)
    hint = did_you_mean(name, module.__all__) if own is None else f" Use {own}."
    raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}.{hint}")


def modules_of(module):
    """Imports the modules that a module lists, and returns them by their names."""
    found = {name: getattr(module, name) for name in module.__all__}
    return {name: value for name, value in found.items() if isinstance(value, types.ModuleType)}
