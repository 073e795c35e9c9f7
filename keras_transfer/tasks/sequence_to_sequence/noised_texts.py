"""Texts from which an objective makes sources and targets, different ones in each epoch."""

import numpy as np

from keras_transfer.batches import Batches
from keras_transfer.tasks.inputs import with_targets
from keras_transfer.text.preprocessors import TokenPreprocessor


def with_noise(data, objective, task):
    """Returns batches of texts with the sources and targets that an objective makes from them.

    Args:
        data: `Batches` or a `tf.data.Dataset` of prepared texts without labels: `token_ids` and `padding_mask`, with
            the special tokens of the preprocessor.
        objective: `objectives.SequenceObjective`.
        task: `Seq2SeqLM`. It keeps the error if a batch of a stream is invalid.
    """
    reader = task.reader
    preprocessor = reader.preprocessor
    if not isinstance(preprocessor, TokenPreprocessor):
        raise ValueError(
            f"An objective requires a `text.TokenPreprocessor`. Received: preprocessor={preprocessor!r:.100}"
        )
    if reader.prefix:
        raise ValueError(
            "An objective makes sources without a prefix. Create the task without `prefix` to pretrain it. "
            f"Received: prefix={reader.prefix!r}"
        )
    if objective.with_positions and not reader.with_positions:
        raise ValueError(
            f"`{type(objective).__name__}` passes positions to the decoder. Create an encoder with absolute positions, "
            'such as `Bart`, with `further_inputs=["decoder_positions"]`. Received: an encoder without this input'
        )
    _check_targets(reader, objective)
    special = preprocessor.num_special_tokens
    in_memory = isinstance(data, Batches)
    if in_memory:
        _check_real(data.real, special)
    tokens = objective.tokens(preprocessor)

    def make(columns, random):
        ids, real = columns["token_ids"], columns["padding_mask"].sum(axis=1)
        if not in_memory:
            _check_real(real, special)
        begin, end = preprocessor.num_start_tokens, special - preprocessor.num_start_tokens
        rows = [row[begin : count - end] for row, count in zip(ids, real)]
        sources, *decoded = objective(rows, random, **tokens)
        # A batch is as long as its longest text may require, not as drawn: few text lengths stay few shapes.
        source_length, target_length = objective.max_lengths(ids.shape[1] - special)

        def pack(rows, length):
            length = min(length + special, max(preprocessor.sequence_length, ids.shape[1]))
            return _pack(rows, ids, real, begin, end, length, preprocessor.pad_id)

        inputs = dict(zip(("token_ids", "padding_mask"), pack(sources, source_length)))
        inputs |= {name: np.zeros_like(inputs["token_ids"]) for name in task.encoder.encoder.input.keys() - {*inputs}}
        if objective.with_positions:
            return _with_positions(inputs, *decoded, begin, target_length)
        return reader.item(inputs, *pack(*decoded, target_length))

    return with_targets(data, make, objective.seed, task)


def _check_real(real, special):
    """Raises a `ValueError` if a text has only special tokens."""
    if len(empty := np.flatnonzero(real <= special)):
        raise ValueError(f"Each text must have at least one token. Received: a text without any at position {empty[0]}")


def _check_targets(reader, objective):
    """Raises a `ValueError` unless the model tokenizes a text as a source and as a target in the same way."""
    preprocessor, own, name = reader.preprocessor, reader.target_preprocessor, type(objective).__name__
    tokenizer = preprocessor.tokenizer
    if tokenizer.has_own_targets or (own is not None and not _same(tokenizer, own.tokenizer)):
        raise ValueError(
            "An objective makes sources and targets of the same tokens, so both must have one tokenizer. Train this "
            "model with pairs of texts: `fit(sources, targets)`. "
            f"Received: objective={name} for a model whose targets are tokenized differently from its sources"
        )
    reader.check_tokenizer()
    if own is not None and own.packing != preprocessor.packing:
        raise ValueError(
            "An objective makes sources and targets of the same texts, so both must have one language and the same "
            "special tokens: `from_pretrained(..., source_language=..., target_language=...)` with one language. "
            f"Received: objective={name}, {preprocessor.packing} for sources and {own.packing} for targets"
        )


def _same(tokenizer, other):
    """Returns whether two tokenizers return the same ids."""
    if tokenizer is other:
        return True
    same = type(tokenizer) is type(other) and tokenizer.get_config() == other.get_config()
    return same and tokenizer.vocabulary == other.vocabulary


def _with_positions(inputs, previous, targets, positions, begin, length):
    """Returns an item whose decoder receives given tokens at given positions, without the special tokens of a text."""
    length = max(length, 1)
    read, learned, places = (np.zeros((len(targets), length), "int32") for _ in range(3))
    used = np.zeros((len(targets), length), "int32")
    for i, row in enumerate(targets):
        used[i, : len(row)], learned[i, : len(row)] = 1, row
        # Positions count the tokens of the whole text, whose first token is the start token.
        read[i, : len(row)], places[i, : len(row)] = previous[i], positions[i] + begin
    given = {"decoder_token_ids": read, "decoder_padding_mask": used, "decoder_positions": places}
    return {**inputs, **given}, learned, used.astype("float32")


def _pack(rows, ids, real, begin, end, length, pad_id):
    """Returns rows with the special tokens of their texts, padded or truncated, and a mask of their real tokens."""
    packed, mask = np.full((len(rows), length), pad_id, "int32"), np.zeros((len(rows), length), "int32")
    for i, (row, count) in enumerate(zip(rows, real)):
        row = np.concatenate([ids[i, :begin], row[: length - begin - end], ids[i, count - end : count]])
        packed[i, : len(row)], mask[i, : len(row)] = row, 1
    return packed, mask
