"""The resolvers that a user registered with tensorflow_hub for other kinds of handles."""

import os
import sys

from keras_transfer.hub.transport.errors import HubError, one_line, shown
from keras_transfer.keras_internals import hub_modules


def resolve_with_registered(handle):
    """Resolves a handle with the registered resolvers, and returns None if none of them supports it.

    The last registered resolver comes first, as in tensorflow_hub. Those of tensorflow_hub itself are skipped, since
    `resolve` supports the same handles.

    Returns:
        A string, the path of the module's folder, or `None`.
    """
    for resolver in registered_resolvers():
        try:
            if not resolver.is_supported(handle):
                continue
            path = resolver(handle)
        except Exception as error:  # user code
            raise HubError(
                f"The resolver {type(resolver).__name__}, registered with tensorflow_hub, failed. "
                f"Received: {shown(handle)!r}: {one_line(error)}"
            ) from error
        if isinstance(path, (str, os.PathLike)) and path:
            return os.fspath(path)
        raise HubError(
            f"The resolver {type(resolver).__name__}, registered with tensorflow_hub, must return the path of a "
            f"folder. Received: {path!r} for {shown(handle)!r}"
        )
    return None


def registered_resolvers():
    """Returns the resolvers that tensorflow_hub did not register itself, the last one first."""
    if sys.modules.get("tensorflow_hub") is None:
        return []  # no resolver was registered, and the import requires TensorFlow and pkg_resources
    from tensorflow_hub import registry

    resolvers = reversed(hub_modules.resolvers_of(registry))
    return [each for each in resolvers if type(each).__module__.split(".")[0] != "tensorflow_hub"]
