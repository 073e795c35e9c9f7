"""The adapters that a saved model can choose from, as its files name them, and the check of `--adapter`."""

import json
import pathlib
import zipfile

from keras_transfer.cli.ask import is_exported, read_facts
from keras_transfer.core.names import did_you_mean, listed


def check_adapter(path, adapter, option="--adapter"):
    """Raises an error if a model lacks the adapters that it should answer with, or needs a name and has none.

    Nothing is checked for a SavedModel of an earlier version, which does not list its adapters.
    """
    exported = pathlib.Path(path).is_dir()
    names = _of_export(path) if exported else names_of_adapters(path)
    if names is None or (adapter is None and not (exported and names)):
        return
    if not names:
        raise ValueError(
            f"The model has no adapters to choose from. Leave out `{option}`. Received: {path} with {adapter!r}"
        )
    if adapter is None:
        raise ValueError(
            f"The model has several adapters. Pass `--adapter` with the name of one of them, {listed(names)}. "
            f"Received: {path}"
        )
    if adapter not in names:
        raise ValueError(
            f"`{option}` must be among {listed(names)}.{did_you_mean(adapter, names)} Received: {adapter!r}"
        )


def names_of_adapters(path):
    """Returns the names of the adapters of the model in a `.keras` file."""
    try:
        with zipfile.ZipFile(path) as file:
            config = json.loads(file.read("config.json"))
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"The model must be a .keras file. Received: {path}, {error}") from None
    for name in ("config", "encoder", "config", "adapters"):
        config = config.get(name) if isinstance(config, dict) else None
    return list(config or ())


def _of_export(folder):
    """Returns the names of the adapters that an export lets a request choose from, or None if it does not list them."""
    return read_facts(folder).get("adapters") if is_exported(folder) else []
