"""What a task's head reads of an encoder: its last layer, or a mean of all with weights that are learnt."""

import dataclasses

import keras

from keras_transfer.encoders import encode
from keras_transfer.layers import ScalarMix


def encode_mixed(encoder, scalar_mix):
    """Returns what an encoder gives for its own symbolic inputs, and the layer that mixed it.

    Args:
        encoder: an encoder.
        scalar_mix: a `layers.ScalarMix`; True for a new one; False or None for none.

    Returns:
        An `Encoded`, whose sequence is the mix where there is one (there is no pooled output then), and the
        `ScalarMix` or None.

    Raises:
        ValueError: the encoder is no model, or shows no hidden states to mix; `scalar_mix` is something else.
    """
    if not isinstance(encoder, keras.Model):
        raise ValueError(
            "an encoder is a model; for a name or a folder: from_pretrained; for a TF Hub module: hub.HubEncoder. "
            f"Received: {encoder!r}"
        )
    if not scalar_mix:
        return encode(encoder), None
    if scalar_mix is True:
        scalar_mix = ScalarMix(dtype=encoder.dtype_policy, name="scalar_mix")
    if not isinstance(scalar_mix, ScalarMix):
        raise ValueError(f"`scalar_mix` is a bool or a `layers.ScalarMix`. Received: {scalar_mix!r}")
    encoded = encode(encoder, hidden_states=True)
    return dataclasses.replace(encoded, sequence=scalar_mix(encoded.hidden_states), pooled=None), scalar_mix
