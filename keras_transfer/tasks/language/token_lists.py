"""Texts as lists of token ids without padding, for the methods of language models that need no batches."""

import operator

import numpy as np

from keras_transfer.generation import generation_defaults
from keras_transfer.text.base import is_text, to_list
from keras_transfer.text.preprocessors import TokenPreprocessor


def token_rows(task, texts, end=False):
    """Returns the ids of texts as a list of integer arrays, with the tokens that the preprocessor puts before them.

    Args:
        task: `Task` or its reader.
        texts: List of strings.
        end: Boolean. Whether to add the tokens that the preprocessor puts after them. Defaults to `False`.

    Raises:
        ValueError: If the task has no `TokenPreprocessor`.
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

    Raises:
        ValueError: If they are anything else.
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


def named_token_id(preprocessor, token, argument):
    """Returns the id of a token that the user passed as a string or as its id.

    Args:
        preprocessor: The preprocessor of the task, or None.
        token: String or integer.
        argument: String. Name of the argument, for the error.

    Raises:
        ValueError: If a string is no token of the vocabulary, or if it is neither a string nor an integer.
    """
    if not isinstance(token, str):
        try:
            return operator.index(token)
        except TypeError as error:
            raise ValueError(
                f"`{argument}` must be a token or its id, an integer. Received: {argument}={token!r:.100}"
            ) from error
    found = None if preprocessor is None else preprocessor.token_to_id(token)
    if found is None:
        raise ValueError(f"`{argument}` must be a token of the vocabulary. Received: {argument}={token!r}")
    return found


def token_preprocessor(task):
    """Returns the preprocessor of a task.

    Raises:
        ValueError: If there is none, or if it has no tokenizer.
    """
    getattr(task, "reader", task).require()
    if not isinstance(task.preprocessor, TokenPreprocessor):
        raise ValueError(
            "This method needs a `text.TokenPreprocessor`, which has a tokenizer. "
            f"Received: {type(task.preprocessor).__name__}"
        )
    return task.preprocessor


def target_preprocessor(task):
    """Returns the preprocessor of the texts that a task writes, which may be another one than that of what it reads."""
    own = getattr(task, "target_preprocessor", None)
    return task.preprocessor if own is None else own


def check_rows(task, rows, what):
    """Raises a `ValueError` if a row of ids is empty, longer than the encoder's positions, or has unknown ids.

    Args:
        task: `CausalLM` or `Seq2SeqLM`.
        rows: List of integer arrays.
        what: String. What error messages call a row, such as `"prompt"`.
    """
    positions = getattr(task.encoder, "max_sequence_length", None)
    count = task.encoder.token_embedding.input_dim  # which may differ from what a decoder writes
    for index, row in enumerate(rows):
        if not len(row):
            raise ValueError(f"Each {what} must have at least one token. Received: an empty {what} at position {index}")
        if positions is not None and len(row) > positions:
            raise ValueError(
                f"Each {what} must have at most {positions} tokens, the encoder's number of positions. "
                f"Received: {len(row)} tokens at position {index}"
            )
        if row.min() < 0 or row.max() >= count:
            raise ValueError(f"Token ids must be from 0 to {count - 1}. Received: {row} at position {index}")


def check_new_tokens(least, most):
    """Raises a `ValueError` if `generate` is asked for more new tokens than it may write."""
    if least is not None and most is not None and least > most:
        raise ValueError(
            "`min_new_tokens` must not be greater than `max_new_tokens`. "
            f"Received: min_new_tokens={least!r} and max_new_tokens={most!r}"
        )


def text_pieces(task):
    """Returns what each token adds to a text, as a list of bytes; special tokens add nothing."""
    token_preprocessor(task)
    preprocessor = target_preprocessor(task)
    pieces = preprocessor.tokenizer.token_bytes()
    special = {preprocessor.token_to_id(token) for token in preprocessor.packing.special_tokens}
    special |= set(end_ids(task))
    pieces += [b""] * (task.output.shape[-1] - len(pieces))  # An embedding may have more rows than the vocabulary.
    return [b"" if index in special else piece for index, piece in enumerate(pieces)]


def end_ids(task):
    """Returns the ids of the tokens that end texts, a tuple: the checkpoint's, or one of the preprocessor, or none."""
    found = generation_defaults(task.encoder).end_ids
    if found is not None:
        return found
    preprocessor = target_preprocessor(task)
    if not isinstance(preprocessor, TokenPreprocessor):
        return ()
    own = getattr(preprocessor.tokenizer, "eos_id", None)
    last = preprocessor.packing.end[-1:]
    own = preprocessor.token_to_id(last[0]) if own is None and last else own
    return () if own is None else (own,)


def is_texts(x):
    """Returns whether `x` is a list of texts, not of ids; an empty list is not.

    Raises:
        ValueError: If `x` has no length.
    """
    if not hasattr(x, "__len__"):
        raise ValueError(
            "Texts must be a string or a list of strings, or prepared ids: a list of lists of integers, or a dict of "
            f"`token_ids` and `padding_mask`. Received: {x!r:.100}"
        )
    return not isinstance(x, dict) and len(x) > 0 and getattr(x, "ndim", 1) == 1 and is_text(x)
