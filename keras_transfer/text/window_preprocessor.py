"""Cuts long texts into overlapping windows, one after the other in a row of a model's inputs."""

from typing import Any

import keras

from keras_transfer.core.expect import expect, expects, instance_of, integer
from keras_transfer.core.lazy import tf
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.text.preprocessor import HasTokenizer, Preprocessor, as_text_tensors, batch_shape, is_longest
from keras_transfer.text.token_preprocessor import TokenPreprocessor


@keras.saving.register_keras_serializable(package="keras_transfer")
class WindowPreprocessor(SavedByArguments, HasTokenizer, Preprocessor):
    """Cuts texts that are too long for an encoder into overlapping windows, so that no token is lost.

    If a text fits into one window, its row is the same as from `preprocessor`. Longer texts have several windows of
    `sequence_length` tokens, one after the other in a row of `windows * sequence_length` tokens, each with its own
    special tokens. The last window ends with the text, so all windows are full. Tasks with `windows="mean"` or `"max"`
    use this preprocessor and split the rows into windows again. The memory for a batch grows with its longest text.

    Args:
        preprocessor: `TokenPreprocessor`, such as a `BertPreprocessor`. Its `sequence_length` is the window length.
        overlap: Integer. Number of tokens that a window shares with the one before it, not counting special tokens.
            Defaults to `None`, a quarter of a window.
        name: String. Name of the layer.

    Call arguments:
        - `texts`: A string, or a list, array, table column or tensor of strings. Pairs are not supported.
        - `sequence_length`: `None` or `"longest"`. Both pad rows to the longest row of the batch.

    Returns:
        Dict of the inputs that `preprocessor` returns, int32 tensors [batch, windows * sequence_length], or
        [batch, length] if all texts have one window.

    Raises:
        ValueError: If `overlap` leaves no room for other tokens, or if texts are pairs.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdef"], sequence_length=5
    )
    windows = keras_transfer.text.WindowPreprocessor(preprocessor, overlap=1)
    windows(["a b c d e"])["token_ids"]  # [[2, 4, 5, 6, 3, 2, 6, 7, 8, 3]], two windows that share "c"
    ```
    """

    @expects(
        preprocessor=instance_of(TokenPreprocessor, "a `TokenPreprocessor`, such as a `BertPreprocessor`"),
        overlap=integer(0),
    )
    def __init__(self, preprocessor: Any, *, overlap: int | None = None, name: str | None = None):
        super().__init__(name=name)
        room = preprocessor.sequence_length - preprocessor.num_special_tokens
        overlap = room // 4 if overlap is None else overlap
        rule = f"`overlap` must be from 0 to {room - 1}, since a window has room for {room} tokens."
        expect(0 <= overlap < room, rule, overlap=overlap)
        self.preprocessor = preprocessor
        self.tokenizer = preprocessor.tokenizer
        self.overlap = overlap
        self.window_length = preprocessor.sequence_length

    def call(self, texts, sequence_length=None):
        self._check_single(texts)
        rule = "`sequence_length` must be None or 'longest', since no text is truncated."
        expect(sequence_length is None or is_longest(sequence_length), rule, sequence_length=sequence_length)
        packing = self.preprocessor.packing
        ids = self.tokenizer.tokenize(tf.reshape(as_text_tensors(texts), [-1]))
        room = self.window_length - self.preprocessor.num_special_tokens
        step, tokens = room - self.overlap, tf.cast(ids.row_lengths(), tf.int32)
        more = tf.maximum(tokens - room, 0)
        counts = 1 + (more + step - 1) // step
        text = tf.repeat(tf.range(tf.size(counts)), counts)
        first = tf.minimum(tf.ragged.range(counts).values * step, tf.gather(more, text))
        first += tf.gather(tf.cast(ids.row_starts(), tf.int32), text)
        places = tf.ragged.range(first, first + tf.gather(tf.minimum(tokens, room), text))
        inputs = packing.pack([tf.gather(ids.values, places)], self.tokenizer, self.window_length)

        def in_rows(name, values):
            padding = self.token_to_id(packing.pad) if name == "token_ids" else 0
            rows = tf.RaggedTensor.from_row_lengths(values, counts).to_tensor(padding)  # [batch, windows, length]
            return tf.reshape(rows, [tf.shape(rows)[0], tf.shape(rows)[1] * tf.shape(rows)[2]])

        inputs = {name: in_rows(name, values) for name, values in inputs.items()}
        return inputs if texts.shape.rank else {name: values[0] for name, values in inputs.items()}

    def compute_output_spec(self, texts, sequence_length=None):
        self._check_single(texts)
        shape = (*batch_shape(texts), None)
        return {key: keras.KerasTensor(shape, dtype="int32", name=key) for key in self.preprocessor.packing.features}
