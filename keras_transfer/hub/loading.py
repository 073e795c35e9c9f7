"""Loading a module, with a `HubError` that says what to do if TensorFlow fails."""

from keras_transfer.core.lazy import tf
from keras_transfer.hub.archives import MAX_BYTES
from keras_transfer.hub.errors import HubError, one_line
from keras_transfer.hub.handles import resolve


def load(handle, tags=None, load_options=None, cache_dir=None, sha256=None, max_bytes=MAX_BYTES):
    """Loads a module.

    TF Text is imported first if it is installed, since many modules need its ops.

    Args:
        handle, cache_dir, sha256, max_bytes: See `resolve`.
        tags: String or list of strings. Variant of the graph. Defaults to the only variant, or, in the TF1 Hub format,
            to the one without tags.
        load_options: `tf.saved_model.LoadOptions`. Defaults to `None`.

    Returns:
        A tuple `(object, is_tf1, folder)`: the object from `tf.saved_model.load`, whether the module is in the TF1 Hub
        format, and the folder from `resolve`.
    """
    folder = resolve(handle, cache_dir, sha256, max_bytes)
    text_problem = _register_text_ops()
    try:
        is_tf1 = tf.io.gfile.exists(f"{folder}/tfhub_module.pb")
        if is_tf1 and tags is None:
            tags = []
        return tf.saved_model.load(str(folder), tags, load_options), is_tf1, folder
    except Exception as error:  # a damaged module raises OSError, OpError, IndexError, DecodeError and more
        reason = one_line(error)
        if "Op type not registered" in reason:
            advice = "Import the package that defines this op first"
            advice += f". For TF Text, run `pip install tensorflow-text` ({text_problem})" if text_problem else ""
        elif "MetaGraph" in reason:
            advice = f"Pass one of the module's sets of `tags`, not {tags!r}"
        else:
            advice = "If its files are damaged, download it again (delete the folder if it is in the cache)"
        raise HubError(
            f"TensorFlow {tf.__version__} cannot load the module {folder}. {advice}. Received: {reason}"
        ) from error


def _register_text_ops():
    """Imports TF Text. Returns the error if that fails, or else None."""
    try:
        import tensorflow_text  # noqa: F401
    except Exception as error:  # ImportError, or TensorFlow's own error for an incompatible build
        return one_line(error)
    return None
