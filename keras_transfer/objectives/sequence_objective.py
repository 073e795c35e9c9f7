"""What the objectives of encoder-decoders have in common: they turn a text into a source and a target."""

from typing import Any

from keras_transfer.core.saved_arguments import SavedByArguments


class SequenceObjective(SavedByArguments):
    """Base class of the objectives that `tasks.Seq2SeqLM` pretrains with, such as `SpanCorruption`.

    A call receives a list of rows and returns two lists of rows: the sources, for the encoder, and the targets,
    which the decoder learns to write. If the class attribute `with_positions` is `True`, it returns four, as
    `SpanPrediction` does: the sources; the decoder's input tokens; the targets; and the positions of the targets
    in their text. It is `False` by default.

    A row is an integer array [tokens] without the special tokens of a text, such as its end token, which the task puts
    around rows, sources and targets. Rows may be of any length, and so may what they become.

    A subclass has an attribute `seed`, an integer or `None`, and implements `__call__(rows, random, **tokens)` and
    `max_lengths`. If a call needs to know special tokens, it also implements `tokens`. It is registered, so that a
    `.keras` file can contain it. Its config is the attributes that are named like the constructor's arguments.

    Example:
    ```python
    @keras.saving.register_keras_serializable(package="my_package")
    class Reversal(keras_transfer.objectives.SequenceObjective):
        def __call__(self, rows, random):
            return rows, [row[::-1] for row in rows]

        def max_lengths(self, length):
            return length, length
    ```
    """

    seed: int | None = None
    with_positions = False

    def __call__(self, rows, random, **tokens):
        raise NotImplementedError(f"{type(self).__name__} must implement `__call__`.")

    def tokens(self, preprocessor: Any) -> dict:
        """Returns the arguments of a call that depend on the vocabulary.

        Args:
            preprocessor: `text.TokenPreprocessor` whose vocabulary the ids come from.

        Returns:
            A dict of keyword arguments.

        Raises:
            ValueError: If the vocabulary lacks a token that the objective needs.
        """
        return {}

    def max_lengths(self, length: int) -> tuple[int, int]:
        """Returns the lengths to which sources and targets are padded or truncated.

        Args:
            length: Integer. Length of the longest row.

        Returns:
            A tuple of two integers.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `max_lengths`.")
