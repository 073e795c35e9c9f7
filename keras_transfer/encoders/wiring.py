"""The layers that most Transformer encoders have in common."""

import functools

import keras

from keras_transfer.core.expect import expect
from keras_transfer.layers import (
    FeedForward,
    MultiHeadAttention,
    PositionEmbedding,
    SegmentEmbedding,
    SpeakerEmbedding,
    TransformerBlock,
    TruncatedNormal,
    make_norm,
)


class Parts:
    """Makes the layers of a Transformer from the settings of its encoder.

    Args:
        settings: Dict from `constructor_settings`, with the `kwargs` of the constructor. `embedding_dim`,
            `attention_dropout`, `layer_norm_epsilon`, `head_dim` and `layer_drop` may be missing. `num_heads` and
            `intermediate_dim` may be lists, one for each block.
        initializer: Initializer of all kernels and tables. Defaults to `None`, BERT's.
        normalization: String. The kind of all norms, as for `TransformerBlock`.
        prefix: String. What the names of the layers begin with.
    """

    def __init__(self, settings, dtype=None, initializer=None, *, normalization="layer", prefix=""):
        self.settings, self.dtype, self.prefix = settings, dtype, prefix
        self.initializer = initializer or TruncatedNormal(stddev=settings["initializer_range"])
        epsilon = settings.get("layer_norm_epsilon", 1e-12)
        self.norms = {"normalization": normalization, "layer_norm_epsilon": epsilon, "dtype": dtype}

    def table(self, cls, rows, name):
        """Returns a table with one vector in each row."""
        width = self.settings.get("embedding_dim", self.settings["hidden_dim"])
        return cls(rows, width, self.initializer.clone(), dtype=self.dtype, name=name)

    def tokens(self, speakers=None):
        """Returns the table of tokens; `speakers` are those of `SpeakerEmbedding`."""
        cls = keras.layers.Embedding if speakers is None else functools.partial(SpeakerEmbedding, speakers=speakers)
        return self.table(cls, self.settings["vocabulary_size"], "token_embedding")

    def positions(self, offset=0):
        """Returns the table of positions, whose first `offset` rows are unused."""
        return PositionEmbedding(
            self.settings["max_sequence_length"],
            initializer=self.initializer.clone(),
            offset=offset,
            dtype=self.dtype,
            name=f"{self.prefix}position_embedding",
        )

    def embeddings(self, num_segments=0, position_offset=0, speakers=None):
        """Returns the layers `token_embedding`, `position_embedding` and `segment_embedding` as a dict."""
        return {
            "position_embedding": self.positions(position_offset),
            "token_embedding": self.tokens(speakers),
            "segment_embedding": self.table(SegmentEmbedding, num_segments, "segment_embedding")
            if num_segments
            else None,
        }

    def norm(self, name):
        """Returns a norm of the kind that all blocks have."""
        return make_norm(**self.norms, name=f"{self.prefix}{name}")

    def blocks(self, **options):
        """Returns blocks `block_0`, `block_1`, ..., after the prefix."""
        count = self.settings["num_layers"]
        expect(count >= 1, "`num_layers` must be at least 1.", num_layers=count)
        return [self.block(index, **options) for index in range(count)]

    def block(
        self,
        index,
        *,
        block=TransformerBlock,
        attention=MultiHeadAttention,
        feed_forward=FeedForward,
        causal=False,
        window=None,
        activation_dropout=0.0,
        cross_attention=False,
        **options,
    ):
        """Returns one block, given the classes of its parts.

        Args:
            causal, window: Arguments of its attention.
            activation_dropout: Float. Dropout rate within the feed-forward network.
            **options: Further arguments of the block.
        """
        settings, weights = self.settings, {"kernel_initializer": self.initializer, "dtype": self.dtype}
        sizes = (settings[name] for name in ("num_heads", "intermediate_dim"))
        heads, width = (size[index] if isinstance(size, (list, tuple)) else size for size in sizes)

        def attend(name, **kind):
            rate, head_dim = settings.get("attention_dropout", settings["dropout"]), settings.get("head_dim")
            return attention(heads, head_dim=head_dim, dropout=rate, **kind, **weights, name=name)

        activation = settings["activation"]
        return block(
            attend("attention", causal=causal, window=window),
            feed_forward(width, activation, dropout=activation_dropout, **weights, name="feed_forward"),
            cross_attention=attend("cross_attention", cross_attention=True) if cross_attention else None,
            layer_drop=settings.get("layer_drop", 0.0),
            **{"dropout": settings["dropout"], **self.norms, **options},
            name=f"{self.prefix}block_{index}",
        )

    def pooler(self):
        """Returns BERT's pooler: a dense layer with tanh, for the first token's vector."""
        dim, initializer = self.settings["hidden_dim"], self.initializer.clone()
        return keras.layers.Dense(dim, "tanh", kernel_initializer=initializer, dtype=self.dtype, name="pooler")


def make_projection(settings, dtype=None):
    """Returns the dense layer from narrow embeddings to the width of the blocks."""
    initializer = TruncatedNormal(stddev=settings["initializer_range"])
    dim = settings["hidden_dim"]
    return keras.layers.Dense(dim, kernel_initializer=initializer, dtype=dtype, name="embeddings_projection")


def bert_layers(settings, dtype=None, num_segments=0, position_offset=0, normalization="layer"):
    """Returns the layers of BERT and its relatives as a dict of arguments of `TransformerStack`.

    Args:
        settings: Dict from `constructor_settings`. `embedding_dim`, `pooler` and `causal` may be missing.
        position_offset: Integer. Unused first rows of the position table.
        normalization: String. The kind of all norms, as for `TransformerBlock`.
    """
    parts = Parts(settings, dtype, normalization=normalization)
    return {
        **parts.embeddings(num_segments, position_offset),
        "blocks": parts.blocks(causal=settings.get("causal", False)),
        "embeddings_norm": parts.norm("embeddings_norm"),
        "embeddings_dropout": settings["dropout"],
        "pooler": parts.pooler() if settings.get("pooler") else None,
        "dtype": dtype,
    }


def gpt_layers(settings, dtype=None, norm="post", causal=True):
    """Returns the layers of GPT and its relatives as arguments of `TransformerStack`; with pre-norm, a final norm."""
    parts = Parts(settings, dtype, keras.initializers.RandomNormal(stddev=settings["initializer_range"]))
    return {
        "blocks": parts.blocks(causal=causal, norm=norm),
        **parts.embeddings(speakers=settings["speakers"]),
        "embeddings_dropout": settings["embeddings_dropout"],
        "final_norm": parts.norm("final_norm") if norm == "pre" else None,
        "dtype": dtype,
    }
