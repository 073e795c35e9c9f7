"""Encoders whose hidden tokens can be predicted from the tokens on both sides."""

from keras_transfer.encoders.base import TransformerStack, encode


def check_reads_ahead(encoder):
    """Raises a `ValueError` if the tokens of an encoder see only earlier ones."""
    if isinstance(encoder, TransformerStack) and all(block.attention.causal for block in encoder.blocks):
        raise ValueError(
            "A hidden token is predicted from the tokens on both sides of it, but the tokens of this encoder see only "
            f"earlier ones. Use a `CausalLM`. Received: {type(encoder).__name__}"
        )


def tokens_of(encoder):
    """Returns the layer of an encoder's token embeddings, and its symbolic vectors of the tokens.

    Raises:
        ValueError: If the encoder lacks one of them.
    """
    table = getattr(encoder, "token_embedding", None)
    sequence = None if table is None else encode(encoder).sequence
    if sequence is None:
        raise ValueError(
            f"`encoder` must have a `token_embedding` and return a vector for each token. Received: encoder={encoder!r}"
        )
    return table, sequence
