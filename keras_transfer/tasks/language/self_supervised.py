"""Tasks that learn from raw text alone: an objective hides tokens, and the task predicts what was there."""

import keras
import numpy as np

from keras_transfer.batches import Batches
from keras_transfer.encoders.base import TransformerStack, encode
from keras_transfer.tasks.inputs import require_preprocessor, texts_of_stream, to_numpy

UNUSED = -1  # The target at places that a text does not use.


class SelfSupervised:
    """A mixin for tasks with an `objective` such as `objectives.TokenMasking`. List it before `Task`.

    `fit` and `evaluate` take raw text without labels, or `text.batches` without labels. Prepared data have
    `mask_positions` and targets, as the objective returns them.
    """

    makes_targets = True
    takes_class_weight = False

    @classmethod
    def check_encoder(cls, encoder):
        check_reads_ahead(encoder)

    def make_targets(self, dataset):
        if not isinstance(dataset, Batches) or dataset.has_labels or "mask_positions" in dataset.inputs:
            return dataset
        require_preprocessor(self)
        preprocessor = self.preprocessor
        preprocessor.tokenizer.require([preprocessor.tokenizer.mask_token])
        tokens = {
            "mask_id": preprocessor.mask_id,
            "special_ids": preprocessor.special_ids,
            "vocabulary_size": preprocessor.vocabulary_size,
        }

        def make(inputs, random):
            return self.objective(inputs, random, **tokens)

        return dataset.with_targets(make, self.objective.seed)

    def make_batches(self, x, y, batch_size, shuffle, sample_weight):
        if y is not None or sample_weight is not None:
            raise ValueError(
                f"`y` and `sample_weight` must be None for raw text, since a `{type(self).__name__}` makes its "
                f"targets. Received: {'sample_weight' if y is None else 'y'}"
            )
        return super().make_batches(x, None, batch_size, shuffle, None)

    def prepare_stream(self, dataset):
        if texts_of_stream(dataset):
            raise ValueError(
                f"A `{type(self).__name__}` takes raw text in memory, such as a list. A `tf.data.Dataset` must contain "
                f"`(inputs, targets)`. Received: {dataset.element_spec}"
            )
        return dataset

    def check_labels(self, labels):
        size = self.encoder.token_embedding.input_dim
        labels = to_numpy(labels) if hasattr(labels, "shape") else np.asarray(labels)
        if labels.ndim != 2 or labels.dtype.kind not in "iu" or (labels < UNUSED).any() or (labels >= size).any():
            raise ValueError(
                "Raw text has no labels, since the objective makes the targets. Targets of prepared data must be "
                f"integers [batch, places] below {size}, and {UNUSED} at unused places. "
                f"Received: {labels.dtype} of shape {labels.shape}"
            )

    def predict_on_batch(self, x):
        """Returns the outputs for one batch of prepared data, or of raw text as in a call of the model."""
        return super().predict_on_batch(self.encode_batch(x) if self.is_raw(x) else x)


def check_reads_ahead(encoder):
    """Raises a `ValueError` if the tokens of an encoder see only earlier ones."""
    if isinstance(encoder, TransformerStack) and all(block.attention.causal for block in encoder.blocks):
        raise ValueError(
            "A hidden token is predicted from the tokens on both sides of it, but the tokens of this encoder see only "
            f"earlier ones. Use a `CausalLM`. Received: {type(encoder).__name__}"
        )


def tokens_of(encoder):
    """Returns the layer of an encoder's token embeddings, and its symbolic vectors of the tokens.

    Raises:
        ValueError: If the encoder lacks one of them.
    """
    table = getattr(encoder, "token_embedding", None)
    sequence = None if table is None else encode(encoder).sequence
    if sequence is None:
        raise ValueError(
            f"`encoder` must have a `token_embedding` and return a vector for each token. Received: encoder={encoder!r}"
        )
    return table, sequence


def for_backend(inputs):
    """Converts the inputs from a preprocessor, which are TensorFlow tensors, to a type that the backend can read."""
    return inputs if keras.backend.backend() == "tensorflow" else {k: np.asarray(v) for k, v in inputs.items()}
