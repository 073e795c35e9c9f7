"""A linear-chain conditional random field: scores of whole sequences of labels instead of single ones."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.layers.basic.config import ConfigOfArguments

# Finite scores for sums and maxima: for entries that do not exist, and for transitions that are not allowed.
_NEVER = -1e9
_NOT_ALLOWED = -1e4


@keras.saving.register_keras_serializable(package="keras_transfer")
class ConditionalRandomField(ConfigOfArguments, keras.layers.Layer):
    """A linear-chain conditional random field (Lafferty et al. 2001) over the labels of the words of a sentence.

    The score of the labels y_1 ... y_n of n words is

        sum_t emissions[t, y_t] + sum_t transitions[y_(t-1), y_t]

    and their probability is its exponential, divided by the sum over all sequences of n labels. The last row and the
    last column of `transitions` stand for the boundary of the sentence: y_0 and y_(n+1). All scores start at 0, so that
    an untrained layer is a softmax for each word.

    A call returns its inputs, and makes the layer a part of a functional model. The methods compute likelihoods and
    labels. Positions where `mask` is 0 have no word: the chain continues from the word before them to the word after
    them. They may be anywhere, even between words.

    Args:
        allowed: List of lists of booleans [labels + 1, labels + 1]. Whether a label may follow another, with the
            boundary last, as in `transitions`. `decode` and `marginals` obey it. The likelihood does not, because data
            may violate it. Defaults to `None`, for all.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, labels]`, the emissions: scores of each label at each position.

    Returns:
        The inputs.

    Raises:
        ValueError: If `allowed` does not have the shape `[labels + 1, labels + 1]`.

    Example:
    ```python
    layer = keras_transfer.layers.ConditionalRandomField()
    emissions = layer(np.array([[[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]]))
    layer.log_likelihood(emissions, np.array([[0, 1, 0]]))  # log p(0, 1, 0) = -0.7535
    layer.decode(emissions, np.array([[1, 0, 1]]))  # [[0, -1, 0]]
    ```

    Source: https://repository.upenn.edu/cis_papers/159; for tagging with a neural network,
    https://arxiv.org/abs/1603.01360, section 2.2.
    """

    def __init__(self, *, allowed: Sequence | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.allowed = None if allowed is None else np.asarray(allowed, bool).tolist()
        self.supports_masking = True

    def build(self, inputs_shape):
        shape = (inputs_shape[-1] + 1,) * 2
        rule = f"`allowed` must have the shape {shape}, the labels and the boundary of a sentence."
        expect(self.allowed is None or np.shape(self.allowed) == shape, rule, allowed=self.allowed)
        self.transitions = self.add_weight(shape, "zeros", name="transitions", autocast=False)

    def call(self, inputs):
        return inputs

    def log_likelihood(self, emissions: Any, labels: Any, mask: Any = None) -> Any:
        """Returns log p(labels | emissions) of each row.

        Args:
            emissions: Tensor of shape `[batch, length, labels]`.
            labels: Integer tensor of shape `[batch, length]`. Values at positions without a word do not matter.
            mask: Tensor of shape `[batch, length]`. 1 for a word, 0 for a position without one. Defaults to `None`, 1
                for all.

        Returns:
            A float32 tensor of shape `[batch]`, 0 for a row without words.
        """
        emissions, real = _prepare(emissions, mask)
        boundary = self.transitions.shape[0] - 1
        labels = ops.where(real, ops.cast(labels, "int32"), boundary)
        chosen = ops.one_hot(labels, boundary + 1, dtype="float32")[..., :-1]
        # The words of a row in order, between boundaries.
        places = ops.arange(ops.shape(labels)[1], dtype="int32")[None]
        order = ops.argsort(ops.where(real, places, places + ops.shape(labels)[1]), axis=1)
        path = ops.take_along_axis(labels, order, axis=1)
        path = ops.pad(path, [[0, 0], [1, 1]], constant_values=boundary)
        path = ops.one_hot(path, boundary + 1, dtype="float32")
        steps = ops.matmul(ops.transpose(path[:, :-1], (0, 2, 1)), path[:, 1:])
        score = ops.sum(chosen * emissions, axis=(1, 2)) + ops.sum(steps * self._scores(), axis=(1, 2))
        return score - self.log_partition(emissions, mask)

    def log_partition(self, emissions: Any, mask: Any = None) -> Any:
        """Returns the logarithm of the sum of the exponential scores of all sequences of labels, for each row.

        Its gradient is the expected number of each label and of each transition, which the forward-backward algorithm
        computes. No backend has to differentiate a loop. There is no second derivative.

        Args:
            emissions: Float tensor of shape `[batch, length, labels]`. Scores of the labels of each word.
            mask: Integer tensor of shape `[batch, length]`. 1 for a word, 0 for padding. Defaults to `None`, all words.

        Returns:
            A float32 tensor of shape `[batch]`, 0 for a row without words.
        """
        emissions, real = _prepare(emissions, mask)
        scores = self._scores()
        found = _forward_backward(ops.stop_gradient(emissions), real, ops.stop_gradient(scores))
        value, labels, steps = (ops.stop_gradient(part) for part in found)
        expected = ops.sum(labels * emissions, axis=(1, 2)) + ops.sum(steps * scores, axis=(1, 2))
        return expected + ops.stop_gradient(value - expected)

    def marginals(self, emissions: Any, mask: Any = None) -> Any:
        """Returns the probability of each label of each word, given the whole row.

        Args:
            emissions: Float tensor of shape `[batch, length, labels]`. Scores of the labels of each word.
            mask: Integer tensor of shape `[batch, length]`. 1 for a word, 0 for padding. Defaults to `None`, all words.

        Returns:
            A float32 tensor of shape `[batch, length, labels]`, 0 at positions without a word.
        """
        emissions, real = _prepare(emissions, mask)
        return _forward_backward(emissions, real, self._scores(constrained=True))[1]

    def decode(self, emissions: Any, mask: Any = None) -> Any:
        """Returns the most probable sequence of labels of each row, by the Viterbi algorithm.

        Args:
            emissions: Float tensor of shape `[batch, length, labels]`. Scores of the labels of each word.
            mask: Integer tensor of shape `[batch, length]`. 1 for a word, 0 for padding. Defaults to `None`, all words.

        Returns:
            An int32 tensor of shape `[batch, length]`, -1 at positions without a word.
        """
        emissions, real = _prepare(emissions, mask)
        scores = self._scores(constrained=True)
        into, boundary = ops.transpose(scores), scores.shape[0] - 1
        positions = _positions(emissions, real)
        _, states = _forward(positions, scores, ops.max)

        def step(after, inputs):
            state, here = _divide(inputs)
            best = ops.argmax(state + ops.take(into, after, axis=0), axis=1)
            label = ops.where(here[:, 0], ops.cast(best, "int32"), after)
            return label, label

        after = ops.zeros_like(states[0, :, 0], dtype="int32") + boundary
        _, labels = ops.scan(step, after, ops.concatenate([states, positions[..., -1:]], axis=2), reverse=True)
        return ops.where(real, ops.transpose(labels), -1)

    def _scores(self, constrained=False):
        """Returns the transitions. The one from boundary to boundary, for a row without words, is 0."""
        size = self.transitions.shape[0]
        inner = np.ones((size, size), "float32")
        inner[-1, -1] = 0
        scores = ops.cast(self.transitions, "float32") * ops.convert_to_tensor(inner)
        if not constrained or self.allowed is None:
            return scores
        return scores + ops.convert_to_tensor(np.where(self.allowed, 0, _NOT_ALLOWED), "float32")

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


def _prepare(emissions, mask):
    """Returns emissions as float32, and whether positions have a word [batch, length]."""
    emissions = ops.cast(ops.convert_to_tensor(emissions), "float32")
    if mask is None:
        return emissions, ops.ones_like(emissions[..., 0], dtype="bool")
    return emissions, ops.cast(ops.convert_to_tensor(mask), "bool")


def _positions(emissions, real):
    """Joins emissions, boundary emissions, and 1 for a word into one tensor [length, batch, labels + 2].

    On TensorFlow, Keras can scan only one tensor of unknown length.
    """
    emissions = ops.pad(emissions, [[0, 0], [0, 0], [0, 1]], constant_values=_NEVER)
    return ops.transpose(ops.concatenate([emissions, ops.cast(real, "float32")[..., None]], axis=2), (1, 0, 2))


def _divide(positions):
    """Returns the scores [..., labels + 1] in such a tensor, and whether there is a word [..., 1]."""
    return positions[..., :-1], positions[..., -1:] > 0


def _forward(positions, scores, reduce):
    """Runs over the positions with `reduce`, which is logsumexp for sums over all sequences and max for the best one.

    Returns the last state [batch, labels + 1], and the states at all positions [length, batch, labels + 1].
    """

    def step(state, inputs):
        emission, here = _divide(inputs)
        after = reduce(state[:, :, None] + scores, axis=1) + emission
        state = ops.where(here, after, state)
        return state, state

    return ops.scan(step, _start(_divide(positions)[0]), positions)


def _start(emissions):
    """Returns the state [batch, labels + 1] before the first word, which is at the boundary."""
    outside = np.full(emissions.shape[-1], _NEVER, "float32")
    outside[-1] = 0
    return ops.zeros_like(emissions[0]) + ops.convert_to_tensor(outside)


def _forward_backward(emissions, real, scores):
    """Returns the log-partition [batch], and the expected labels [batch, length, labels] and steps of each row.

    Steps are [batch, labels + 1, labels + 1], in the order of `scores`.
    """
    positions = _positions(emissions, real)
    emissions, here = _divide(positions)
    last, states = _forward(positions, scores, ops.logsumexp)
    value = ops.logsumexp(last + scores[:, -1], axis=1)

    def step(message, inputs):
        emission, here = _divide(inputs)
        before = ops.logsumexp(scores + (emission + message)[:, None], axis=2)
        return ops.where(here, before, message), message

    # The message to a position is the log-sum of the scores of everything that may follow its label.
    end = ops.zeros_like(emissions[0]) + scores[:, -1]
    _, messages = ops.scan(step, end, positions, reverse=True)
    before = ops.concatenate([_start(emissions)[None], states[:-1]], axis=0)
    steps = before[..., None] + scores + (emissions + messages)[:, :, None] - value[None, :, None, None]
    steps = ops.where(here[..., None], ops.exp(steps), 0.0)
    labels = ops.transpose(ops.sum(steps, axis=2), (1, 0, 2))[..., :-1]
    ends = ops.exp(last + scores[:, -1] - value[:, None])
    ends = ops.pad(ends[..., None], [[0, 0], [0, 0], [scores.shape[0] - 1, 0]])
    return value, labels, ops.sum(steps, axis=0) + ends
