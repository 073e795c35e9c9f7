"""What a row of a corpus has besides its ids: special tokens, padding and segments, and the vocabulary of the ids."""

import dataclasses
import hashlib

import numpy as np


@dataclasses.dataclass(frozen=True)
class RowForm:
    """The form of the rows that a preprocessor makes of single texts.

    Args:
        start, end: Lists of integers. The special ids around the ids of a row.
        pad_id: Integer.
        segments: List of integers, the segment of a row and, if there is a third one, that of its last id. None for a
            model without segments.
        vocabulary: String. Digest of the vocabulary.
    """

    start: list
    end: list
    pad_id: int
    segments: list | None
    vocabulary: str

    @classmethod
    def of(cls, preprocessor):
        packing, find = preprocessor.packing, preprocessor.token_to_id
        segments = None if packing.segments is None else list(packing.segments)
        ends = ([find(token) for token in tokens] for tokens in (packing.start, packing.end))
        return cls(*ends, int(preprocessor.pad_id), segments, digest_of(preprocessor))

    @property
    def features(self):
        return ("token_ids", *(() if self.segments is None else ("segment_ids",)), "padding_mask")

    @property
    def num_special_tokens(self):
        return len(self.start) + len(self.end)

    def pack(self, rows, length):
        """Returns rows of ids as a dict of int32 arrays [rows, length] with special tokens and padding."""
        ids, mask = np.full((len(rows), length), self.pad_id, "int32"), np.zeros((len(rows), length), "int32")
        before = len(self.start)
        for i, row in enumerate(rows):
            end = self.end
            if len(row) and end and row[-1] == end[0]:  # The row ends with a document, which has this id already.
                end = end[1:]
            after = before + len(row)
            ids[i, :before], ids[i, before:after], ids[i, after : after + len(end)] = self.start, row, end
            mask[i, : after + len(end)] = 1
        found = {"token_ids": ids, "padding_mask": mask}
        if self.segments is not None:
            found["segment_ids"] = mask * self.segments[0]
            if len(self.segments) == 3:
                found["segment_ids"][np.arange(len(rows)), mask.sum(axis=1) - 1] = self.segments[2]
        return found

    def check_preprocessor(self, preprocessor):
        """Raises a `ValueError` if a preprocessor has another vocabulary than the corpus."""
        if hasattr(preprocessor, "tokenizer") and digest_of(preprocessor) != self.vocabulary:
            raise ValueError(
                "The corpus must have the vocabulary of the task's preprocessor. Build it again with "
                "`Corpus.build(..., preprocessor=task.preprocessor)`. Received: a corpus with another vocabulary"
            )


def digest_of(preprocessor):
    """Returns a string that two preprocessors share if they have the same vocabulary."""
    return hashlib.sha256("\0".join(preprocessor.tokenizer.vocabulary).encode()).hexdigest()
