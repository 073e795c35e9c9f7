"""Filling in masks, for tasks whose model predicts the tokens at `mask_positions`."""

from typing import Any

import numpy as np
from keras import ops

from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import integer
from keras_transfer.tasks.hidden_tokens import in_batches
from keras_transfer.tasks.in_context import InContext, check_different
from keras_transfer.tasks.reader import Reader, for_backend
from keras_transfer.tasks.task import Signature, texts_named

_EXPORTED = 5  # Number of candidate tokens that an exported model returns for each mask.


class MaskReader(Reader):
    """Accepts texts for a task that predicts the tokens at mask tokens, which a batch of texts contains."""

    @property
    def mask_token(self):
        """String. The mask token of the vocabulary, or `None`."""
        return getattr(getattr(self.preprocessor, "tokenizer", None), "mask_token", None)

    def __init__(self, preprocessor):
        super().__init__(preprocessor)
        self.instead = f"`fill_mask(texts)` for texts in which {self.mask_token!r} marks the hidden tokens"

    def inputs(self, x):
        self.require()
        return for_backend(self.preprocessor.encode_masked(x, "longest"))


class FillsMasks(InContext):
    """A mixin for tasks whose reader finds the mask tokens in texts. It predicts the tokens at their positions."""

    reads_ahead = True

    # === Prediction ===

    def fill_mask(self, texts: Any, *, k: int = 5, batch_size: int = 32) -> list[list[list[tuple[str, float]]]]:
        """Returns the most likely tokens for the mask tokens in texts.

        The mask token, such as "[MASK]" or "<mask>", is the only special token that these texts may contain. Everything
        else is plain text.

        Args:
            texts: A string, or a list, array or table column of strings, each with at least one mask token.
            k: Integer. Number of tokens to return for each mask token. Defaults to `5`.
            batch_size: Integer. Number of texts in a batch. Defaults to `32`.

        Returns:
            For each text, a list with one list of `(token, probability)` for each mask token, the most likely first.

        Raises:
            ValueError: If a text has no mask token, if a mask token is truncated, or if `k` is out of range.

        Example:
        ```python
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film"]
        encoder = keras_transfer.encoders.BertEncoder(7, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
        model = keras_transfer.tasks.MaskedLM(encoder, keras_transfer.text.BertPreprocessor(words))
        [[[(token, probability), _]]] = model.fill_mask(["the [MASK]"], k=2)
        ```
        """
        self.reader.require()
        integer(1, self.preprocessor.vocabulary_size).check("k", k)  # The embedding may have more rows.
        mask, answers, vocabulary = self.reader.mask_token, [], self.preprocessor.vocabulary
        for part, inputs in in_batches(self, texts, batch_size):
            places = np.asarray(inputs["mask_positions"]) >= 0
            for at, (text, found) in enumerate(zip(part, places.sum(axis=1)), len(answers)):
                if not (count := text.count(mask)):
                    raise ValueError(f"Every text must contain {mask!r}. Received: {text!r:.100} at position {at}")
                if count != found:
                    raise ValueError(
                        f"{mask!r} must be within the first {self.preprocessor.sequence_length} tokens of a text. "
                        f"Shorten the text. Received: {count - found} behind them, in the text at position {at}"
                    )
            found = self._best(super().predict_on_batch(inputs), k)
            tokens, values = (check_numbers(ops.convert_to_numpy(part)).tolist() for part in found)
            for row, real in enumerate(places):
                found = [zip(tokens[row][place], values[row][place]) for place in np.flatnonzero(real)]
                answers.append([[(vocabulary[token], value) for token, value in each] for each in found])
        return answers

    # === In-context use ===

    def _score_labels(self, prompts, words, batch_size):
        self.reader.require()
        mask, limit = self.reader.mask_token, self.preprocessor.sequence_length
        everything = [*words, *(part for prompt in prompts for part in prompt)]
        if found := [part for part in everything if mask is not None and mask in part]:
            raise ValueError(
                f"Texts, labels, examples and the template must not contain {mask!r}, which takes the place of "
                f"'{{label}}'. Received: {found[0]!r:.200}"
            )
        scores = np.zeros((len(prompts), len(words)))
        tokens = self._tokens_of_labels(prompts[0][0] if prompts else "", words)
        texts = [f"{before}{mask}{after}" for before, after in prompts]
        for start in range(0, len(texts), batch_size):
            part = texts[start : start + batch_size]
            counts = np.asarray(self.preprocessor.tokenize_masked(part).row_lengths())
            counts = counts + self.preprocessor.num_special_tokens
            if counts.max() > limit:
                raise ValueError(
                    f"Each text with its examples must have at most {limit} tokens, the `sequence_length` of the "
                    f"preprocessor. Received: {counts.max()} tokens at position {start + counts.argmax()}"
                )
            logits = super().predict_on_batch(self.reader.inputs(part))
            logits = ops.convert_to_numpy(logits).astype("float64")[:, 0]
            logits -= logits.max(axis=1, keepdims=True)
            scores[start : start + batch_size] = logits[:, tokens] - np.log(np.exp(logits).sum(axis=1))[:, None]
        return scores

    def _tokens_of_labels(self, before, words):
        """Returns the token of each label after the start of a prompt."""
        mask, unknown = self.reader.mask_token, self.preprocessor.unk_id
        start, *rows = self.preprocessor.tokenize_masked([f"{before}{text}" for text in (mask, *words)]).to_list()
        for word, row in zip(words, rows):
            if len(row) != len(start) or row[:-1] != start[:-1] or row[-1] == unknown:
                own = [self.preprocessor.vocabulary[index] for index in row[len(start) - 1 :]]
                raise ValueError(
                    "The template has one mask token for '{label}', so each label must be a single token. Pass a dict "
                    "from labels to words that are tokens. "
                    f"Received: {word!r}, which becomes {own}"
                )
        check_different(words, [row[-1:] for row in rows])
        return [row[-1] for row in rows]

    def _texts_without_content(self):
        return [text for text in super()._texts_without_content() if text != self.reader.mask_token]

    def _best(self, logits, k):
        """Returns the ids of the most likely tokens of the vocabulary, and their probabilities, from logits."""
        probabilities, tokens = ops.top_k(ops.softmax(logits[..., : self.preprocessor.vocabulary_size]), k)
        return ops.cast(tokens, "int32"), probabilities

    # === Export ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, because the task does not support pairs. Defaults to `False`.

        Returns:
            Dict with one `Signature`, `"serving_default"`: from `text`, in which the mask token marks hidden tokens, to
            `token` strings, `token_id` and `probability`, each `[batch, places, 5]`, the most likely first. Unused
            places have "", -1 and 0.

        Raises:
            ValueError: If `pairs=True`.
        """
        super().signatures(pairs)  # It raises the error for pairs.

        def fill(text):
            inputs = self.reader.inputs(text)
            real = inputs["mask_positions"][:, :, None] >= 0
            tokens, probabilities = self._best(
                self(inputs, training=False), min(_EXPORTED, self.preprocessor.vocabulary_size)
            )
            tokens, probabilities = ops.where(real, tokens, -1), ops.where(real, probabilities, 0.0)
            return {"token": self.preprocessor.to_tokens(tokens), "token_id": tokens, "probability": probabilities}

        return {"serving_default": Signature(fill, texts_named("text"))}
