"""AWD-LSTM, LSTMs with dropped recurrent weights (Merity et al. 2018), and AWD-QRNN, the same with other layers."""

import math
import types
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import FRACTION, expect, expects, integer
from keras_transfer.encoders.encoder import Encoder, constructor_settings
from keras_transfer.layers import QRNN, ActivationPenalty, EmbeddingDropout, ProjectedLSTM, VariationalDropout


@keras.saving.register_keras_serializable(package="keras_transfer")
class AWDLSTMEncoder(Encoder):
    """The encoder of AWD-LSTM and ULMFiT: token embeddings, and LSTMs that read from left to right.

    The last LSTM is as wide as the embeddings, so that a language model can use them as its head
    (`layers.OutputEmbeddings`). The `hidden_states` therefore differ in width: the embeddings and the last have
    `embedding_dim`, the others `units`. The default dropout rates are those for the Penn Treebank.

    The outputs of a text depend only on that text. To continue texts, use `step`, which accepts a state and returns the
    next.

    Args:
        vocabulary_size: Integer. Number of tokens.
        embedding_dim: Integer. Width of the embeddings and of the last LSTM. Defaults to `400`.
        units: Integer. Width of the other LSTMs. Defaults to `1150`.
        num_layers: Integer. Number of LSTMs. Defaults to `3`.
        embedding_dropout: Float between 0 and 1. Fraction of the vocabulary that is dropped, see
            `layers.EmbeddingDropout`. Defaults to `0.1`.
        input_dropout: Float between 0 and 1. Dropout rate of the embeddings, as all further rates with one mask for all
            steps of a text. Defaults to `0.4`.
        hidden_dropout: Float between 0 and 1. Dropout rate between two LSTMs. Defaults to `0.25`.
        output_dropout: Float between 0 and 1. Dropout rate of the outputs. Defaults to `0.4`.
        weight_dropout: Float between 0 and 1. Dropout rate of the recurrent weights. Defaults to `0.5`.
        activation_penalty: Float, at least 0. Factor of activation regularization (AR) of the outputs, see
            `layers.ActivationPenalty`. Merity et al. use 2. Defaults to `0.0`, no penalty.
        temporal_penalty: Float, at least 0. Factor of temporal activation regularization (TAR) of the outputs. Merity
            et al. use 1. Defaults to `0.0`, no penalty.
        gradient_length: Integer. Number of tokens of a text, the last ones that the LSTMs process, through which
            gradients flow in training, as in ULMFiT's classifier of long texts. The outputs are the same if padding
            follows the texts. The published code uses 1,400 (20 windows of 70). Defaults to `None`, all tokens.
        reverse: Boolean. Whether the LSTMs read each text from its last token to its first, with the weights of a
            language model of reversed texts (`Corpus.streams(reverse=True)`). Each output has the position of its
            token, so a classifier uses `pooling="concat_first"`. Such an encoder has no `step`. Defaults to `False`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, embedding_dim]`, the last hidden state, 0 at padding.

    Example:
    ```python
    encoder = keras_transfer.encoders.AWDLSTMEncoder(100, embedding_dim=8, units=16)
    encoder({"token_ids": np.array([[5, 6, 0]]), "padding_mask": np.array([[1, 1, 0]])})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1708.02182; https://arxiv.org/abs/1801.06146.
    """

    is_causal = True
    LEARNING_RATES = {math.inf: 5e-4}

    @expects(
        vocabulary_size=integer(1),
        embedding_dim=integer(1),
        units=integer(1),
        num_layers=integer(1),
        embedding_dropout=FRACTION,
        input_dropout=FRACTION,
        hidden_dropout=FRACTION,
        output_dropout=FRACTION,
        weight_dropout=FRACTION,
    )
    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding_dim: int = 400,
        units: int = 1150,
        num_layers: int = 3,
        embedding_dropout: float = 0.1,
        input_dropout: float = 0.4,
        hidden_dropout: float = 0.25,
        output_dropout: float = 0.4,
        weight_dropout: float = 0.5,
        activation_penalty: float = 0.0,
        temporal_penalty: float = 0.0,
        gradient_length: int | None = None,
        reverse: bool = False,
        dtype: Any = None,
        **kwargs: Any,
    ):
        settings = constructor_settings(locals())

        # === Layers ===
        widths = [units] * (num_layers - 1) + [embedding_dim]
        rates = [hidden_dropout] * (num_layers - 1) + [output_dropout]
        options = {"weight_dropout": weight_dropout, "dtype": dtype}
        options |= {"gradient_length": gradient_length, "reverse": bool(reverse)}
        layers = {
            "token_embedding": keras.layers.Embedding(
                vocabulary_size,
                embedding_dim,
                keras.initializers.RandomUniform(-0.1, 0.1),
                dtype=dtype,
                name="token_embedding",
            ),
            "token_dropout": EmbeddingDropout(vocabulary_size, embedding_dropout, dtype=dtype, name="token_dropout"),
            "input_drop": VariationalDropout(input_dropout, dtype=dtype, name="input_dropout"),
            "blocks": [self._make_block(i, width, **options, name=f"block_{i}") for i, width in enumerate(widths)],
            "block_dropouts": [
                VariationalDropout(rate, dtype=dtype, name=f"block_{i}_dropout") for i, rate in enumerate(rates)
            ],
        }

        penalties = (activation_penalty, temporal_penalty)
        layers["penalty"] = ActivationPenalty(*penalties, dtype=dtype, name="penalty") if any(penalties) else None

        # === Functional model ===
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
        states, _ = _read(types.SimpleNamespace(**layers), **inputs)
        super().__init__(inputs, {"sequence_output": states[-1]}, states, dtype=dtype, settings=settings, **kwargs)
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.is_causal = not reverse

    @staticmethod
    def _make_block(index, width, **options):
        """Returns the recurrent layer of this number."""
        return ProjectedLSTM(width, forget_bias=0.0, **options)

    def layer_groups(self) -> list:
        blocks = [(block.name, "block", [block]) for block in self.blocks]
        return [("embeddings", "embeddings", [self.token_embedding]), *blocks]

    def empty_state(self, batch_size: int) -> list:
        """Returns the state with which `step` starts: zeros.

        Args:
            batch_size: Integer. Number of texts.

        Returns:
            A list with a list of two tensors for each recurrent layer.
        """
        return [
            [ops.zeros((batch_size, size), self.compute_dtype) for size in block.state_size] for block in self.blocks
        ]

    def step(self, token_ids: Any, state: Sequence, padding_mask: Any = None) -> tuple:
        """Encodes the next tokens of each text, starting from the state after the previous ones.

        Args:
            token_ids: Tensor of shape `[batch, length]`.
            state: List from `empty_state` or from the previous step.
            padding_mask: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding. Defaults to `None`, all
                are real.

        Returns:
            A tuple of `sequence_output`, `[batch, length, embedding_dim]`, and the next state.

        Raises:
            ValueError: If `state` does not have both parts of each recurrent layer for each text, or if the encoder has
                `reverse=True`.

        Example:
        ```python
        encoder = keras_transfer.encoders.AWDLSTMEncoder(100, embedding_dim=8, units=16)
        ids, state = np.ones((2, 5), "int32"), encoder.empty_state(batch_size=2)
        first, state = encoder.step(ids, state)
        second, state = encoder.step(ids, state)
        ```
        """
        rule = (
            "An encoder with `reverse=True` reads whole texts. To continue reversed texts, use one without, with "
            "the same weights."
        )
        expect(not self.reverse, rule, reverse=True)
        mask = None if padding_mask is None else ops.convert_to_tensor(padding_mask)
        token_ids = ops.convert_to_tensor(token_ids)
        _check_state(state, [[(token_ids.shape[0], size) for size in block.state_size] for block in self.blocks])
        hidden_states, state = _read(self, token_ids, mask, state)
        return hidden_states[-1], state


@keras.saving.register_keras_serializable(package="keras_transfer")
class AWDQRNNEncoder(AWDLSTMEncoder):
    """The encoder of AWD-QRNN: an `AWDLSTMEncoder` whose recurrent layers are `layers.QRNN`.

    The first of them has a window of 2, the others of 1. `weight_dropout` drops weights of their kernels.

    The arguments are those of `AWDLSTMEncoder`.

    Raises:
        ValueError: If `gradient_length` or `reverse` is used, and see `AWDLSTMEncoder`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, embedding_dim]`, the last hidden state, 0 at padding.

    Example:
    ```python
    encoder = keras_transfer.encoders.AWDQRNNEncoder(100, embedding_dim=8, units=16)
    encoder({"token_ids": np.array([[5, 6, 0]]), "padding_mask": np.array([[1, 1, 0]])})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1803.08240
    """

    @staticmethod
    def _make_block(index, width, gradient_length=None, reverse=False, **options):
        rule = "`AWDQRNNEncoder` has no `gradient_length` and no `reverse`. Use `AWDLSTMEncoder`."
        expect(gradient_length is None and not reverse, rule, gradient_length=gradient_length, reverse=reverse)
        return QRNN(width, window=2 if index == 0 else 1, **options)


def _check_state(state, expected):
    """Raises a `ValueError` if a state does not have the expected shapes, as far as its own are known."""
    is_nested = isinstance(state, (list, tuple)) and all(isinstance(block, (list, tuple)) for block in state)
    shapes = [[tuple(getattr(part, "shape", ())) for part in block] for block in state] if is_nested else []
    rule = f"`state` must be what `empty_state(batch_size)` or the previous step returned, with the shapes {expected}."
    expect(_agree(shapes, expected), rule, **({"shapes": shapes} if is_nested else {"state": state}))


def _agree(found, expected):
    """Returns whether nested shapes are equal, except for sizes that are not known."""
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(_agree, found, expected))
    return None in (found, expected) or found == expected


def _read(layers, token_ids, padding_mask, state=None):
    """Returns the hidden states and, if `state` is given, the next state. `layers` holds AWD-LSTM's layers."""
    x = layers.input_drop(layers.token_dropout(layers.token_embedding(token_ids), token_ids))
    hidden_states, after = [x], []
    for i, (block, dropout) in enumerate(zip(layers.blocks, layers.block_dropouts)):
        if state is None:
            x = block(x, padding_mask=padding_mask)
        else:
            x, *last = block(x, padding_mask=padding_mask, initial_state=state[i], return_state=True)
            after.append(last)
        raw, x = x, dropout(x)
        if block is layers.blocks[-1] and layers.penalty is not None:
            x = layers.penalty(raw, x, padding_mask=padding_mask)
        hidden_states.append(x)
    return hidden_states, after
