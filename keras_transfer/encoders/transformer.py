"""The plain Transformer of the 2019 NAACL tutorial: small, readable, trained from random weights."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import gpt_layers


@keras.saving.register_keras_serializable(package="keras_transfer")
class TransformerEncoder(TransformerStack):
    """Token and learned position embeddings, then Transformer blocks (Ruder et al. 2019, 'Transfer Learning in NLP').

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate of embeddings and residuals. Defaults to `0.1`.
        max_sequence_length: Integer. Number of positions. Defaults to `256`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"relu"`.
        norm: String. `"input"` (the tutorial's own), `"post"`, or `"pre"`, which adds a final layer norm. Defaults to
            `"input"`.
        causal: Boolean. Whether a token sees only itself and earlier tokens, for language modelling. Defaults to
            `False`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `0.0`, the
            tutorial's.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-12`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        speakers: List of three integers, the ids of the delimiters of dialogues, as for `layers.SpeakerEmbedding`. The
            embedding of its speaker is then added to each token. Defaults to `None`, for other texts.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.TransformerEncoder(
        100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16
    )
    encoder({name: np.array([[1, 1, 0]]) for name in encoder.input})["sequence_output"]
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
        max_sequence_length: int = 256,
        activation: str | Callable = "relu",
        norm: str = "input",
        causal: bool = False,
        attention_dropout: float = 0.0,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        speakers: Sequence[int] | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ):
        settings = constructor_settings(locals())
        layers = gpt_layers({"embeddings_dropout": dropout, **settings, **kwargs}, dtype, norm, causal)
        super().__init__(settings, **layers, **kwargs)
