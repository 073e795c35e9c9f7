"""Replaced token detection: finding the tokens of a text that a small language model has replaced."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import FLAG, expect, expects
from keras_transfer.distribute import factors_of_means, share_of_loss
from keras_transfer.encoders import dense_on, with_embeddings_of
from keras_transfer.keras_internals import predict_batch
from keras_transfer.layers import SampleTokens, put_tokens
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.id_rows import in_batches
from keras_transfer.tasks.labels import JointLabels, Mean
from keras_transfer.tasks.masked_lm import HiddenTokenTask, MaskedLM, check_reads_ahead, tokens_of
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.reader import Reader
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.task import Signature, of_part, texts_named
from keras_transfer.tasks.token_targets import HiddenTokens


class ReplacedTokens(JointLabels, HiddenTokens):
    """The hidden tokens, from which the generator learns. The discriminator learns which tokens it has replaced."""

    def __init__(self, count, objective, discriminator_weight):
        super().__init__(count, objective)
        self.discriminator_weight = discriminator_weight
        self.parts = [keras.metrics.Mean(name=part) for part in ("generator_loss", "discriminator_loss", "accuracy")]

    def means(self, x, y, y_pred, sample_weight):
        rule = "`ReplacedTokenDetection` does not support sample weights."
        expect(sample_weight is None, rule, sample_weight=sample_weight)
        (generator, discriminator, _), (of_hidden, of_real) = self._parts_of(x, y, y_pred)
        return [
            Mean(share_of_loss(generator), of_hidden),
            Mean(share_of_loss(discriminator), of_real, self.discriminator_weight),
        ]

    def update_metrics(self, x, y, y_pred, sample_weight):
        """Updates both losses, and the fraction of real tokens that are classified correctly."""
        values, counts = self._parts_of(x, y, y_pred)
        of_hidden, of_real = factors_of_means(*counts)
        for metric, value, factor in zip(self.parts, values, (of_hidden, of_real, of_real)):
            metric.update_state(factor * value)

    def _parts_of(self, x, y, y_pred):
        """Returns the loss of the generator, and the loss and the accuracy of the discriminator, and both counts."""
        targets = ops.cast(y, "int32")
        losses = keras.losses.sparse_categorical_crossentropy(
            ops.maximum(targets, 0), y_pred["generator"], from_logits=True
        )
        before = put_tokens(x["token_ids"], x["mask_positions"], targets)
        replaced = ops.cast(y_pred["token_ids"] != before, "float32")
        logits = y_pred["discriminator"]
        wrong = ops.softplus(ops.where(replaced == 1, -logits, logits))
        right = ops.cast((logits > 0) == (replaced == 1), "float32")
        hidden, real = (ops.cast(mask, "float32") for mask in (targets >= 0, x["padding_mask"]))
        return (_mean(losses, hidden), _mean(wrong, real), _mean(right, real)), (ops.sum(hidden), ops.sum(real))


@keras.saving.register_keras_serializable(package="keras_transfer")
class ReplacedTokenDetection(HiddenTokenTask):
    """ELECTRA's pretraining: a generator replaces some tokens, and the encoder learns to detect them.

    `fit` and `evaluate` accept raw text without labels. The objective hides some tokens. The generator, a `MaskedLM`,
    predicts them, and they are replaced by tokens drawn from its distribution. The encoder then predicts for each real
    token whether it was replaced. A drawn token that equals the original one counts as not replaced. The loss is the
    loss of the generator plus `discriminator_weight` times the loss of the encoder.

    With `share_embeddings=True`, the generator uses the embeddings of the encoder, and both losses train them, as in
    the original. These are the token, position and segment embeddings, and the norm after their sum. The generator
    needs the same `embedding_dim`, from which an `ElectraEncoder` projects to its own width.

    `from_pretrained` loads the head of a discriminator, and `save_pretrained` writes it back. Save the generator with
    `model.generator.save_pretrained(folder)`.

    Args:
        encoder: Encoder of this library, the discriminator.
        preprocessor: `text.TokenPreprocessor` whose vocabulary has a mask token, or `None` for prepared ids. Defaults
            to `None`.
        generator: `MaskedLM` with the same vocabulary, usually smaller than `encoder`. Defaults to `None`, for a model
            that only detects.
        share_embeddings: Boolean. Whether the generator shares the embeddings of the encoder. `model.generator` is then
            a new `MaskedLM` with the blocks of the given one and a copy of its head. Use `model.generator` from then
            on. Defaults to `False`.
        objective: `objectives.TokenMasking`. Defaults to `None`, which hides 15% of the tokens: 85% of these become the
            mask token, and none become a random token.
        discriminator_weight: Float. Factor of the loss of the encoder. Defaults to `50.0`.
        activation: String or callable. Activation of the head's dense layer. Defaults to `None`, the activation of the
            encoder.
        name: String. Name of the model. Defaults to `None`.

    Outputs:
        Logits `[batch, length]`, float32, positive for a token that was probably replaced. For inputs with
        `mask_positions`, a dict with these logits and the results of the generator.

    Raises:
        ValueError: If the encoder returns no vector for each token, if `generator` is not a `MaskedLM` or has a
            different vocabulary, if `share_embeddings` is not a boolean, if it cannot share the embeddings, if
            `preprocessor` has no mask token or does not match the encoder, or if `objective` belongs to another task.

    Example:
    ```python
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "ends", "begins"]
    preprocessor = keras_transfer.text.BertPreprocessor(words, sequence_length=8)
    small, large = (
        keras_transfer.encoders.ElectraEncoder(
            9, num_layers=2, num_heads=2, hidden_dim=width, intermediate_dim=4 * width, embedding_dim=8
        )
        for width in (4, 16)
    )
    generator = keras_transfer.tasks.MaskedLM(small)
    model = keras_transfer.tasks.ReplacedTokenDetection(
        large, preprocessor, generator=generator, share_embeddings=True
    )
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit(["The film begins", "The film ends"])
    model.detect(["The the ends"])
    ```

    Source: https://arxiv.org/abs/2003.10555
    """

    reads = ("sequence_output",)
    purpose = Purpose(None, "detects replaced tokens", 'detect(["A text."])', "AutoModelForPreTraining")
    answers = ("detect",)
    checkpoint_head = TaskHead(name="replaced_token", check_encoder=check_reads_ahead, found=("share_embeddings",))
    saved_apart = ("generator",)
    discriminator_weight = of_part("labels", "discriminator_weight")

    @expects(share_embeddings=FLAG)
    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        generator: MaskedLM | None = None,
        share_embeddings: bool = False,
        objective: Any = None,
        discriminator_weight: float = 50.0,
        activation: str | Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        check_reads_ahead(encoder)
        table, sequence = tokens_of(encoder)
        if generator is not None and (
            not isinstance(generator, MaskedLM) or generator.output.shape[-1] != table.input_dim
        ):
            size = generator.output.shape[-1] if isinstance(generator, MaskedLM) else None
            raise ValueError(
                f"`generator` must be a `MaskedLM` with the vocabulary of the encoder, {table.input_dim} tokens. "
                f"Received: {type(generator).__name__}{'' if size is None else f' with {size} tokens'}"
            )
        if share_embeddings:
            generator = _with_embeddings_of(generator, encoder)
        activation = getattr(encoder, "activation", "gelu") if activation is None else activation
        dense = dense_on(encoder, sequence.shape[-1], activation, name="head_dense")
        initializer = dense.kernel_initializer.clone()
        logits = keras.layers.Dense(1, kernel_initializer=initializer, dtype="float32", name="logits")

        # === Functional model ===
        objective = TokenMasking(mask_token_rate=0.85, random_token_rate=0.0) if objective is None else objective
        reader = Reader(preprocessor, "`detect(texts)` for texts")
        labels = ReplacedTokens(table.input_dim, objective, discriminator_weight)
        settings |= {"generator": generator, "activation": activation}
        outputs = ops.squeeze(logits(dense(sequence)), -1)
        super().__init__(encoder, reader, Head(outputs, labels), settings=settings, name=name)
        self.sample_tokens = SampleTokens(dtype="float32", name="sample_tokens")
        self.parts = labels.parts  # Keras tracks them.

    # === Training ===

    def call(self, inputs, training=None, mask=None):
        if not isinstance(inputs, dict) or "mask_positions" not in inputs:
            return super().call(inputs, training=training, mask=mask)
        rule = "Training requires a generator. Create the task with `generator=...`, a `MaskedLM`."
        expect(self.generator is not None, rule, generator=self.generator)
        predicted = self.generator(inputs, training=training)
        token_ids = self.sample_tokens(inputs["token_ids"], inputs["mask_positions"], predicted)
        logits = super().call({**inputs, "token_ids": token_ids}, training=training, mask=mask)
        return {"generator": predicted, "token_ids": token_ids, "discriminator": logits}

    # === Prediction ===

    def detect(self, texts: Any, *, batch_size: int = 32) -> list[list[tuple[str, float]]]:
        """Returns the tokens of texts, each with the probability that it was replaced.

        Args:
            texts: A string, or a list, array or table column of strings.
            batch_size: Integer. Number of texts in a batch. Defaults to `32`.

        Returns:
            For each text, a list of `(token, probability)`, without special tokens.

        Raises:
            ValueError: If `texts` contains anything but strings, if the task has no preprocessor, or if `batch_size` is
                not a positive integer.
        """
        self.reader.require()
        answers, vocabulary = [], self.preprocessor.vocabulary
        special = [token for token in self.preprocessor.special_ids if token != self.preprocessor.unk_id]
        for _, inputs in in_batches(self, texts, batch_size):
            values = check_numbers(ops.convert_to_numpy(ops.sigmoid(predict_batch(self, inputs))))
            ids = np.asarray(inputs["token_ids"])
            for row, keep in enumerate((np.asarray(inputs["padding_mask"]) == 1) & ~np.isin(ids, special)):
                words = [vocabulary[token] for token in ids[row, keep].tolist()]
                answers.append(list(zip(words, values[row, keep].tolist())))
        return answers

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, because this task does not support pairs. Defaults to `False`.

        Returns:
            Dict of `Signature`s: `"serving_default"`, from `text` to `token` strings and the `probability` that each
            was replaced, both `[batch, length]`, with "" and 0 for padding, and `"tokens"`, from the encoder's inputs
            to `logits`.

        Raises:
            ValueError: If `pairs=True`.
        """
        signatures = super().signatures(pairs)

        def detect(text):
            inputs = self.reader.inputs(text)
            real = inputs["padding_mask"] == 1
            probability = ops.where(real, ops.sigmoid(self(inputs, training=False)), 0.0)
            token = self.preprocessor.to_tokens(ops.where(real, inputs["token_ids"], -1))
            return {"token": token, "probability": probability}

        return {"serving_default": Signature(detect, texts_named("text")), **signatures}


def _with_embeddings_of(generator, encoder):
    """Returns a `MaskedLM` with an encoder's embeddings, the same blocks as `generator`, and a copy of its head."""
    if generator is None:
        raise ValueError("`share_embeddings=True` requires a `generator`, a `MaskedLM`. Received: generator=None")
    names = ("objective", "activation", "layer_norm_epsilon", "use_bias", "name")
    settings = {name: getattr(generator, name) for name in names}
    shared = MaskedLM(with_embeddings_of(generator.encoder, encoder), generator.preprocessor, **settings)
    for own, new in zip(generator.token_head.layers, shared.token_head.layers):
        new.set_weights(own.get_weights())
        new.trainable = own.trainable
    return shared


def _mean(values, mask):
    """Returns the mean of values where a mask is 1, or 0 if the mask is 0 everywhere."""
    return ops.sum(values * mask) / ops.maximum(ops.sum(mask), 1.0)
