"""XLNet's pretraining: predicting tokens in a random order."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import to_array, to_numpy
from keras_transfer.encoders import XLNetEncoder
from keras_transfer.layers import OutputEmbeddings
from keras_transfer.objectives import PermutationLanguageModel
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.labels import check_integers
from keras_transfer.tasks.masked_lm import (
    FillsMasks,
    HiddenTokenTask,
    MaskReader,
    check_masks,
    check_reads_ahead,
    tokens_of,
)
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.token_targets import HiddenTokens

_INPUTS = ("factorization_order", "mask_positions")


class OrderedMaskReader(MaskReader):
    """Accepts texts for a task that predicts tokens in a factorization order: the masked tokens after all others."""

    def inputs(self, x):
        inputs = super().inputs(x)
        hidden = inputs["token_ids"] == self.preprocessor.mask_id
        # Keras cannot call a model with a mixture of arrays and tensors.
        order = hidden.astype("int32") if isinstance(hidden, np.ndarray) else ops.cast(hidden, "int32")
        return {**inputs, "factorization_order": order}


class PredictedTokens(HiddenTokens):
    """The tokens that an objective chooses to be predicted in an order, which replace labels."""

    made_inputs = _INPUTS

    def check_inputs(self, inputs, labels=None):
        super().check_inputs(inputs, labels)
        if not {"token_ids", "padding_mask", *_INPUTS} <= set(inputs):
            return
        names = ("token_ids", "padding_mask", *_INPUTS)
        ids, mask, order, positions = (to_numpy(inputs[name]) for name in names)
        expected = f"`factorization_order` must be integers [batch, length], of shape {ids.shape} like `token_ids`."
        check_integers(order, expected, lowest=-np.inf, shape=ids.shape)
        used = positions >= 0 if labels is None else (positions >= 0) & (to_array(labels) >= 0)
        most = np.iinfo(order.dtype).max
        lowest = np.where(mask == 1, order, most).min(axis=1, initial=most)
        own = np.take_along_axis(order, np.maximum(positions, 0).astype(int), axis=1)
        blind = np.argwhere(used & (own <= lowest[:, None]))
        if len(blind):
            row, place = blind[0].tolist()
            raise ValueError(
                "Each predicted token must see another one: a real token with a lower number in `factorization_order`. "
                f"Received: number {own[row, place]} at position {positions[row, place]} of row {row}, "
                f"in which the lowest number is {lowest[row]}"
            )


def check_two_streams(encoder):
    """Raises a `ValueError` if an encoder has no query stream."""
    check_reads_ahead(encoder)
    if not getattr(encoder, "two_streams", False):
        raise ValueError(
            "`encoder` must have a query stream: `XLNetEncoder(..., two_streams=True)`. Use a `MaskedLM` for encoders "
            f"without one. Received: {type(encoder).__name__}"
        )


@keras.saving.register_keras_serializable(package="keras_transfer")
class PermutationLM(FillsMasks, HiddenTokenTask):
    """A permutation language model: XLNet's encoder with its query stream, and the token embeddings as the head.

    `fit` and `evaluate` accept raw text without labels. The objective chooses the tokens to predict, and draws an
    order: different ones in each epoch of `fit`, and the same ones in each evaluation. Each token is predicted from all
    tokens before it in this order, on both sides of it. Unlike in a `MaskedLM`, the text has no mask tokens, and the
    model learns how the predicted tokens depend on each other. The query stream is computed for these tokens only. The
    loss is the mean over them, and `accuracy` is the fraction that the model predicts correctly.

    `from_pretrained` loads the bias of the head and the initial vector of the query stream, and `save_pretrained`
    writes them, as in `XLNetLMHeadModel` of Transformers. Other tasks can use the encoder directly, or load the folder.

    Args:
        encoder: `XLNetEncoder` with `two_streams=True`.
        preprocessor: `text.TokenPreprocessor`, or `None` for prepared ids. Defaults to `None`.
        objective: `objectives.PermutationLanguageModel`. Defaults to `None`, which predicts a sixth of the tokens.
        name: String. Name of the model. Defaults to `None`.

    Inputs: The inputs of the encoder, and `factorization_order`, integers `[batch, length]`, and `mask_positions`,
        integers `[batch, places]`, negative at unused places, as the objective makes them. Each predicted token must
            see
        at least one token, with a lower number in the order.

    Outputs:
        Logits `[batch, places, vocabulary_size]`, float32.

    Raises:
        ValueError: If the encoder has no query stream, if `preprocessor` does not match it, or if `objective` makes
            different inputs.

    Example:
    ```python
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "ends", "begins"]
    preprocessor = keras_transfer.text.BertPreprocessor(words, sequence_length=8)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    encoder = keras_transfer.encoders.XLNetEncoder(9, **sizes, two_streams=True)
    model = keras_transfer.tasks.PermutationLM(encoder, preprocessor)
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit(["The film begins", "The film ends"])
    classifier = keras_transfer.tasks.TextClassifier(encoder, preprocessor, label_names=["no", "yes"], pooling="last")
    ```

    Source: https://arxiv.org/abs/1906.08237
    """

    reads = ()  # The query stream is no output of the encoder.
    purpose = Purpose(
        "text-generation", "predicts tokens in any order", 'fill_mask(["A {mask}."])', "AutoModelForCausalLM"
    )
    answers = ("fill_mask", "classify")
    checkpoint_head = TaskHead(
        name="permutation_lm",
        check_encoder=check_two_streams,
        encoder_class=XLNetEncoder,
        encoder_arguments={"two_streams": True},
    )

    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        objective: Any = None,
        name: str | None = None,
    ) -> None:
        # === Layers ===
        check_two_streams(encoder)
        table, _ = tokens_of(encoder)
        check_masks(preprocessor)
        logits = OutputEmbeddings(table, use_bias=True, dtype=encoder.dtype_policy, name="logits")

        # === Functional model ===
        inputs = {**encoder.input, **{name: keras.Input((None,), dtype="int32", name=name) for name in _INPUTS}}
        objective = PermutationLanguageModel() if objective is None else objective
        reader, labels = OrderedMaskReader(preprocessor), PredictedTokens(table.input_dim, objective)
        outputs = logits(encoder.query_stream(inputs))
        super().__init__(encoder, reader, Head(outputs, labels), inputs=inputs, name=name)
