"""Questions and long contexts as overlapping windows: their inputs, their batches, and the positions of answers."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_transfer.core.arrays import row_weights, whole_column
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.lazy import tf
from keras_transfer.data.batching import Batches, Contents
from keras_transfer.data.layout import Layout, concatenate
from keras_transfer.text.inputs import check_rows_of_batches, to_columns
from keras_transfer.text.preprocessor import as_text_tensors
from keras_transfer.text.token_preprocessor import TokenPreprocessor
from keras_transfer.text.tokenizers.tokenizer import check_offsets

log = logging.getLogger("keras_transfer")

DOC_STRIDE = 128  # As in BERT's `run_squad.py`.


@expects(doc_stride=integer(1), overlap=integer(0))
def span_batches(
    x: tuple,
    y: Sequence | None = None,
    *,
    preprocessor: Any = None,
    batch_size: int = 32,
    shuffle: bool | None = None,
    seed: int | None = None,
    sample_weight: Any = None,
    doc_stride: int | None = None,
    overlap: int | None = None,
) -> Batches:
    """Turns questions, contexts and answers into a dataset for `fit`.

    A context that does not fit next to its question is cut into overlapping windows. The labels of a window are the
    positions of the first and of the last token of the answer, int32 [batch, 2]. If the window does not contain the
    whole answer, or if there is none, both are 0, the position of the token in front of the question. A warning says
    how many answers no window contains completely. Rows are batched by length as texts are in `batches`.

    Args:
        x: Tuple of two lists, arrays or table columns of strings: the questions, and the context of each.
        y: List of answers: `(text, start)`, where `start` is the position of the first character in the context;
            a list of these (only the first one is used); a dict of `text` and `answer_start`, as in SQuAD on the
            Hugging Face hub; or None, or an empty list, if the context has no answer. `None` for prediction. Defaults
            to `None`.
        preprocessor: `BertPreprocessor`, or `TokenPreprocessor` whose tokenizer knows the characters of its tokens.
        batch_size: Integer. Number of rows in a batch. Defaults to `32`.
        shuffle: Boolean. Whether rows are shuffled before each epoch and batched by length. Defaults to `True` with
            answers, `False` without.
        seed: Integer. Seed of the shuffling, for the same batches in every run. Defaults to `None`.
        sample_weight: List or array of floats, one for each question. Defaults to `None`.
        doc_stride: Integer. Number of tokens from the start of a window to the start of the next, as in BERT's
            `run_squad.py`. It is at most half of the tokens that fit beside the question, so windows always overlap.
            Defaults to `None`, for `128` unless `overlap` is given.
        overlap: Integer. Number of tokens that a window has in common with the next, for the windows of Transformers,
            whose tokenizers call it `stride` and whose pipeline calls it `doc_stride`. If at most this many tokens fit
            beside the question, it is half of them. Defaults to `None`, for windows `doc_stride` tokens apart.

    Returns:
        `Batches`. Their inputs contain `answer_mask` in addition to the encoder's inputs.

    Raises:
        ValueError: If an answer is not at its given position in the context, if a question leaves no room for its
            context, if texts are not strings, if questions, contexts, answers and weights differ in number, or if both
            `doc_stride` and `overlap` are given.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "ann", "ran"])
    train = keras_transfer.text.span_batches((["Who?"], ["Ann ran."]), [("Ann", 0)], preprocessor=preprocessor)
    train[0][1]  # [[4, 4]]
    ```

    Source: Devlin et al. 2019, "BERT", section 4.2.
    """
    check_span_preprocessor(preprocessor)
    doc_stride, overlap = window_distance(doc_stride, overlap)
    check_rows_of_batches(batch_size)
    questions, contexts = span_columns(x)
    expect(len(questions) > 0, "`x` must contain at least one question.", x=x)
    y = y.to_pylist() if hasattr(y, "to_pylist") else whole_column(y)
    spans = None if y is None else answer_spans(contexts, y)
    weights = None if sample_weight is None else row_weights(sample_weight, len(questions), "question")
    if weights is not None:
        expect(y is not None, "`sample_weight` requires `y`.", y=None)
    windows = windows_in_memory(preprocessor, questions, contexts, doc_stride, overlap)
    layout = Layout("windows", windows.example)
    labels = None if spans is None else answer_positions(windows, spans, y)
    if weights is not None:
        # One weight for each position: Keras would apply weights [batch] along the positions.
        weights = np.repeat(layout.spread(weights)[:, None], 2, axis=1)
    options: dict[str, Any] = {"batch_size": batch_size, "shuffle": shuffle, "seed": seed}
    return Batches.of(windows.inputs, labels, weights, Contents(layout), **options)


def span_columns(texts):
    """Returns questions and contexts as a tuple of two object arrays of strings."""
    rule = "Questions and contexts must be a tuple of two lists, `(questions, contexts)`."
    expect(isinstance(texts, tuple) and len(texts) == 2, rule, x=texts)
    return to_columns(texts)


def window_distance(doc_stride, overlap):
    """Returns `doc_stride` and `overlap` with the default of `doc_stride`, one of them None."""
    rule = "Pass either `doc_stride`, how far apart windows begin, or `overlap`, how many tokens they share."
    expect(doc_stride is None or overlap is None, rule, doc_stride=doc_stride, overlap=overlap)
    return DOC_STRIDE if doc_stride is None and overlap is None else doc_stride, overlap


def answer_spans(contexts, answers):
    """Returns the characters of answers, an integer array [examples, 2]: the first, and the position after the last."""
    rule = "There must be one answer for each question, or None."
    expect(len(answers) == len(contexts), rule, answers=len(answers), questions=len(contexts))
    spans = np.full((len(contexts), 2), -1)
    for index, (context, answer) in enumerate(zip(contexts, answers)):
        answer = _first_answer(answer, index)
        if answer is None:
            continue
        text, start = answer
        if not text or start < 0 or context[start : start + len(text)] != text:
            at = context.find(text) if text else -1
            advice = f" Did you mean start={at}?" if at >= 0 else ""
            raise ValueError(
                "An answer must not be empty, and must be in its context where it says. If there is no answer, pass "
                f"None.{advice} Received: text={text!r:.100}, start={start}, where the context has "
                f"{context[max(start, 0) : max(start, 0) + max(len(text), 1)]!r:.100}, at position {index}"
            )
        spans[index] = start, start + len(text)
    return spans


def answer_positions(windows, spans, answers):
    """Returns the positions in windows of `answer_spans`, an int32 array [windows, 2]; 0 for no answer in a window."""
    begin, end = spans[windows.example].T[:, :, None]
    overlaps = (windows.starts >= 0) & (windows.ends > begin) & (windows.starts < end)
    lengths, count = (windows.starts >= 0).sum(axis=1), len(spans)
    # The first and the last token of each answer, counted in its context.
    found = overlaps.any(axis=1)
    offset = (windows.first - windows.position)[found]
    first, last = np.full(count, np.iinfo("int32").max), np.full(count, -1)
    np.minimum.at(first, windows.example[found], overlaps[found].argmax(axis=1) + offset)
    backwards = overlaps.shape[1] - 1 - overlaps[found][:, ::-1].argmax(axis=1)
    np.maximum.at(last, windows.example[found], backwards + offset)
    if len(wrong := np.flatnonzero((spans[:, 0] >= 0) & (last < 0))):
        raise ValueError(
            "An answer must contain at least one token. If there is no answer, pass None. "
            f"Received: {list(answers)[wrong[0]]!r:.100} at position {wrong[0]}"
        )
    first, last = first[windows.example], last[windows.example]
    whole = (last >= 0) & (first >= windows.first) & (last < windows.first + lengths)
    lost = np.setdiff1d(np.flatnonzero(spans[:, 0] >= 0), windows.example[whole])
    if len(lost):
        log.warning(
            "%d of %d answers fit in no window, and count as no answer. The first is at position %d. To train on them, "
            "pass a larger `sequence_length` to the preprocessor or to `from_pretrained()`, or a smaller `doc_stride`.",
            len(lost),
            (spans[:, 0] >= 0).sum(),
            lost[0],
        )
    offset = windows.position - windows.first
    return np.where(whole, [first + offset, last + offset], 0).T.astype("int32")


def _first_answer(answer, index):
    """Returns an answer, or the first one of a list, as `(text, start)`, or None."""
    found = answer
    if isinstance(found, Mapping) and {"text", "answer_start"} <= set(found):
        text, start = found["text"], found["answer_start"]
        found = (text, start) if isinstance(text, str) else list(zip(text, start))
    if isinstance(found, (list, tuple, np.ndarray)) and not (len(found) == 2 and isinstance(found[0], str)):
        found = found[0] if len(found) else None
    if found is None:
        return None
    if isinstance(found, (list, tuple)) and len(found) == 2:
        text, start = found
        if isinstance(text, str) and isinstance(start, (int, np.integer)) and not isinstance(start, bool):
            return text, int(start)
    raise ValueError(
        "An answer must be `(text, start)`, where `start` is the position of its first character in the context; a "
        f"list of these; or None. Received: {answer!r:.100} at position {index}"
    )


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
    rule = "`preprocessor` must be a `BertPreprocessor`, or a `TokenPreprocessor` that knows the characters of tokens."
    expect(isinstance(preprocessor, TokenPreprocessor), rule, preprocessor=preprocessor)
    check_offsets(preprocessor.tokenizer)
    rule = "The packing of `preprocessor` must have a token in front of the question, which stands for no answer."
    expect(len(preprocessor.packing.start) > 0, rule, packing=preprocessor.packing)


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
    tokenizer, packing, longest = preprocessor.tokenizer, preprocessor.packing, preprocessor.sequence_length
    with tf.device("CPU:0"):
        questions = tf.reshape(as_text_tensors(questions), [-1])
        contexts = tf.reshape(as_text_tensors(contexts), [-1])
        question_ids = tokenizer.tokenize(questions)
        distinct, row = tf.unique(contexts)
        ids, starts, ends = tokenizer.tokenize_with_offsets(distinct)

        # Compute the windows of each example, and which ids each window contains.
        question_lengths = tf.cast(question_ids.row_lengths(), tf.int32)
        room = _checked(longest - packing.num_special_tokens(2) - question_lengths, longest, begin)
        context_lengths = tf.gather(tf.cast(ids.row_lengths(), tf.int32), row)
        context_begins = tf.gather(tf.cast(ids.row_starts(), tf.int32), row)
        example, first = _first_tokens(context_lengths, room, doc_stride, overlap)
        lengths = tf.minimum(tf.gather(room, example), tf.gather(context_lengths, example) - first)
        begins = tf.gather(context_begins, example) + first

        # Pack each question with its part of the context.
        places = tf.ragged.range(begins, begins + lengths)
        part_ids = places.with_values(tf.gather(ids.values, places.values))
        inputs = packing.pack([tf.gather(question_ids, example), part_ids], tokenizer, longest)

        # Find the token of the context at each position, and its characters, which are -1 at the place after all ids.
        position = len(packing.start) + len(packing.between) + tf.gather(question_lengths, example)
        token = tf.range(tf.shape(inputs["token_ids"])[1])[None] - position[:, None]
        inside = (token >= 0) & (token < lengths[:, None])
        place = tf.where(inside, begins[:, None] + token, tf.size(ids.values))
        starts = tf.gather(tf.concat([starts.values, [-1]], 0), place)
        ends = tf.gather(tf.concat([ends.values, [-1]], 0), place)
        is_first_token = tf.one_hot([0], tf.shape(token)[1], dtype=tf.int32)
        inputs["answer_mask"] = tf.cast(inside, tf.int32) + is_first_token
    return ContextWindows(inputs, example, first, position, starts, ends)


def _first_tokens(lengths, room, doc_stride, overlap):
    """Returns the example of each window, and the first token of the context that the window contains.

    `lengths` and `room` [examples] are the lengths of the contexts, and how many of their tokens fit into a window.
    """
    half = (room + 1) // 2
    step = tf.minimum(doc_stride, half) if overlap is None else tf.where(room > overlap, room - overlap, half)
    left_over = tf.maximum(lengths - room, 0)  # After the first window.
    counts = 1 + (left_over + step - 1) // step
    example = tf.repeat(tf.range(tf.size(lengths)), counts)
    first_window = tf.cumsum(counts, exclusive=True)
    index = tf.range(tf.size(example)) - tf.gather(first_window, example)
    return example, index * tf.gather(step, example)


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
    rows = concatenate(rows, preprocessor.sequence_length)
    starts, ends = rows.pop("starts") - 1, rows.pop("ends") - 1
    return ContextWindows(rows, *map(np.concatenate, zip(*columns)), starts, ends)


def _checked(room, longest, begin):
    """Returns the number of tokens that fit next to each question, or raises an error if there are none."""
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
