"""Trust in the modules of a `.keras` file, and their new handles."""

import contextlib
import contextvars
import os
from collections.abc import Iterator, Mapping

from keras_transfer.hub.errors import HubError, expect, shown
from keras_transfer.keras_internals import in_safe_mode, in_symbolic_scope

# The dict passed to `moved_handles`, and the set of handles loaded in its context.
_moved: contextvars.ContextVar = contextvars.ContextVar("moved", default=None)


@contextlib.contextmanager
def moved_handles(handles: Mapping) -> Iterator[None]:
    """Replaces the handles of modules in the `.keras` files that are loaded in this context.

    Args:
        handles: Dict from the handle in the file to the handle to load. A `sha256` in the file is not checked for a
            replaced handle.

    Yields:
        `None`. The handles are replaced within the block.

    Raises:
        ValueError: If no file loaded in the context contains one of the handles.

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
    met: set | list = set()
    token = _moved.set((handles, met))
    try:
        yield
    finally:
        _moved.reset(token)
    unmet, rule = sorted(handles.keys() - met), "`handles` must occur in the loaded files, which contain"
    expect(not unmet, f"{rule} {sorted(map(shown, met))}.", list(map(shown, unmet)), error=ValueError)


def from_trusted_config(cls, config, safe_mode=None):
    """Creates an object from its config if its module is trusted, with the new handle if the module has moved.

    Args:
        safe_mode: Boolean. Pass `False` if you trust the module. Defaults to the value of the loading function.
    """
    handle = config["handle"]
    rule = (
        f"Loading runs the graph of the module {shown(handle)!r}, which can execute arbitrary code. If you trust it, "
        "pass safe_mode=False to the loading function or call keras.config.enable_unsafe_deserialization() first."
    )
    expect((in_safe_mode() if safe_mode is None else safe_mode) is False, rule, safe_mode=True, error=ValueError)
    handles, met = _moved.get() or ({}, set())
    met.add(handle)
    if handle in handles:  # the new handle can be a folder, which has no checksum
        config = {**config, "handle": handles[handle], "sha256": None}
    try:
        return cls(**config)
    except HubError as error:
        raise HubError(
            f"{error} (The file contains the module {shown(handle)!r}. If it has moved, load the file in the context "
            "of `keras_transfer.hub.moved_handles`.)"
        ) from error


def is_rebuilding():
    """Returns whether Keras rebuilds a model from a file by calling it on placeholders, which are always float32."""
    return in_safe_mode() is not None and in_symbolic_scope()
