"""textgenrnn: LSTMs over the last characters, and an attention that averages all of their layers (Woolf 2017)."""

import math
import types
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.encoders.base import Encoder, constructor_settings
from keras_transfer.encoders.recurrent.token_windows import AttentionAverage, PositionsOfRows, TokenWindows
from keras_transfer.integers import check_integer
from keras_transfer.layers.basic import VariationalDropout
from keras_transfer.layers.blocks import ProjectedLSTM


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextGenRNNEncoder(Encoder):
    """The encoder of textgenrnn: at each position, LSTMs read the last 40 tokens from zero states.

    The embeddings and the outputs of all LSTMs are concatenated, and an attention averages them over these tokens. At
    the beginning of a text, the window begins with the id 0, which the model was trained with, so that the id 0 is
    reserved. A `CausalLM` over this encoder needs `tied=False`, since its outputs are wider than its embeddings.

    Each position of a text is a row of its own, as in the original: a text takes `window` times as long as with an
    encoder that carries the states of its LSTMs along, and as much memory. The state of `step` is the ids of the last
    tokens, from which the vectors are computed exactly.

    The `hidden_states` are the embeddings of the tokens, and the state of each LSTM after it has read the window of a
    position. They differ in width from one another and from the outputs.

    Args:
        vocabulary_size: Integer. Number of tokens, with the id 0.
        embedding_dim: Integer. Width of the embeddings. Defaults to `100`.
        units: Integer. Width of each LSTM. Defaults to `128`.
        num_layers: Integer. Number of LSTMs. Defaults to `2`.
        window: Integer, at least 2. Number of tokens that each position sees, with its own. Defaults to `40`.
        dropout: Float between 0 and 1. Dropout rate of the embeddings, with one mask for all tokens of a window.
            Defaults to `0.0`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`.

    Raises:
        ValueError: If a size is not a positive integer, or if `dropout` is not between 0 and 1.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, embedding_dim + num_layers * units]`, 0 at padding.

    Example:
    ```python
    encoder = keras_transfer.encoders.TextGenRNNEncoder(100, embedding_dim=4, units=8, window=10)
    encoder({"token_ids": np.array([[5, 6, 0]]), "padding_mask": np.array([[1, 1, 0]])})["sequence_output"]
    ```

    Source: https://github.com/minimaxir/textgenrnn; https://arxiv.org/abs/1708.00524.
    """

    is_causal = True
    LEARNING_RATES = {math.inf: 5e-4}

    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding_dim: int = 100,
        units: int = 128,
        num_layers: int = 2,
        window: int = 40,
        dropout: float = 0.0,
        dtype: Any = None,
        **kwargs: Any,
    ):
        settings = constructor_settings(locals())
        for name in ("vocabulary_size", "embedding_dim", "units", "num_layers"):
            check_integer(name, settings[name], 1)

        # === Layers ===
        names = [f"block_{i}" for i in range(num_layers)]
        layers = {
            "windows": TokenWindows(window, dtype=dtype, name="windows"),
            "token_embedding": keras.layers.Embedding(
                vocabulary_size, embedding_dim, dtype=dtype, name="token_embedding"
            ),
            "embedding_drop": VariationalDropout(dropout, dtype=dtype, name="embedding_dropout"),
            "blocks": [ProjectedLSTM(units, forget_bias=0.0, dtype=dtype, name=name) for name in names],
            "together": keras.layers.Concatenate(dtype=dtype, name="together"),
            "attention": AttentionAverage(dtype=dtype, name="attention"),
            "positions": PositionsOfRows(dtype=dtype, name="positions"),
        }

        # === Functional model ===
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
        rows, output, _ = _read(types.SimpleNamespace(**layers), **inputs)
        states = [layers["positions"](vectors, **inputs) for vectors in rows]
        super().__init__(inputs, {"sequence_output": output}, states, dtype=dtype, settings=settings, **kwargs)
        for name, layer in layers.items():
            setattr(self, name, layer)
        for block in self.blocks:  # As in Keras's LSTM, the forget gates begin with a bias of 1, which is learned.
            block.bias.assign(np.repeat([0.0, 1.0, 0.0, 0.0], units))

    def layer_groups(self) -> list:
        blocks = [(block.name, "block", [block]) for block in self.blocks]
        return [("embeddings", "embeddings", [self.token_embedding]), *blocks, ("attention", "other", [self.attention])]

    def empty_state(self, batch_size: int) -> list:
        """Returns the state with which `step` starts: no tokens.

        Args:
            batch_size: Integer. Number of texts.

        Returns:
            A list of one integer tensor of shape `[batch, window - 1]`, the last tokens of each text.
        """
        return [ops.zeros((batch_size, self.window - 1), "int32")]

    def step(self, token_ids: Any, state: Sequence, padding_mask: Any = None) -> tuple:
        """Encodes the next tokens of each text, given the tokens before them.

        Args:
            token_ids: Tensor of shape `[batch, length]`.
            state: List from `empty_state` or from the previous step.
            padding_mask: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding. Defaults to `None`, all
                are real.

        Returns:
            A tuple of `sequence_output`, `[batch, length, dim]`, and the next state.

        Raises:
            ValueError: If `state` does not have `window - 1` tokens for each text.

        Example:
        ```python
        encoder = keras_transfer.encoders.TextGenRNNEncoder(100, embedding_dim=4, units=8, window=10)
        ids, state = np.ones((2, 5), "int32"), encoder.empty_state(batch_size=2)
        first, state = encoder.step(ids, state)
        second, state = encoder.step(ids, state)
        ```
        """
        token_ids = ops.convert_to_tensor(token_ids)
        mask = None if padding_mask is None else ops.convert_to_tensor(padding_mask)
        self._check_state(state, token_ids.shape[0])
        _, output, after = _read(self, token_ids, mask, state[0])
        return output, [after]

    def _check_state(self, state, batch_size):
        expected = (batch_size, self.window - 1)
        is_list = isinstance(state, (list, tuple)) and len(state) == 1 and hasattr(state[0], "shape")
        found = tuple(state[0].shape) if is_list else None
        fits = is_list and len(found) == 2 and all(None in pair or pair[0] == pair[1] for pair in zip(found, expected))
        if not fits:
            raise ValueError(
                "`state` must be what `empty_state(batch_size)` or the previous step returned, a list of a tensor of "
                f"shape {expected}. Received: {f'shape {found}' if is_list else f'state={state!r:.100}'}"
            )


def _read(layers, token_ids, padding_mask, before=None):
    """Returns the vectors of all windows from each layer, the outputs, and the last tokens of each text."""
    rows, after = layers.windows(token_ids, padding_mask=padding_mask, before=before)
    x = layers.token_embedding(rows)
    x = layers.embedding_drop(x)
    states = [x]
    for block in layers.blocks:
        states.append(block(states[-1]))
    average = layers.attention(layers.together(states))
    return states, layers.positions(average, token_ids, padding_mask=padding_mask), after
