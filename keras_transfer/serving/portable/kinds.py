"""What each task answers: the rows that `predict.py` accepts, the outputs of the graph, and the labels in them."""

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.lazy import tf
from keras_transfer.data import context_windows
from keras_transfer.datasets import load_demo_questions
from keras_transfer.tasks import (
    MultipleChoice,
    SpanExtractor,
    TextClassifier,
    TextEmbedder,
    TextRegressor,
    TokenClassifier,
    encode_texts,
)
from keras_transfer.text import ByteBPETokenizer, to_columns

_COUNT = 64  # Number of packaged texts with which an export is tested.


class Classes:
    """The answers of a classifier, and the base class of all kinds. A row is a text or a pair of texts.

    Attributes:
        name: String. The name of the kind in `predict.py`.
        rows: String. What `predict.py` calls the rows. Empty for texts or pairs of texts.
        output, compared: Strings. The output of the graph that `predict.py` answers with, and the one that is compared
            with the model.
        has_labels: Boolean. Whether the answers contain labels.
    """

    name, rows, output, compared, has_labels = "classes", "", "probabilities", "logits", True

    def __init__(self, model):
        self.model = model

    def packaged(self, questions, others, pairs):
        """Returns rows of packaged texts."""
        return [list(pair) for pair in zip(questions, others)] if pairs else questions

    def columns(self, texts):
        """Returns the columns of the user's texts, as the reader of the task does."""
        return self.model.reader.columns(texts)

    def rows_of(self, columns, pairs, texts):
        """Returns the user's texts as a list of rows that JSON can represent, given their columns."""
        rule = "`texts` must be pairs if, and only if, `pairs=True`."
        expect(isinstance(columns, tuple) == pairs, rule, pairs=pairs, texts=texts)
        return [list(map(str, row)) for row in zip(*columns)] if pairs else list(map(str, columns))

    def inputs(self, rows):
        """Returns the inputs of the task, a dict of tensors [inputs, length], for rows."""
        return encode_texts(self.model, *([rows] if isinstance(rows[0], str) else map(list, zip(*rows))))

    def outputs(self, outputs):
        """Returns the named outputs of the graph, given those of the model.

        They are `logits` and `probabilities` of classes, [batch, classes] or, for words, [batch, length, labels];
        `values` [batch, targets]; `embedding` [batch, dim]; `logits` [batch, 1] of choices; and `logits`
        [batch, length, 2] of the starts and ends of spans.
        """
        return {"logits": outputs, "probabilities": tf.nn.softmax(outputs)}

    def facts(self):
        """Returns what only this kind adds to `export.json`."""
        return {}

    def labels(self, rows, outputs):
        """Returns the labels of rows as a list of arrays of integers."""
        return [row.argmax(-1) for row in outputs]


class SeveralClasses(Classes):
    """The answers of a classifier with several labels for a text."""

    name = "several_classes"

    def outputs(self, outputs):
        return {"logits": outputs, "probabilities": tf.sigmoid(outputs)}

    def facts(self):
        return {"thresholds": [float(value) for value in self.model.labels.thresholds]}

    def labels(self, rows, outputs):
        return [1 / (1 + np.exp(-row)) >= np.array(self.model.labels.thresholds) for row in outputs]


class Values(Classes):
    """The answers of a regressor."""

    name, output, compared, has_labels = "values", "values", "values", False

    def outputs(self, outputs):
        return {self.output: outputs}


class Embedding(Values):
    """The answers of an embedder."""

    name, output, compared = "embedding", "embedding", "embedding"

    def columns(self, texts):
        return to_columns(texts)

    def inputs(self, rows):
        return super().inputs([self.model.reader.prompt + text for text in rows])

    def facts(self):
        return {"prompt": self.model.reader.prompt, "prompts": self.model.prompts}


class Words(Classes):
    """The answers of a tagger."""

    name, rows = "words", "lists of words"

    def packaged(self, questions, others, pairs):
        return [text.split() for text in questions]

    def rows_of(self, columns, pairs, texts):
        rows = [list(map(str, words)) for words in columns]
        expect(any(rows), "`texts` must have at least one word.", texts=texts)
        return rows

    def inputs(self, rows):
        return self.model.preprocessor.encode_words(rows, sequence_length="longest").inputs

    def facts(self):  # Byte-level BPE encodes a word like one in the middle of a text.
        return {"word_prefix": " " if isinstance(self.model.preprocessor.tokenizer, ByteBPETokenizer) else ""}


class Choices(Classes):
    """The answers of a task that chooses."""

    name, rows, output = "choices", "contexts and their choices", "logits"

    def packaged(self, questions, others, pairs):
        return [[text, [other, text]] for text, other in zip(questions, others)]

    def rows_of(self, columns, pairs, texts):
        return [[str(context), list(map(str, choices))] for context, choices in zip(*columns)]

    def inputs(self, rows):
        return super().inputs([(context, choice) for context, choices in rows for choice in choices])

    def outputs(self, outputs):
        return {"logits": outputs}

    def labels(self, rows, outputs):
        ends = np.cumsum([len(choices) for _, choices in rows])[:-1]
        return super().labels(rows, np.split(np.concatenate(outputs), ends))


class Spans(Classes):
    """The answers of a task that finds answers in a context."""

    name, rows, output = "spans", "pairs of texts", "logits"

    def packaged(self, questions, others, pairs):
        """Returns the questions that are short enough to leave tokens for a context, each with its context."""
        preprocessor = self.model.preprocessor
        room = preprocessor.sequence_length - preprocessor.packing.num_special_tokens(2)
        lengths = preprocessor.tokenizer.tokenize(questions).row_lengths().numpy()
        rows = [list(pair) for *pair, length in zip(questions, others, lengths) if length < room]
        rule = f"The packaged questions are too long for a context within {preprocessor.sequence_length} tokens."
        expect(rows, f"{rule} Pass `texts`, a pair of lists of questions and contexts.", texts=None)
        return rows

    def rows_of(self, columns, pairs, texts):
        rows = super().rows_of(columns, True, texts)
        self.inputs(rows)  # Raises an error if a question is too long.
        return rows

    def inputs(self, rows):
        distance = {"doc_stride": self.model.doc_stride, "overlap": self.model.overlap}
        return context_windows(self.model.preprocessor, *map(list, zip(*rows)), **distance).inputs

    def outputs(self, outputs):
        return {"logits": tf.transpose(outputs, [0, 2, 1])}

    def facts(self):
        tokenizer, names = self.model.preprocessor.tokenizer, ("max_answer_length", "no_answer_threshold")
        settings = {name: getattr(self.model, name) for name in (*names, "doc_stride", "overlap")}
        strips = getattr(tokenizer, "strip_accents", False)
        return {**settings, "strip_accents": tokenizer.lowercase if strips is None else strips}

    def labels(self, rows, outputs):
        return [row.argmax(0) for row in outputs]  # The label of a span is its most likely start and end.


KINDS = {
    TextClassifier: Classes,
    TextRegressor: Values,
    TokenClassifier: Words,
    MultipleChoice: Choices,
    SpanExtractor: Spans,
    TextEmbedder: Embedding,
}


def kind_of(model):
    """Returns the kind of a task's answers."""
    kind, name = KINDS.get(type(model)), type(model).__name__
    if kind is None:
        names = ", ".join(f"`{task.__name__}`" for task in KINDS)
        raise ValueError(
            f'Only the format "savedmodel" supports this task. Other formats support {names}, but no subclasses of '
            f"these. Received: {name}"
        )
    for setting in ("windows", "siamese", "crf"):
        value, rule = getattr(model, setting, None), f"a `{name}` with `{setting}`."
        expect(not value, f'Only the format "savedmodel" supports {rule}', **{setting: value})
    return (SeveralClasses if kind is Classes and model.multi_label else kind)(model)


def rows_for_test(kind, texts, pairs):
    """Returns rows with which an export is tested: the user's texts, or packaged ones for `None`."""
    if texts is None:
        questions = load_demo_questions().test.texts[:_COUNT]
        return kind.packaged(questions, [*questions[1:], questions[0]], pairs)
    columns = kind.columns(texts)
    rule = "`texts` must have at least one text, with which the export is tested."
    expect(len(columns[0] if isinstance(columns, tuple) else columns), rule, texts=texts)
    return kind.rows_of(columns, pairs, texts)
