"""Tables of settings, read in both directions: an argument, its name in a configuration, and its default."""

from keras_transfer.checkpoints.tensors import CheckpointError


def read_settings(settings, config):
    """Returns a dict of the arguments that a configuration describes, and a list of sentences on its problems.

    Args:
        settings: Tuple as `Architecture.settings`.
        config: Dict. The configuration.
    """
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
    """Returns the configuration of arguments; the inverse of `read_settings`.

    Args:
        settings: Tuple as `Architecture.settings`.
        arguments: Dict of the arguments.
        owner: String. The name of the class that has them, for errors.

    Raises:
        CheckpointError: If an argument has a value for which the configuration has no name.
    """
    config = {}
    for argument, key, _, *names in settings:
        value = arguments[argument]
        if names:
            theirs = {ours: name for name, ours in reversed(names[0].items())}
            if value not in list(theirs):
                raise CheckpointError(
                    f"A checkpoint of {owner} can be written only if `{argument}` is one of {sorted(theirs)}. "
                    f"Received: {argument}={value!r}"
                )
            value = theirs[value]
        put_setting(config, key, value)
    return config


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
