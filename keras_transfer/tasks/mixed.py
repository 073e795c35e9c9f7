"""The sequence of vectors that a head uses: the encoder's last layer, or a learned weighted mean of all layers."""

import dataclasses

import keras

from keras_transfer.encoders import encode
from keras_transfer.layers import ScalarMix


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
