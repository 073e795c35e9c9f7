"""The maximum length of each continuation, from the arguments, the task, the checkpoint and the encoder's positions."""

import numpy as np

from keras_transfer.generation.decoding import generation_defaults

_DEFAULT_LENGTH = 256  # Maximum number of tokens of texts if nothing else limits them, as for recurrent encoders.


def lengths_of(task, rows, options):
    """Returns the number of tokens at which each row ends, including its prompt."""
    lengths, least = _lengths_of(task, rows, options), options.min_new_tokens
    if isinstance(least, (int, np.integer)):
        for index, (row, length) in enumerate(zip(rows, lengths)):
            if len(row) + least > length:
                raise ValueError(
                    f"`min_new_tokens` must be at most {length - len(row)}, the number of new tokens after which this "
                    "text ends. To write longer texts, pass `max_new_tokens`. "
                    f"Received: min_new_tokens={least} and a prompt of {len(row)} tokens at position {index}"
                )
    return lengths


def _lengths_of(task, rows, options):
    max_length, max_new_tokens, default = options.max_length, options.max_new_tokens, task.default_new_tokens()
    if max_new_tokens is None and (max_length is not None or task.max_length is not None or default is None):
        return [max_length_of(task, max_length, rows)] * len(rows)
    if max_length is not None:
        raise ValueError(
            "Pass either `max_length`, which includes the tokens of the prompt, or `max_new_tokens`. "
            f"Received: max_length={max_length!r} and max_new_tokens={max_new_tokens!r}"
        )
    count = default if max_new_tokens is None else max_new_tokens
    if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < 0:
        raise ValueError(f"`max_new_tokens` must be an integer of at least 0. Received: max_new_tokens={count!r}")
    positions = getattr(task.encoder, "max_sequence_length", None)
    if max_new_tokens is None:
        lengths = [len(row) + int(default) for row in rows]
        return lengths if positions is None else [min(length, positions) for length in lengths]
    for index, row in enumerate(rows):
        if positions is not None and len(row) + max_new_tokens > positions:
            raise ValueError(
                f"A prompt and its new tokens must fit into {positions} tokens, the encoder's number of positions. "
                f"Received: max_new_tokens={max_new_tokens} and a prompt of {len(row)} tokens at position {index}"
            )
    return [len(row) + int(max_new_tokens) for row in rows]


def max_length_of(task, max_length=None, rows=()):
    """Returns `max_length` or its default, or raises a `ValueError` if it does not fit the prompts and the encoder."""
    positions = getattr(task.encoder, "max_sequence_length", None)
    default = task.max_length or generation_defaults(task.encoder).max_length or positions or _DEFAULT_LENGTH
    default = default if task.max_length or positions is None else min(default, positions)
    max_length = default if max_length is None else max_length
    if not isinstance(max_length, (int, np.integer)):
        raise ValueError(f"`max_length` must be an integer. Received: max_length={max_length!r}")
    if positions is not None and max_length > positions:
        raise ValueError(
            f"`max_length` must be at most {positions}, the encoder's number of positions. "
            f"Received: max_length={max_length}"
        )
    for index, row in enumerate(rows):
        if len(row) > max_length:
            raise ValueError(
                "`max_length` counts the tokens of the prompt too, so it must not be smaller. Pass "
                "`max_new_tokens` to count only new ones. "
                f"Received: max_length={max_length} and a prompt of {len(row)} tokens at position {index}"
            )
    return int(max_length)
