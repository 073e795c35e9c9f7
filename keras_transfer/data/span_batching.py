"""Questions, contexts and answers in memory as batches of windows, with the positions of the answers."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_transfer.core.arrays import row_weights, whole_column
from keras_transfer.core.expect import expects, integer
from keras_transfer.data.batching import Batches
from keras_transfer.data.contexts import check_span_preprocessor, windows_in_memory
from keras_transfer.text.inputs import check_rows_of_batches, to_columns

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
    if not len(questions):
        raise ValueError("`x` must contain at least one question. Received: no questions")
    y = y.to_pylist() if hasattr(y, "to_pylist") else whole_column(y)
    spans = None if y is None else answer_spans(contexts, y)
    weights = None if sample_weight is None else row_weights(sample_weight, len(questions), "question")
    if y is None and weights is not None:
        raise ValueError("`sample_weight` requires `y`. Received: y=None")
    windows = windows_in_memory(preprocessor, questions, contexts, doc_stride, overlap)
    labels = None if spans is None else answer_positions(windows, spans, y)
    if weights is not None:
        # One weight for each position: Keras would apply weights [batch] along the positions.
        weights = np.repeat(weights[windows.example][:, None], 2, axis=1)
    return Batches.of(windows.inputs, labels, weights, batch_size=batch_size, shuffle=shuffle, seed=seed)


def span_columns(texts):
    """Returns questions and contexts as a tuple of two object arrays of strings."""
    if not isinstance(texts, tuple) or len(texts) != 2:
        raise ValueError(
            "Questions and contexts must be a tuple of two lists, `(questions, contexts)`. "
            f"Received: {type(texts).__name__} {texts!r:.100}"
        )
    return to_columns(texts)


def window_distance(doc_stride, overlap):
    """Returns `doc_stride` and `overlap` with the default of `doc_stride`, one of them None."""
    if doc_stride is not None and overlap is not None:
        raise ValueError(
            "Pass either `doc_stride`, how far apart windows begin, or `overlap`, how many tokens they share. "
            f"Received: doc_stride={doc_stride}, overlap={overlap}"
        )
    return DOC_STRIDE if doc_stride is None and overlap is None else doc_stride, overlap


def answer_spans(contexts, answers):
    """Returns the characters of answers, an integer array [examples, 2]: the first, and the position after the last."""
    if len(answers) != len(contexts):
        raise ValueError(
            "There must be one answer for each question, or None. "
            f"Received: {len(answers)} answers, {len(contexts)} questions"
        )
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
