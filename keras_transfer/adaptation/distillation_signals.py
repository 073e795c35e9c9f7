"""What a student learns from the inner layers of a teacher: hidden states, attention scores, or another signal."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_transfer.core.expect import Rule, expect, expects, number, one_of, optional
from keras_transfer.encoders import TransformerStack, encode
from keras_transfer.layers import MultiHeadAttention
from keras_transfer.tasks import Head, HiddenTokens, Labels

_LAYERS = Rule(
    "a dict from layers of the student to layers of the teacher",
    lambda value: isinstance(value, Mapping) and all(isinstance(key, int) for key in (*value, *value.values())),
    ([1, 2], {"block_1": 1}),
)


class Signal:
    """Base class of the signals of `distill`: what a layer of the student learns from a layer of the teacher.

    A subclass implements `tensor` and `distance`, and may replace `head`.

    Attributes:
        kind: String. Beginning of the names of its heads.
        first_layer: Integer. The lowest layer: 0 for the embeddings, 1 for the first block.
        layers: Dict from layers of the student to layers of the teacher, or `None` for all layers of the student.
        tokens: String. `"all"` if its tensors are those of tokens, `[batch, length, ...]`, for which both models need
            the same tokens, or `"first"` if they are those of texts, `[batch, ...]`.
        weight: Float. Factor of the loss of each layer.

    Example:
    ```python
    class Means(keras_transfer.adaptation.Signal):
        kind, tokens = "mean", "first"

        def tensor(self, encoder, layer, width):
            states = keras_transfer.encoders.encode(encoder, hidden_states=True).hidden_states[layer]
            return keras.ops.mean(states, axis=1)

        def distance(self, y_true, y_pred):
            return keras.losses.mean_squared_error(y_true, y_pred)
    ```
    """

    kind: ClassVar[str] = "hidden"
    first_layer: ClassVar[int] = 0
    layers: Mapping | None = None
    tokens: str = "all"
    weight: float = 1.0

    def tensor(self, encoder: Any, layer: int, width: int | None) -> Any:
        """Returns what a layer computes, of the student and of the teacher.

        Args:
            encoder: Encoder of the student, or of the teacher.
            layer: Integer. The layer, from `first_layer`.
            width: Integer. Length of the longest text, or `None` if both models have different tokens.

        Returns:
            Symbolic tensor `[batch, length, ..., dim]`, or `[batch, ..., dim]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `tensor`.")

    def distance(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each token or text.

        Args:
            y_true: Tensor of the teacher, which was stored.
            y_pred: Tensor of the student.

        Returns:
            Tensor without the axes that the loss is over, `[batch, length]` or `[batch]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `distance`.")

    def head(self, own: Any, other: Any, name: str) -> Head:
        """Returns the head of the student that learns from the teacher, by default with a projection to its width.

        Args:
            own: Symbolic tensor of the student.
            other: Symbolic tensor of the teacher.
            name: String. Name of the head.

        Returns:
            `tasks.Head`.
        """
        if own.shape[-1] != other.shape[-1]:
            own = keras.layers.Dense(other.shape[-1], name=f"{name}_projection")(own)
        return Head(own, StoredLabels(self.distance, power=1 if self.tokens == "all" else None), self.weight)


@expects(layers=optional(_LAYERS), loss=one_of("mse", "cosine"), tokens=one_of("all", "first"), weight=number(0))
@dataclasses.dataclass(frozen=True)
class HiddenStates(Signal):
    """A signal for `distill`: hidden states of the student learn from hidden states of the teacher.

    If the two differ in width, a dense layer that learns too projects the student's. It is discarded afterwards.
    TinyBERT has `HiddenStates()`, DistilBERT `loss="cosine"` for the last layers, and patient distillation (PKD)
    `loss="cosine"` with `tokens="first"` and `weight=2 * beta`.

    Args:
        layers: Dict from layers of the student to layers of the teacher: 0 for the embeddings, and from 1 for the
            outputs of the blocks. Defaults to `None`, all layers of the student, evenly spread over the teacher's.
        loss: String, `"mse"` (mean squared error) or `"cosine"` (1 - cosine). Defaults to `"mse"`.
        tokens: String, `"all"`, for which both models need the same tokens, or `"first"`. Defaults to `"all"`.
        weight: Float. Factor of the loss of each layer. Defaults to `1.0`.

    Example:
    ```python
    signal = keras_transfer.adaptation.HiddenStates({0: 0, 1: 2, 2: 4, 3: 6})
    ```

    Source: https://arxiv.org/abs/1909.10351 (TinyBERT), https://arxiv.org/abs/1910.01108 (DistilBERT),
    https://arxiv.org/abs/1908.09355 (PKD)
    """

    layers: Mapping | None = None
    loss: str = "mse"
    tokens: str = "all"
    weight: float = 1.0

    def tensor(self, encoder, layer, width):
        states = encode(encoder, hidden_states=True).hidden_states[layer]
        return states if self.tokens == "all" else states[:, 0]

    def distance(self, y_true, y_pred):
        return (keras.losses.mean_squared_error if self.loss == "mse" else cosine_distance)(y_true, y_pred)


@expects(layers=optional(_LAYERS), weight=number(0))
@dataclasses.dataclass(frozen=True)
class AttentionScores(Signal):
    """A signal for `distill`: the attention scores of the student learn from those of the teacher, as in TinyBERT.

    The loss of a layer is the mean squared error over all heads and all pairs of real tokens, before the softmax. Both
    models need the same tokens, the same number of heads, and attention without relative positions, as in BERT. The
    scores of a text need `length * heads * longest * 4` bytes for each layer, so this is for short texts.

    Args:
        layers: Dict from layers of the student to layers of the teacher, from 1 for the first block. Defaults to
            `None`, all blocks of the student, evenly spread over the teacher's.
        weight: Float. Factor of the loss of each layer. Defaults to `1.0`.

    Example:
    ```python
    signal = keras_transfer.adaptation.AttentionScores({1: 2, 2: 4, 3: 6})
    ```

    Source: https://arxiv.org/abs/1909.10351, equation 7.
    """

    layers: Mapping | None = None
    weight: float = 1.0
    kind, first_layer = "attention", 1

    def tensor(self, encoder, layer, width):
        blocks = encoder.blocks if isinstance(encoder, TransformerStack) and encoder.block_inputs is None else []
        rule = "Attention scores can only be computed for Transformers of this library without relative positions."
        expect(blocks and type(blocks[0].attention) is MultiHeadAttention, rule, encoder=encoder)
        states = encode(encoder, hidden_states=True).hidden_states[layer - 1]
        scores = Scores(blocks[layer - 1], width, dtype=encoder.dtype_policy, name=f"attention_scores_{layer}")
        return scores(states, encoder.input["padding_mask"])

    def distance(self, y_true, y_pred):
        return ops.sum(ops.mean(ops.square(y_true - y_pred), axis=-2), axis=-1)  # a sum over keys, a mean over heads

    def head(self, own, other, name):
        heads = {"student": own.shape[2], "teacher": other.shape[2]}
        expect(own.shape == other.shape, "Attention scores require the same number of heads.", **heads)
        return Head(own, StoredLabels(self.distance, power=2), self.weight)


class Scores(keras.layers.Layer):
    """The attention scores of a block, which are 0 at padding, with keys up to a fixed width."""

    def __init__(self, block, width, **kwargs):
        super().__init__(**kwargs)
        self.block, self.width, self.built = block, width, True

    def call(self, states, padding_mask):
        attention, length = self.block.attention, ops.shape(states)[1]
        states = states if self.block.norm == "post" else self.block.attention_norm(states)
        query, key, _ = attention.project(states, (-1, length))
        scores = attention.scores(query, key) * ops.cast(padding_mask, "float32")[:, None, None]
        scores = ops.pad(ops.transpose(scores, (0, 2, 1, 3)), [[0, 0], [0, 0], [0, 0], [0, self.width - length]])
        return ops.reshape(scores, (-1, length, attention.num_heads, self.width))

    def get_config(self):
        return {**super().get_config(), "block": self.block.name, "width": self.width}

    def compute_output_spec(self, states, padding_mask):
        return keras.KerasTensor((*states.shape[:2], self.block.attention.num_heads, self.width), "float32")


def cosine_distance(y_true, y_pred):
    """Returns 1 minus the cosine of vectors `[..., dim]`."""
    return 1 + keras.losses.cosine_similarity(y_true, y_pred)


class StoredLabels(Labels):
    """What a teacher has computed for each row, or for each token of a row.

    Args:
        loss: Keras loss or function.
        power: Integer. For values of tokens, 1 for a mean over the tokens, 2 for a mean over pairs of them, and 0 for a
            mean over those whose weight is not negative.
    """

    one_of = False

    def __init__(self, loss, power=None):
        self._loss, self.power = loss, power

    def loss(self):
        return self._loss

    def for_loss(self, x, y, sample_weight):
        if self.power == 0:
            weights = ops.cast(sample_weight, "float32")
            real = ops.maximum(ops.sum(ops.cast(weights >= 0, "float32")), 1.0)
            return y, ops.maximum(weights, 0) * (ops.sum(ops.ones_like(weights)) / real)
        if sample_weight is not None and len(sample_weight.shape) > 1:  # A task of tokens repeats the weight of a row.
            sample_weight = sample_weight[:, 0]
        if self.power is None:
            return y, sample_weight
        mask = ops.cast(x["padding_mask"], "float32")
        # Keras divides by the number of all tokens.
        real = ops.maximum(ops.sum(ops.sum(mask, axis=1) ** self.power), 1.0)  # Texts may have no token.
        weights = mask * (ops.sum(ops.ones_like(mask)) / real)
        return y, weights if sample_weight is None else weights * ops.cast(sample_weight, "float32")[:, None]


class FixedTokens(HiddenTokens):
    """The tokens that were hidden once, as labels `[batch, length]`, which are negative at other tokens."""

    made_inputs, needs_objective, optional = (), False, False
    check_inputs = Labels.check_inputs


def top_probabilities(logits, count):
    """Returns the highest log-probabilities of tokens and, as two numbers that float16 has exactly, their classes."""
    values, classes = ops.top_k(ops.log_softmax(logits), count)
    parts = (ops.cast(part, values.dtype) for part in (classes // 1024, classes % 1024))
    return ops.concatenate([values, *parts], axis=-1)


def divergence_of_top(temperature):
    """Returns Hinton's loss with the classes of `top_probabilities`, and one class for all others."""

    def divergence(y_true, y_pred):
        known, *parts = ops.split(ops.cast(y_true, "float32"), 3, axis=-1)
        classes = ops.cast(1024 * parts[0] + parts[1], "int32")
        own = ops.take_along_axis(ops.log_softmax(ops.cast(y_pred, "float32") / temperature), classes, axis=-1)
        others = (ops.log(ops.maximum(1 - ops.sum(ops.exp(logs), -1, keepdims=True), 1e-7)) for logs in (known, own))
        known, own = (ops.concatenate(pair, axis=-1) for pair in zip((known, own), others))
        return temperature**2 * ops.sum(ops.exp(known) * (known - own), axis=-1)

    return divergence
