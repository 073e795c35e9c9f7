"""Batches for a `DialogueModel` from dialogues in memory, each with the right reply and several wrong ones."""

import numpy as np

from keras_transfer.data import LENGTH_STEP, UNUSED, Batches, Contents, parts_item, trim
from keras_transfer.text import check_batch_size, dialogue_inputs

_FIELDS = ("persona", "history", "reply", "candidates")


def is_examples(x):
    """Returns whether `x` is a list of examples: tuples of a persona, a history, a reply and optional candidates."""
    return isinstance(x, list) and len(x) > 0 and isinstance(x[0], tuple) and len(x[0]) in (3, 4)


def checked_example(example, index):
    """Returns the persona, the history, the reply and the candidates of an example."""
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
    """Returns examples with `count` candidates each. The last candidate is the reply, and the others are wrong.

    The wrong candidates are the first of an example's own candidates. If there are too few, others are drawn from the
    replies and the candidates of all examples. Each call draws the same candidates.
    """
    replies = sorted({text for _, _, reply, candidates in examples for text in (reply, *candidates)})
    random = np.random.default_rng(0)
    found = []
    for persona, history, reply, candidates in examples:
        wrong = [text for text in dict.fromkeys(candidates) if text != reply][: count - 1]
        if len(replies) < count:
            raise ValueError(
                f"Each reply needs {count - 1} wrong candidates: its own, or the replies of other examples. Add "
                "examples with different replies, or use a smaller `num_candidates`. "
                f"Received: {len(replies) - 1} for {reply!r:.100}"
            )
        while len(wrong) < count - 1:
            text = replies[random.integers(len(replies))]
            wrong += [text] if text not in (reply, *wrong) else []
        found.append((persona, history, [*wrong, reply]))
    return found


def dialogue_rows(examples, ids_of, special, length):
    """Returns the rows of examples, and the number of examples that were cut to fit.

    A row is a list of pairs of lists, the ids and the targets of each candidate. All candidates of an example follow
    the same persona and history, which are cut so that the longest candidate fits.

    Args:
        examples: List of `(persona, history, candidates)`. A candidate may be `None`.
        ids_of: Dict from texts to lists of ids.
        special: Dict of the ids `bos` and `eos`, and of the tuple `speakers`.
    """
    rows, cut = [], 0
    for example in examples:
        whole = [[None if text is None else ids_of[text] for text in texts] for texts in example]
        persona, history, replies = _fit(*whole, length)
        found = [dialogue_inputs(persona, history, reply, **special, ignored=-1) for reply in replies]
        rows.append([(inputs.words, inputs.targets) for inputs in found])
        cut += [persona, history, replies] != whole
    return rows, cut


def _fit(persona, history, replies, length):
    """Returns the components of a dialogue, truncated to at most `length` tokens in total.

    The oldest utterances are cut first, but never the last one. Next are the last sentences of the persona, as long as
    the persona takes up more than half of the available tokens, and then the start of the last utterance. The ends of
    replies are cut only if less than half of `length` would be left for the dialogue before them.
    """

    def size(sentences, utterances):
        return sum(map(len, sentences)) + sum(len(ids) + 1 for ids in utterances)

    free = length - (2 if None in replies else 3)  # bos, the delimiter of the reply and eos are always there.
    longest = max(0 if ids is None else len(ids) for ids in replies)
    available = max(free - longest, min(size(persona, history), free // 2), 0)
    while len(history) > 1 and size(persona, history) > available:
        history = history[1:]
    while persona and size(persona, history) > available and size(persona, []) > available // 2:
        persona = persona[:-1]
    excess = max(size(persona, history) - available, 0)
    history = [ids[excess:] for ids in history]
    limit = max(free - size(persona, history), 0)
    return persona, history, [None if ids is None else ids[:limit] for ids in replies]


def dialogue_batches(rows, preprocessor, batch_size, shuffle):
    """Returns the rows of `dialogue_rows` as `Batches`.

    Each item is `(inputs, targets, weights)`. The inputs are `[batch, candidates, length]`, and the last candidate is
    the reply. Targets and weights belong to the reply, `[batch, length]`.
    """
    check_batch_size(preprocessor, batch_size, len(rows), False)
    longest = max(len(words) for row in rows for words, _ in row)
    longest = -(-longest // LENGTH_STEP) * LENGTH_STEP
    token_ids = np.full((len(rows), longest, len(rows[0])), preprocessor.pad_id, "int32")
    padding_mask, targets = np.zeros_like(token_ids), np.full((len(rows), longest), UNUSED, "int32")
    for i, row in enumerate(rows):
        for part, (words, _) in enumerate(row):
            token_ids[i, : len(words), part], padding_mask[i, : len(words), part] = words, 1
        targets[i, : len(row[-1][1])] = row[-1][1]
    inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
    weights = (targets >= 0).astype("float32")

    def item(columns, length, random):
        return parts_item((columns[0], *trim(columns, length, random)[1:]), length, random)

    options = {"batch_size": batch_size, "shuffle": shuffle}
    return Batches.of(inputs, np.maximum(targets, 0), weights, Contents("parts", item), **options)
