"""Token embeddings to which the embedding of the speaker is added."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect, expects, integer, list_of
from keras_transfer.layers.basic.config import ConfigOfArguments


@keras.saving.register_keras_serializable(package="keras_transfer")
class SpeakerEmbedding(ConfigOfArguments, keras.layers.Embedding):
    """Adds the embedding of the speaker's delimiter to the embedding of each token (Wolf et al. 2019).

    The last delimiter at or before a token names its speaker. Both embeddings come from the same table. Tokens after
    `speakers[0]`, which begins the text, belong to `speakers[1]`. If the inputs contain no delimiter, as when a reply
    is generated token by token, the speaker is `speakers[2]`.

    Args:
        input_dim: Integer. Number of tokens.
        output_dim: Integer. Width of the embeddings.
        embeddings_initializer: Initializer of the table. Defaults to `"uniform"`.
        speakers: List of three integers: the ids of the token that begins a text, and of the delimiters of the partner
            and of the speaker who replies, as `text.dialogue_inputs` uses them.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Integer tensor of shape `[batch, length]`.

    Returns:
        A tensor of shape `[batch, length, output_dim]`.

    Raises:
        ValueError: If `speakers` are not three different ids.

    Example:
    ```python
    layer = keras_transfer.layers.SpeakerEmbedding(10, 4, speakers=[0, 1, 2])
    layer(np.array([[0, 7, 1, 8, 2, 9]]))  # rows 0, 7 and 1, 8 with that of 1 added, rows 2 and 9 with that of 2
    ```

    Source: https://arxiv.org/abs/1901.08149, section 4.
    """

    @expects(speakers=list_of(integer(0), 3))
    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: keras.initializers.Initializer | str = "uniform",
        *,
        speakers: Sequence[int] | None = None,
        **kwargs: Any,
    ):
        super().__init__(input_dim, output_dim, embeddings_initializer, **kwargs)
        rule = f"`speakers` must be three different ids from 0 to {input_dim - 1}."
        fits = speakers is not None and len(set(speakers) & set(range(input_dim))) == len(speakers) == 3
        expect(fits, rule, speakers=speakers)
        self.speakers = list(speakers)

    def call(self, inputs):
        inputs = ops.cast(inputs, "int32")
        return super().call(inputs) + super().call(self.segments(inputs))

    def segments(self, inputs: Any) -> Any:
        """Finds the speaker of each token.

        Args:
            inputs: Integer tensor of shape `[batch, length]`. Token ids.

        Returns:
            An integer tensor of shape `[batch, length]`, the ids of the speakers' delimiters.
        """
        begin, partner, own = self.speakers
        is_delimiter = (inputs == begin) | (inputs == partner) | (inputs == own)
        places = ops.arange(ops.shape(inputs)[1], dtype="int32")
        # The places of all delimiters in order, and the number of delimiters at or before each token.
        ordered = ops.sort(ops.where(is_delimiter, places, ops.shape(inputs)[1] - 1), axis=1)
        count = ops.cumsum(ops.cast(is_delimiter, "int32"), axis=1)
        last = ops.take_along_axis(ordered, ops.maximum(count - 1, 0), axis=1)
        found = ops.take_along_axis(inputs, last, axis=1)
        return ops.where(count == 0, own, ops.where(found == begin, partner, found))
