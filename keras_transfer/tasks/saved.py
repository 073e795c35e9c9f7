"""What a task stores in a `.keras` file besides its weights: its settings, and the heads of inactive adapters."""

import inspect

import keras
import numpy as np

from keras_transfer.encoders import by_path, quantization_of, quantize_again
from keras_transfer.keras_internals import could_train, set_trainable
from keras_transfer.layers import serialize_activation
from keras_transfer.tasks.named_heads import Head

_ACTIVE = "active adapters "
_OWN = ("encoder", "preprocessor", "name", "scalar_mix")  # Arguments of which `config_of` knows more.
_PARTS = ("reader", "heads", "labels")  # Attributes of all tasks. An argument of this name is something else.


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


def config_of(task):
    """Returns the config of a task."""
    if any(isinstance(each, Head) for each in keras.tree.flatten(task.arguments.get("heads"))):
        raise ValueError(
            "A file has no symbolic outputs, so a `Task` cannot be loaded from it. Write a subclass whose constructor "
            "makes them. `save_weights` saves the weights alone. Received: a `Task` that was created with `heads`"
        )
    task.reader.require_whole("saved")
    task.head_adapters.check()  # The config of the encoder has the active ones.
    mix = {} if task.scalar_mix is None else {"scalar_mix": keras.saving.serialize_keras_object(task.scalar_mix)}
    kind = {} if task.fitted_on is None else {"fitted_on": task.fitted_on}
    return {
        "encoder": keras.saving.serialize_keras_object(task.encoder),
        "preprocessor": keras.saving.serialize_keras_object(task.preprocessor),
        "frozen": [name for name, weight in by_path(task.weights).items() if not weight.trainable],
        **({"name": task.name} if "name" in task.arguments else {}),
        **quantization_of(task),
        **mix,
        **kind,
        **{name: _serialized(value) for name, value in _settings_of(task).items()},
    }


def _serialized(value):
    """Returns the value of a setting in a form for a config."""
    if hasattr(value, "get_config"):
        return keras.saving.serialize_keras_object(value)
    if callable(value):
        return serialize_activation(value)
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, (list, tuple)) else value


def arguments_of(cls, args, kwargs):
    """Returns the arguments of a constructor by their names, with defaults for those that are not given, as a dict."""
    signature = inspect.signature(cls.__init__)
    try:
        bound = signature.bind_partial(None, *args, **kwargs)
    except TypeError:
        return {}  # The call of the constructor says what is wrong.
    bound.apply_defaults()
    found = {}
    for name, value in [*bound.arguments.items()][1:]:
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
        elif kind is not inspect.Parameter.VAR_POSITIONAL:
            found[name] = value
    return found


def settings_in(arguments):
    """Returns the settings of a task from `locals()` at the beginning of its constructor."""
    return {name: value for name, value in arguments.items() if name not in ("self", "__class__", *_OWN)}


def _settings_of(task):
    """Returns the arguments of a task's constructor, with the values that the attributes of these names have now."""
    found = {}
    for name, value in task.arguments.items():
        if name in _OWN:
            continue
        is_own = name not in _PARTS and (
            name in vars(task) or (hasattr(type(task), name) and not hasattr(keras.Model, name))
        )
        now = getattr(task, name) if is_own else value
        # Labels of several heads have no names of their own.
        found[name] = value if now is None and name == "label_names" else now
    return found


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


# === Several tasks in one file ===

_SHARED = ("encoder", "preprocessor")  # What tasks of one model may have in common.


def config_of_tasks(tasks):
    """Returns the config of several tasks, which has what they share once."""
    configs = [config_with_adapters(task) for task in tasks]
    shared = {part: _first_places([getattr(task, part) for task in tasks]) for part in _SHARED}
    for place, config in enumerate(configs):
        for part, places in shared.items():
            if places[place] < place:
                config["config"].pop(part)
    return {"tasks": configs, "shared": shared, "adapters": [list(task.head_adapters.given) for task in tasks]}


def config_with_adapters(task):
    """Returns a task in a form for a config, with its own adapters, also if those of another one are active."""
    with task.head_adapters.applying():
        return keras.saving.serialize_keras_object(task)


def tasks_from_config(config, custom_objects):
    """Returns the list of tasks from what `config_of_tasks` returned."""
    tasks = []
    for place, (task, adapters) in enumerate(zip(config["tasks"], config["adapters"])):
        # Keras would create what the first two tasks share twice.
        places = {part: found[place] for part, found in config["shared"].items() if found[place] < place}
        parts = {part: getattr(tasks[other], part) for part, other in places.items()}
        task = {**task, "config": {**task["config"], **parts}}
        tasks.append(keras.saving.deserialize_keras_object(task, custom_objects))
        tasks[-1].head_adapters.remember(adapters)  # Those of another task may be active in the encoder.
    return tasks


def _first_places(values):
    """Returns the first position of each object in a list."""
    return [next(place for place, other in enumerate(values) if other is value) for value in values]
