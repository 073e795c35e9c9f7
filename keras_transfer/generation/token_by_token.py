"""Samplers that choose one token after another: the most likely one, or a random one from a part of the vocabulary."""

from typing import Any

from keras import ops

from keras_transfer.core.expect import FRACTION, POSITIVE, expects, integer, number
from keras_transfer.generation.sampler import Sampler, register_name


@register_name("greedy")
class Greedy(Sampler):
    """Chooses the most likely token.

    Example:
    ```python
    keras_transfer.generation.Greedy()
    ```
    """

    def choose(self, logits: Any, uniform: Any) -> Any:
        return ops.cast(ops.argmax(logits, axis=-1), "int32")


@register_name("random")
class Random(Sampler):
    """Draws a token from the model's distribution; the base class of the random samplers.

    A subclass overrides `candidates`.

    Args:
        temperature: Float greater than 0. The logits are divided by it. Defaults to `1.0`.

    Example:
    ```python
    keras_transfer.generation.Random(temperature=0.7)
    ```
    """

    is_random = True

    @expects(temperature=POSITIVE)
    def __init__(self, temperature: float = 1.0):
        self.temperature = temperature

    def choose(self, logits: Any, uniform: Any) -> Any:
        weights, token_ids = self.candidates(logits / self.temperature)
        total = ops.cumsum(weights, axis=-1)
        drawn = ops.sum(ops.cast(total <= (uniform * total[:, -1])[:, None], "int32"), axis=-1)
        # Rounding could lead past the last candidate, which is the first one with the whole sum.
        drawn = ops.minimum(drawn, ops.cast(ops.argmax(total, axis=-1), "int32"))
        if token_ids is None:
            return drawn
        return ops.cast(ops.take_along_axis(token_ids, drawn[:, None], axis=1)[:, 0], "int32")

    def candidates(self, logits: Any) -> tuple:
        """Returns the candidates and the weights with which one of them is drawn.

        Args:
            logits: Tensor of shape `[rows, vocabulary]`, divided by the temperature.

        Returns:
            A tuple of the weights, a tensor of shape `[rows, candidates]`, and the token ids, an integer tensor of that
            shape, or `None` for all tokens.
        """
        return ops.softmax(logits), None


@register_name("top_k")
class TopK(Random):
    """Draws one of the `k` most likely tokens (Fan et al. 2018).

    Args:
        k: Integer. Number of tokens. Defaults to `50`.
        temperature: Float greater than 0. The logits are divided by it. Defaults to `1.0`.

    Example:
    ```python
    keras_transfer.generation.TopK(k=10)
    ```

    Source: https://arxiv.org/abs/1805.04833
    """

    @expects(k=integer(1))
    def __init__(self, k: int = 50, *, temperature: float = 1.0):
        super().__init__(temperature)
        self.k = k

    def candidates(self, logits: Any) -> tuple:
        logits, token_ids = ops.top_k(logits, min(self.k, logits.shape[-1]))
        return ops.softmax(logits), token_ids


@register_name("top_p")
class TopP(Random):
    """Draws one of the most likely tokens that together have the probability `p` (Holtzman et al. 2020).

    Args:
        p: Float greater than 0 and at most 1. Probability of the candidates together. Defaults to `0.9`.
        temperature: Float greater than 0. The logits are divided by it. Defaults to `1.0`.

    Example:
    ```python
    keras_transfer.generation.TopP(p=0.95)
    ```

    Source: https://arxiv.org/abs/1904.09751
    """

    @expects(p=number(above=0, most=1))
    def __init__(self, p: float = 0.9, *, temperature: float = 1.0):
        super().__init__(temperature)
        self.p = p

    def candidates(self, logits: Any) -> tuple:
        logits, token_ids = ops.top_k(logits, logits.shape[-1])
        weights = ops.softmax(logits)
        return _first_with_probability(self.p, weights), token_ids


@register_name("min_p")
class MinP(Random):
    """Draws one of the tokens with at least `p` times the probability of the most likely one (Nguyen et al. 2025).

    Args:
        p: Float from 0 to 1. Fraction of the probability of the most likely token. Defaults to `0.05`.
        temperature: Float greater than 0. The logits are divided by it. Defaults to `1.0`.

    Example:
    ```python
    keras_transfer.generation.MinP(p=0.1)
    ```

    Source: https://arxiv.org/abs/2407.01082
    """

    @expects(p=FRACTION)
    def __init__(self, p: float = 0.05, *, temperature: float = 1.0):
        super().__init__(temperature)
        self.p = p

    def candidates(self, logits: Any) -> tuple:
        weights = ops.softmax(logits)
        return ops.where(weights >= self.p * ops.max(weights, axis=-1, keepdims=True), weights, 0.0), None


@register_name("typical")
class Typical(Random):
    """Draws one of the tokens whose information is closest to the entropy (Meister et al. 2023).

    These are the tokens with the smallest `|-log(probability) - entropy|` that together have the probability `p`.

    Args:
        p: Float greater than 0 and at most 1. Probability of the candidates together. Defaults to `0.95`.
        temperature: Float greater than 0. The logits are divided by it. Defaults to `1.0`.

    Example:
    ```python
    keras_transfer.generation.Typical(p=0.9)
    ```

    Source: https://arxiv.org/abs/2202.00666
    """

    @expects(p=number(above=0, most=1))
    def __init__(self, p: float = 0.95, *, temperature: float = 1.0):
        super().__init__(temperature)
        self.p = p

    def candidates(self, logits: Any) -> tuple:
        logs = ops.log_softmax(logits)
        weights = ops.exp(logs)
        entropy = -ops.sum(ops.where(weights > 0, weights * logs, 0.0), axis=-1, keepdims=True)
        _, token_ids = ops.top_k(-ops.abs(-logs - entropy), logits.shape[-1])
        weights = ops.take_along_axis(weights, token_ids, axis=-1)
        return _first_with_probability(self.p, weights), token_ids


def _first_with_probability(p, weights):
    """Returns the first weights that together have the probability `p`, and zeros for the others."""
    before = ops.cumsum(weights, axis=-1) - weights
    return ops.where(before < p, weights, 0.0)
