"""Texts as rows of token ids without padding, for the methods of language models that do not use batches."""

import numpy as np

from keras_transfer.tasks.continuations.tokens import token_preprocessor
from keras_transfer.text.base import is_text, to_list


def token_rows(task, texts, end=False):
    """Returns the ids of texts as a list of integer arrays, including the tokens that the preprocessor puts in front.

    Args:
        task: `Task` or its reader.
        texts: List of strings.
        end: Boolean. Whether to add the tokens that the preprocessor puts after texts. Defaults to `False`.
    """
    preprocessor = token_preprocessor(task)
    packing = preprocessor.packing
    before, after = ([preprocessor.token_to_id(token) for token in tokens] for tokens in (packing.start, packing.end))
    texts = to_list(texts)
    ids = preprocessor.tokenize(texts).to_list() if texts else []
    return [np.array([*before, *row, *(after if end else ())], "int32") for row in ids]


def prepared_rows(ids):
    """Returns prepared prompts as a list of integer arrays.

    Args:
        ids: List of lists or arrays of ids, or a dict of `token_ids` and `padding_mask` `[batch, length]`. Without
            `padding_mask`, all ids are real tokens.
    """
    if isinstance(ids, dict):
        if "token_ids" not in ids:
            raise ValueError(f"A dict of prepared ids must contain `token_ids`. Received: {list(ids)}")
        token_ids = np.asarray(ids["token_ids"])
        mask = np.asarray(ids.get("padding_mask", np.ones(token_ids.shape)))
        if token_ids.ndim != 2 or token_ids.shape != mask.shape:
            raise ValueError(
                "`token_ids` and `padding_mask` must have the shape [batch, length]. "
                f"Received: shapes {token_ids.shape} and {mask.shape}"
            )
        return [row[real.astype(bool)].astype("int32") for row, real in zip(token_ids, mask)]
    rows = [np.asarray(row) for row in ids]
    if wrong := [row for row in rows if row.ndim != 1 or (row.size and row.dtype.kind not in "iu")]:
        raise ValueError(
            "Prompts must be strings, lists of token ids, or a dict of `token_ids` and `padding_mask`. "
            f"Received: {wrong[0]!r:.100}"
        )
    return [row.astype("int32") for row in rows]


def rows_of(task, x, tokenize, what):
    """Returns texts or prepared ids as rows of ids.

    Args:
        task: `CausalLM` or `Seq2SeqLM`.
        x: String, list of strings, or what `prepared_rows` accepts.
        tokenize: Function from a list of strings to a list of integer arrays.
        what: String. Noun for a row in error messages, such as `"prompt"`.

    Returns:
        List of integer arrays, whether `x` is texts, and whether it is a single text.
    """
    single = isinstance(x, (str, bytes))
    x = [x] if single else x
    raw = is_texts(x)
    rows = tokenize(x) if raw else prepared_rows(x)
    check_rows(task, rows, what)
    return rows, raw, single


def check_rows(task, rows, what):
    """Raises a `ValueError` if a row of ids is empty, longer than the encoder's positions, or has unknown ids.

    Args:
        task: `CausalLM` or `Seq2SeqLM`.
        rows: List of integer arrays.
        what: String. Noun for a row in error messages, such as `"prompt"`.
    """
    positions = getattr(task.encoder, "max_sequence_length", None)
    count = task.encoder.token_embedding.input_dim  # A decoder may have a different vocabulary.
    for index, row in enumerate(rows):
        if not len(row):
            raise ValueError(f"Each {what} must have at least one token. Received: an empty {what} at position {index}")
        if positions is not None and len(row) > positions:
            raise ValueError(
                f"Each {what} must have at most {positions} tokens, the encoder's number of positions. Shorten it. "
                f"Received: {len(row)} tokens at position {index}"
            )
        if row.min() < 0 or row.max() >= count:
            raise ValueError(f"Token ids must be from 0 to {count - 1}. Received: {row} at position {index}")


def is_texts(x):
    """Returns whether `x` is a list of texts rather than ids. An empty list is not."""
    if not hasattr(x, "__len__"):
        raise ValueError(
            "Texts must be a string or a list of strings, or prepared ids: a list of lists of integers, or a dict of "
            f"`token_ids` and `padding_mask`. Received: {x!r:.100}"
        )
    return not isinstance(x, dict) and len(x) > 0 and getattr(x, "ndim", 1) == 1 and is_text(x)
