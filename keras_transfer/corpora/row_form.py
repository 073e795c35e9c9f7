"""What a row of a corpus has besides its ids: special tokens, padding and segments, and the tokenizer of the ids."""

import dataclasses
import hashlib
import json

import numpy as np


@dataclasses.dataclass(frozen=True)
class RowForm:
    """The form of the rows that a preprocessor makes of single texts.

    Args:
        start, end: Lists of integers. The special ids around the ids of a row.
        pad_id: Integer.
        segments: List of integers, the segment of a row and, if there is a third one, that of its last id. None for a
            model without segments.
        tokenizer: String. Digest of the tokenizer.
        between: List of integers. The special ids between the segments of a pair. None for a corpus that was built
            before it kept them.
    """

    start: list
    end: list
    pad_id: int
    segments: list | None
    tokenizer: str
    between: list | None = None

    @classmethod
    def of(cls, preprocessor):
        packing, find = preprocessor.packing, preprocessor.token_to_id
        segments = None if packing.segments is None else list(packing.segments)
        special = (packing.start, packing.end, packing.between)
        start, end, between = ([find(token) for token in tokens] for tokens in special)
        return cls(start, end, int(preprocessor.pad_id), segments, digest_of(preprocessor), between)

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

    @property
    def num_special_tokens_of_pairs(self):
        return self.num_special_tokens + len(self.between)

    def pack_pairs(self, firsts, seconds, length):
        """Returns pairs of rows of ids as `pack` returns single ones."""
        ids, mask = np.full((len(firsts), length), self.pad_id, "int32"), np.zeros((len(firsts), length), "int32")
        segments = np.zeros((len(firsts), length), "int32")
        for i, (first, second) in enumerate(zip(firsts, seconds)):
            row = np.concatenate([self.start, first, self.between, second, self.end])
            middle = len(self.start) + len(first) + len(self.between)
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
            if self.segments is not None:
                segments[i, :middle], segments[i, middle : len(row)] = self.segments[:2]
                segments[i, len(row) - 1] = self.segments[-1]
        found = {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}
        return {name: found[name] for name in self.features}

    def check_preprocessor(self, preprocessor):
        """Raises a `ValueError` if a preprocessor has another tokenizer or other special tokens than the corpus."""
        if hasattr(preprocessor, "tokenizer") and digest_of(preprocessor) != self.tokenizer:
            raise ValueError(
                "The corpus must have the tokenizer of the task's preprocessor. Build it again with "
                "`Corpus.build(source, task.preprocessor, folder)`. Received: a corpus with another vocabulary, or "
                "with other settings such as `lowercase`"
            )
        packing = getattr(preprocessor, "packing", None)
        if self.segments is None and packing is not None and packing.segments is not None:
            raise ValueError(
                "The corpus must have the segments that the task's preprocessor makes. Build it again with "
                "`Corpus.build(source, task.preprocessor, folder)`. Received: a corpus without segments"
            )
        if packing is None:
            return
        ours, names = RowForm.of(preprocessor), ("start", "end", "between", "pad_id")
        known = [name for name in names if getattr(self, name) is not None]
        if changed := [name for name in known if getattr(self, name) != getattr(ours, name)]:
            raise ValueError(
                "The corpus must have the special tokens of the task's preprocessor. Build it again with "
                "`Corpus.build(source, task.preprocessor, folder)`. Received: a corpus with "
                f"{', '.join(f'{name}={getattr(self, name)} (task: {getattr(ours, name)})' for name in changed)}"
            )


def digest_of(preprocessor):
    """Returns a string that two preprocessors share if they give texts the same ids."""
    tokenizer = preprocessor.tokenizer
    settings = {
        name: value for name, value in tokenizer.get_config().items() if name not in ("mask_token", "eos_token")
    }
    parts = [type(tokenizer).__name__, json.dumps(settings, sort_keys=True), *tokenizer.vocabulary]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
