"""Encoders that share the embeddings of another one, as ELECTRA's generator does."""

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.keras_internals import remember_trainable

SHARED = ("token_embedding", "position_embedding", "segment_embedding", "language_embedding", "embeddings_norm")
_OWN = ("blocks", "language", "embeddings_projection", "block_inputs", "final_norm", "pooler", "token_scale")


def with_embeddings_of(encoder, other):
    """Returns an encoder with the embeddings of another, of the same sizes, up to their norm, and its own blocks."""
    for model in (encoder, other):
        rule = "Only the Transformers of `keras_transfer.encoders` can share their embeddings."
        expect(isinstance(model, TransformerStack), rule, model=model)
    rule = "An encoder must have no adapters when it gets the embeddings of another one."
    expect(not encoder.adapters, rule, encoder=encoder, adapters=list(encoder.adapters))
    for name in SHARED:
        own, wanted = (_described(getattr(model, name)) for model in (encoder, other))
        rule = (
            "Shared embeddings must have the same kinds and sizes in both encoders, such as those of an "
            "`ElectraEncoder` with the `embedding_dim`, `max_sequence_length` and `num_segments` of the other one."
        )
        expect(own == wanted, rule, name=name, own=own, wanted=wanted)
    restore = [remember_trainable(model) for model in (encoder, other)]
    found = type(encoder).__new__(type(encoder))
    TransformerStack.__init__(
        found,
        encoder.settings,
        **{name: getattr(other, name) for name in SHARED},
        **{name: getattr(encoder, name) for name in _OWN},
        embeddings_dropout=encoder.embeddings_dropout.rate,
        segment_ids="segment_ids" in encoder.input,
        output_dropout=0.0 if encoder.output_dropout is None else encoder.output_dropout.rate,
        further_inputs=encoder.further_inputs,
        pooling=encoder.pooling,
        normalize=encoder.normalize,
        dtype=encoder.dtype_policy,
        name=encoder.name,
        trainable=encoder.trainable,
    )
    found.attached.files.update(encoder.attached.files)
    for back in restore:  # The constructor has set the flags of all layers.
        back()
    return found


def have_same_embeddings(encoder, other):
    """Returns whether two encoders are `TransformerStack`s whose embeddings have the same kinds, sizes and values."""
    if not (isinstance(encoder, TransformerStack) and isinstance(other, TransformerStack)):
        return False
    for name in SHARED:
        layers = [getattr(model, name) for model in (encoder, other)]
        own, wanted = map(_described, layers)
        if own != wanted:
            return False
        values = [[] if layer is None else layer.get_weights() for layer in layers]
        if not all(map(np.array_equal, *values)):
            return False
    return True


def _described(layer):
    """Returns what two layers must have in common so that one can stand for the other."""
    if layer is None:
        return None
    known = {name: getattr(layer, name) for name in ("offset", "epsilon") if hasattr(layer, name)}
    return {"kind": type(layer).__name__, "shapes": [tuple(weight.shape) for weight in layer.weights], **known}
