"""Tables of settings, read in both directions: an argument, its name in a configuration, and its default."""

from keras_transfer.checkpoints.tensors import check


def read_settings(settings, config):
    """Returns a dict of the arguments that a configuration describes, and a list of sentences on its problems."""
    found, problems = {}, []
    for argument, key, default, *names in settings:
        required = isinstance(default, type)
        default = default if required or not callable(default) else default(config)
        value = get_setting(config, key, None if required else default)
        if names and config.get(key, value) is None:  # For a name, the original does not replace `null`.
            value = None
        if value is None and required:
            problems.append(f"`{key}` is missing.")
        elif names and value not in list(names[0]):
            problems.append(f"`{key}` must be one of {sorted(names[0])}. Received: {value!r}")
        elif not _is_like(value, _kind(default)):
            kind = {list: "a list", int: "an integer"}.get(_kind(default), "a number")
            problems.append(f"`{key}` must be {kind}. Received: {value!r}")
        else:
            found[argument] = names[0][value] if names else value
    return found, problems


def write_settings(settings, arguments, owner):
    """Returns the configuration of arguments; the inverse of `read_settings`."""
    config = {}
    for argument, key, _, *names in settings:
        value = arguments[argument]
        if names:
            theirs = {ours: name for name, ours in reversed(names[0].items())}
            rule = f"A checkpoint of {owner} can be written only if `{argument}` is one of {sorted(theirs)}."
            check(value in list(theirs), rule, f"{argument}={value!r}")
            value = theirs[value]
        put_setting(config, key, value)
    return config


# What describes a file and not the model, such as its types. Label names determine the number of labels.
_OF_FILES = {"architectures", "model_type", "dtype", "torch_dtype", "quantization_config", "transformers_version"}
_OF_FILES |= {"auto_map", "_name_or_path", "num_labels", "_num_labels"}
OF_LABELS = ("id2label", "label2id", "problem_type")


def other_settings(config, written):
    """Returns the settings of a configuration that an encoder does not have, to be written back with it.

    Args:
        written: Dict. The configuration that describes the encoder and the head. `None` in it stands for no value.
    """
    return {
        key: value
        for key, value in config.items()
        if key not in _OF_FILES
        and (key, value) != ("tie_word_embeddings", False)  # Ours are tied, so the file has only one of the tensors.
        and not key.startswith("keras_transfer_")
        and (key not in written or (written[key] is None and value is not None))
    }


def get_setting(config, key, default=None):
    """Returns the value under a name with dots. A `null` counts as missing."""
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return default if config is None else config


def put_setting(config, key, value):
    """Sets the value under a name with dots."""
    *path, last = key.split(".")
    for part in path:
        config = config.setdefault(part, {})
    config[last] = value


def _kind(default):
    return default if isinstance(default, type) else type(default)


def _is_like(value, kind):
    """Returns whether a setting has the type of its default. An integer is a number too."""
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind) or (kind is not list and isinstance(value, (int, float)))
