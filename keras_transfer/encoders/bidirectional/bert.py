"""BERT: a bidirectional Transformer (Devlin et al. 2019)."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import bert_layers


@keras.saving.register_keras_serializable(package="keras_transfer")
class BertEncoder(TransformerStack):
    """BERT's encoder: token, position and segment embeddings, post-norm Transformer blocks, a pooler.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate of embeddings and residuals. Defaults to `0.1`.
        max_sequence_length: Integer. Number of positions. Defaults to `512`.
        num_segments: Integer. `0` for no segment embeddings. Defaults to `2`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `None`, the same
            as `dropout`.
        activation: String or callable. `"gelu"` is exact (the original, Hugging Face), `"gelu_tanh"` an approximation
            (KerasHub). Defaults to `"gelu"`.
        pooler: Boolean. Whether there is a `pooled_output`, a dense layer with tanh on the first token. Defaults to
            `True`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-12`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids`, `segment_ids` (unless `num_segments=0`) and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]` and `pooled_output` `[batch, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.BertEncoder(100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    encoder({name: np.array([[1, 1, 0]]) for name in encoder.input})["pooled_output"]
    ```
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        dropout: float = 0.1,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        attention_dropout: float | None = None,
        activation: str | Callable = "gelu",
        pooler: bool = True,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        super().__init__(settings, **bert_layers(settings | kwargs, dtype, num_segments), **kwargs)
