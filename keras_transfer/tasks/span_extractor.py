"""Extractive question answering: finding the part of a context that answers a question."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers, to_numpy
from keras_transfer.core.expect import expect, expects, integer, number
from keras_transfer.core.lazy import tf
from keras_transfer.data import (
    Batches,
    check_span_preprocessor,
    context_windows,
    span_batches,
    span_columns,
    window_distance,
    windows_in_memory,
)
from keras_transfer.encoders import initializer_on
from keras_transfer.layers import HIDDEN, Dropout, PositionLogits
from keras_transfer.losses import SmoothedCrossentropy
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.heads import encode_mixed, hidden_vectors
from keras_transfer.tasks.keras_losses import NAMED_LOSSES
from keras_transfer.tasks.labels import Labels, check_integers
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.reader import Reader
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.task import Signature, Task, of_part, texts_named

_SEARCHED = 64  # Number of questions whose answers are found at once.
_COLUMNS = ("score", "start", "end", "found")


@keras.saving.register_keras_serializable(package="keras_transfer")
class SpanExtractor(Task):
    """Extractive question answering: an encoder, and a dense layer that scores where an answer begins and ends.

    `fit` and `evaluate` accept a tuple of two lists, the questions and the context of each, and a list of answers:
    `(text, start)`, or `None` if the context has no answer. `answer` returns the parts of contexts that answer
    questions, with their positions in the original text, regardless of how the tokenizer normalizes it. A context that
    is too long is cut into overlapping windows.

    Answers begin and end at tokens of the context. The first token of a row, such as `[CLS]`, stands for no answer, and
    is the target of windows without the answer. The loss is the mean of two cross-entropies, one for the first and one
    for the last token. `accuracy` is the fraction of these tokens that the model predicts correctly.

    `from_pretrained` loads the head of a fine-tuned checkpoint. Any other checkpoint requires `head="new"`.

    Args:
        encoder: Encoder of this library, or a KerasHub backbone.
        preprocessor: `text.BertPreprocessor`, or a `text.TokenPreprocessor` whose tokenizer returns the characters of
            its tokens (WordPiece, and byte-level BPE as in RoBERTa), or `None` for prepared ids. Defaults to `None`.
        doc_stride: Integer. Number of tokens from the start of a window to the start of the next, as in BERT's
            `run_squad.py`. It is limited to half of the tokens that fit next to the question, so windows always
            overlap. Defaults to `None`, for `128` unless `overlap` is given.
        overlap: Integer. Number of tokens that adjacent windows have in common. It gives the windows of Transformers,
            whose tokenizers call it `stride` and whose pipeline calls it `doc_stride`. If at most this many tokens fit
            next to the question, it is half of them. Defaults to `None`, for windows `doc_stride` tokens apart.
        max_answer_length: Integer. Number of tokens of the longest answer that `answer` returns. Defaults to `30`.
        no_answer_threshold: Float. `answer` returns no answer if the score of no answer exceeds the score of the best
            answer by more than this. Scores are sums of two logits. You can change it at any time. For questions
            without answers (SQuAD 2.0), start with `0.0`. Defaults to `None`, for questions that always have an answer
            (SQuAD 1.1).
        dropout: Float between 0 and 1. Dropout rate before the dense layer. Defaults to `0.0`, as in BERT.
        hidden_activation: String or callable. Activation of an additional dense layer that is applied to each token
            before the dropout. Defaults to `None`, for no such layer.
        hidden_norm: Boolean. Whether a layer norm follows that dense layer. If so, neither has a bias. Defaults to
            `False`.
        name: String. Name of the model. Defaults to `None`.

    Inputs: The inputs of the encoder, and `answer_mask`, integers `[batch, length]`, 1 where an answer may begin or
    end.

    Outputs:
        Logits `[batch, 2, length]`, float32, of the first and of the last token of the answer.

    Raises:
        ValueError: If the encoder returns no vector for each token, if `preprocessor` does not return the characters of
            its tokens or does not match the encoder, if a number is out of range, or if both `doc_stride` and `overlap`
            are given.

    Example:
    ```python
    model = keras_transfer.tasks.SpanExtractor.from_pretrained("minilm-l6", head="new")
    questions, contexts = ["Who ran?", "Where?"], ["Ann ran home.", "It rained."]
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit((questions, contexts), [("Ann", 0), None])
    answer = model.answer("Who ran?", "Bob and Ann ran.")
    answer  # {"text": ..., "score": ..., "start": ..., "end": ..., "no_answer_score": ...}
    ```

    Source: Devlin et al. 2019, "BERT", sections 4.2 and 4.3. https://arxiv.org/abs/1810.04805
    """

    reads = ("sequence_output",)
    purpose = Purpose(
        "question-answering",
        "answers questions with a span of a text",
        'answer("Who ran?", "Bob and Ann ran.")',
        "AutoModelForQuestionAnswering",
    )
    answers = ("answer",)
    checkpoint_head = TaskHead(name="span", word_level=True, exclusive=("doc_stride", "overlap"))
    doc_stride = of_part("reader", "doc_stride")
    overlap = of_part("reader", "overlap")

    @expects(doc_stride=integer(1), overlap=integer(0), max_answer_length=integer(1), no_answer_threshold=number())
    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        doc_stride: int | None = None,
        overlap: int | None = None,
        max_answer_length: int = 30,
        no_answer_threshold: float | None = None,
        dropout: float = 0.0,
        hidden_activation: str | Callable[..., Any] | None = None,
        hidden_norm: bool = False,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        encoded, _ = encode_mixed(encoder, scalar_mix=False)
        rule = "`encoder` must accept a dict of inputs and return a vector for each token."
        expect(encoded.sequence is not None and isinstance(encoder.input, dict), rule, encoder=encoder)
        if preprocessor is not None:
            check_span_preprocessor(preprocessor)
        doc_stride, overlap = window_distance(doc_stride, overlap)
        answer_mask = keras.Input((None,), dtype="int32", name="answer_mask")
        initializer = initializer_on(encoder)
        head_dropout = Dropout(dropout, dtype=encoder.dtype_policy, name="head_dropout")
        dense = keras.layers.Dense(2, kernel_initializer=initializer, dtype="float32", name="logits")
        positions = PositionLogits(dtype="float32", name="position_logits")

        # === Functional model ===
        vectors = hidden_vectors(encoded.sequence, encoder, hidden_activation, hidden_norm)
        outputs = positions(dense(head_dropout(vectors)), answer_mask)
        inputs = {**encoder.input, "answer_mask": answer_mask}
        reader = SpanReader(preprocessor, doc_stride, overlap)
        settings |= {"doc_stride": doc_stride, "overlap": overlap}
        super().__init__(encoder, reader, Head(outputs, Spans()), inputs=inputs, settings=settings, name=name)

    # === Prediction ===

    @expects(k=integer(1))
    def answer(
        self, questions: Any, contexts: Any, *, k: int | None = None, batch_size: int = 32, verbose: str | int = 0
    ) -> Any:
        """Returns the parts of contexts that answer questions.

        Args:
            questions: A string, or a list, array or table column of strings.
            contexts: A string, or one string for each question.
            k: Integer. Number of answers to each question. Defaults to `None`, for the best answer only.
            batch_size: Integer. Number of windows in a batch. Defaults to `32`.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `0`.

        Returns:
            A list of dicts, one for each question, or one dict if `questions` is a string. With `k`, there is a list
            instead of each dict, the best answer first, which is shorter than `k` if a context has fewer answers. The
            keys of a dict are:
            - `text`: the answer as it occurs in the context, `""` for no answer
            - `score`: its probability among all possible answers in the context
            - `start` and `end`: its first character in the context, and the position after its last character, both -1
              for no answer
            - `no_answer_score`: the score of no answer minus the score of the best answer, which is compared with
              `no_answer_threshold`

        Raises:
            ValueError: If a question is so long that no context fits, if questions and contexts differ in number, if
                they are not strings, if the task has no preprocessor, or if an output of the model is not a finite
                number.

        Example:
        ```python
        model = keras_transfer.tasks.SpanExtractor.from_pretrained("minilm-l6", head="new")
        [first, second] = model.answer(["Who?", "Where?"], ["Ann ran home."] * 2)
        model.answer("Who?", "Ann ran home.", k=3)[0]["text"]  # not trained yet
        ```
        """
        self.reader.require()
        is_single = isinstance(questions, (str, bytes))
        questions, contexts = span_columns((questions, contexts))
        answers = self._answers(questions, contexts, k or 1, batch_size, verbose) if len(questions) else []
        answers = answers if k is not None else [found[0] for found in answers]
        return answers[0] if is_single else answers

    def _answers(self, questions, contexts, count, batch_size, verbose):
        """Returns a list of at most `count` answers to each question."""
        windows = windows_in_memory(self.preprocessor, questions, contexts, self.doc_stride, self.overlap)
        data = Batches.of(windows.inputs, batch_size=batch_size)
        logits = check_numbers(self.predict(data, verbose=verbose))
        answers = []
        for begin in range(0, len(contexts), _SEARCHED):
            part = windows.of_examples(begin, begin + _SEARCHED)
            rows = slice(*np.searchsorted(windows.example, [begin, begin + _SEARCHED]))
            found = best_spans(logits[rows], part, count, self.max_answer_length, self.no_answer_threshold)
            found = {name: values.numpy().tolist() for name, values in found.items()}
            for row, context in enumerate(contexts[begin : begin + _SEARCHED]):
                no_answer = {"no_answer_score": found["no_answer_score"][row]}
                candidates = [
                    {
                        "text": context[max(start, 0) : max(end, 0)],
                        "score": score,
                        "start": start,
                        "end": end,
                        **no_answer,
                    }
                    for score, start, end, is_found in zip(*(found[name][row] for name in _COLUMNS))
                    if is_found
                ]
                answers.append(candidates or [{"text": "", "score": 0.0, "start": -1, "end": -1, **no_answer}])
        return answers

    # === Export ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, because a request always consists of questions and contexts. Defaults to
                `False`.

        Returns:
            Dict with one `Signature`, `"serving_default"`: from `question` and `context` to `answer` strings, and their
            `score`, `start` and `end`, as `answer` returns them.

        Raises:
            ValueError: If `pairs=True`.
        """
        rule = f"A `{type(self).__name__}` always expects a question and a context. Leave `pairs` out."
        expect(not pairs, rule, pairs=pairs)

        def answer(question, context):
            windows = context_windows(self.preprocessor, question, context, self.doc_stride, self.overlap)
            logits = self({name: windows.inputs[name] for name in self.input}, training=False)
            found = best_spans(logits, windows, 1, self.max_answer_length, self.no_answer_threshold)
            found = {name: found[name][:, 0] for name in ("score", "start", "end")}
            return {"answer": take_characters(context, found["start"], found["end"]), **found}

        return {"serving_default": Signature(answer, texts_named("question", "context"))}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        if "stride" in config:  # Earlier versions called `doc_stride` so.
            config = {**config, "doc_stride": config["stride"]}
            del config["stride"]
        return super().from_config(config, custom_objects)


class SpanReader(Reader):
    """Accepts a tuple of questions and contexts for training. `SpanExtractor.answer` predicts their answers."""

    instead_of_call = "`answer(questions, contexts)`, since a long context has several rows"

    def __init__(self, preprocessor, doc_stride, overlap):
        super().__init__(preprocessor, "`answer(questions, contexts)` for texts")
        self.doc_stride, self.overlap = doc_stride, overlap

    def columns(self, x):
        return span_columns(x)

    def batches(self, columns, y, **options):
        options |= {"doc_stride": self.doc_stride, "overlap": self.overlap}
        return span_batches(columns, y, preprocessor=self.preprocessor, **options)

    def restore(self, data, predict):
        # Batches of different lengths have outputs of different lengths.
        length = data.inputs["answer_mask"].shape[1]
        rows = predict.by_row(data)
        return np.stack([np.pad(row, [(0, 0), (0, length - row.shape[1])], constant_values=HIDDEN) for row in rows])


def best_spans(logits, windows, count, max_length, no_answer_threshold=None):
    """Returns the most likely answers to each question.

    An answer is a span of at most `max_length` tokens of a context that some window contains. Its score is the sum of
    the logits of its first and its last token, the highest in all windows that contain it. If a question may have no
    answer, the score of no answer is the lowest sum of the two logits at the first position of all windows, minus the
    threshold. A softmax over all these scores returns their probabilities.

    Args:
        logits: Float tensor `[windows, 2, length]`, of starts and of ends.

    Returns:
        A dict of tensors `[examples, count]`, the most likely answer first: `score`, the probability; `start` and
        `end`, the first character in the context and the position after the last one, both -1 if there is no answer;
        and `found`, False at places after the last answer. `no_answer_score` `[examples]` is the score of no answer
        minus the score of the best span.

    Source: Devlin et al. 2019, "BERT", section 4.3; https://github.com/google-research/bert (`run_squad.py`).
    """
    infinity = float("inf")
    logits, example, starts, ends = map(tf.convert_to_tensor, (logits, windows.example, windows.starts, windows.ends))
    length = tf.shape(starts)[1]

    # Score the spans that begin at each position of a window, by their length. Tokens without characters, such as
    # special tokens, cannot be part of an answer.
    last = tf.range(length)[:, None] + tf.range(max_length)
    inside, last = last < length, tf.minimum(last, length - 1)
    possible = inside & (starts >= 0)[:, :, None] & (tf.gather(ends, last, axis=1) > starts[:, :, None])
    spans = tf.where(possible, logits[:, 0, :, None] + tf.gather(logits[:, 1], last, axis=1), -infinity)

    # Number the tokens of all contexts consecutively, and find the best score of each span over all its windows.
    token = (windows.first - windows.position)[:, None] + tf.range(length)
    sizes = tf.math.segment_max(tf.reduce_max(tf.where(starts >= 0, token + 1, 0), axis=1), example)
    before, tokens = tf.cumsum(sizes, exclusive=True), tf.reduce_sum(sizes)
    token = tf.where(starts >= 0, tf.gather(before, example)[:, None] + token, -1)  # Segment ids of -1 are dropped.

    def by_token(values):
        return tf.math.unsorted_segment_max(values, token, tokens)

    starts, ends, spans = by_token(starts), by_token(ends), by_token(spans)
    spans = tf.where(spans > spans.dtype.min, spans, -infinity)  # An empty segment has the lowest value of its type.
    total = tf.reduce_logsumexp(spans, axis=1)
    score, place = tf.math.top_k(tf.pad(spans, [[0, 0], [0, count]], constant_values=-infinity), count)
    end = tf.gather(ends, tf.minimum(tf.range(tokens)[:, None] + place, tokens - 1))
    start = tf.repeat(starts[:, None], count, axis=1)

    # Choose the best spans of all tokens of an example.
    def by_example(values, padding):
        return tf.RaggedTensor.from_row_lengths(values, sizes, validate=False).to_tensor(padding)

    def best_first(values, padding):
        rows = by_example(values, padding)
        rows = tf.reshape(rows, [tf.shape(rows)[0], tf.shape(rows)[1] * count])
        return tf.pad(rows, [[0, 0], [0, count]], constant_values=padding)

    total = tf.reduce_logsumexp(by_example(total, -infinity), axis=1)
    score, start, end = best_first(score, -infinity), best_first(start, -1), best_first(end, -1)
    none = tf.math.segment_min(logits[:, 0, 0] + logits[:, 1, 0], example)[:, None]
    no_answer_score = none[:, 0] - tf.reduce_max(score, axis=1)
    if no_answer_threshold is not None:
        none -= no_answer_threshold
        score, total = tf.concat([none, score], 1), tf.reduce_logsumexp(tf.stack([none[:, 0], total]), axis=0)
        start, end = (tf.pad(values, [[0, 0], [1, 0]], constant_values=-1) for values in (start, end))
    score, place = tf.math.top_k(score, count)
    start, end = (tf.gather(values, place, batch_dims=1) for values in (start, end))
    found = score > -infinity
    start, end = (tf.where(found, values, -1) for values in (start, end))
    return {
        "score": tf.where(found, tf.exp(score - total[:, None]), 0.0),
        "start": start,
        "end": end,
        "found": found,
        "no_answer_score": no_answer_score,
    }


def take_characters(texts, starts, ends):
    """Returns parts of texts `[batch]` from one character to another, `""` where the start is negative."""
    real = starts >= 0
    return tf.strings.substr(texts, tf.where(real, starts, 0), tf.where(real, ends - starts, 0), unit="UTF8_CHAR")


class Spans(Labels):
    """`(text, start)` or `None` for each question. Labels of prepared data are token positions `[rows, 2]`."""

    named_losses = {"focal": NAMED_LOSSES["focal"]}

    def loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def checked_loss(self, loss):
        if isinstance(loss, SmoothedCrossentropy):
            raise ValueError(
                "`loss` cannot be a `SmoothedCrossentropy`, which would give a part of the probability to positions "
                "where no answer can be, such as padding. Use `loss='auto'` or `'focal'`. "
                f"Received: loss={loss!r:.100}"
            )
        return super().checked_loss(loss)

    def encode(self, labels):
        labels = super().encode(labels)
        is_list = isinstance(labels, (list, tuple)) and len(labels) > 0
        rows = labels if is_list and all(isinstance(row, (list, tuple, np.ndarray)) for row in labels) else []
        positions = rows and all(isinstance(value, (int, np.integer)) for row in rows for value in row)
        return np.asarray(labels) if positions else labels

    def check(self, labels, loss=None):
        labels = to_numpy(labels) if ops.is_tensor(labels) else labels
        if getattr(getattr(labels, "dtype", None), "kind", "O") == "O":
            return  # `span_batches` checks answers.
        _check_positions(labels)

    def for_loss(self, x, y, sample_weight):
        """Returns the labels and weights of a batch. Weights `[batch]` apply to both positions."""
        if sample_weight is not None and len(sample_weight.shape) == 1:  # Only prepared data has weights of rows.
            sample_weight = ops.repeat(ops.convert_to_tensor(sample_weight)[:, None], 2, axis=1)
        return y, sample_weight

    def targets(self, data, task):
        """Returns the data unchanged, and raises a `ValueError` if an answer is where `answer_mask` is 0."""
        if data.has_labels and "answer_mask" in data.inputs:
            _check_positions(data.labels, data.inputs["answer_mask"])
        return data


def _check_positions(labels, answer_mask=None):
    """Raises a `ValueError` if labels of prepared data are not positions [rows, 2] where `answer_mask` is 1."""
    labels = check_integers(
        labels,
        "Answers must be a list of `(text, start)` or None. Labels of prepared data must be the positions of the first "
        "and of the last token, integers [batch, 2] of at least 0.",
        shape=(None, 2),
    )
    if answer_mask is None:
        return
    mask = to_numpy(answer_mask)
    rule = "Inputs and labels must have the same number of rows."
    expect(len(mask) == len(labels), rule, inputs=len(mask), labels=len(labels))
    inside = np.minimum(labels, mask.shape[1] - 1).astype("int64")
    wrong = np.argwhere((labels != inside) | (np.take_along_axis(mask, inside, axis=1) == 0))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            "Labels of prepared data must be positions where `answer_mask` is 1: the first one, for no answer, "
            f"or those of the context. Received: {labels[row, column]} in row {row}, which has "
            f"{mask.shape[1]} positions"
        )
