"""What the models that generate text have in common: the checks of their encoder, and their head."""

from keras_transfer.encoders.base import TransformerStack, encode
from keras_transfer.layers.embeddings import OutputEmbeddings


def check_causal(encoder):
    """Raises a `ValueError` if an encoder is not a `TransformerStack` whose tokens see only earlier ones."""
    if not isinstance(encoder, TransformerStack) or not all(block.attention.causal for block in encoder.blocks):
        raise ValueError(
            "`encoder` must be a `TransformerStack` whose tokens see only earlier ones, such as "
            "`GPT2Encoder` or `TransformerEncoder(causal=True)`. Use a `MaskedLM` for encoders such as BERT. "
            f"Received: {type(encoder).__name__}"
        )


def causal_head(encoder):
    """Returns the layer that turns an encoder's outputs into logits, its token embeddings.

    Raises:
        ValueError: If the embeddings differ in width from the outputs.
    """
    width, outputs = encoder.token_embedding.output_dim, encode(encoder).sequence.shape[-1]
    if outputs != width:
        raise ValueError(
            "The token embeddings must have the width of the encoder's outputs, because they are the head. "
            f"Received: widths {width} and {outputs}"
        )
    return OutputEmbeddings(encoder.token_embedding, dtype=encoder.dtype_policy, name="logits")


def checked_max_length(encoder, max_length):
    """Returns `max_length`, or raises a `ValueError` if it does not fit the encoder's positions."""
    positions = getattr(encoder, "max_sequence_length", None)
    if max_length is not None and (max_length < 1 or (positions is not None and max_length > positions)):
        raise ValueError(
            f"`max_length` must be from 1 to {positions}, the encoder's number of positions. "
            f"Received: max_length={max_length}"
        )
    return max_length
