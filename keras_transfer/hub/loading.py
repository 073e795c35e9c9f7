"""Loading a module: every failure of TensorFlow's becomes a `HubError` that says what to do."""

from keras_transfer.hub.archives import MAX_BYTES
from keras_transfer.hub.errors import HubError, described
from keras_transfer.hub.handles import resolve


def load(handle, tags=None, load_options=None, cache_dir=None, sha256=None, max_bytes=MAX_BYTES):
    """Loads a module.

    TF Text is imported first where it is installed: many modules need its ops.

    Args:
        handle: as for `resolve`, with `cache_dir`, `sha256` and `max_bytes`.
        tags: str or list of str, the variant of the graph. None for the only one, or, in the TF1 Hub format, for the
            one without tags.
        load_options: `tf.saved_model.LoadOptions`.

    Returns:
        `(object, is_tf1, folder)`: what `tf.saved_model.load` returns, whether the module is in the TF1 Hub format, and
        the folder as `resolve` returns it.

    Raises:
        HubError: the module cannot be found, fetched or loaded, or has no such `tags`.

    Example:
    ```python
    from keras_transfer.hub.loading import load

    tf.saved_model.save(tf.Module(), "module")
    module, is_tf1, folder = load("module")
    ```
    """
    import tensorflow as tf

    folder = resolve(handle, cache_dir, sha256, max_bytes)
    text_problem = _register_text_ops()
    try:
        is_tf1 = tf.io.gfile.exists(f"{folder}/tfhub_module.pb")
        if is_tf1 and tags is None:
            tags = []
        return tf.saved_model.load(str(folder), tags, load_options), is_tf1, folder
    except Exception as error:  # a damaged module raises OSError, OpError, IndexError, DecodeError and more
        reason = described(error)
        if "Op type not registered" in reason:
            advice = "import the package that has this op first"
            advice += f"; if that is TF Text: `pip install tensorflow-text` ({text_problem})" if text_problem else ""
        elif "MetaGraph" in reason:
            advice = f"pass one of the sets of `tags` that it has, not {tags!r}"
        else:
            advice = "if its files are damaged, fetch it again (delete the folder if it is in the cache)"
        raise HubError(
            f"TensorFlow {tf.__version__} cannot load the module {folder}: {advice}. Received: {reason}"
        ) from error


def _register_text_ops():
    """Imports TF Text, and returns why that was not possible, if it was not."""
    try:
        import tensorflow_text  # noqa: F401
    except Exception as error:  # beside ImportError TensorFlow's own, for a build that does not fit
        return described(error)
    return None
