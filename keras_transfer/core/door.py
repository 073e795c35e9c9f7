"""The door of the package: what does not exist there is an error that says what to use instead, for any public name."""

import functools
import inspect
import re
import sys
import types

from keras_transfer.core.names import attribute_elsewhere, check_arguments, did_you_mean, elsewhere, equivalent
from keras_transfer.core.saved_arguments import accepted_arguments

_UNKNOWN = re.compile(  # What Python, a layer, and an optimizer of Keras say.
    r"got an unexpected keyword argument '(\w+)'|Unrecognized keyword arguments passed to \w+: \{'(\w+)'"
    r"|Arguments?(?:\(s\))? not recognized: \{'(\w+)'"
)
_EXPLAINED = re.compile(r"`([\w.]+)` has no argument `(\w+)`")  # What `check_arguments` says.
_FROM_KERAS = {"fit", "evaluate", "predict", "compile"}  # Methods of Keras that users call with arguments.
_OWN = "keras_transfer."
_seen: set = set()  # The methods that are explained already.


class NamesElsewhere(type):
    """The class of classes whose missing class methods and attributes are explained, such as `from_preset`."""

    def __getattr__(cls, name):
        raise AttributeError(missing_attribute(cls, name))


def missing_attribute(cls, name):
    """Returns the message of an `AttributeError` for a public attribute that a class or its object does not have."""
    own = None if name.startswith("_") else attribute_elsewhere(name, cls)
    hint = "" if own is None else f" Use {own}."
    return f"{cls.__name__!r} has no attribute {name!r}.{hint}"


def open_door(module):
    """Explains missing names and arguments of a subpackage and of its modules. Other values stay as they are."""
    if not isinstance(module, types.ModuleType):
        return
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, type):
            _explain_methods(value)
        elif inspect.isfunction(value) and value.__module__.startswith(_OWN):
            home = sys.modules[value.__module__]
            explained = getattr(home, value.__name__)
            if explained is value:
                explained = _explained(value)
                setattr(home, value.__name__, explained)
            setattr(module, name, explained)
        else:
            open_door(value)
    module.__dict__["__getattr__"] = functools.partial(missing_name, module)
    module.__dict__["__dir__"] = functools.partial(sorted, module.__all__)


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


def _explain_methods(cls):
    """Explains the arguments of a class: its constructor, its class methods, and the methods that users call."""
    of_keras = {name for base in cls.__mro__ if base.__module__.startswith("keras.") for name in vars(base)}
    answers = hasattr(cls, "from_pretrained") and hasattr(cls, "signatures")  # a task, and no layer inside a model
    owners = [owner for owner in cls.__mro__ if owner.__module__.startswith(_OWN)]
    found = [(owner, name, value) for owner in owners for name, value in vars(owner).items()]
    if of_keras and not any("__init__" in vars(owner) for owner in owners):
        found.append((cls, "__init__", cls.__init__))
    for owner, name, value in found:
        method = value.__func__ if isinstance(value, classmethod) else value
        public = name == "__init__" or (not name.startswith("_") and (name not in of_keras or name in _FROM_KERAS))
        used = name == "__init__" or isinstance(value, classmethod) or answers or not of_keras
        if (owner, name) in _seen or not (public and used and inspect.isfunction(method)):
            continue
        _seen.add((owner, name))
        explained = _explained(method, name)
        setattr(owner, name, classmethod(explained) if isinstance(value, classmethod) else explained)


def _explained(function, method=None):
    """Returns a function whose error for an argument that it lacks says what to pass instead."""

    @functools.wraps(function)
    def explained(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            message, call = str(error), f"{function.__qualname__}()"
            found, inner = _UNKNOWN.search(message), _EXPLAINED.match(message)
            if not (found or inner or message.startswith(call)):
                raise
            what, known = _called(function, method, args)
            names = [name for name in kwargs if name not in known and (not found or name in found.groups())]
            if inner:  # A function that this one calls. It knows best, unless this one has the argument to use instead.
                names = [name for name in names if name == inner[2] and (equivalent(name, known) or [""])[0]]
            if (inner and (not names or what == inner[1])) or not (names or message.startswith(call)):
                raise
        check_arguments(what, {name: kwargs[name] for name in names}, known)
        raise TypeError(message.replace(call, f"{what}()"))  # Such as a missing argument.

    if method == "__init__":
        explained.__signature__ = inspect.signature(function)  # Keras does not follow wrappers.
    return explained


def _called(function, method, args):
    """Returns the public name of a function, and the arguments that it accepts, also in those that it calls."""
    if method is None or not args:
        return function.__name__, accepted_arguments([function])
    cls = args[0] if isinstance(args[0], type) else type(args[0])
    name = cls.__name__ if method == "__init__" else f"{cls.__name__}.{method}"
    return name, accepted_arguments(vars(base)[method] for base in cls.__mro__ if method in vars(base))
