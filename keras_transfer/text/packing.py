"""Packs the ids of a text, or of a pair of texts, into one row of a model's inputs."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import keras

from keras_transfer.core.expect import TEXT, expects, integer, list_of, one_of
from keras_transfer.core.lazy import tf
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.text.special_tokens import is_language_code


@expects(
    start=list_of(TEXT),
    between=list_of(TEXT),
    end=list_of(TEXT),
    truncation_side=one_of("right", "left"),
    segments=list_of(integer(), 2),
)
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(frozen=True)
class Packing(SavedByArguments):
    """Describes the special tokens, the padding and the segments of a row.

    One text becomes `start a end`, a pair `start a between b end`. If that is too long, the longer text is truncated
    first, at its end or, with `truncation_side="left"`, at its beginning, as Hugging Face `tokenizers` does. Padding is
    always on the right.

    Args:
        start: List of strings. Tokens in front of the first text. Defaults to none.
        between: List of strings. Tokens between the texts of a pair. Defaults to none.
        end: List of strings. Tokens after the last text. Defaults to none.
        pad: String. Token that pads a row. Defaults to `"[PAD]"`.
        segments: Tuple of two integers, the segment ids of the first and of the second text, or `None` for a model
            without segments. Special tokens belong to the text before them, and those in front of the first text belong
            to it. Padding has segment 0. A third integer is the segment of the last token of `end` (XLNet's `<cls>`).
            Defaults to `None`.
        truncation_side: String. `"right"` to remove the end of a text that is too long, or `"left"` to remove its
            beginning. Defaults to `"right"`.

    Example:
    ```python
    roberta = keras_transfer.text.Packing(start=["<s>"], between=["</s>", "</s>"], end=["</s>"], pad="<pad>")
    tokenizer = keras_transfer.text.WordPieceTokenizer(["<pad>", "<s>", "</s>", "[UNK]", "a", "b"])
    roberta.pack([tokenizer.tokenize(["a"]), tokenizer.tokenize(["b"])], tokenizer, 8)  # <s> a </s> </s> b </s>
    ```
    """

    start: Sequence[str] = ()
    between: Sequence[str] = ()
    end: Sequence[str] = ()
    pad: str = "[PAD]"
    segments: Sequence[int] | None = None
    truncation_side: str = "right"

    def __post_init__(self):
        for name in ("start", "between", "end", "segments"):
            value = getattr(self, name)
            object.__setattr__(self, name, value if value is None else tuple(value))

    @property
    def special_tokens(self) -> list[str]:
        """List of strings, all tokens that the vocabulary must have."""
        return list(dict.fromkeys((self.pad, *self.start, *self.between, *self.end)))

    @property
    def features(self) -> tuple[str, ...]:
        """Tuple of strings, the names of the inputs that `pack` returns."""
        return ("token_ids", "padding_mask") if self.segments is None else ("token_ids", "segment_ids", "padding_mask")

    @property
    def language(self) -> str | None:
        """String. The language code that is added to texts, or `None`."""
        return next(filter(is_language_code, (*self.start, *self.end)), None)

    def with_language(self, language: str) -> Self:
        """Returns a packing whose language code is replaced, or added in front of texts if it has none.

        Args:
            language: String. Language code.

        Returns:
            A `Packing`.
        """
        if self.language is None:
            return dataclasses.replace(self, start=(language, *self.start))
        start, end = (
            tuple(language if is_language_code(token) else token for token in tokens)
            for tokens in (self.start, self.end)
        )
        return dataclasses.replace(self, start=start, end=end)

    @property
    def min_length(self) -> int:
        """Integer. The shortest row that fits the special tokens of a pair, or a text of one token."""
        return max(self.num_special_tokens(2), self.num_special_tokens(1) + 1)

    def num_special_tokens(self, num_texts: int) -> int:
        """Returns the number of tokens that are added to a row.

        Args:
            num_texts: Integer. `1` for a text, `2` for a pair.

        Returns:
            An integer.
        """
        return len(self.start) + len(self.between) * (num_texts - 1) + len(self.end)

    def pack(self, texts: Sequence, tokenizer: Any, max_length: int, sequence_length: int | None = None) -> dict:
        """Packs texts, or pairs of texts, into rows.

        Args:
            texts: List of one or two int32 ragged tensors [batch, None], the ids of the texts.
            tokenizer: `Tokenizer`. Knows the ids of the special tokens.
            max_length: Integer. Number of ids that a row is truncated to if `sequence_length` is `None`.
            sequence_length: Integer. Number of ids that a row is truncated and padded to. If `None`, rows are padded to
                the longest. Defaults to `None`.

        Returns:
            Dict of `token_ids`, `segment_ids` (if there are segments) and `padding_mask` (1 is a real token), each an
            int32 tensor [batch, length].
        """
        num_special = self.num_special_tokens(len(texts))
        lengths = [tf.cast(ids.row_lengths(), tf.int32) for ids in texts]
        room = (max_length if sequence_length is None else sequence_length) - num_special
        lengths = _truncate_longest_first(lengths, room)
        if sequence_length is None:
            sequence_length = tf.reduce_max(tf.concat([[0], sum(lengths)], 0)) + num_special

        pad_id = tokenizer.token_to_id(self.pad)
        position = tf.range(sequence_length)[None, :]
        segment_ids = tf.zeros_like(position)
        token_ids = segment_ids + pad_id
        end = tf.zeros_like(lengths[0])[:, None]
        for index, (ids, length) in enumerate(zip(texts, lengths, strict=True)):
            begin = end
            if index == 0:
                token_ids, end = _put(token_ids, position, end, self.start, tokenizer)
            offset, end = end, end + length[:, None]
            # The index, among all values, of the token at each position. Positions outside the text use the padding
            # token that is appended to the values, so that a batch of empty texts works too.
            values = tf.concat([ids.values, [pad_id]], 0)
            place = tf.cast(ids.row_starts(), tf.int32)[:, None] + position - offset
            if self.truncation_side == "left":
                place += tf.cast(ids.row_lengths(), tf.int32)[:, None] - length[:, None]
            inside = (position >= offset) & (position < end)
            place = tf.where(inside, place, tf.size(values) - 1)
            token_ids = tf.where(inside, tf.gather(values, place), token_ids)
            after = self.end if index == len(texts) - 1 else self.between
            token_ids, end = _put(token_ids, position, end, after, tokenizer)
            if self.segments is not None:
                segment_ids = tf.where((position >= begin) & (position < end), self.segments[index], segment_ids)
        if self.segments is not None and len(self.segments) == 3:
            segment_ids = tf.where(position == end - 1, self.segments[2], segment_ids)
        padding_mask = tf.cast(position < end, tf.int32)
        inputs = {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}
        return {name: inputs[name] for name in self.features}


def _put(token_ids, position, end, tokens, tokenizer):
    """Writes special tokens after `end` [batch, 1], and returns the ids and the new end."""
    for token in tokens:
        token_ids = tf.where(position == end, tokenizer.token_to_id(token), token_ids)
        end = end + 1
    return token_ids, end


def _truncate_longest_first(lengths, room):
    """Shortens the lengths of one or two texts, int32 [batch], so that their sum fits into `room`.

    The longer text is truncated until both are equally long, then both are truncated. If `room` is odd, the longer text
    keeps one more token (the second text if both are equally long), as in Hugging Face `tokenizers`.
    """
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    first, second = lengths
    shorter = tf.minimum(tf.minimum(first, second), room // 2)
    longer = tf.minimum(tf.maximum(first, second), room - shorter)
    ordered = first <= second
    return [tf.where(ordered, shorter, longer), tf.where(ordered, longer, shorter)]
