"""The layout of rows: which rows of a model's inputs belong to a row of the user, and where in them its answers are."""

import dataclasses
from typing import Any

import numpy as np

from keras_transfer.data.planning import LENGTH_STEP
from keras_transfer.text.preprocessor import preprocess
from keras_transfer.text.token_preprocessor import count_truncated, warn_of_truncation

_CHUNK = 4096  # Number of the user's rows that are tokenized at once.


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which rows of inputs belong to each row of the user, and where in them its answers are.

    A long sentence has several rows of inputs, which overlap, and so has a question with a long context. Each of these
    has labels and weights of its own, and is in a batch without the others.

    Attributes:
        kind: String. What a row of inputs is: `"texts"`, `"pairs"`, `"parts"` (several texts that are encoded
            separately, in inputs [rows, parts, length, ...]) or `"words"`. `None` if it is unknown.
        owner: Integer array [rows], sorted. The user's row of each row of inputs. `None` if both are the same.
        row, position: Integer arrays [answers], of which `row` is sorted. The place in the inputs of each answer of all
            of the user's rows, in order. `None` if each row of inputs has one answer.
        counts: List of integers. The number of answers of each of the user's rows.
    """

    kind: str | None = None
    owner: Any = None
    row: Any = None
    position: Any = None
    counts: Any = None

    @property
    def in_parts(self):
        """Boolean. Whether inputs are [rows, parts, length, ...], and not [rows, length, ...]."""
        return self.kind == "parts"

    def spread(self, values):
        """Returns values of the user's rows as values of the rows of inputs."""
        return values[self.owner]

    def spread_answers(self, values, length, fill):
        """Returns values of the answers as an array [rows, length], which has `fill` where no answer is."""
        found = np.full((len(self.owner), length), fill, values.dtype)
        found[self.row, self.position] = values
        return found

    def positions(self, row):
        """Returns the positions of the answers in a row of inputs."""
        return self.position[slice(*np.searchsorted(self.row, [row, row + 1]))]

    def restore(self, outputs):
        """Returns a list with an array of answers for each of the user's rows, the inverse of `spread_answers`.

        `outputs` are a list of the answers in each row of inputs, in the order of `positions`.
        """
        return np.split(np.concatenate(outputs), np.cumsum(self.counts)[:-1])


ALONE = Layout()  # The user's rows are the rows of inputs, and nothing else is known of them.


def preprocess_texts(texts, preprocessor, width=None, warn=True):
    """Returns a dict of int32 arrays [texts, length], padded only to the longest text. It may warn of truncation.

    With a width, they are [rows, width, length], for texts of which so many in a row belong together.
    """
    chunks, truncated, count = [], 0, count_texts(texts)
    for start in range(0, count, _CHUNK):
        part = slice(start, start + _CHUNK)
        columns = tuple(t[part].tolist() for t in texts) if isinstance(texts, tuple) else texts[part].tolist()
        outputs = {name: _as_array(values) for name, values in preprocess(preprocessor, columns).items()}
        _check_padding(outputs, start)
        truncated += count_truncated(preprocessor, columns, outputs) if warn else 0
        longest = _rounded(max(int(real_lengths(outputs).max()), 1))
        chunks.append({name: values[:, :longest] if values.ndim > 1 else values for name, values in outputs.items()})
    warn_of_truncation(preprocessor, truncated, count)
    found = concatenate(chunks)
    if width is None:
        return found
    return {name: values.reshape(-1, width, *values.shape[1:]) for name, values in found.items()}


def preprocess_words(sentences, preprocessor):
    """Returns a dict of arrays [rows, length, ...] of sentences of words, padded to the longest row, and a `Layout`."""
    chunks, owner, row, position, rows = [], [], [], [], 0
    for start in range(0, len(sentences), _CHUNK):
        part = preprocessor.encode_words(sentences[start : start + _CHUNK], sequence_length="longest")
        chunks.append({name: np.asarray(values) for name, values in part.inputs.items()})
        owner.append(np.asarray(part.sentence) + start)
        row.append(np.asarray(part.row) + rows)
        position.append(np.asarray(part.position))
        rows += len(owner[-1])
    layout = Layout("words", *map(np.concatenate, (owner, row, position)), [len(words) for words in sentences])
    return concatenate(chunks, preprocessor.sequence_length), layout


def concatenate(chunks, limit=None):
    """Joins dicts of arrays [rows, length, ...], all padded to the longest length.

    With a limit, this is a multiple of 8, or the limit.
    """
    length = max((chunk["padding_mask"].shape[1] for chunk in chunks if "padding_mask" in chunk), default=0)
    length = length if limit is None else min(_rounded(length), limit)
    return {name: np.concatenate([fit_to(chunk[name], length) for chunk in chunks]) for name in chunks[0]}


def fit_to(ids, length, axis=1):
    """Returns ids [texts, length], padded with zeros (which the mask marks as padding) or trimmed of padding."""
    if ids.ndim <= axis:
        return ids
    sizes = [(0, max(length - size, 0) if place == axis else 0) for place, size in enumerate(ids.shape)]
    return np.pad(ids, sizes)[(*[slice(None)] * axis, slice(length))]


def real_lengths(inputs):
    """Returns the number of real tokens of each row (of its longest part, if it has parts), or 1 for strings."""
    if "padding_mask" in inputs:
        real = inputs["padding_mask"].sum(axis=-1)
        return real if real.ndim == 1 else real.max(axis=1)
    return np.ones(len(next(iter(inputs.values()))), int)


def count_texts(texts):
    """Returns the number of texts of a column, or of a tuple of columns."""
    return len(texts[0] if isinstance(texts, tuple) else texts)


def _rounded(length):
    return -(-length // LENGTH_STEP) * LENGTH_STEP


def _as_array(values):
    values = np.asarray(values)
    return values if values.dtype == object else values.astype("int32")


def _check_padding(outputs, start):
    """Raises a `ValueError` if trimming batches on the right would remove tokens."""
    if "padding_mask" not in outputs:
        padded = [key for key, value in outputs.items() if value.ndim > 1]
        if padded:
            raise ValueError(f"The preprocessor must return a `padding_mask`. Received: only {padded}")
        return
    mask = outputs["padding_mask"]
    wrong = np.flatnonzero((mask[:, 1:] > mask[:, :-1]).any(axis=1))
    if len(wrong):
        received = np.array2string(mask[wrong[0]], threshold=20)
        raise ValueError(
            "The preprocessor must pad texts on the right, so that ones come before zeros in `padding_mask`. "
            f"Received: padding_mask={received} for the text at position {start + wrong[0]}"
        )
