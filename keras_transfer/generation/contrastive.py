"""Contrastive search, which chooses likely tokens that do not repeat the text before them."""

from collections.abc import Mapping
from typing import Any

from keras import ops

from keras_transfer.core.expect import FRACTION, expects, integer
from keras_transfer.generation.decoder import extend, repeat_rows, take_rows, write
from keras_transfer.generation.sampler import Sampler, register_name


@register_name("contrastive")
class ContrastiveSearch(Sampler):
    """Chooses, among the `k` most likely tokens, one whose vector differs from all earlier ones (Su et al. 2022).

    A token's score is `(1 - alpha) * probability - alpha * similarity`. The similarity is the largest cosine of its
    vector, the encoder's output, and that of any earlier token. A step runs the model for all `k` tokens.

    Args:
        k: Integer. Number of candidates. Defaults to `4`.
        alpha: Float from 0 to 1. Weight of the similarity. 0 is greedy. Defaults to `0.6`.

    Example:
    ```python
    keras_transfer.generation.ContrastiveSearch(k=5, alpha=0.5)
    ```

    Source: https://arxiv.org/abs/2202.06417
    """

    @expects(k=integer(1), alpha=FRACTION)
    def __init__(self, k: int = 4, *, alpha: float = 0.6):
        self.k = k
        self.alpha = alpha

    def start(self, decoder: Any, given: Mapping, rows: int) -> dict:
        vectors, cache = decoder.encode_prompts(given, rows, decoder.length)
        return {
            **super().start(decoder, given, rows),
            "cache": cache,  # This cache also contains the last token of the prompts.
            "logits": decoder.output(vectors[:, -1]),
            "vectors": extend(_unit(vectors), decoder.room),
        }

    def advance(self, decoder: Any, given: Mapping, state: Mapping) -> dict:
        column, first, vectors = state["column"], given["first"], state["vectors"]
        logits = decoder.constrain(state["logits"], state["tokens"], column, given)
        k = min(self.k, logits.shape[-1])
        probability, candidates = ops.top_k(ops.softmax(logits), k)
        candidates = ops.cast(candidates, "int32")
        flat = ops.reshape(candidates, (-1,))
        new, logits, cache = decoder.step(flat, repeat_rows(state["cache"], k), column, ops.repeat(first, k, axis=0))

        new = ops.reshape(_unit(new), (-1, k, new.shape[-1]))
        similarity = ops.matmul(new, ops.transpose(vectors, (0, 2, 1)))  # [rows, k, room]
        place = ops.arange(ops.shape(vectors)[1])[None]
        real = ops.logical_and(place >= first[:, None], place < column)[:, None]
        similarity = ops.max(ops.where(real, similarity, -1.0), axis=-1)
        best = ops.argmax((1 - self.alpha) * probability - self.alpha * similarity, axis=-1)
        best = ops.cast(best, "int32")
        rows = ops.arange(ops.shape(best)[0]) * k + best
        return {
            **self.add(decoder, given, state, ops.take(flat, rows, axis=0)),
            "cache": take_rows(cache, rows),
            "logits": ops.take(logits, rows, axis=0),
            "vectors": write(vectors, column, ops.take_along_axis(new, best[:, None, None], axis=1)[:, 0]),
        }


def _unit(vectors):
    """Returns vectors as float32, of length 1."""
    vectors = ops.cast(vectors, "float32")
    return vectors / ops.maximum(ops.norm(vectors, axis=-1, keepdims=True), 1e-9)
