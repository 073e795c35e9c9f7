"""ModernBERT: BERT with later improvements of decoders (Warner et al. 2024)."""

import functools
from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.core.expect import expects, integer
from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import Parts
from keras_transfer.layers import GatedFeedForward, MultiHeadAttention, RotaryPositions, TransformerBlock


@keras.saving.register_keras_serializable(package="keras_transfer")
class ModernBertFirstBlock(TransformerBlock):
    """A pre-norm block without a norm before its attention, because the embeddings are already normalized."""

    def _norm(self, name):
        return keras.layers.Identity(name=name) if name == "attention_norm" else super()._norm(name)


@keras.saving.register_keras_serializable(package="keras_transfer")
class ModernBertEncoder(TransformerStack):
    """ModernBERT's encoder: pre-norm blocks with rotary positions and gated feed-forward networks, without biases.

    In every third block, a token sees the whole text. In the others, it sees its neighbours.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate inside the feed-forward networks. Defaults to `0.0`.
        max_sequence_length: Integer. Length of the longest texts in pretraining. Rotary positions have no limit.
            Defaults to `8192`.
        window: Integer. Largest distance to a token that is visible in a local block. Defaults to `64`.
        global_attention_every: Integer. In each run of this many blocks, the first one is global and the others are
            local. Defaults to `3`.
        rotary_base: Float. Base of the wavelengths of the positions in global blocks. Defaults to `160000.0`.
        local_rotary_base: Float. The same in local blocks. Defaults to `10000.0`.
        embeddings_dropout: Float between 0 and 1. Dropout rate of the embeddings. Defaults to `0.0`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `0.0`.
        activation: String or callable. Activation of the gates. Defaults to `"gelu"`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-5`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]`, the normalized output of the last block.

    Example:
    ```python
    encoder = keras_transfer.encoders.ModernBertEncoder(
        100, num_layers=3, num_heads=2, hidden_dim=8, intermediate_dim=16
    )
    encoder({"token_ids": np.array([[5, 6, 0]]), "padding_mask": np.array([[1, 1, 0]])})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/2412.13663
    """

    @expects(global_attention_every=integer(1))
    def __init__(
        self,
        vocabulary_size: int,
        *,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        dropout: float = 0.0,
        max_sequence_length: int = 8192,
        window: int = 64,
        global_attention_every: int = 3,
        rotary_base: float = 160000.0,
        local_rotary_base: float = 10000.0,
        embeddings_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation: str | Callable = "gelu",
        layer_norm_epsilon: float = 1e-5,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        settings = constructor_settings(locals())
        parts = Parts(settings | kwargs, dtype, normalization="layer_no_bias")

        width = kwargs.get("head_dim") or hidden_dim // num_heads

        def rotary(base, name):
            return RotaryPositions(width, base=base, dtype=dtype, name=name)

        everywhere, nearby = rotary(rotary_base, "rotary"), rotary(local_rotary_base, "local_rotary")
        options = {
            "attention": functools.partial(MultiHeadAttention, use_bias=False),
            "feed_forward": functools.partial(GatedFeedForward, use_bias=False),
            "activation_dropout": dropout,
            "dropout": 0.0,
            "norm": "pre",
        }
        is_global = [i % global_attention_every == 0 for i in range(num_layers)]
        blocks = [
            parts.block(
                i, block=TransformerBlock if i else ModernBertFirstBlock, window=None if whole else window, **options
            )
            for i, whole in enumerate(is_global)
        ]
        super().__init__(
            settings,
            parts.tokens(),
            blocks,
            embeddings_norm=parts.norm("embeddings_norm"),
            embeddings_dropout=embeddings_dropout,
            block_inputs=[everywhere if whole else nearby for whole in is_global],
            final_norm=parts.norm("final_norm"),
            dtype=dtype,
            **kwargs,
        )
