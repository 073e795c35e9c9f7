"""What loading a `.keras` file may run, and where its modules are now."""

import contextlib
import contextvars
import os

from keras.src.saving.serialization_lib import in_safe_mode  # no public name says it; see tests/hub/test_trust.py

from keras_transfer.hub.errors import HubError

# What `moved_handles` says, and the handles that were met in its context.
_moved = contextvars.ContextVar("moved", default=None)


@contextlib.contextmanager
def moved_handles(handles):
    """Says where modules are now, for the `.keras` files loaded in this context, which name where they were.

    Args:
        handles: dict from the handle in the file to the handle to load, of which no `sha256` is asked.

    Raises:
        ValueError: no file that was loaded in the context names one of them.

    Example:
    ```python
    module = tf.Module()
    module.__call__ = tf.function(lambda x: 2.0 * x, input_signature=[tf.TensorSpec([None, 3])])
    tf.saved_model.save(module, "old")
    keras.Sequential([keras.Input((3,)), keras_transfer.hub.HubLayer("old")]).save("model.keras")
    tf.saved_model.save(module, "new")
    with keras_transfer.hub.moved_handles({"old": "new"}):
        model = keras.saving.load_model("model.keras", safe_mode=False)
    ```
    """
    handles = {os.fspath(old): new for old, new in handles.items()}
    met = set()
    token = _moved.set((handles, met))
    try:
        yield
    finally:
        _moved.reset(token)
    if unmet := sorted(handles.keys() - met):
        raise ValueError(f"the files that were loaded here name the handles {sorted(met)}. Received: {unmet}")


def trusted(cls, config, safe_mode=None):
    """Returns an object of a module from its config, if the module is trusted, from where it is now.

    Args:
        cls: class to make, with an argument `handle`.
        config: dict, its arguments.
        safe_mode: bool, False to say that the module is trusted; None for what the loading function was told.

    Raises:
        ValueError: nobody said that the module is trusted, as Keras has it for code in a file.
        HubError: the module cannot be loaded.
    """
    handle = config["handle"]
    if (in_safe_mode() if safe_mode is None else safe_mode) is not False:
        raise ValueError(
            f"loading runs the graph of the module {handle!r}, which can do what a program can: if you trust it, pass "
            "safe_mode=False to the loading function, or call keras.config.enable_unsafe_deserialization() first. "
            "Received: safe_mode=True"
        )
    handles, met = _moved.get() or ({}, set())
    met.add(handle)
    if handle in handles:  # which need not be the archive any more
        config = {**config, "handle": handles[handle], "sha256": None}
    try:
        return cls(**config)
    except HubError as error:
        raise HubError(
            f"{error} (The file names the module {handle!r}: if that is elsewhere now, load the file in the context of "
            "`keras_transfer.hub.moved_handles`.)"
        ) from error
