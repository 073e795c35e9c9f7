"""ELMo: a bidirectional LSTM language model over characters (Peters et al. 2018)."""

import keras
from keras import ops

from keras_transfer.encoders.encoder import Encoder, constructor_settings
from keras_transfer.layers import CharacterCNN, Dropout, ProjectedLSTM
from keras_transfer.text.elmo import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    END_SENTENCE,
    END_WORD,
    NUM_CHARACTERS,
    PAD_CHARACTER,
)


@keras.saving.register_keras_serializable("keras_transfer")
class SentenceBoundaries(keras.layers.Layer):
    """Puts the words that begin and end a sentence around each, as their characters' ids.

    Inputs: character ids [batch, length, characters], padding mask [batch, length].

    Returns:
        The same with two more steps: [batch, length + 2, characters], and [batch, length + 2].
    """

    def call(self, character_ids, padding_mask):
        characters = character_ids.shape[-1]
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


@keras.saving.register_keras_serializable("keras_transfer")
class WithoutBoundaries(keras.layers.Layer):
    """Takes what stands at a sentence's boundaries off a pair of directions, and joins these; at padding it is 0."""

    def call(self, forward, backward, padding_mask):
        both = ops.concatenate([forward, backward], axis=-1)[:, 1:-1]
        return ops.where(ops.cast(padding_mask, "bool")[:, :, None], both, ops.zeros_like(both))

    def compute_output_shape(self, forward_shape, backward_shape, padding_mask_shape):
        return (*padding_mask_shape, forward_shape[-1] + backward_shape[-1])


@keras.saving.register_keras_serializable("keras_transfer")
class ElmoEncoder(Encoder):
    """ELMo's encoder: words from their characters, and LSTMs with projections that read forward and backward.

    Its `hidden_states` are the words without context, twice, and each layer's two directions, joined: [batch, length,
    2 * projection_dim] each. A sentence's boundaries are put around it inside, and taken off what comes out.

    Args:
        embedding_dim: int, the width of a character's embedding.
        filters: list of `(width, number)` of the characters' convolutions.
        num_highways: int, highway layers.
        projection_dim: int, the width of a word and of each direction.
        units: int, the width of the LSTMs' cells.
        num_layers: int, LSTMs in each direction.
        cell_clip, projection_clip: floats, the largest magnitude of cells and projections; None for any.
        residual: bool, whether layers above the first add their input to their output.
        activation: of the convolutions.
        dropout: float, of what goes into each LSTM.
        max_characters: int, of a word, with two that mark its ends.
        stateful: int, of how many texts in a batch the state goes on into the next batch, as the original's does; 0 for
            none: what a text gives depends on it alone.
        pooling, normalize, dtype, name, trainable: see `Encoder`.

    Inputs: dict of `character_ids` [batch, length, max_characters] and `padding_mask` [batch, length].

    Outputs: dict of `sequence_output` [batch, length, 2 * projection_dim], the last of `hidden_states`.

    Example:
    ```python
    encoder = keras_transfer.encoders.ElmoEncoder(4, [(1, 4), (2, 8)], projection_dim=8, units=16)
    inputs = {"character_ids": np.ones((2, 5, 50), "int32"), "padding_mask": np.ones((2, 5), "int32")}
    encoder(inputs)["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1802.05365; https://github.com/allenai/bilm-tf.
    """

    def __init__(
        self,
        embedding_dim=16,
        filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
        num_highways=2,
        projection_dim=512,
        units=4096,
        num_layers=2,
        cell_clip=3.0,
        projection_clip=3.0,
        residual=True,
        activation="relu",
        dropout=0.1,
        max_characters=50,
        stateful=0,
        dtype=None,
        **options,
    ):
        settings = {**constructor_settings(locals()), "filters": [list(pair) for pair in filters]}

        # === Layers and functional model ===
        character_ids = keras.Input((None, max_characters), dtype="int32", name="character_ids")
        padding_mask = keras.Input((None,), dtype="int32", name="padding_mask")
        words = CharacterCNN(
            NUM_CHARACTERS, embedding_dim, filters, projection_dim, num_highways, activation, dtype=dtype, name="words"
        )
        ids, mask = SentenceBoundaries(name="boundaries")(character_ids, padding_mask)
        forward = backward = words(ids)
        trim = lambda name: WithoutBoundaries(dtype=dtype, name=name)  # noqa: E731
        states = [trim("words_trimmed")(forward, backward, padding_mask)]
        blocks = []
        for i in range(num_layers):
            outputs, block = [], []
            for direction, inputs in (("forward", forward), ("backward", backward)):
                lstm = ProjectedLSTM(
                    units,
                    projection_dim,
                    cell_clip,
                    projection_clip,
                    reverse=direction == "backward",
                    stateful=stateful,
                    dtype=dtype,
                    name=f"{direction}_{i}",
                )
                dropped = Dropout(dropout, dtype=dtype, name=f"{direction}_{i}_dropout")(inputs)
                output = lstm(dropped, padding_mask=mask)
                if residual and i > 0:
                    output = keras.layers.Add(dtype=dtype, name=f"{direction}_{i}_residual")([output, inputs])
                outputs.append(output)
                block.append(lstm)
            forward, backward = outputs
            blocks.append(block)
            states.append(trim(f"layer_{i}")(forward, backward, padding_mask))
        inputs = {"character_ids": character_ids, "padding_mask": padding_mask}
        super().__init__(inputs, {"sequence_output": states[-1]}, states, dtype=dtype, settings=settings, **options)
        self.words = words
        self.blocks = blocks

    def layer_groups(self):
        blocks = [(f"block_{i}", "block", block) for i, block in enumerate(self.blocks)]
        return [("embeddings", "embeddings", [self.words]), *blocks]

    def reset_states(self):
        """Forgets what earlier batches left; returns nothing."""
        for block in self.blocks:
            for lstm in block:
                lstm.reset_state()
