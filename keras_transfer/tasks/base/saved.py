"""What a task stores in a `.keras` file besides its weights: its settings, and the heads of inactive adapters."""

import keras
import numpy as np

from keras_transfer.encoders.base import by_path, quantization_of, quantize_again
from keras_transfer.keras_internals import could_train, set_trainable
from keras_transfer.layers.basic import serialize_activation

_ACTIVE = "active adapters "


def store_heads(adapters, store):
    """Adds the heads of inactive adapters to what `save_own_variables` writes.

    Args:
        adapters: `HeadAdapters`.
        store: Dict-like, from names to arrays.
    """
    for name, values in adapters.heads.items():
        for i, value in enumerate(values):
            store[f"head {i:03} of {name}"] = value
    if adapters.given:
        store[_ACTIVE + "+".join(adapters.given)] = np.zeros(1, "float32")  # The name of the key counts.


def take_heads(adapters, store):
    """Returns a store without what `store_heads` added, and the dict of heads in it.

    Raises:
        ValueError: If the head in the file belongs to different adapters from the model's head.
    """
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
