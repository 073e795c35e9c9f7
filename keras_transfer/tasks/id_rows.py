"""Texts as batches of inputs, and as rows of token ids without padding, for the methods of language models."""

import math
import operator

import numpy as np

from keras_transfer.core.expect import NotApplicableError, expect
from keras_transfer.generation import generation_defaults
from keras_transfer.text import TokenPreprocessor, check_rows_of_batches, is_text, to_list

_DEFAULT_LENGTH = 256  # Maximum number of tokens of texts if nothing else limits them, as for recurrent encoders.


def in_batches(task, texts, batch_size):
    """Yields the texts of each batch and their prepared inputs, or raises a `ValueError` if `texts` are none."""
    check_rows_of_batches(batch_size)
    if not task.reader.accepts(texts) or isinstance(texts, tuple):
        raise ValueError(f"`texts` must be a list of strings. Received: {type(texts).__name__}")
    texts = to_list(texts)
    for start in range(0, len(texts), batch_size):
        part = texts[start : start + batch_size]
        yield part, task.reader.inputs(part)


def token_rows(task, texts, end=False):
    """Returns the ids of texts as integer arrays, with the preprocessor's tokens in front and, with `end`, behind."""
    preprocessor = token_preprocessor(task)
    packing = preprocessor.packing
    before, after = ([preprocessor.token_to_id(token) for token in tokens] for tokens in (packing.start, packing.end))
    texts = to_list(texts)
    ids = preprocessor.tokenize(texts).to_list() if texts else []
    return [np.array([*before, *row, *(after if end else ())], "int32") for row in ids]


def prepared_rows(ids):
    """Returns prepared prompts as a list of integer arrays.

    They are lists or arrays of ids, or a dict of `token_ids` and `padding_mask` `[batch, length]`. Without the latter,
    all ids are real tokens.
    """
    if isinstance(ids, dict):
        expect("token_ids" in ids, "A dict of prepared ids must contain `token_ids`.", keys=list(ids))
        token_ids = np.asarray(ids["token_ids"])
        mask = np.asarray(ids.get("padding_mask", np.ones(token_ids.shape)))
        rule = "`token_ids` and `padding_mask` must have the shape [batch, length]."
        is_table = token_ids.ndim == 2 and token_ids.shape == mask.shape
        expect(is_table, rule, token_ids=token_ids.shape, padding_mask=mask.shape)
        return [row[real.astype(bool)].astype("int32") for row, real in zip(token_ids, mask)]
    rows = [np.asarray(row) for row in ids]
    rule = "Prompts must be strings, lists of token ids, or a dict of `token_ids` and `padding_mask`."
    for index, row in enumerate(rows):
        is_of_ids = row.size == 0 or row.dtype.kind in "iu"  # An empty list becomes an array of floats.
        expect(row.ndim == 1 and is_of_ids, rule, prompt=row, position=index)
    return [row.astype("int32") for row in rows]


def rows_of(task, x, tokenize, what):
    """Returns texts, which `tokenize` turns into arrays, or prepared ids as rows of ids."""
    single = isinstance(x, (str, bytes))
    x = [x] if single else x
    raw = is_texts(x)
    rows = tokenize(x) if raw else prepared_rows(x)
    check_rows(task, rows, what)
    return rows, raw, single


def check_rows(task, rows, what):
    """Raises a `ValueError` if a row of ids is empty, longer than the encoder's positions, or has unknown ids."""
    positions = getattr(task.encoder, "max_sequence_length", None)
    count = task.encoder.token_embedding.input_dim  # A decoder may have a different vocabulary.
    for index, row in enumerate(rows):
        if not len(row):
            rule = f"Each {what} must have at least one token."
            raise NotApplicableError(f"{rule} Received: an empty {what} at position {index}")
        if positions is not None and len(row) > positions:
            raise NotApplicableError(
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


def lengths_of(task, rows, max_length, max_new_tokens, least):
    """Returns the number of tokens at which each row ends, including its prompt and at least `least` new tokens."""
    positions, default = getattr(task.encoder, "max_sequence_length", None), task.default_new_tokens()
    rule = "Pass either `max_length`, which includes the tokens of the prompt, or `max_new_tokens`."
    expect(None in (max_length, max_new_tokens), rule, max_length=max_length, max_new_tokens=max_new_tokens)
    if max_new_tokens is not None:
        lengths = [len(row) + max_new_tokens for row in rows]
    elif max_length is not None or task.max_length is not None or default is None:
        lengths = [max_length_of(task, max_length)] * len(rows)
    else:
        lengths = [min(len(row) + int(default), positions or math.inf) for row in rows]
    for index, (row, length) in enumerate(zip(rows, lengths)):
        received = f"a prompt of {len(row)} tokens at position {index}"
        if max_new_tokens is not None and positions is not None and length > positions:
            raise ValueError(
                f"A prompt and its new tokens must fit into {positions} tokens, the encoder's number of positions. "
                f"Received: max_new_tokens={max_new_tokens} and {received}"
            )
        if len(row) > length:
            raise NotApplicableError(
                "`max_length` counts the tokens of the prompt too, so it must not be smaller. Pass `max_new_tokens` to "
                f"count only new ones. Received: max_length={length} and {received}"
            )
        if least is not None and len(row) + least > length:
            raise ValueError(
                f"`min_new_tokens` must be at most {length - len(row)}, the number of new tokens after which this text "
                "ends. To write longer texts, pass `max_new_tokens`. "
                f"Received: min_new_tokens={least} and {received}"
            )
    return lengths


def max_length_of(task, max_length=None):
    """Returns `max_length` or its default, or raises a `ValueError` if it does not fit the encoder."""
    positions = getattr(task.encoder, "max_sequence_length", None)
    if max_length is None:
        max_length = task.max_length
    if max_length is None:
        max_length = generation_defaults(task.encoder).max_length or positions or _DEFAULT_LENGTH
        return max_length if positions is None else min(max_length, positions)
    rule = f"`max_length` must be at most {positions}, the encoder's number of positions."
    expect(positions is None or max_length <= positions, rule, max_length=max_length)
    return max_length


def named_token_id(preprocessor, token, argument):
    """Returns the id of a token that the user passed, as a string or as its id, under the name of an argument."""
    if not isinstance(token, str):
        try:
            return operator.index(token)
        except TypeError as error:
            raise ValueError(
                f"`{argument}` must be a token or its id, an integer. Received: {argument}={token!r:.100}"
            ) from error
    found = None if preprocessor is None else preprocessor.token_to_id(token)
    expect(found is not None, f"`{argument}` must be a token of the vocabulary.", **{argument: token})
    return found


def token_preprocessor(task):
    """Returns the preprocessor of a task."""
    getattr(task, "reader", task).require()
    if not isinstance(task.preprocessor, TokenPreprocessor):
        raise ValueError(
            "This method requires a `text.TokenPreprocessor`, which has a tokenizer. Create the task with one, or pass "
            f"token ids. Received: {type(task.preprocessor).__name__}"
        )
    return task.preprocessor


def target_preprocessor(task):
    """Returns the preprocessor of the texts that a task writes, which may differ from that of its inputs."""
    own = getattr(task, "target_preprocessor", None)
    return task.preprocessor if own is None else own


def end_ids(task):
    """Returns the ids of end tokens as a tuple: the checkpoint's, or else one of the preprocessor, or else none."""
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


def prefix_ids(task, prefix):
    """Returns the ids to put in front of texts, a tuple: of the token that the user passed, or for `"auto"`."""
    if prefix != "auto":
        return (named_token_id(token_preprocessor(task), prefix, "prefix"),)
    return () if token_preprocessor(task).packing.start else end_ids(task)[:1]


def text_pieces(task):
    """Returns the bytes that each token adds to a text, as a list. Special tokens add nothing."""
    token_preprocessor(task)
    preprocessor = target_preprocessor(task)
    pieces = preprocessor.tokenizer.token_bytes()
    special = {preprocessor.token_to_id(token) for token in preprocessor.packing.special_tokens}
    special |= set(end_ids(task))
    pieces += [b""] * (task.output.shape[-1] - len(pieces))  # An embedding may have more rows than the vocabulary.
    return [b"" if index in special else piece for index, piece in enumerate(pieces)]
