"""What the objectives of encoder-decoders have in common: they turn a text into a source and a target."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_transfer.objectives.draws import padded
from keras_transfer.objectives.objective import Objective


class SequenceObjective(Objective):
    """Base class of the objectives that `tasks.Seq2SeqLM` pretrains with, such as `SpanCorruption`.

    A subclass implements `rewrite(rows, random, **tokens)` and `max_lengths`. `rewrite` receives a list of rows and
    returns two lists of rows: the sources, for the encoder, and the targets, which the decoder learns to write. With
    `decoder_positions` in `made_inputs`, it returns four, as `SpanPrediction` does: the sources; the decoder's input
    tokens; the targets; and the positions of the targets in their text.

    A row is an integer array [tokens] without the special tokens of a text, such as its end token, which a call removes
    from texts, and puts around sources and targets. Rows may be of any length, and so may what they become. If
    `rewrite` needs to know special tokens, the subclass adds them to what `tokens` returns.

    Example:
    ```python
    @keras.saving.register_keras_serializable(package="my_package")
    class Reversal(keras_transfer.objectives.SequenceObjective):
        def rewrite(self, rows, random):
            return rows, [row[::-1] for row in rows]

        def max_lengths(self, length):
            return length, length
    ```
    """

    made_inputs: tuple[str, ...] = ("decoder_token_ids", "decoder_padding_mask")
    rewrite: Callable[..., tuple]

    def __call__(self, inputs, random, preprocessor, **tokens):
        ids, real = inputs["token_ids"], inputs["padding_mask"].sum(axis=1)
        begin, special = preprocessor.num_start_tokens, preprocessor.num_special_tokens
        end = special - begin
        rows = [row[begin : count - end] for row, count in zip(ids, real)]
        sources, *decoded = self.rewrite(rows, random, **tokens)
        # A batch is as long as its longest text may require, not as drawn: few text lengths stay few shapes.
        source_length, target_length = self.max_lengths(ids.shape[1] - special)

        def pack(rows, length):
            length = min(length + special, max(preprocessor.sequence_length, ids.shape[1]))
            rows = [
                np.concatenate([text[:begin], row[: length - special], text[count - end : count]])
                for row, text, count in zip(rows, ids, real)
            ]
            return padded(rows, length, preprocessor.pad_id), padded([np.ones_like(row) for row in rows], length)

        source = dict(zip(("token_ids", "padding_mask"), pack(sources, source_length)))
        if len(decoded) == 1:
            return source, *pack(*decoded, target_length)
        previous, targets, positions = decoded
        length = max(target_length, 1)
        used = padded([np.ones_like(row) for row in targets], length)
        source |= {"decoder_token_ids": padded(previous, length), "decoder_padding_mask": used}
        # Positions count the tokens of the whole text, whose first token is the start token.
        source["decoder_positions"] = padded([places + begin for places in positions], length)
        return source, padded(targets, length), used.astype("float32")

    def tokens(self, preprocessor: Any) -> dict:
        return {"preprocessor": preprocessor}

    def max_lengths(self, length: int) -> tuple[int, int]:
        """Returns the lengths to which sources and targets are padded or truncated.

        Args:
            length: Integer. Length of the longest row.

        Returns:
            A tuple of two integers.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `max_lengths`.")
