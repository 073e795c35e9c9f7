"""The methods of a comparison: their names, their variants, and strings that identify them."""

import dataclasses
import functools
import inspect

from keras_transfer.adaptation.adapters.base import KINDS, get_adapters
from keras_transfer.adaptation.recipes import RECIPES, Recipe, get_recipe
from keras_transfer.names import did_you_mean

# Results of earlier versions lack these settings, which were off then.
LATER = ("gradient_accumulation_steps", "rematerialize", "precision")
PLAIN = (bool, int, float, str, type(None))


def named_variants(methods):
    """Returns `{name: {definition: Recipe or callable}}` for the argument `methods` of `compare`."""
    if isinstance(methods, dict):
        named = list(methods.items())
    elif isinstance(methods, (list, tuple)):
        named = [(_name(method), method) for method in methods]
    else:
        raise ValueError(f"`methods` must be a list or a dict. Received: methods={methods!r}")
    names = [name for name, _ in named]
    if not names:
        raise ValueError(f"`methods` must have at least one method. Received: methods={methods!r}")
    if len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"`methods` must have different names, which are strings. Received: {names}")
    return {name: _variants(name, method) for name, method in named}


def _name(method):
    name = method if isinstance(method, str) else getattr(method, "__name__", None)
    if name is None or name == "<lambda>":
        raise ValueError(
            "A list of methods can contain names of recipes and named functions. To name other methods, pass a dict. "
            f"Received: {method!r}"
        )
    return name


def _variants(name, method):
    several = method if isinstance(method, (list, tuple)) else [method]
    if not several:
        raise ValueError(f"A method must have at least one variant. Received: methods[{name!r}]={method!r}")
    variants = {}
    for variant in several:
        if not isinstance(variant, Recipe) and not callable(variant):
            variant = _named(variant)
        definition = define(variant)
        alike = sum(other.partition(" #")[0] == definition for other in variants)
        variants[f"{definition} #{alike + 1}" if alike else definition] = variant
    return variants


def _named(name):
    """Returns the recipe with a name, or a recipe that trains the adapters with that name."""
    word = str(name).partition(":")[0]
    if isinstance(name, str) and word in KINDS:
        get_adapters(name)  # Raises if a size is invalid.
        return get_recipe("adapters", adapters=name)
    if isinstance(name, str) and name in RECIPES:
        return get_recipe(name)
    raise ValueError(
        f"A method must be a `Recipe`, a callable, the name of a recipe, one of {sorted(RECIPES)}, or of adapters, one "
        f"of {sorted(KINDS)}.{did_you_mean(word, [*RECIPES, *KINDS])} Received: {name!r}"
    )


def define(method):
    """Returns a string that identifies a recipe or callable and is the same in each process."""
    if isinstance(method, Recipe):
        values = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
        values = {name: value for name, value in values.items() if name not in LATER or value}
        return f"Recipe({', '.join(f'{name}={value!r}' for name, value in values.items())})"
    values = {}
    if isinstance(method, functools.partial):
        values = {**{str(place): value for place, value in enumerate(method.args)}, **method.keywords}
        name = define(method.func)
    elif inspect.isfunction(method):
        values, name = inspect.getclosurevars(method).nonlocals, method.__qualname__
    else:
        name = getattr(method, "__qualname__", None) or type(method).__qualname__
    plain = ", ".join(f"{key}={value!r}" for key, value in values.items() if isinstance(value, PLAIN))
    return f"{name}({plain})" if plain else name
