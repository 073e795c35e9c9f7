"""What a task stores in a `.keras` file besides its weights: its settings, and the heads of inactive adapters."""

import inspect
import logging

import keras
import numpy as np

from keras_transfer.encoders import by_path, quantization_of, quantize_again
from keras_transfer.keras_internals import could_train, set_trainable
from keras_transfer.layers import serialize_activation

log = logging.getLogger("keras_transfer")

_ACTIVE = "active adapters "
_NO_ARGUMENTS = ("frozen", "fitted_on", "quantization")  # Entries of a config that `from_config` uses itself.


def store_heads(adapters, store):
    """Adds the heads of inactive adapters to the store that `save_own_variables` writes."""
    for name, values in adapters.heads.items():
        for i, value in enumerate(values):
            store[f"head {i:03} of {name}"] = value
    if adapters.given:
        store[_ACTIVE + "+".join(adapters.given)] = np.zeros(1, "float32")  # The name of the key counts.


def take_heads(adapters, store):
    """Returns a store without what `store_heads` added, and the dict of heads in it."""
    values, heads = {key: store[key] for key in list(store.keys())}, {}
    for key in [key for key in values if key.startswith(_ACTIVE)]:  # Older files have none.
        values.pop(key)
        active = key.removeprefix(_ACTIVE).split("+")
        if tuple(active) != adapters.given:
            raise ValueError(
                "The head in the file belongs to other adapters than the model's head. Call "
                f"`set_active_adapter(model, {active if len(active) > 1 else active[0]!r})` before you load it. "
                f"Received: a file with the active adapters {active}, and a model with {list(adapters.given)}"
            )
    for key in sorted(key for key in values if key.startswith("head ")):
        heads.setdefault(key.split(" of ", 1)[1], []).append(np.array(values.pop(key)))
    return values, heads


def names_of_classes(labels):
    """Returns the names of the classes of `Labels` as a list, as a dict for several heads, or `None`."""
    heads = getattr(labels, "labels", None)
    if isinstance(heads, dict):
        return {name: names_of_classes(each) for name, each in heads.items()}
    return None if labels.names is None else list(labels.names)


def config_of(task, settings):
    """Returns the config of a task, given the names of the settings of its class."""
    task.head_adapters.check()
    task.reader.require_whole("saved")
    mix = {} if task.scalar_mix is None else {"scalar_mix": keras.saving.serialize_keras_object(task.scalar_mix)}
    kind = {} if task.fitted_on is None else {"fitted_on": task.fitted_on}
    return {
        "encoder": keras.saving.serialize_keras_object(task.encoder),
        "preprocessor": keras.saving.serialize_keras_object(task.preprocessor),
        "frozen": [name for name, weight in by_path(task.weights).items() if not weight.trainable],
        "name": task.name,
        **quantization_of(task),
        **mix,
        **kind,
        **{name: _serialized(getattr(task, name)) for name in settings},
    }


def _serialized(value):
    """Returns the value of a setting in a form for a config."""
    if hasattr(value, "get_config"):
        return keras.saving.serialize_keras_object(value)
    if callable(value):
        return serialize_activation(value)
    return list(value) if isinstance(value, (list, tuple)) else value


def given_arguments(cls, args, kwargs):
    """Returns the names of the arguments of a constructor that have another value than the default, as a tuple."""
    signature = inspect.signature(cls.__init__)
    try:
        given = signature.bind_partial(None, *args, **kwargs).arguments
    except TypeError:
        return ()  # The call of the constructor says what is wrong.
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
    return tuple(name for name, value in [*given.items()][1:] if not _equal(value, defaults[name]))


def _equal(value, default):
    return value is default or (isinstance(value, (str, int, float)) and value == default)


def check_loadable(task, config, settings, given):
    """Raises a `ValueError` if the constructor of a task cannot be called with the task's config, from `config_of`.

    Also logs a warning if a loaded task would have the defaults of those settings that were given to this one.
    """
    name, parameters = type(task).__name__, list(inspect.signature(type(task).__init__).parameters.values())[1:]
    named = {each.name: each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    missing = [key for key, each in named.items() if key not in config and each.default is each.empty]
    unknown = [key for key in config if key not in named and key not in _NO_ARGUMENTS]
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        unknown = []
    if missing or unknown:
        if "outputs" in missing:
            step = "requires `outputs`. Write a subclass whose constructor makes them"
        elif missing:
            step = f"also requires `{missing[0]}`. Pass `settings={{{missing[0]!r}: {missing[0]}}}` to `Task.__init__`"
        else:
            step = f"has no argument `{unknown[0]}`. Add it"
        raise ValueError(
            f"A file of this `{name}` could not be loaded. Loading calls its constructor with `encoder`, "
            f"`preprocessor`, `name` and the settings, but the constructor {step}, or override `get_config`. "
            f"`save_weights` saves the weights alone. Received: settings={list(settings)}"
        )
    if lost := [key for key in given if key in named and key not in config]:
        log.warning(
            "The config of a `%s` does not contain the arguments %s of its constructor, so a loaded model has their "
            "defaults. Add them to the `settings` that the constructor passes to `Task.__init__`.",
            name,
            lost,
        )


def from_config(cls, config, custom_objects):
    """Returns a task of a class from its config."""
    config = dict(config)
    frozen, kind = set(config.pop("frozen", ())), config.pop("fitted_on", None)
    quantization = config.pop("quantization", ())
    for name, value in config.items():
        # Functions remain as they are, because constructors read the names of activations.
        if isinstance(value, dict) and {"class_name", "config"} <= value.keys() and value["class_name"] != "function":
            config[name] = keras.saving.deserialize_keras_object(value, custom_objects=custom_objects)
    task = cls(**config)
    task.fitted_on = kind
    quantize_again(task, quantization)  # The loaded weights must find the quantized variables.
    frozen = {id(weight) for name, weight in by_path(task.weights).items() if name in frozen}
    return set_trainable(task, [weight for weight in could_train(task) if id(weight) not in frozen])
