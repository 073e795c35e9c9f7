"""BERT's pretraining: predicting hidden tokens, and whether two segments of a text belong together."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import expect
from keras_transfer.data import UNUSED
from keras_transfer.encoders import encode, initializer_on
from keras_transfer.keras_internals import predict_batch
from keras_transfer.layers import Dropout
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.class_labels import ClassNames
from keras_transfer.tasks.masked_lm import HiddenTokenTask, TokenHead, check_masks, check_reads_ahead, tokens_of
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.reader import Reader
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.task import Signature, texts_named
from keras_transfer.tasks.token_targets import HiddenTokens
from keras_transfer.text import check_rows_of_batches

_TOKENS, _PAIR = "masked_tokens", "segment_pair"


class SegmentPairReader(Reader):
    """Accepts pairs of texts with labels that say whether they belong together, some of whose tokens are hidden."""

    takes_texts = False
    takes_either = True  # A task that was trained on pairs is exported for pairs.

    def inputs(self, x):
        inputs = super().inputs(x)
        return {**inputs, "mask_positions": inputs["token_ids"][:, :1] * 0 + UNUSED}


@keras.saving.register_keras_serializable(package="keras_transfer")
class BertPretraining(HiddenTokenTask):
    """BERT's pretraining: the model predicts hidden tokens, and whether two segments belong together.

    It has the head of a `MaskedLM`, and a dense layer on the pooled output. `fit` and `evaluate` accept
    `Corpus.pairs(...)`, with next sentences (BERT) or sentence order (ALBERT), or a tuple of two columns of texts with
    labels: 0 for texts that follow each other, 1 for others. A `tf.data.Dataset` or a loader has batches `((texts,
    text_pairs), labels)`. Different tokens are hidden in each epoch. Token logits are computed only for hidden tokens.

    The loss is the sum of the two losses. Weight them with `compile(loss_weights={"masked_tokens": 1.0, "segment_pair":
    0.5})`.

    `from_pretrained` loads both heads of a checkpoint, such as `BertForPreTraining` or `AlbertForPreTraining`, and
    `save_pretrained` writes them back. RoBERTa and most later models are pretrained without pairs: use a `MaskedLM` if
    your texts are not documents of several sentences.

    Args:
        encoder: Encoder of this library with a `token_embedding` and a pooled output, such as `BertEncoder`.
        preprocessor: `text.TokenPreprocessor` whose vocabulary has a mask token, or `None` for prepared ids. Defaults
            to `None`.
        objective: `objectives.TokenMasking`. Defaults to `None`, which hides 15% of the tokens.
        dropout: Float between 0 and 1. Dropout rate of the pooled output, which is 0.1 in ALBERT. Defaults to `0.0`, as
            in BERT.
        activation: String or callable. Activation of the dense layer for tokens. Defaults to `None`, the activation of
            the encoder.
        layer_norm_epsilon: Float. Epsilon of the layer norm. Defaults to `None`, the value of the encoder.
        name: String. Name of the model. Defaults to `None`.

    Inputs: The inputs of the encoder, and `mask_positions`, integers `[batch, places]`, negative at unused places.

    Outputs:
        Dict of float32 logits: `masked_tokens` `[batch, places, vocabulary_size]` and `segment_pair` `[batch, 2]`.

    Raises:
        ValueError: If the encoder has no token embeddings, no vector for each token or no pooled output, if its tokens
            see only earlier ones, if `preprocessor` does not match the encoder, or if `objective` belongs to another
            task.

    Example:
    ```python
    texts = ["The film was long.\\nIt was good.", "The book was short.\\nIt was good."]
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the film book it was long short good .".split()
    preprocessor = keras_transfer.text.BertPreprocessor(words, sequence_length=16)
    corpus = keras_transfer.text.Corpus.build(texts, preprocessor, "my_corpus")
    encoder = keras_transfer.encoders.BertEncoder(14, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model = keras_transfer.tasks.BertPretraining(encoder, preprocessor)
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit(corpus.pairs(16, batch_size=2))
    model.score_pairs((["The film was long."], ["It was good."]))
    ```

    Source: https://arxiv.org/abs/1810.04805, https://arxiv.org/abs/1909.11942.
    """

    purpose = Purpose(
        "fill-mask",
        "predicts hidden tokens and the order of texts",
        'score_pairs((["One text."], ["The text after it."]))',
        "AutoModelForPreTraining",
    )
    answers = ("score_pairs",)
    checkpoint_head = TaskHead(name="pretraining", check_encoder=check_reads_ahead)

    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        objective: Any = None,
        dropout: float = 0.0,
        activation: str | Callable[..., Any] | None = None,
        layer_norm_epsilon: float | None = None,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        check_reads_ahead(encoder)
        table, sequence = tokens_of(encoder)
        pooled = encode(encoder).pooled
        if pooled is None:
            raise ValueError(
                "`encoder` must have a pooled output, from which the model tells whether two segments belong together. "
                f"Use a `MaskedLM` for an encoder without one. Received: {type(encoder).__name__}"
            )
        check_masks(preprocessor)
        head = TokenHead(encoder, table, activation, layer_norm_epsilon)
        head_dropout = Dropout(dropout, dtype=encoder.dtype_policy, name="head_dropout")
        pair_logits = keras.layers.Dense(
            2, kernel_initializer=initializer_on(encoder), dtype="float32", name="pair_logits"
        )

        # === Functional model ===
        positions = keras.Input((None,), dtype="int32", name="mask_positions")
        inputs = {**encoder.input, "mask_positions": positions}
        objective = TokenMasking() if objective is None else objective
        reader = SegmentPairReader(preprocessor, "`score_pairs(texts)` for texts")
        settings |= {"activation": head.activation, "layer_norm_epsilon": head.layer_norm_epsilon}
        heads = {
            _TOKENS: Head(head(sequence, positions), HiddenTokens(table.input_dim, objective)),
            _PAIR: Head(pair_logits(head_dropout(pooled)), ClassNames(["0", "1"])),
        }
        super().__init__(encoder, reader, heads, inputs=inputs, settings=settings, name=name)

    @property
    def objective(self):
        """The objective, such as `objectives.TokenMasking`."""
        return self.heads[_TOKENS].labels.objective

    @objective.setter
    def objective(self, objective):
        self.heads[_TOKENS].labels.objective = objective

    # === Prediction ===

    def score_pairs(self, pairs: tuple[Any, Any], *, batch_size: int = 32) -> list[float]:
        """Returns the probability that the second text of each pair follows the first.

        Args:
            pairs: Tuple of two columns of texts, as for `fit`.
            batch_size: Integer. Number of pairs in a batch. Defaults to `32`.

        Returns:
            List of floats, one for each pair.

        Raises:
            ValueError: If `pairs` does not contain pairs of texts, if the task has no preprocessor, or if `batch_size`
                is not a positive integer.
        """
        self.reader.require()
        check_rows_of_batches(batch_size)
        if not self.reader.accepts(pairs):
            raise ValueError(f"`pairs` must be a tuple of two lists of strings. Received: {type(pairs).__name__}")
        first, second = self.reader.columns(pairs)
        found = []
        for start in range(0, len(first), batch_size):
            part = (first[start : start + batch_size], second[start : start + batch_size])
            logits = predict_batch(self, self.reader.inputs(part))[_PAIR]
            found += np.asarray(ops.convert_to_numpy(ops.softmax(logits)))[:, 0].tolist()
        return check_numbers(np.asarray(found)).tolist()

    # === Export ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `True`, because a `BertPretraining` expects pairs. Defaults to `False`.

        Returns:
            Dict with one `Signature`, `"serving_default"`: from `text` and `text_pair` to `probability` `[batch]`, that
            the second text follows the first.

        Raises:
            ValueError: If `pairs=False`.
        """
        expect(pairs, "A `BertPretraining` expects pairs of texts. Use `pairs=True`.", pairs=pairs)

        def score(text, text_pair):
            outputs = self(self.reader.inputs((text, text_pair)), training=False)
            return {"probability": ops.softmax(outputs[_PAIR])[:, 0]}

        return {"serving_default": Signature(score, texts_named("text", "text_pair"))}
