"""What the heads of tasks are made of: the encoder's outputs, one vector for each text, and hidden layers."""

import dataclasses

import keras
from keras import ops

from keras_transfer.core.expect import expect, one_of
from keras_transfer.encoders import TransformerStack, dense_on, encode
from keras_transfer.layers import POOLINGS, ScalarMix, SequencePooling
from keras_transfer.tasks.reader import encode_texts

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
    one_of("pooled", *POOLINGS).check("pooling", pooling)
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


def hidden_vectors(vectors, encoder, activation, norm, units=None):
    """Returns vectors `[..., dim]` after the hidden layer of a head, or unchanged without an activation.

    If a layer norm follows the layer, neither has a bias. The width of the layer is that of the vectors unless given.
    """
    rule = "`hidden_norm=True` requires `hidden_activation`, such as 'gelu'."
    if norm:
        expect(activation is not None, rule, hidden_activation=activation)
    if activation is None:
        return vectors
    dense = dense_on(encoder, units or vectors.shape[-1], activation, use_bias=not norm, name="hidden")
    if not norm:
        return dense(vectors)
    epsilon = getattr(encoder, "layer_norm_epsilon", 1e-12)
    layer = keras.layers.LayerNormalization(
        epsilon=epsilon, center=False, dtype=encoder.dtype_policy, name="hidden_norm"
    )
    return layer(dense(vectors))


def check_linear_blocks(activation, norm, hidden_dim, hidden_dropout, batch_norm, windows):
    """Raises a `ValueError` if the arguments of a head's hidden layer contradict each other."""
    if hidden_dim is not None or hidden_dropout:
        rule = "`hidden_dim` and `hidden_dropout` require `hidden_activation`, such as 'relu'."
        received = {"hidden_dim": hidden_dim, "hidden_dropout": hidden_dropout, "hidden_activation": activation}
        expect(activation is not None, rule, **received)
    if batch_norm:
        rule = "`batch_norm=True` cannot be used with `windows`, of which those that only pad a batch would count."
        expect(windows is None, rule, batch_norm=batch_norm, windows=windows)
        rule = "`batch_norm=True` cannot be used with `hidden_norm=True`."
        expect(not norm, rule, hidden_norm=norm, batch_norm=batch_norm)


def check_encoder(encoder):
    """Raises a `ValueError` if an encoder is not a model."""
    if not isinstance(encoder, keras.Model):
        raise ValueError(
            "`encoder` must be a model. Use `from_pretrained(...)` for the name or folder of a checkpoint, and "
            f"`hub.HubEncoder` for a TF Hub module. Received: encoder={encoder!r}"
        )


def encode_mixed(encoder, scalar_mix):
    """Returns an encoder's outputs for its own symbolic inputs, and the `ScalarMix` of its layers.

    `True` creates one. The sequence is then the mix, and there is no pooled output.
    """
    check_encoder(encoder)
    if not scalar_mix:
        return encode(encoder), None
    if scalar_mix is True:
        scalar_mix = ScalarMix(dtype=encoder.dtype_policy, name="scalar_mix")
    if any(kind.lengthens for kinds in getattr(encoder, "adapters", {}).values() for kind in kinds):
        raise ValueError(
            "`scalar_mix` cannot be combined with adapters of the kind `Prompt`. Create the task before you add the "
            "prompt, or use another kind. Received: an encoder with a prompt"
        )
    if not isinstance(scalar_mix, ScalarMix):
        raise ValueError(f"`scalar_mix` must be a boolean or a `layers.ScalarMix`. Received: scalar_mix={scalar_mix!r}")
    encoded = encode(encoder, hidden_states=True)
    return dataclasses.replace(encoded, sequence=scalar_mix(encoded.hidden_states), pooled=None), scalar_mix


def merge_parts(inputs, wanted):
    """Returns inputs `[batch, parts, ...]` as `[batch * parts, ...]`, as the encoder expects, and the number of parts.

    The parts of a row stay together, so that devices that share a batch have whole rows. The number is a tensor if it
    is not static. Inputs with one text per row, as the symbolic inputs `wanted` tell, are returned unchanged with
    `None`.
    """
    first, symbol = keras.tree.flatten(inputs)[0], keras.tree.flatten(wanted)[0]
    if len(first.shape) != len(symbol.shape) + 1:
        return inputs, None
    merged = keras.tree.map_structure(lambda values: ops.reshape(values, (-1, *ops.shape(values)[2:])), inputs)
    return merged, ops.shape(first)[1]


def split_parts(outputs, parts):
    """Returns outputs [batch * parts, ...] as [batch, parts, ...]."""
    return ops.reshape(outputs, (-1, parts, *outputs.shape[1:]))


def encode_parts(task, *texts):
    """Returns inputs `[batch, parts, length]` of texts `[batch]`, one for each part, all padded to the same length."""
    inputs = encode_texts(task, ops.concatenate(texts))
    parts = {name: ops.reshape(values, (len(texts), -1, *ops.shape(values)[1:])) for name, values in inputs.items()}
    return {name: ops.swapaxes(values, 0, 1) for name, values in parts.items()}
