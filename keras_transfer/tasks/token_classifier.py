"""Tagging: one label for each word of a sentence."""

import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers, to_numpy
from keras_transfer.core.expect import expect, expects
from keras_transfer.data import UNUSED, checked_names, word_batches
from keras_transfer.encoders import initializer_on
from keras_transfer.keras_internals import has_metrics
from keras_transfer.layers import ConditionalRandomField, Dropout
from keras_transfer.metrics import OUTSIDE, EntityF1, WordAccuracy, entities, read_labels
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.class_labels import most_likely, weights_of_classes
from keras_transfer.tasks.heads import encode_mixed, hidden_vectors
from keras_transfer.tasks.keras_losses import NAMED_LOSSES, from_name
from keras_transfer.tasks.labels import Labels, Places
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.reader import Reader
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.task import Signature, Task
from keras_transfer.text import character_offsets, check_word_level, is_sentences, is_text, to_list, to_sentences

log = logging.getLogger("keras_transfer")
_STEP = 16  # Sentences are padded to a multiple of this, because JAX compiles each new shape.


class WordReader(Reader):
    """Accepts sentences. A sentence that is too long becomes several rows, and `restore` joins their outputs."""

    takes_lists = True
    instead_of_call = "`predict` or `predict_words`, since a long sentence has several rows"

    def __init__(self, preprocessor, labels):
        super().__init__(preprocessor)
        self.labels = labels

    def accepts(self, x):
        return is_sentences(x) or is_text(x)

    def columns(self, x):
        if is_sentences(x):
            return to_sentences(x)
        if isinstance(x, tuple):
            raise ValueError(
                "Sentences must be a list of lists of words. Pairs are not supported. Pass labels as a separate "
                f"argument: `fit(sentences, labels)`. Received: {x!r:.100}"
            )
        self.require()
        sentences = self.preprocessor.words(x)
        _warn_of_words(sentences)
        return sentences

    def batch_of(self, parts):
        # Sentences must be lists, because a tuple is a pair of columns.
        return tuple(list(part) if isinstance(part, tuple) else part for part in parts)

    def batches(self, columns, y, **options):
        batches = word_batches(columns, y, preprocessor=self.preprocessor, label_names=self.labels.names, **options)
        if self.labels.field is not None:
            warn_of_impossible(batches, self.labels.names, self.labels.field.allowed)
        return batches

    def restore(self, data, predict):
        layout = data.contents.layout
        if layout.row is None:
            return super().restore(data, predict)
        found, rows = len(np.unique(data.order)), len(data.real)
        rule = (
            "`predict` joins the rows of sentences, so the batches must contain all rows. Leave out `shard` and `take`."
        )
        expect(found == rows, rule, rows=f"{found} of {rows}")
        return layout.restore(predict.by_row(data, layout.positions))

    def nothing(self, model, columns):
        return super().nothing(model, columns) if isinstance(columns, dict) else []


def _warn_of_words(sentences):
    """Logs a warning if there are several texts of one word each, which are probably the words of one sentence."""
    if len(sentences) > 1 and all(len(words) == 1 for words in sentences):
        log.warning(
            "Each of the %d texts is a single word, and is treated as a separate sentence. If they are the words of "
            "one sentence, pass `[words]`. The first are %.100s.",
            len(sentences),
            [words[0] for words in sentences[:3]],
        )


class Entity(NamedTuple):
    """An entity in a text.

    Attributes:
        type: String. Its type, such as `"PER"`.
        start: Integer. Position of its first character.
        end: Integer. Position after its last character.
        text: String. `text[start:end]`.
        score: Float between 0 and 1. The mean probability of the labels of its words.
    """

    type: str
    start: int
    end: int
    text: str
    score: float


@keras.saving.register_keras_serializable(package="keras_transfer")
class TokenClassifier(Task):
    """A word tagger: an encoder, dropout, and a dense layer of logits for each token.

    `fit`, `evaluate` and `predict` accept sentences as lists of words. Labels are lists of the same lengths, of names
    or numbers. A word's label is predicted at its first sub-word, or at the word itself if the encoder accepts words. A
    sentence that is too long becomes several overlapping rows, so no word is lost.

    Labels of prepared data have the shape `[batch, length]`. The loss and `metrics.WordAccuracy` ignore negative
    labels. The loss is the mean over the words of a batch. Each replica computes the mean over its own words. `fit`
    does not support `class_weight`, which Keras would apply to positions. Pass it to `text.word_batches`. With
    `crf=True`, the weight of a row is the mean weight of its words.

    `from_pretrained` loads the head of a fine-tuned checkpoint with its label names. For any other checkpoint, or with
    `head="new"`, `label_names` create a new head.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        preprocessor: Preprocessor that accepts words (`text.BertPreprocessor`, `text.ElmoPreprocessor` or
            `text.WordPreprocessor`), or `None` for prepared ids. Defaults to `None`.
        label_names: List of strings, at least 2. Names of the labels, in the order of the logits.
        dropout: Float between 0 and 1. Dropout rate before the dense layer. Defaults to `0.1`.
        hidden_activation: String or callable. Activation of an additional dense layer that is applied to each token
            before the dropout. Defaults to `None`, for no such layer.
        hidden_norm: Boolean. Whether a layer norm follows that dense layer. If so, neither has a bias. Defaults to
            `False`.
        scalar_mix: Boolean or `layers.ScalarMix`. Whether to label a learned weighted mean of all encoder layers
            instead of the last layer. `model.scalar_mix` is the layer. Defaults to `False`.
        crf: Boolean. Whether a `layers.ConditionalRandomField` scores whole sequences of labels. The loss is then its
            negative log-likelihood, and `predict_words`, the metrics and exports find the most likely sequence.
            Sequences of entity labels (`B-`, `I-`, `E-`, `S-`) are well-formed: an `I-` never follows an `O`.
            `model.random_field` is the layer. Defaults to `False`.
        name: String. Name of the model. Defaults to `None`.

    Outputs:
        Logits `[batch, length, labels]`, float32. With `crf=True`, these are the emissions of the field.

    Raises:
        ValueError: If `label_names` has fewer than 2 names or contains duplicates; if the encoder returns no vector for
            each token, or no hidden states for `scalar_mix`; or if `preprocessor` does not accept words or does not
            match the encoder.

    Example:
    ```python
    model = keras_transfer.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=["DET", "NOUN", "VERB"])
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit([["The", "film", "ends"], ["Films", "end"]], [["DET", "NOUN", "VERB"], ["NOUN", "VERB"]])
    model.predict_words([["A", "story", "begins"]])
    ```

    Source: https://arxiv.org/abs/1810.04805, section 5.3; for the field, https://arxiv.org/abs/1603.01360.
    """

    reads = ("sequence_output",)
    purpose = Purpose(
        "token-classification",
        "labels the words of texts",
        'predict_words(["A text ."])',
        "AutoModelForTokenClassification",
    )
    answers = ("predict_words", "predict_entities")
    checkpoint_head = TaskHead(name="tokens", sizes=("label_names",), word_level=True)

    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        label_names: Sequence[str],
        dropout: float = 0.1,
        hidden_activation: str | Callable[..., Any] | None = None,
        hidden_norm: bool = False,
        scalar_mix: bool | keras.layers.Layer = False,
        crf: bool = False,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        label_names = checked_names(label_names)
        encoded, scalar_mix = encode_mixed(encoder, scalar_mix)
        if encoded.sequence is None:
            raise ValueError(
                "`encoder` must return a vector for each token. Use a `TextClassifier` for an encoder with pooled "
                f"outputs only. Received: encoder={encoder!r}"
            )
        if preprocessor is not None:
            check_word_level(preprocessor)
        initializer = initializer_on(encoder)
        head_dropout = Dropout(dropout, dtype=encoder.dtype_policy, name="head_dropout")
        logits = keras.layers.Dense(len(label_names), kernel_initializer=initializer, dtype="float32", name="logits")

        # === Functional model ===
        vectors = hidden_vectors(encoded.sequence, encoder, hidden_activation, hidden_norm)
        outputs = logits(head_dropout(vectors))
        field = None
        if crf:
            field = ConditionalRandomField(allowed=allowed_transitions(label_names), dtype="float32", name="crf")
            outputs = field(outputs)
        labels = WordTags(label_names, field)
        options = {"scalar_mix": scalar_mix, "settings": settings, "name": name}
        super().__init__(encoder, WordReader(preprocessor, labels), Head(outputs, labels), **options)

    @property
    def random_field(self):
        """The `layers.ConditionalRandomField`, or `None` without `crf=True`."""
        return self.get_layer("crf") if self.crf else None

    # === Loss and metrics ===

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles a loaded model as it was before, and connects the loss with its random field.

        Args:
            config: Dict. What `get_compile_config` returned when the model was saved.
        """
        super().compile_from_config(config)
        if self.crf:
            self.loss.field = self.random_field

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Computes the loss as Keras does. With `crf=True`, it also updates the metrics.

        These decode sequences with the weights of the field. On JAX, a step has access to the weights of the model only
        while it computes the loss.
        """
        if not self.crf:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        y, sample_weight = self.labels.for_loss(x, y, sample_weight)
        labels = self.random_field.decode(ops.stop_gradient(y_pred), y >= 0)
        super().compute_metrics(x, y, ops.one_hot(labels, len(self.label_names)), sample_weight)
        sample_weight = None if sample_weight is None else weights_of_rows(sample_weight, y >= 0)
        return keras.Model.compute_loss(self, x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates and returns the metrics as Keras does. With `crf=True`, `compute_loss` has updated them."""
        if self.crf and has_metrics(self):  # The first call creates the metrics.
            return self.get_metrics_result()
        return super().compute_metrics(x, y, y_pred, sample_weight)

    # === Prediction ===

    @expects()
    def predict_words(
        self, x: Any, *, batch_size: int | None = None, verbose: str | int = 0
    ) -> list[list[tuple[str, str]]]:
        """Returns each word with its most likely label, or with its label in the most likely sequence of a sentence.

        Args:
            x: Sentences as lists of words, or texts, which the preprocessor splits into words.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32, or as many as is fast.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `0`.

        Returns:
            List of lists of `(word, label name)`, one list for each sentence.

        Raises:
            ValueError: If `x` contains neither sentences nor texts, if the task has no preprocessor, or if an output of
                the model is not a finite number.

        Example:
        ```python
        model = keras_transfer.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=["NOUN", "VERB"])
        model.predict_words(["Films end."])  # [[("Films", "NOUN"), ("end", "VERB"), (".", "NOUN")]], not trained yet
        ```
        """
        if not self.reader.accepts(x):
            raise ValueError(f"`x` must be a list of lists of words, or texts. Received: {type(x).__name__}")
        sentences, _, labels = self._tag(x, batch_size, verbose)
        return [
            [(word, self.label_names[best]) for word, best in zip(words, of_words)]
            for words, of_words in zip(sentences, labels)
        ]

    @expects()
    def predict_entities(self, x: Any, *, batch_size: int | None = None, verbose: str | int = 0) -> list[list[Entity]]:
        """Returns the entities in texts, with their places in the characters of the text.

        Labels are read as in `metrics.entities`. `datasets.label_spans` is the reverse, for training data.

        Args:
            x: A text, or a list, array or table column of texts.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32, or as many as is fast.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `0`.

        Returns:
            List of lists of `Entity`s, one list for each text. An `Entity` has a `type`, the `start` and the exclusive
            `end` of its `text`, and a `score`, the mean probability of the labels of its words.

        Raises:
            ValueError: If `x` does not contain texts, if the labels are not those of entities, if the task has no
                preprocessor, or if an output of the model is not a finite number.

        Example:
        ```python
        model = keras_transfer.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=["O", "B-PER", "I-PER"])
        [(entity.type, entity.text) for entity in model.predict_entities("Ada smiles.")[0]]  # not trained yet
        ```
        """
        rule = "`x` must be texts, in which entities have places. For lists of words, use `predict_words`."
        expect(is_text(x) and not isinstance(x, tuple) and not is_sentences(x), rule, x=x)
        try:
            read_labels(self.label_names)
        except ValueError as error:
            raise ValueError(f"`predict_entities` requires labels of entities. Use `predict_words`. {error}") from None
        texts = to_list(x)
        sentences, logits, labels = self._tag(texts, batch_size, verbose)
        if self.crf:
            probabilities = decode_sentences(self.random_field.marginals, logits)
        else:
            exponents = [np.exp(row - row.max(-1, keepdims=True)) for row in logits]
            probabilities = [row / row.sum(-1, keepdims=True) for row in exponents]
        found = []
        for text, words, best, row in zip(texts, sentences, labels, probabilities):
            offsets, scores, of_text = character_offsets(text, words), row[np.arange(len(best)), best], []
            for kind, first, last in entities([self.label_names[label] for label in best]):
                start, end = offsets[first][0], offsets[last - 1][1]
                of_text.append(Entity(kind, start, end, text[start:end], float(scores[first:last].mean())))
            found.append(of_text)
        return found

    def _tag(self, x, batch_size, verbose):
        """Returns the words of each sentence or text, their logits, and the positions of their labels."""
        self.reader.require()
        sentences = self.reader.columns([x] if isinstance(x, (str, bytes)) else x)
        logits = check_numbers(self.predict(sentences, batch_size=batch_size, verbose=verbose))
        if self.crf:
            return sentences, logits, decode_sentences(self.random_field.decode, logits)
        return sentences, logits, [row.argmax(-1) for row in logits]

    # === Export ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, because a `TokenClassifier` does not support pairs. Defaults to `False`.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `text`, which the preprocessor splits, to `words`, and the `label`, `label_id`
              and `probabilities` of each. In an export, shorter sentences are padded with the word and the label `""`
              and the `label_id` -1.
            - `"words"`: from `words` to `label`, `label_id` and `probabilities`
            - `"tokens"`: from the encoder's inputs to `logits`

        Raises:
            ValueError: If `pairs=True`.
        """
        signatures = super().signatures(pairs)

        def tag(words):
            rows = self.preprocessor.encode_words(words, sequence_length="longest")
            # The model processes rows, not words: even a sentence without words has a row.
            logits = self({name: rows.inputs[name] for name in self.input}, training=False)
            at = rows.row * ops.shape(logits)[1] + rows.position
            logits = words.with_values(ops.take(ops.reshape(logits, (-1, len(self.label_names))), at, axis=0))
            if self.crf:
                return decode_ragged(self.random_field, logits)
            return {name: words.with_values(values) for name, values in most_likely(logits.values).items()}

        def tag_text(text):
            words = self.preprocessor.split_words(text)
            return {"words": words, **tag(words)}

        text, words = (keras.KerasTensor((None,) * rank, "string") for rank in (1, 2))
        return {
            "serving_default": Signature(tag_text, {"text": text}),
            "words": Signature(tag, {"words": words}, shared_axes=2, ragged=True),
            **signatures,
        }


class WordTags(Labels):
    """Lists of names or numbers, one for each word. Prepared labels are `[batch, length]`, negative without a word."""

    places = Places()
    named_losses = NAMED_LOSSES

    def __init__(self, names, field=None):
        self.names, self.field = names, field

    def loss(self):
        if self.field is not None:
            return ChainLoss(self.field)
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=UNUSED)

    def metrics(self):
        if not any(name.startswith(("B-", "I-", "E-", "S-")) for name in self.names):
            return [WordAccuracy()]
        try:
            return [WordAccuracy(), EntityF1(self.names)]
        except ValueError as error:
            log.warning("`EntityF1` is not used, because some of `label_names` are not entity labels: %s", error)
            return [WordAccuracy()]

    @property
    def named_metrics(self):
        return {"entity_f1": lambda: EntityF1(self.names)}

    def checked_loss(self, loss):
        rule = "With `crf=True`, the loss must be `'auto'`, the loss of the CRF."
        expect(self.field is None or loss == "auto", rule, loss=loss)
        return super().checked_loss(loss)

    def checked_metric(self, metric, loss):
        return super().checked_metric(_metric(from_name(metric, self.named_metrics, "metric")), loss)

    def for_loss(self, x, y, sample_weight):
        """Returns the labels and weights of a batch. All negative labels are ignored. Weights `[batch]` are of rows."""
        y = ops.convert_to_tensor(y)  # On torch, batches of `train_on_batch` are arrays.
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight)
            if len(sample_weight.shape) == 1:  # Only prepared data has weights of rows.
                sample_weight = sample_weight[:, None] * ops.ones_like(y, dtype=sample_weight.dtype)
        return ops.where(y < 0, ops.cast(UNUSED, y.dtype), y), sample_weight

    def check(self, labels, loss=None):
        labels = to_numpy(labels) if keras.ops.is_tensor(labels) else labels
        kind = getattr(getattr(labels, "dtype", None), "kind", "O")
        if isinstance(labels, (list, tuple)) or hasattr(labels, "to_pylist") or kind in "OUS":
            return _check_sentences(labels)  # `word_batches` checks the labels of words.
        labels = np.asarray(labels)
        received = f"{labels.dtype} of shape {labels.shape}"
        if labels.ndim == 2 and labels.dtype.kind in "iuf":
            with np.errstate(invalid="ignore"):
                wrong = np.argwhere((labels >= len(self.names)) | (labels % 1 != 0))
            if not len(wrong):
                return
            place = tuple(wrong[0].tolist())
            received = f"{labels[place]} at position {place}"
        raise ValueError(
            "Labels must contain one list for each sentence. For prepared data, they must be integers [batch, length] "
            f"from 0 to {len(self.names) - 1}, and negative at positions without a word. Received: {received}"
        )

    def class_weight(self, weights, labels=None):
        return weights_of_classes(weights, self.names, labels)

    def placeholders(self, columns):
        return [[0] * len(words) for words in columns]

    def mask(self, labels, sample_weight):
        rule = "Prepared data for a `TokenClassifier` must include labels [batch, length], which mark the words."
        expect(labels is not None, rule, labels=labels)
        if self.field is not None:
            raise ValueError(
                "A `TokenClassifier` with `crf=True` has a likelihood for each row, not for each label. Use "
                "`crf=False`. Received: crf=True"
            )
        weights = labels >= 0
        if sample_weight is not None:
            weights = weights * (sample_weight[:, None] if sample_weight.ndim == 1 else sample_weight)
        return np.maximum(labels, 0), weights.astype("float32")


def _metric(metric):
    """Returns a metric that ignores positions without a word. "accuracy" becomes `WordAccuracy`."""
    if metric is None or metric in ("accuracy", "acc"):
        return metric and WordAccuracy()
    module = getattr(metric, "__module__", None) or type(metric).__module__
    if isinstance(metric, str) or module.startswith("keras."):
        raise ValueError(
            "Metrics must ignore the label -1, which marks positions without a word. Use `metrics='auto'` or the "
            f"metrics of `keras_transfer.metrics`. Received: {metric!r}"
        )
    return metric


def _check_sentences(labels):
    """Raises a `ValueError` unless the labels of raw sentences are a list for each sentence."""
    for index, tags in enumerate(labels if isinstance(labels, (list, tuple, np.ndarray)) else ()):
        if isinstance(tags, (str, bytes)) or not hasattr(tags, "__len__"):
            raise ValueError(
                "Labels must be one list for each sentence, and sentences lists of words. Pass a single sentence as "
                f"`[words]` and its labels as `[labels]`. Received: {tags!r:.100} at position {index}"
            )


# === The conditional random field: its constraints, its loss and its predictions ===


def allowed_transitions(label_names):
    """Returns which label may follow which in well-formed entity labels, or `None` for other labels.

    If a type has a label `B-`, its `I-` and `E-` must follow `B-` or `I-`. If it has a label `E-`, its `B-` and `I-`
    must be followed by `I-` or `E-`. The last row and column of the booleans `[labels + 1, labels + 1]` stand for the
    boundary of a sentence.
    """
    try:
        labels = read_labels(label_names)
    except ValueError:  # The labels have no entities, such as those of parts of speech.
        return None
    given = set(labels)

    def allowed(before, after):
        same = before[1] == after[1]
        starts = after[0] not in "IE" or ("B", after[1]) not in given or (same and before[0] in "BI")
        ends = before[0] not in "BI" or ("E", before[1]) not in given or (same and after[0] in "IE")
        return starts and ends

    labels.append(OUTSIDE)
    return [[allowed(before, after) for after in labels] for before in labels]


def warn_of_impossible(batches, label_names, allowed):
    """Logs a warning if labels of sentences are not well-formed and therefore cannot be predicted."""
    if allowed is None or not batches.has_labels:
        return
    layout = batches.contents.layout
    boundary, names = len(label_names), [*label_names, "the boundary"]
    for number, ids in enumerate(layout.restore([batches.labels[layout.row, layout.position]])):
        for place, (before, after) in enumerate(pairwise([boundary, *ids.tolist(), boundary])):
            if not allowed[before][after]:
                log.warning(
                    "A `TokenClassifier` with `crf=True` never predicts labels that are not well-formed. Start each "
                    "entity with 'B-'. Received: %r after %r at word %d of sentence %d",
                    names[after],
                    names[before],
                    place,
                    number,
                )
                return


@keras.saving.register_keras_serializable(package="keras_transfer")
class ChainLoss(keras.losses.Loss):
    """The negative log-likelihood of the labels of rows under a conditional random field, per word.

    The sum over rows is divided by the number of words in the batch, so the loss has the scale of a cross-entropy. If
    all transitions of the field are 0, the loss equals the cross-entropy. Files do not contain the field, so the task
    sets it.

    Call arguments:
        y_true: Integers `[batch, length]`, negative if a position has no word.
        y_pred: Emissions `[batch, length, labels]`.
        sample_weight: Weights of rows `[batch]`.
    """

    counts_used_places = True

    def __init__(self, field=None, reduction="sum_over_batch_size", name="chain_loss"):
        super().__init__(name=name, reduction=reduction, dtype="float32")
        self.field = field

    def call(self, y_true, y_pred):
        real = y_true >= 0
        losses = -self.field.log_likelihood(y_pred, y_true, real)
        words = ops.maximum(ops.sum(ops.cast(real, "float32")), 1.0)
        return losses * ops.cast(ops.shape(losses)[0], "float32") / words  # Keras divides by the number of rows.


def weights_of_rows(weights, real):
    """Returns weights of positions `[batch, length]` as weights of rows, the mean over the words of each row."""
    real = ops.cast(real, weights.dtype)
    return ops.sum(weights * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)


def decode_sentences(decode, logits, batch_size=256):
    """Returns the most probable labels of each sentence [words], or the probabilities of all labels [words, labels].

    `decode` is this method of a `layers.ConditionalRandomField`, or `marginals`, and the logits are of sentences of any
    length.
    """
    found = []
    for start in range(0, len(logits), batch_size):
        part = logits[start : start + batch_size]
        width = -(-max(1, *map(len, part)) // _STEP) * _STEP
        emissions = np.stack([np.pad(values, [(0, width - len(values)), (0, 0)]) for values in part])
        mask = np.arange(width) < np.array([len(values) for values in part])[:, None]
        outputs = ops.convert_to_numpy(decode(emissions, mask))
        found += [row[: len(values)] for row, values in zip(outputs, part)]
    return found


def decode_ragged(field, logits):
    """Returns labels and probabilities for ragged logits `[sentences, None, labels]`, as outputs of a signature."""
    dense = ops.pad(logits.to_tensor(), [[0, 0], [0, 1], [0, 0]])  # A loop needs at least one position.
    sentence = ops.cast(logits.value_rowids(), "int32")
    place = ops.arange(ops.shape(sentence)[0], dtype="int32")
    place = place - ops.take(ops.cast(logits.row_starts(), "int32"), sentence)
    mask = ops.arange(ops.shape(dense)[1], dtype="int32") < ops.cast(logits.row_lengths(), "int32")[:, None]
    at = sentence * ops.shape(dense)[1] + place

    def at_words(values):
        return logits.with_values(ops.take(ops.reshape(values, (-1, *values.shape[2:])), at, axis=0))

    return {
        "label_id": at_words(field.decode(dense, mask)),
        "probabilities": at_words(field.marginals(dense, mask)),
    }
