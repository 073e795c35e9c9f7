"""One vector for a text: the pooling of an encoder's outputs, and the normalization of its checkpoint."""

import keras

from keras_transfer.encoders import encode
from keras_transfer.layers import SequencePooling
from keras_transfer.layers.pooling import POOLINGS


def pooled_vectors(encoder, encoded, pooling=None, default="pooled"):
    """Returns the name of a pooling, and the pooled vectors [batch, dim].

    Args:
        encoder: Encoder.
        encoded: Its symbolic outputs, an `Encoded`.
        pooling: String, `"pooled"` (the encoder's own pooled output) or a pooling of `layers.SequencePooling`. Defaults
            to `None`, the pooling of the encoder's checkpoint.
        default: String. The pooling to use, if possible, if the checkpoint has none. Defaults to `"pooled"`.

    Raises:
        ValueError: If `pooling` is unknown or not possible with the encoder.
    """
    if pooling is None:
        pooling = getattr(encoder, "pooling", None) or default
        if pooling not in POOLINGS or encoded.sequence is None:  # Only the encoder can compute it.
            pooling = "mean" if encoded.pooled is None else "pooled"
    if pooling != "pooled" and pooling not in POOLINGS:
        raise ValueError(
            f"Invalid value for argument `pooling`. Expected one of {('pooled', *POOLINGS)}. "
            f"Received: pooling={pooling!r}"
        )
    if pooling == "pooled" and encoded.pooled is None:
        raise ValueError(f"The encoder has no pooled output. Expected one of {POOLINGS}. Received: pooling='pooled'")
    if pooling != "pooled" and encoded.sequence is None:
        raise ValueError(f"The encoder has only a pooled output. Use `pooling='pooled'`. Received: pooling={pooling!r}")
    if pooling == "pooled":
        return pooling, encoded.pooled
    pool = SequencePooling(pooling, dtype=encoder.dtype_policy, name="pooling")
    return pooling, pool(encoded.sequence, padding_mask=encoded.mask)


def text_vectors(encoder, pooling=None, normalize=None, default="mean"):
    """Returns symbolic float32 vectors [batch, dim] for an encoder's inputs, and how they are computed.

    Args:
        encoder, pooling, default: See `pooled_vectors`.
        normalize: Boolean. Whether vectors are scaled to length 1. Defaults to `None`, as in the encoder's checkpoint.

    Returns:
        The vectors, the name of the pooling, and whether the vectors are normalized.
    """
    pooling, vectors = pooled_vectors(encoder, encode(encoder), pooling, default)
    normalize = bool(getattr(encoder, "normalize", False) if normalize is None else normalize)
    last = keras.layers.UnitNormalization if normalize else keras.layers.Identity
    return last(dtype="float32", name="vectors")(vectors), pooling, normalize
