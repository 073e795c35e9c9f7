"""Masked language models, which predict the hidden tokens of a text."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.expect import expect
from keras_transfer.encoders import dense_on
from keras_transfer.layers import OutputEmbeddings, TakePositions
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.fills_masks import FillsMasks, MaskReader
from keras_transfer.tasks.hidden_tokens import HiddenTokens, HiddenTokenTask, check_reads_ahead, tokens_of
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.saved import settings_in


@keras.saving.register_keras_serializable(package="keras_transfer")
class MaskedLM(FillsMasks, HiddenTokenTask):
    """A masked language model: an encoder, a dense layer with a norm, and the token embeddings as output embeddings.

    `fit` and `evaluate` accept raw text without labels. The objective hides some tokens: different ones in each epoch
    of `fit`, and the same ones in each evaluation. Logits are computed only for these tokens, which makes a step
    cheaper. The loss is the mean over these tokens, and `accuracy` is the fraction that the model predicts correctly.

    `from_pretrained` loads the pretraining head of the checkpoint, so `fit` continues the pretraining. A checkpoint
    without this head requires `head="new"`. `save_pretrained` writes the head back.

    Args:
        encoder: Encoder of this library with a `token_embedding`, or a KerasHub backbone.
        preprocessor: `text.TokenPreprocessor` whose vocabulary has a mask token, or `None` for prepared ids. Defaults
            to `None`.
        objective: `objectives.TokenMasking`. Defaults to `None`, which hides 15% of the tokens.
        activation: String or callable. Activation of the dense layer. Defaults to `None`, the activation of the
            encoder.
        layer_norm_epsilon: Float. Epsilon of the layer norm. Defaults to `None`, the value of the encoder.
        use_bias: Boolean. Whether the dense layer and the norm have a bias. (The output embeddings always have one.)
            Defaults to `True`.
        name: String. Name of the model. Defaults to `None`.

    Inputs: The inputs of the encoder, and `mask_positions`, integers `[batch, places]`, negative at unused places.

    Outputs:
        Logits `[batch, places, vocabulary_size]`, float32.

    Raises:
        ValueError: If the encoder has no token embeddings or returns no vector for each token, if its tokens see only
            earlier ones, if `preprocessor` does not match the encoder, or if `objective` belongs to another task. If
            the vocabulary has no mask token, training and filling masks raise the error.

    Example:
    ```python
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "ends", "begins"]
    preprocessor = keras_transfer.text.BertPreprocessor(words, sequence_length=8)
    encoder = keras_transfer.encoders.BertEncoder(9, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model = keras_transfer.tasks.MaskedLM(encoder, preprocessor)
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit(["The film begins", "The film ends"])
    model.fill_mask(["The [MASK] ends"], k=2)
    ```

    Source: https://arxiv.org/abs/1810.04805
    """

    reads = ("sequence_output",)
    purpose = Purpose("fill-mask", "predicts hidden tokens", 'fill_mask(["A {mask}."])', "AutoModelForMaskedLM")
    answers = ("fill_mask", "classify")
    checkpoint_head = TaskHead(name="masked_lm", check_encoder=check_reads_ahead)

    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        objective: Any = None,
        activation: str | Callable[..., Any] | None = None,
        layer_norm_epsilon: float | None = None,
        use_bias: bool = True,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        check_reads_ahead(encoder)
        table, sequence = tokens_of(encoder)
        check_masks(preprocessor)
        head = TokenHead(encoder, table, activation, layer_norm_epsilon, use_bias)

        # === Functional model ===
        positions = keras.Input((None,), dtype="int32", name="mask_positions")
        outputs = head(sequence, positions)
        inputs = {**encoder.input, "mask_positions": positions}
        objective = TokenMasking() if objective is None else objective
        reader, labels = MaskReader(preprocessor), HiddenTokens(table.input_dim, objective)
        settings |= {"activation": head.activation, "layer_norm_epsilon": head.layer_norm_epsilon}
        super().__init__(encoder, reader, Head(outputs, labels), inputs=inputs, settings=settings, name=name)


class TokenHead:
    """The layers from token vectors to logits at some positions, which use the token embedding, `table`.

    An activation or an epsilon of `None` is the encoder's. `use_bias` is for the dense layer and the norm.

    Call arguments:
        sequence: Symbolic vectors `[batch, length, dim]`.
        positions: Symbolic integers `[batch, places]`.
    """

    def __init__(self, encoder, table, activation=None, layer_norm_epsilon=None, use_bias=True):
        if activation is None:
            activation = getattr(encoder, "activation", "gelu")
        if layer_norm_epsilon is None:
            layer_norm_epsilon = getattr(encoder, "layer_norm_epsilon", 1e-12)
        self.activation, self.layer_norm_epsilon = activation, layer_norm_epsilon
        dtype = encoder.dtype_policy
        self.take = TakePositions(dtype=dtype, name="masked_tokens")
        self.dense = dense_on(encoder, table.output_dim, activation, use_bias=use_bias, name="head_dense")
        self.norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, center=use_bias, dtype=dtype, name="head_norm"
        )
        self.logits = OutputEmbeddings(table, use_bias=True, dtype=dtype, name="logits")

    def __call__(self, sequence, positions):
        return self.logits(self.norm(self.dense(self.take(sequence, positions))))


def check_masks(preprocessor):
    """Raises a `ValueError` if a preprocessor (unless it is `None`) cannot mask tokens."""
    rule = "`preprocessor` must be a `text.TokenPreprocessor` with a mask token."
    expect(preprocessor is None or hasattr(preprocessor, "encode_masked"), rule, preprocessor=preprocessor)
