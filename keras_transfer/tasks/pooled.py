"""One vector for each text: the pooling of an encoder's outputs, and the normalization of its checkpoint."""

import keras
import numpy as np

from keras_transfer.core.names import check_one_of
from keras_transfer.encoders import TransformerStack, encode
from keras_transfer.layers import POOLINGS, SequencePooling

# The poolings that use the last vector, and the ones for an encoder that reads backward.
_FORWARD = {"concat": "concat_first", "last": "first"}


def pooled_vectors(encoder, encoded, pooling=None, default="pooled"):
    """Returns the name of a pooling, and the pooled vectors `[batch, dim]`.

    Args:
        pooling: String, `"pooled"` (the encoder's own pooled output) or a pooling of `layers.SequencePooling`. `None`
            for the pooling of the encoder's checkpoint.
    """
    if pooling is None:
        pooling = getattr(encoder, "pooling", None) or default
        if pooling not in POOLINGS or encoded.sequence is None:  # Only the encoder can compute it.
            pooling = "mean" if encoded.pooled is None else "pooled"
    check_one_of("pooling", pooling, ("pooled", *POOLINGS))
    if pooling == "pooled" and encoded.pooled is None:
        raise ValueError(f"The encoder has no pooled output. Expected one of {POOLINGS}. Received: pooling='pooled'")
    if pooling != "pooled" and encoded.sequence is None:
        raise ValueError(f"The encoder has only a pooled output. Use `pooling='pooled'`. Received: pooling={pooling!r}")
    if getattr(encoder, "reverse", False) and pooling in _FORWARD:
        raise ValueError(
            "The encoder processes texts backward, so its last vector has seen only one token. Use "
            f"`pooling={_FORWARD[pooling]!r}`. Received: pooling={pooling!r}"
        )
    if pooling == "pooled":
        return pooling, encoder.pooled_alone() if isinstance(encoder, TransformerStack) else encoded.pooled
    pool = SequencePooling(pooling, dtype=encoder.dtype_policy, name="pooling")
    return pooling, pool(encoded.sequence, padding_mask=encoded.mask)


def read_by(pooling):
    """Returns the encoder output that a pooling uses, in the form of `Task.reads`."""
    return ("pooled_output" if pooling == "pooled" else "sequence_output",)


def text_vectors(encoder, pooling=None, normalize=None, default="mean", layers=()):
    """Returns symbolic float32 vectors `[batch, dim]`, the name of their pooling, and whether they are normalized.

    Layers may be between the pooling, as for `pooled_vectors`, and the normalization, by default as in the checkpoint.
    """
    pooling, vectors = pooled_vectors(encoder, encode(encoder), pooling, default)
    for layer in layers:
        vectors = layer(vectors)
    normalize = bool(getattr(encoder, "normalize", False) if normalize is None else normalize)
    last = keras.layers.UnitNormalization if normalize else keras.layers.Identity
    return last(dtype="float32", name="vectors")(vectors), pooling, normalize


def checked_dense(dense):
    """Returns the settings of dense layers and norms as a list of dicts with all keys."""
    found = []
    for settings in [] if dense is None else dense:
        if settings == {"layer_norm": True}:
            found.append(dict(settings))
            continue
        known = {"units": None, "activation": "linear", "use_bias": True}
        if not isinstance(settings, dict) or not settings.keys() <= known.keys() or "units" not in settings:
            raise ValueError(
                "`dense` must be a list of dicts of `units`, and possibly `activation` and `use_bias`, or of "
                "`layer_norm=True` alone. "
                f"Received: {settings!r} at position {len(found)}"
            )
        settings = {**known, **settings}
        activation = keras.activations.serialize(keras.activations.get(settings["activation"]))
        found.append({**settings, "activation": activation})
    return found


def make_dense(settings, index):
    """Returns the layer of the settings that `checked_dense` returns at a position."""
    options = {"dtype": "float32", "name": f"vector_dense_{index}"}
    if "layer_norm" in settings:
        return keras.layers.LayerNormalization(epsilon=1e-5, **options)  # torch has this epsilon.
    return keras.layers.Dense(**settings, **options)


def check_truncation(truncate_dim):
    """Raises a `ValueError` if `truncate_dim` is neither None nor a positive integer."""
    if truncate_dim is not None and (
        isinstance(truncate_dim, bool) or not isinstance(truncate_dim, (int, np.integer)) or truncate_dim < 1
    ):
        raise ValueError(
            f"`truncate_dim` must be an integer of at least 1, or None. Received: truncate_dim={truncate_dim!r}"
        )
