"""The likelihood of texts, token by token."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.arrays import check_numbers
from keras_transfer.generation import PROMPT_STEP, round_up
from keras_transfer.tasks.id_rows import rows_of
from keras_transfer.text import count_words

log = logging.getLogger("keras_transfer")


@dataclasses.dataclass
class Scores:
    """The likelihoods of texts under a language model.

    The first token of a text is not scored, since nothing predicts it. If the preprocessor puts a token in front of
    each text, that token is the first one, and all tokens of the text are scored. A token that it puts at the end is
    scored, too.

    Attributes:
        token_log_likelihoods: List of arrays `[scored tokens]`, the natural logarithm of each token's probability given
            the tokens before it.
        log_likelihoods: Array `[texts]`, the sum for each text.
        perplexity_per_token: Float. `exp(-sum / tokens)`, over the scored tokens of all texts.
        perplexity_per_word: Float. `exp(-sum / words)`, over the words of all texts, split at white space. Each
            character of a script without spaces between words, such as those of Chinese, Japanese and Thai, counts as
            a word. Use it to compare models with different tokenizers. `None` for prepared ids.
    """

    token_log_likelihoods: list
    log_likelihoods: np.ndarray
    perplexity_per_token: float
    perplexity_per_word: float | None


_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.


class Likelihood(_Task):
    """A mixin for language models that returns the likelihood of texts."""

    def score(self, texts: Any, *, batch_size: int = 8) -> Scores:
        """Returns the likelihood of texts, which are not truncated.

        Args:
            texts: A string or a list of strings, or prepared ids as lists of integers.
            batch_size: Integer. Number of texts in a batch. Defaults to `8`.

        Returns:
            `Scores`, with `token_log_likelihoods`, `log_likelihoods`, `perplexity_per_token` and `perplexity_per_word`.

        Raises:
            ValueError: If a text has no tokens, or more tokens than the encoder has positions.

        Example:
        ```python
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film"]
        encoder = keras_transfer.encoders.TransformerEncoder(
            len(vocabulary), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True
        )
        model = keras_transfer.tasks.CausalLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
        model.score(["The film"]).perplexity_per_token
        ```
        """
        rows, raw, single = rows_of(self, texts, lambda each: self._ids_of_texts(each, end=True), "text")
        texts = [texts] if single else texts
        found = check_numbers(self.token_log_likelihoods(rows, batch_size=batch_size))
        sums = np.array([values.sum(dtype="float64") for values in found])
        tokens = max(sum(map(len, found)), 1)
        if empty := [index for index, values in enumerate(found) if not len(values)]:
            log.warning(
                "%d of %d texts have no token that anything predicts, such as the one at position %d. Their "
                "log-likelihood is 0, which is no probability of 1.",
                *(len(empty), len(found), empty[0]),
            )
        words = max(sum(count_words(str(text)) for text in texts), 1) if raw else None
        return Scores(
            found,
            sums,
            float(np.exp(-sums.sum() / tokens)),
            None if words is None else float(np.exp(-sums.sum() / words)),
        )

    def token_log_likelihoods(self, rows: Sequence[np.ndarray], *, batch_size: int = 8) -> list[np.ndarray]:
        """Returns the log-likelihood of each token in rows of ids, except for the first token of a row.

        Args:
            rows: List of integer arrays.
            batch_size: Integer. Number of rows in a batch. Defaults to `8`.

        Returns:
            List of float32 arrays, one for each row.
        """
        model = scorer(self)
        found: list[Any] = [None] * len(rows)
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        positions = getattr(self.encoder, "max_sequence_length", None)
        for start in range(0, len(rows), batch_size):
            part = order[start : start + batch_size]
            length = round_up(len(rows[part[-1]]), PROMPT_STEP)
            length = length if positions is None else min(length, positions)
            ids, mask = (np.zeros((min(batch_size, len(rows)), length), "int32") for _ in range(2))
            for place, index in enumerate(part):
                ids[place, : len(rows[index])] = rows[index]
                mask[place, : len(rows[index])] = 1
            inputs = {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}
            inputs, targets, _ = self.labels.objective({name: inputs[name] for name in self.input})
            values = model.predict_on_batch({**inputs, "target_ids": targets})
            for place, index in enumerate(part):
                found[index] = values[place, : max(len(rows[index]) - 1, 0)]
        return found


def scorer(task):
    """Returns a model from the inputs of a language model and `target_ids` to the log-likelihoods of the targets."""
    task.discard_if_changed()
    if "scorer" not in task.compiled_generators:
        targets = keras.Input((None,), dtype="int32", name="target_ids")
        values = _TargetLogLikelihood(dtype="float32")(task.output, targets)
        task.compiled_generators["scorer"] = keras.Model({**task.input, "target_ids": targets}, values)
    return task.compiled_generators["scorer"]


class _TargetLogLikelihood(keras.layers.Layer):
    """The log-likelihood of targets `[batch, length]`, given logits `[batch, length, vocabulary]`."""

    def call(self, logits, targets):
        chosen = ops.take_along_axis(logits, targets[:, :, None], axis=2)[:, :, 0]
        return chosen - ops.logsumexp(logits, axis=-1)

    def compute_output_spec(self, logits, targets):
        return keras.KerasTensor(targets.shape, "float32")
