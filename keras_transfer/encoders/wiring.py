"""The layers that most Transformer encoders have in common."""

import functools

import keras

from keras_transfer.core.expect import expect
from keras_transfer.layers import (
    FeedForward,
    LayerNormalization,
    MultiHeadAttention,
    PositionEmbedding,
    SegmentEmbedding,
    SpeakerEmbedding,
    TransformerBlock,
    TruncatedNormal,
)


def make_embeddings(
    vocabulary_size,
    dim,
    max_sequence_length,
    initializer,
    num_segments=0,
    position_offset=0,
    dtype=None,
    speakers=None,
):
    """Returns the layers `token_embedding`, `position_embedding` and `segment_embedding` as a dict.

    Args:
        position_offset: Integer. Unused first rows of the position table.
        speakers: As for `SpeakerEmbedding`, which is then used as the token table.
    """
    tokens = keras.layers.Embedding if speakers is None else functools.partial(SpeakerEmbedding, speakers=speakers)

    def table(cls, size, name):
        return cls(size, dim, initializer.clone(), dtype=dtype, name=name)

    positions = PositionEmbedding(
        max_sequence_length,
        initializer=initializer.clone(),
        offset=position_offset,
        dtype=dtype,
        name="position_embedding",
    )
    return {
        "token_embedding": table(tokens, vocabulary_size, "token_embedding"),
        "position_embedding": positions,
        "segment_embedding": table(SegmentEmbedding, num_segments, "segment_embedding") if num_segments else None,
    }


def make_blocks(
    num_layers,
    num_heads,
    intermediate_dim,
    activation,
    initializer,
    attention_dropout=0.0,
    causal=False,
    dtype=None,
    *,
    activation_dropout=0.0,
    cross_attention=False,
    prefix="",
    **options,
):
    """Returns blocks `block_0`, `block_1`, ..., after a prefix, of plain attention and a plain feed-forward network."""
    expect(num_layers >= 1, "`num_layers` must be at least 1.", num_layers=num_layers)
    shared = {"kernel_initializer": initializer, "dtype": dtype}

    def attention(name, **kind):
        return MultiHeadAttention(num_heads, dropout=attention_dropout, **kind, **shared, name=name)

    return [
        TransformerBlock(
            attention("attention", causal=causal),
            FeedForward(
                intermediate_dim, activation=activation, dropout=activation_dropout, **shared, name="feed_forward"
            ),
            cross_attention=attention("cross_attention", cross_attention=True) if cross_attention else None,
            dtype=dtype,
            name=f"{prefix}block_{i}",
            **options,
        )
        for i in range(num_layers)
    ]


def make_pooler(dim, initializer, dtype=None):
    """Returns BERT's pooler: a dense layer with tanh, for the first token's vector."""
    return keras.layers.Dense(dim, "tanh", kernel_initializer=initializer.clone(), dtype=dtype, name="pooler")


def make_projection(dim, initializer_range, dtype=None):
    """Returns the dense layer from narrow embeddings to the width of the blocks."""
    initializer = TruncatedNormal(stddev=initializer_range)
    return keras.layers.Dense(dim, kernel_initializer=initializer, dtype=dtype, name="embeddings_projection")


def bert_layers(settings, dtype=None, num_segments=0, position_offset=0):
    """Returns the layers of BERT and its relatives as a dict of arguments of `TransformerStack`.

    Args:
        settings: Dict from `constructor_settings`. `embedding_dim`, `pooler` and `causal` may be missing.
        position_offset: Integer. Unused first rows of the position table.
    """
    initializer = TruncatedNormal(stddev=settings["initializer_range"])
    epsilon, width = settings.get("layer_norm_epsilon", 1e-12), settings.get("embedding_dim", settings["hidden_dim"])
    return {
        **make_embeddings(
            settings["vocabulary_size"],
            width,
            settings["max_sequence_length"],
            initializer,
            num_segments,
            position_offset,
            dtype,
        ),
        "blocks": _blocks(
            settings, initializer, dtype, layer_norm_epsilon=epsilon, causal=settings.get("causal", False)
        ),
        "embeddings_norm": LayerNormalization(epsilon=epsilon, dtype=dtype, name="embeddings_norm"),
        "embeddings_dropout": settings["dropout"],
        "pooler": make_pooler(settings["hidden_dim"], initializer, dtype) if settings.get("pooler") else None,
        "dtype": dtype,
    }


def gpt_layers(settings, dtype=None, norm="post", causal=True):
    """Returns the layers of GPT and its relatives, without a final norm, as arguments of `TransformerStack`."""
    initializer = keras.initializers.RandomNormal(stddev=settings["initializer_range"])
    options = {"causal": causal, "norm": norm, "layer_norm_epsilon": settings["layer_norm_epsilon"]}
    sizes = [settings[name] for name in ("vocabulary_size", "hidden_dim", "max_sequence_length")]
    return {
        "blocks": _blocks(settings, initializer, dtype, **options),
        **make_embeddings(*sizes, initializer, dtype=dtype, speakers=settings["speakers"]),
        "embeddings_dropout": settings["embeddings_dropout"],
        "dtype": dtype,
    }


def _blocks(settings, initializer, dtype, **options):
    """Returns the blocks of an encoder with these settings."""
    names = ("num_layers", "num_heads", "intermediate_dim", "activation")
    options |= {"dropout": settings["dropout"], "attention_dropout": settings["attention_dropout"], "dtype": dtype}
    return make_blocks(*(settings[name] for name in names), initializer, **options)
