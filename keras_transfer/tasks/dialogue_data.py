"""Dialogues in memory as batches of a reply among wrong ones, for a `DialogueModel`."""

import numpy as np

from keras_transfer.text import PartBatches
from keras_transfer.text.batching import real_lengths
from keras_transfer.text.dialogue import dialogue_inputs
from keras_transfer.text.inputs import check_batch_size
from keras_transfer.text.lengths import LENGTH_STEP, lengths_for

_FIELDS = ("persona", "history", "reply", "candidates")


class DialogueBatches(PartBatches):
    """A dataset for `fit` and `evaluate` of a `DialogueModel`.

    Each item is `(inputs, targets, weights)`. The inputs are [batch, candidates, length], and the last candidate is the
    reply. Targets and weights are those of the reply, [batch, length].
    """

    def __getitem__(self, index):
        inputs, *columns = super().__getitem__(index)
        return (inputs, *(column[:, : self._batches[index][0]] for column in columns))


def is_examples(x):
    """Returns whether `x` is a list of examples: tuples of a persona, a history, a reply and perhaps candidates."""
    return isinstance(x, list) and len(x) > 0 and isinstance(x[0], tuple) and len(x[0]) in (3, 4)


def checked_example(example, index):
    """Returns the persona, the history, the reply and the candidates of an example.

    Raises:
        ValueError: If an example is not made of strings and lists of strings.
    """
    found = dict(zip(_FIELDS, (*example, ())[:4] if isinstance(example, tuple) and len(example) in (3, 4) else ()))
    for name in _FIELDS:
        value = found.get(name)
        texts = [value] if name == "reply" else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            expected = "a string" if name == "reply" else "a list of strings"
            raise ValueError(
                "Examples must be tuples `(persona, history, reply)` or `(persona, history, reply, candidates)`. "
                f"`{name}` must be {expected}. Received: {value!r:.100} at position {index}"
            )
    return tuple(found.values())


def with_candidates(examples, count):
    """Returns examples whose last candidate of `count` is the reply, and the others are wrong.

    The wrong ones are the first of an example's own candidates. What is missing is drawn from the replies and the
    candidates of all examples, in the same way in each call.

    Raises:
        ValueError: If there are not enough different replies.
    """
    replies = sorted({text for _, _, reply, candidates in examples for text in (reply, *candidates)})
    random = np.random.default_rng(0)
    found = []
    for persona, history, reply, candidates in examples:
        wrong = [text for text in dict.fromkeys(candidates) if text != reply][: count - 1]
        if len(replies) < count:
            raise ValueError(
                f"A reply must have {count - 1} wrong ones, its own candidates or the replies of other examples. "
                f"Received: {len(replies) - 1} for {reply!r:.100}"
            )
        while len(wrong) < count - 1:
            text = replies[random.integers(len(replies))]
            wrong += [text] if text not in (reply, *wrong) else []
        found.append((persona, history, [*wrong, reply]))
    return found


def dialogue_rows(examples, ids_of, special, length):
    """Returns the ids and the targets of each candidate of each example, as a list of lists of pairs of lists.

    If a dialogue has more tokens than `length`, its oldest utterances are left out, then the last sentences of the
    persona, and the end of the reply.

    Args:
        examples: List of `(persona, history, candidates)`. A candidate may be `None`.
        ids_of: Dict from texts to lists of ids.
        special: Dict of the ids `bos` and `eos`, and of the tuple `speakers`.
        length: Integer.
    """
    rows = []
    for persona, history, candidates in examples:
        row = []
        for reply in candidates:
            answer = None if reply is None else ids_of[reply][: max(length - 3, 0)]
            room = length - 2 - (0 if answer is None else len(answer) + 1)
            said = [ids_of[text] for text in history]
            while said and sum(len(ids) + 1 for ids in said) > room - sum(len(ids_of[text]) for text in persona):
                said = said[1:]
            known = [ids_of[text] for text in persona]
            while known and sum(map(len, known)) > room:
                known = known[:-1]
            found = dialogue_inputs(known, said, answer, **special, ignored=-1)
            row.append((found.words, found.targets))
        rows.append(row)
    return rows


def dialogue_batches(rows, preprocessor, batch_size, shuffle):
    """Returns what `dialogue_rows` returns as `DialogueBatches`."""
    check_batch_size(preprocessor, batch_size, len(rows), False)
    longest = max(len(words) for row in rows for words, _ in row)
    longest = -(-longest // LENGTH_STEP) * LENGTH_STEP
    token_ids = np.full((len(rows), longest, len(rows[0])), preprocessor.pad_id, "int32")
    padding_mask, targets = np.zeros_like(token_ids), np.full((len(rows), longest), -1, "int32")
    for i, row in enumerate(rows):
        for part, (words, _) in enumerate(row):
            token_ids[i, : len(words), part], padding_mask[i, : len(words), part] = words, 1
        targets[i, : len(row[-1][1])] = row[-1][1]
    inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
    lengths = lengths_for(real_lengths(inputs), longest)
    weights = (targets >= 0).astype("float32")
    return DialogueBatches(inputs, np.maximum(targets, 0), weights, batch_size, lengths, shuffle, None, False)
