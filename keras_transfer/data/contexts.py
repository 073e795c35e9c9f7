"""Turns questions and long contexts into overlapping rows of a model's inputs, and maps tokens to characters."""

from typing import NamedTuple

import numpy as np

from keras_transfer.data.planning import LENGTH_STEP
from keras_transfer.data.text_batching import concatenate
from keras_transfer.text.preprocessor import as_text_tensors
from keras_transfer.text.token_preprocessor import TokenPreprocessor
from keras_transfer.text.tokenizers.tokenizer import check_offsets


class ContextWindows(NamedTuple):
    """The inputs that a preprocessor makes of questions and contexts, and where the tokens of the contexts are.

    Attributes:
        inputs: Dict of int32 tensors [windows, length]: the inputs of the encoder, and `answer_mask`, 1 where an answer
            may begin or end: at the first token, which stands for no answer, and at the tokens of the context.
        example: Int32 tensor [windows], sorted. The example of each window.
        first: Int32 tensor [windows]. The first of the context's tokens that a window contains.
        position: Int32 tensor [windows]. The position of that token in the row.
        starts, ends: Int32 tensors [windows, length]. The first character of each token of the context, and the
            position after its last character. -1 for all other tokens.
    """

    inputs: dict
    example: object
    first: object
    position: object
    starts: object
    ends: object

    def of_examples(self, begin, end):
        """Returns the windows of the examples from `begin` to `end`, renumbered from 0. Requires windows in memory."""
        rows = slice(*np.searchsorted(self.example, [begin, end]))
        inputs = {name: values[rows] for name, values in self.inputs.items()}
        return ContextWindows(inputs, self.example[rows] - begin, *(values[rows] for values in self[2:]))


def check_span_preprocessor(preprocessor):
    """Raises a `ValueError` if a preprocessor cannot map its tokens to the characters of a context."""
    if not isinstance(preprocessor, TokenPreprocessor):
        raise ValueError(
            "`preprocessor` must be a `BertPreprocessor`, or a `TokenPreprocessor` whose tokenizer knows the "
            f"characters of its tokens. Received: {type(preprocessor).__name__}"
        )
    check_offsets(preprocessor.tokenizer)
    if not preprocessor.packing.start:
        raise ValueError(
            "The packing of `preprocessor` must have a token in front of the question, which stands for no answer. "
            f"Received: {preprocessor.packing}"
        )


def context_windows(preprocessor, questions, contexts, doc_stride=None, overlap=None, begin=0):
    """Returns the `ContextWindows` of questions and contexts.

    A row is a question and a part of its context, packed as a pair of texts. The parts of a context begin `doc_stride`
    tokens apart, but at most half of the tokens that fit beside the question. Every span of at most half of these
    tokens is therefore complete in some window. With `overlap`, each part has that many tokens in common with the next,
    or half of the tokens that fit beside the question if fewer fit.

    Args:
        questions, contexts: String tensors or lists [examples].
        doc_stride, overlap: Integers, one of which is None. See `span_batches`.
    """
    import tensorflow as tf

    tokenizer, packing, longest = preprocessor.tokenizer, preprocessor.packing, preprocessor.sequence_length
    with tf.device("CPU:0"):
        questions, contexts = (tf.reshape(as_text_tensors(texts), [-1]) for texts in (questions, contexts))
        question_ids = tokenizer.tokenize(questions)
        distinct, row = tf.unique(contexts)
        ids, starts, ends = tokenizer.tokenize_with_offsets(distinct)

        # Compute the windows of each example.
        question_lengths = tf.cast(question_ids.row_lengths(), tf.int32)
        room = _checked(longest - packing.num_special_tokens(2) - question_lengths, longest, begin)
        totals = tf.gather(tf.cast(ids.row_lengths(), tf.int32), row)
        half = (room + 1) // 2
        step = tf.minimum(doc_stride, half) if overlap is None else tf.where(room > overlap, room - overlap, half)
        counts = 1 + (tf.maximum(totals - room, 0) + step - 1) // step
        example = tf.repeat(tf.range(tf.size(totals)), counts)
        index = tf.range(tf.size(example)) - tf.gather(tf.cumsum(counts, exclusive=True), example)
        first = index * tf.gather(step, example)
        lengths = tf.minimum(tf.gather(room, example), tf.gather(totals, example) - first)
        begins = tf.gather(tf.cast(ids.row_starts(), tf.int32), tf.gather(row, example)) + first

        places = tf.ragged.range(begins, begins + lengths)
        parts = [tf.gather(question_ids, example), places.with_values(tf.gather(ids.values, places.values))]
        inputs = packing.pack(parts, tokenizer, longest)

        # Find the token of the context at each position.
        position = len(packing.start) + len(packing.between) + tf.gather(question_lengths, example)
        token = tf.range(tf.shape(inputs["token_ids"])[1])[None] - position[:, None]
        inside = (token >= 0) & (token < lengths[:, None])
        place = tf.where(inside, begins[:, None] + token, tf.size(ids.values))
        starts, ends = (tf.gather(tf.concat([bounds.values, [-1]], 0), place) for bounds in (starts, ends))
        inputs["answer_mask"] = tf.cast(inside, tf.int32) + tf.one_hot([0], tf.shape(token)[1], dtype=tf.int32)
    return ContextWindows(inputs, example, first, position, starts, ends)


def windows_in_memory(preprocessor, questions, contexts, doc_stride=None, overlap=None, chunk=1024):
    """Returns the `ContextWindows` of any number of examples as arrays, and tokenizes `chunk` examples at a time."""
    rows, columns = [], []
    for start in range(0, len(questions), chunk):
        part = slice(start, start + chunk)
        windows = context_windows(preprocessor, questions[part], contexts[part], doc_stride, overlap, start)
        # Arrays are padded with 0.
        tables = {**windows.inputs, "starts": windows.starts + 1, "ends": windows.ends + 1}
        rows.append({name: table.numpy() for name, table in tables.items()})
        others = [column.numpy() for column in (windows.first, windows.position)]
        columns.append((windows.example.numpy() + start, *others))
    length = max(part["starts"].shape[1] for part in rows)
    rows = concatenate(rows, min(-(-length // LENGTH_STEP) * LENGTH_STEP, preprocessor.sequence_length))
    starts, ends = rows.pop("starts") - 1, rows.pop("ends") - 1
    return ContextWindows(rows, *map(np.concatenate, zip(*columns)), starts, ends)


def _checked(room, longest, begin):
    """Returns the number of tokens that fit next to each question, or raises an error if there are none."""
    import tensorflow as tf

    message = f"A question must leave room for its context within the {longest} tokens of a row."
    if tf.executing_eagerly():
        if len(wrong := np.flatnonzero(room.numpy() < 1)):
            at = int(wrong[0])
            raise ValueError(
                f"{message} Pass a larger `sequence_length` to the preprocessor or to `from_pretrained()`. "
                f"Received: a question that is {1 - int(room[at])} tokens too long, at position {begin + at}"
            )
        return room
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(room > 0), [message])]):
        return tf.identity(room)
