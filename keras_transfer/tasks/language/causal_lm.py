"""A language model that reads from left to right, predicts the next token, and generates text."""

import keras
import numpy as np

from keras_transfer.batches import Batches
from keras_transfer.encoders.base import TransformerStack, encode
from keras_transfer.generation import get_sampler
from keras_transfer.layers.embeddings import OutputEmbeddings
from keras_transfer.metrics.words import Perplexity
from keras_transfer.objectives import NextToken
from keras_transfer.tasks.base import Task
from keras_transfer.tasks.inputs import texts_of_stream, to_numpy
from keras_transfer.tasks.language.generates import Generates
from keras_transfer.tasks.language.in_context import InContext
from keras_transfer.tasks.language.likelihood import Likelihood
from keras_transfer.tasks.language.token_lists import check_rows, token_rows


@keras.saving.register_keras_serializable(package="keras_transfer")
class CausalLM(Generates, InContext, Likelihood, Task):
    """A causal language model: an encoder whose tokens see only earlier ones, and its token embeddings as the head.

    `fit` and `evaluate` take raw texts without labels: at each position, the target is the next token. A long text is
    truncated to the `sequence_length` of the preprocessor. The loss is the mean over the tokens of a batch.
    `metrics.Perplexity` is computed over all tokens. Both ignore padding. `score` returns the likelihood of texts,
    `generate` continues them, and `classify` labels them by likelihood.

    Args:
        encoder: `TransformerStack` with causal blocks, such as `GPT2Encoder` or `TransformerEncoder(causal=True)`.
        preprocessor: `text.TokenPreprocessor`, or None for prepared ids. Defaults to `None`.
        name: String. Name of the model. Defaults to `None`.
        sampler: `generation.Sampler` or its name. How `generate` and exported models choose tokens. Defaults to
            `"greedy"`.
        max_length: Integer. Number of tokens at which `generate` and exported models stop, including the prompt.
            Defaults to the encoder's number of positions.

    Outputs:
        Logits [batch, length, vocabulary], float32. The logits at a position predict the next token.

    Raises:
        ValueError: If `encoder` is not a `TransformerStack`, if its tokens see later ones, or if the token embeddings
            differ in width from its outputs; if `preprocessor` does not match it; or if an argument is out of range.

    Example:
    ```python
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad"]
    encoder = keras_transfer.encoders.TransformerEncoder(
        len(vocabulary), num_layers=2, num_heads=2, hidden_dim=16, intermediate_dim=32, norm="pre", causal=True
    )
    model = keras_transfer.tasks.CausalLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
    model.compile(keras_transfer.adaptation.FusedAdamW(1e-2))
    model.fit(["The film was good", "The film was bad"], epochs=2)
    model.generate(["The film"], max_length=6)
    ```

    Source: https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf
    """

    head_name = "causal_lm"
    makes_targets = True
    objective = NextToken()

    def __init__(self, encoder, preprocessor=None, name=None, sampler="greedy", max_length=None):
        # === Layers ===
        self.check_encoder(encoder)
        encoded = encode(encoder)
        width = encoder.token_embedding.output_dim
        if encoded.sequence.shape[-1] != width:
            raise ValueError(
                "The token embeddings must have the width of the encoder's outputs, because they are the head. "
                f"Received: widths {width} and {encoded.sequence.shape[-1]}"
            )
        logits = OutputEmbeddings(encoder.token_embedding, dtype=encoder.dtype_policy, name="logits")

        # === Functional model ===
        super().__init__(encoder, preprocessor, logits(encoded.sequence), name)
        object.__setattr__(self, "output_embeddings", logits)
        object.__setattr__(self, "compiled_generators", {})

        # === Config ===
        self.sampler = get_sampler(sampler)
        positions = getattr(encoder, "max_sequence_length", None)
        if max_length is not None and (max_length < 1 or (positions is not None and max_length > positions)):
            raise ValueError(
                f"`max_length` must be from 1 to {positions}, the encoder's number of positions. "
                f"Received: max_length={max_length}"
            )
        self.max_length = max_length

    @classmethod
    def check_encoder(cls, encoder):
        check_causal(encoder)

    # === Loss, metrics and targets ===

    def default_loss(self):
        # Keras's default reduction would divide by the number of all positions.
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")

    def named_metrics(self):
        return {"perplexity": Perplexity}

    def default_metrics(self):
        return [Perplexity()]

    def compile(self, optimizer="auto", loss="auto", metrics="auto", weighted_metrics=None, **kwargs):
        """Configures training as `Task.compile` does. All metrics are weighted, so that padding does not count."""
        metrics = self.default_metrics() if isinstance(metrics, str) and metrics == "auto" else metrics
        weighted = [*keras.tree.flatten(metrics or []), *keras.tree.flatten(weighted_metrics or [])]
        super().compile(optimizer, loss=loss, metrics=None, weighted_metrics=weighted, **kwargs)

    def make_targets(self, dataset):
        if not isinstance(dataset, Batches) or dataset.has_labels:
            return dataset
        if not np.asarray(dataset.inputs["padding_mask"])[:, 1:].any():
            raise ValueError(
                "A causal language model learns to predict the next token, so at least one text must have two tokens. "
                f"Received: {len(dataset.order)} texts of one token"
            )
        return dataset.with_targets(lambda inputs, random: self.objective(inputs))

    def prepare_stream(self, dataset):
        if texts_of_stream(dataset):
            raise ValueError(
                "A `CausalLM` takes raw text in memory, such as a list. A `tf.data.Dataset` must contain `(inputs, "
                f"targets, weights)`. Received: {dataset.element_spec}"
            )
        return dataset

    def check_labels(self, labels):
        count = self.output.shape[-1]
        labels = to_numpy(labels) if hasattr(labels, "shape") else np.asarray(labels, object)
        if (
            labels.ndim != 2
            or labels.dtype.kind not in "iu"
            or labels.min(initial=0) < 0
            or labels.max(initial=0) >= count
        ):
            raise ValueError(
                "A language model makes its targets from texts. Leave `y` out. Targets of prepared data must be "
                f"integers [batch, length] from 0 to {count - 1}. Received: {labels.dtype} of shape {labels.shape}"
            )

    def check_class_weight(self, class_weight):
        if class_weight is not None:
            raise ValueError(
                f"`class_weight` cannot be used with a language model. Received: class_weight={class_weight!r:.100}"
            )

    # === Prediction ===

    def predict_in_order(self, data, predict):
        """Returns a list of arrays [tokens, vocabulary], the logits of each text."""
        lengths, logits = data.inputs["padding_mask"].sum(axis=1), [None] * len(data.inputs["padding_mask"])
        for part, outputs in predict.parts(data):
            for row, values in zip(part.order, outputs):
                logits[row] = values[: lengths[row]]
        return logits

    def predict_nothing(self, columns):
        return []

    def _score_labels(self, prompts, words, batch_size):
        starts = [start for start, _ in prompts]
        wholes = [start + word for start in starts for word in words]
        rows = token_rows(self, wholes)
        check_rows(self, rows, "text with its examples")
        values = self.token_log_likelihoods(rows, batch_size)
        scores = np.zeros((len(starts), len(words)))
        for index, start in enumerate(token_rows(self, starts)):
            part = range(index * len(words), (index + 1) * len(words))
            common = min(_common(start, rows[row]) for row in part)
            scores[index] = [values[row][max(common - 1, 0) :].sum(dtype="float64") for row in part]
        return scores

    # === Config ===

    def get_config(self):
        return {
            **super().get_config(),
            "sampler": keras.saving.serialize_keras_object(self.sampler),
            "max_length": self.max_length,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        sampler = keras.saving.deserialize_keras_object(config["sampler"], custom_objects=custom_objects)
        return super().from_config({**config, "sampler": sampler}, custom_objects)


def check_causal(encoder):
    """Raises a `ValueError` if an encoder is not a `TransformerStack` whose tokens see only earlier ones."""
    if not isinstance(encoder, TransformerStack) or not all(block.attention.causal for block in encoder.blocks):
        raise ValueError(
            "`encoder` must be a `TransformerStack` whose tokens see only earlier ones, such as "
            "`GPT2Encoder` or `TransformerEncoder(causal=True)`. Use a `MaskedLM` for encoders such as BERT. "
            f"Received: {type(encoder).__name__}"
        )


def _common(first, second):
    """Returns the number of ids with which two arrays both begin."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length
