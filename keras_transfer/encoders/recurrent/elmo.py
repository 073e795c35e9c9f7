"""ELMo: a bidirectional LSTM language model over characters (Peters et al. 2018)."""

import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transfer.encoders.encoder import Encoder, constructor_settings
from keras_transfer.layers import CharacterCNN, Dropout, ProjectedLSTM
from keras_transfer.text import BEGIN_SENTENCE, BEGIN_WORD, END_SENTENCE, END_WORD, NUM_CHARACTERS, PAD_CHARACTER


@keras.saving.register_keras_serializable(package="keras_transfer")
class SentenceBoundaries(keras.layers.Layer):
    """Adds the words that mark the beginning and the end of a sentence to character ids and their mask.

    Call arguments:
        - `character_ids`: Tensor of shape `[batch, length, characters]`.
        - `padding_mask`: Tensor of shape `[batch, length]`. 1 for a real word, 0 for padding.
    """

    def build(self, character_ids_shape, padding_mask_shape):
        self.characters = character_ids_shape[-1]

    def call(self, character_ids, padding_mask):
        characters = character_ids.shape[-1] or self.characters  # Batches of a loader have no known axes.
        lengths = ops.sum(ops.cast(padding_mask, "int32"), axis=1, keepdims=True)
        steps = ops.arange(ops.shape(character_ids)[1] + 2, dtype="int32")[None]
        ids = ops.pad(
            ops.cast(character_ids, "int32") * ops.cast(padding_mask, "int32")[:, :, None], [[0, 0], [1, 1], [0, 0]]
        )
        for place, marker in ((0, BEGIN_SENTENCE), (lengths + 1, END_SENTENCE)):
            word = [BEGIN_WORD, marker, END_WORD, *[PAD_CHARACTER] * (characters - 3)]
            ids = ops.where((steps == place)[:, :, None], ops.convert_to_tensor(word, "int32"), ids)
        return ids, ops.cast(steps < lengths + 2, "int32")

    def compute_output_shape(self, character_ids_shape, padding_mask_shape):
        batch, length, characters = character_ids_shape
        length = None if length is None else length + 2
        return (batch, length, characters), (batch, length)

    def compute_output_spec(self, character_ids, padding_mask):
        ids, mask = self.compute_output_shape(character_ids.shape, padding_mask.shape)
        return keras.KerasTensor(ids, "int32"), keras.KerasTensor(mask, "int32")


@keras.saving.register_keras_serializable(package="keras_transfer")
class WithoutBoundaries(keras.layers.Layer):
    """Concatenates both directions without a sentence's boundaries, and sets padding to 0."""

    def call(self, forward, backward, padding_mask):
        both = ops.concatenate([forward, backward], axis=-1)[:, 1:-1]
        return ops.where(ops.cast(padding_mask, "bool")[:, :, None], both, ops.zeros_like(both))

    def compute_output_shape(self, forward_shape, backward_shape, padding_mask_shape):
        return (*padding_mask_shape, forward_shape[-1] + backward_shape[-1])


@keras.saving.register_keras_serializable(package="keras_transfer")
class ElmoEncoder(Encoder):
    """ELMo's encoder: word vectors from characters, and projected LSTMs that read forward and backward.

    Its `hidden_states` have the shape `[batch, length, 2 * projection_dim]`: first the words without context,
    concatenated with themselves, then the concatenated directions of each layer. The encoder adds a sentence's
    boundaries internally and removes them from its outputs.

    The outputs of a text depend only on that text. The original starts each batch from the last state of the previous
    one. To do the same, use `step`, which accepts a state and returns the next. `tasks.BidirectionalLM` pretrains it.

    Args:
        embedding_dim: Integer. Width of a character's embedding. Defaults to `16`.
        filters: List of `(width, number)` of the characters' convolutions. Defaults to the original's.
        num_highways: Integer. Number of highway layers. Defaults to `2`.
        projection_dim: Integer. Width of a word and of each direction. Defaults to `512`.
        units: Integer. Width of the LSTMs' cells. Defaults to `4096`.
        num_layers: Integer. Number of LSTMs in each direction. Defaults to `2`.
        cell_clip: Float. Largest magnitude of cells, or `None`. Defaults to `3.0`.
        projection_clip: Float. Largest magnitude of projections, or `None`. Defaults to `3.0`.
        residual: Boolean. Whether layers above the first add their input to their output. Defaults to `True`.
        activation: String or callable. Activation of the convolutions. Defaults to `"relu"`.
        dropout: Float between 0 and 1. Dropout rate of the inputs of each LSTM. Defaults to `0.1`.
        max_characters: Integer. Number of characters of a word, including the two that mark its ends. Defaults to `50`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`.

    Inputs: Dict of `character_ids` `[batch, length, max_characters]` and `padding_mask` `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, 2 * projection_dim]`, the last hidden state.

    Example:
    ```python
    encoder = keras_transfer.encoders.ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16)
    inputs = {"character_ids": np.ones((2, 5, 50), "int32"), "padding_mask": np.ones((2, 5), "int32")}
    encoder(inputs)["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1802.05365; https://github.com/allenai/bilm-tf.
    """

    LEARNING_RATES = {math.inf: 5e-4}

    def __init__(
        self,
        *,
        embedding_dim: int = 16,
        filters: Sequence = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
        num_highways: int = 2,
        projection_dim: int = 512,
        units: int = 4096,
        num_layers: int = 2,
        cell_clip: float | None = 3.0,
        projection_clip: float | None = 3.0,
        residual: bool = True,
        activation: str | Callable = "relu",
        dropout: float = 0.1,
        max_characters: int = 50,
        dtype: Any = None,
        **kwargs: Any,
    ):
        settings = {**constructor_settings(locals()), "filters": [list(pair) for pair in filters]}

        # === Layers ===
        def direction(name, i):
            kwargs = {"reverse": name == "backward", "dtype": dtype, "name": f"{name}_{i}"}
            return ProjectedLSTM(
                units, projection_dim=projection_dim, cell_clip=cell_clip, projection_clip=projection_clip, **kwargs
            )

        directions = ("forward", "backward")
        layers = {
            "boundaries": SentenceBoundaries(name="boundaries"),
            "words": CharacterCNN(
                NUM_CHARACTERS,
                embedding_dim=embedding_dim,
                filters=filters,
                output_dim=projection_dim,
                num_highways=num_highways,
                activation=activation,
                dtype=dtype,
                name="words",
            ),
            "blocks": [[direction(name, i) for name in directions] for i in range(num_layers)],
            "dropouts": [
                [Dropout(dropout, dtype=dtype, name=f"{name}_{i}_dropout") for name in directions]
                for i in range(num_layers)
            ],
            "trims": [
                WithoutBoundaries(dtype=dtype, name=name)
                for name in ("words_trimmed", *(f"layer_{i}" for i in range(num_layers)))
            ],
        }

        # === Functional model ===
        inputs = {
            "character_ids": keras.Input((None, max_characters), dtype="int32", name="character_ids"),
            "padding_mask": keras.Input((None,), dtype="int32", name="padding_mask"),
        }
        states, both, _ = _read(types.SimpleNamespace(**layers, residual=residual), **inputs)
        super().__init__(inputs, {"sequence_output": states[-1]}, states, dtype=dtype, settings=settings, **kwargs)
        for name, layer in layers.items():
            setattr(self, name, layer)
        # Both directions of the last layer, with the boundaries: symbolic tensors [batch, length + 2, projection_dim].
        self.both_directions = both

    def layer_groups(self) -> list:
        blocks = [(f"block_{i}", "block", block) for i, block in enumerate(self.blocks)]
        return [("embeddings", "embeddings", [self.words]), *blocks]

    def empty_state(self, batch_size: int) -> list:
        """Returns the state with which `step` starts: zeros.

        Args:
            batch_size: Integer. Number of texts.

        Returns:
            A list with a list for each layer: h and c of each direction.
        """
        sizes = (self.projection_dim, self.units)
        return [
            [[ops.zeros((batch_size, size), self.compute_dtype) for size in sizes] for _ in block]
            for block in self.blocks
        ]

    def step(self, character_ids: Any, state: Sequence, padding_mask: Any) -> tuple:
        """Encodes the next sentence of each text, starting from the state after the previous one.

        Args:
            character_ids: Tensor of shape `[batch, length, max_characters]`.
            state: List from `empty_state` or from the previous step.
            padding_mask: Tensor of shape `[batch, length]`. 1 for a real word, 0 for padding.

        Returns:
            A tuple of `sequence_output`, `[batch, length, 2 * projection_dim]`, and the next state.

        Example:
        ```python
        encoder = keras_transfer.encoders.ElmoEncoder(
            embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16
        )
        ids, mask, state = np.ones((2, 5, 50), "int32"), np.ones((2, 5), "int32"), encoder.empty_state(batch_size=2)
        first, state = encoder.step(ids, state, mask)
        second, state = encoder.step(ids, state, mask)
        ```
        """
        hidden_states, _, state = _read(
            self, ops.convert_to_tensor(character_ids), ops.convert_to_tensor(padding_mask), state
        )
        return hidden_states[-1], state

    def step_windows(self, forward_ids: Any, backward_ids: Any, state: Sequence) -> tuple:
        """Reads the next window of long texts in both directions, each from its own place, as ELMo was pretrained.

        Args:
            forward_ids: Tensor of shape `[batch, length, max_characters]`, words that follow those before.
            backward_ids: Tensor of the same shape, words that precede those before, in the order of the text.
            state: List from `empty_state` or from the previous window.

        Returns:
            A tuple of both directions of the last layer, each `[batch, length, projection_dim]`, and the next state.
        """
        both = [self.words(ops.convert_to_tensor(ids)) for ids in (forward_ids, backward_ids)]
        levels, state = _read_both(self, both, None, state)
        return levels[-1], state


def _read(layers, character_ids, padding_mask, state=None):
    """Returns ELMo's hidden states, the last layer's directions and, if `state` is given, the next state."""
    ids, mask = layers.boundaries(character_ids, padding_mask)
    both = [layers.words(ids)] * 2
    levels, after = _read_both(layers, both, mask, state)
    hidden_states = [trim(*level, padding_mask) for trim, level in zip(layers.trims, [both, *levels])]
    return hidden_states, levels[-1], after


def _read_both(layers, both, mask, state=None):
    """Returns both directions of each layer, given the words of both, and, if `state` is given, the next state."""
    levels, after = [], []
    for i, block in enumerate(layers.blocks):
        outputs = []
        after.append([])
        for k, lstm in enumerate(block):
            dropped = layers.dropouts[i][k](both[k])
            if state is None:
                output = lstm(dropped, padding_mask=mask)
            else:
                output, *last = lstm(dropped, padding_mask=mask, initial_state=state[i][k], return_state=True)
                after[-1].append(last)
            # As in the original, dropout also applies to the residual input.
            outputs.append(output + dropped if layers.residual and i > 0 else output)
        both = outputs
        levels.append(both)
    return levels, after
