"""What the objectives of encoder-decoders have in common: they turn a text into a source and a target."""


class SequenceObjective:
    """Base class of the objectives that `tasks.Seq2SeqLM` pretrains with, such as `SpanCorruption`.

    A call receives a list of rows and returns two lists of rows: the sources, which the encoder reads, and the targets,
    which the decoder learns to write. If the class attribute `with_positions` is `True`, it returns four, as
    `SpanPrediction` does: the sources; the tokens that the decoder reads; the targets; and the positions of the targets
    in their text. It is `False` by default.

    A row is an integer array [tokens] without the special tokens of a text, such as its end token, which the task puts
    around rows, sources and targets. Rows may be of any length, and so may what they become.

    A subclass has an attribute `seed`, an integer or `None`, and implements `__call__(rows, random, **tokens)`,
    `max_lengths` and `get_config`. If a call needs to know special tokens, it also implements `tokens`. It is
    registered, so that a `.keras` file can contain it.

    Example:
    ```python
    @keras.saving.register_keras_serializable(package="my_package")
    class Reversal(keras_transfer.objectives.SequenceObjective):
        def __call__(self, rows, random):
            return rows, [row[::-1] for row in rows]

        def max_lengths(self, length):
            return length, length

        def get_config(self):
            return {}
    ```
    """

    seed = None
    with_positions = False

    def __call__(self, rows, random, **tokens):
        raise NotImplementedError(f"{type(self).__name__} must implement `__call__`.")

    def tokens(self, preprocessor):
        """Returns what a call needs to know about a vocabulary, a dict of its further arguments.

        Args:
            preprocessor: `text.TokenPreprocessor`.

        Raises:
            ValueError: If the vocabulary lacks a token that the objective needs.
        """
        return {}

    def max_lengths(self, length):
        """Returns the lengths that sources and targets are padded or truncated to, a tuple of two integers.

        Args:
            length: Integer. Length of the longest row.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `max_lengths`.")

    @classmethod
    def from_config(cls, config):
        return cls(**config)
