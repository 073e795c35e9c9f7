"""Texts as rows that `predict.py` accepts, and as the inputs of the task."""

from keras_transfer.data import context_windows
from keras_transfer.datasets import load_demo_questions
from keras_transfer.tasks import encode_texts
from keras_transfer.text import to_columns

_COUNT = 64  # Number of packaged texts with which an export is tested.


def rows_of(model, kind, texts, pairs=False):
    """Returns texts as a list of rows that JSON can represent.

    Args:
        texts: Texts in a form that the task accepts, or `None` for packaged texts.
        pairs: Boolean. Whether a classifier or regressor expects pairs of the packaged texts.
    """
    if texts is None:
        questions = load_demo_questions().test.texts[:_COUNT]
        others = [*questions[1:], questions[0]]
        if kind == "words":
            return [text.split() for text in questions]
        if kind == "choices":
            return [[text, [other, text]] for text, other in zip(questions, others)]
        if kind == "spans":
            return _with_room(model, questions, others)
        return [list(pair) for pair in zip(questions, others)] if pairs else questions
    columns = to_columns(texts) if kind == "embedding" else model.reader.columns(texts)
    if len(columns[0] if isinstance(columns, tuple) else columns) == 0:
        raise ValueError(f"`texts` must have at least one text, with which the export is tested. Received: {texts!r}")
    if kind == "words":
        rows = [list(map(str, words)) for words in columns]
        if not any(rows):
            raise ValueError(f"`texts` must have at least one word. Received: {texts!r:.100}")
        return rows
    if kind == "choices":
        return [[str(context), list(map(str, choices))] for context, choices in zip(*columns)]
    if isinstance(columns, tuple) != (pairs or kind == "spans"):
        raise ValueError(
            f"`texts` must be pairs if, and only if, `pairs=True`. Received: pairs={pairs}, {texts!r:.100}"
        )
    rows = [list(map(str, row)) for row in zip(*columns)] if isinstance(columns, tuple) else list(map(str, columns))
    if kind == "spans":
        inputs_of(model, kind, rows)  # Raises an error if a question is too long.
    return rows


def _with_room(model, questions, contexts):
    """Returns the questions that are short enough to leave tokens for a context, each with its context."""
    preprocessor = model.preprocessor
    room = preprocessor.sequence_length - preprocessor.packing.num_special_tokens(2)
    lengths = preprocessor.tokenizer.tokenize(questions).row_lengths().numpy()
    rows = [[question, context] for question, context, length in zip(questions, contexts, lengths) if length < room]
    if not rows:
        raise ValueError(
            f"The packaged questions are too long for a context within {preprocessor.sequence_length} tokens. Pass "
            "`texts`, a pair of lists of questions and contexts. Received: texts=None"
        )
    return rows


def inputs_of(model, kind, rows):
    """Returns the inputs of a task, a dict of tensors [inputs, length], for rows of `rows_of`."""
    if kind == "words":
        return model.preprocessor.encode_words(rows, sequence_length="longest").inputs
    if kind == "spans":
        distance = {"doc_stride": model.doc_stride, "overlap": model.overlap}
        return context_windows(model.preprocessor, *map(list, zip(*rows)), **distance).inputs
    if kind == "choices":
        rows = [(context, choice) for context, choices in rows for choice in choices]
    if kind == "embedding":
        rows = [model.reader.prompt + text for text in rows]
    return encode_texts(model, rows) if isinstance(rows[0], str) else encode_texts(model, *map(list, zip(*rows)))
