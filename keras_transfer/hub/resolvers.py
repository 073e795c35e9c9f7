"""The resolvers that a user registered with tensorflow_hub, which know handles of their own."""

import os
import sys

from keras_transfer.hub.errors import HubError, described


def resolve_with_registered(handle):
    """Returns what a registered resolver makes of a handle, or None if none supports it.

    The last resolver registered is asked first, as in tensorflow_hub. Those that tensorflow_hub registers itself are
    left out: `resolve` knows what they know.

    Args:
        handle: String. The handle.

    Returns:
        A string, the path of the module's folder, or `None`.

    Raises:
        HubError: If a resolver raises an error or returns no path.

    Example:
    ```python
    import tensorflow_hub

    from keras_transfer.hub.resolvers import resolve_with_registered


    class Resolver:
        def is_supported(self, handle):
            return handle.startswith("models:")

        def __call__(self, handle):
            return "/models/" + handle.removeprefix("models:")


    tensorflow_hub.registry.resolver.add_implementation(Resolver())
    resolve_with_registered("models:bert")  # "/models/bert"
    ```
    """
    for resolver in registered_resolvers():
        try:
            if not resolver.is_supported(handle):
                continue
            path = resolver(handle)
        except Exception as error:  # a user's code
            raise HubError(
                f"the resolver {type(resolver).__name__}, registered with tensorflow_hub, failed. "
                f"Received: {handle!r}: {described(error)}"
            ) from error
        if isinstance(path, (str, os.PathLike)) and path:
            return os.fspath(path)
        raise HubError(
            f"the resolver {type(resolver).__name__}, registered with tensorflow_hub, must return the path of a "
            f"folder. Received: {path!r} for {handle!r}"
        )
    return None


def registered_resolvers():
    """Returns the resolvers that were registered by others than tensorflow_hub, the last one first."""
    if sys.modules.get("tensorflow_hub") is None:
        return []  # nothing can have been registered, and importing it takes TensorFlow and pkg_resources
    from tensorflow_hub import registry

    # No public name lists them; see tests/hub/test_resolvers.py.
    resolvers = reversed(registry.resolver._impls)
    return [each for each in resolvers if type(each).__module__.split(".")[0] != "tensorflow_hub"]
