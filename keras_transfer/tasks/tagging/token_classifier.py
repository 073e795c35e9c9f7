"""One label for each word of a sentence."""

import logging
import threading

import keras
import numpy as np
from keras import ops

from keras_transfer.batches import NO_WORD, checked_names, word_batches
from keras_transfer.layers.basic import Dropout, serialize_activation
from keras_transfer.layers.heads import ConditionalRandomField
from keras_transfer.metrics.words import EntityF1, WordAccuracy
from keras_transfer.tasks.base import Signature, Task, check_numbers, most_likely
from keras_transfer.tasks.heads import encode_mixed, hidden_vectors
from keras_transfer.tasks.inputs import require_preprocessor, texts_of_stream, to_numpy
from keras_transfer.tasks.tagging.word_chain import (
    ChainLoss,
    allowed_transitions,
    decode_ragged,
    decode_sentences,
    row_weights,
    warn_of_impossible,
)
from keras_transfer.tasks.tagging.word_checks import (
    check_labels_of_sentences,
    check_word_loss,
    warn_of_words,
    word_metric,
)
from keras_transfer.text.base import is_sentences, is_text, to_sentences
from keras_transfer.text.preprocessors import check_word_level

log = logging.getLogger("keras_transfer")


@keras.saving.register_keras_serializable(package="keras_transfer")
class TokenClassifier(Task):
    """A tagger of words: an encoder, dropout, and a dense layer of logits for each token.

    `fit`, `evaluate` and `predict` take sentences as lists of words. Labels are lists of the same lengths, of names or
    numbers. The model reads a word's label at its first sub-word, or at the word itself if the encoder takes words. A
    sentence that is too long becomes several overlapping rows, so that no word is lost.

    Labels of prepared data have the shape [batch, length]. The loss and `metrics.WordAccuracy` ignore negative labels.
    The loss is the mean over the words of a batch. Each replica computes the mean over its own words. `fit` takes no
    `class_weight`, which Keras would apply to positions. Pass it to `text.word_batches`. With `crf=True`, the weight of
    a row is the mean weight of its words.

    `from_pretrained` loads the head of a fine-tuned checkpoint, with the names of its labels. For any other checkpoint,
    or with `head="new"`, `label_names` create a new head.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        label_names: List of strings, at least 2. Names of the labels, in the order of the logits.
        preprocessor: Preprocessor that takes words (`text.BertPreprocessor`, `text.ElmoPreprocessor` or
            `text.WordPreprocessor`), or None for prepared ids. Defaults to `None`.
        dropout: Float between 0 and 1. Dropout rate before the dense layer. Defaults to `0.1`.
        name: String. Name of the model. Defaults to `None`.
        scalar_mix: Boolean or `layers.ScalarMix`. Whether to label a learned weighted mean of all layers of the encoder
            instead of the last layer. `model.scalar_mix` is the layer. Defaults to `False`.
        hidden_activation, hidden_norm: See `TextClassifier`. The dense layer is applied to each token.
        crf: Boolean. Whether a `layers.ConditionalRandomField` scores whole sequences of labels. The loss is then its
            negative log-likelihood, and `predict_words`, the metrics and exports find the most likely sequence.
            Sequences of entity labels (`B-`, `I-`, `E-`, `S-`) are well-formed: an `I-` never follows an `O`.
            `model.random_field` is the layer. Defaults to `False`.

    Outputs:
        Logits [batch, length, labels], float32. With `crf=True`, these are the emissions of the field.

    Raises:
        ValueError: If `label_names` has fewer than 2 names or contains duplicates; if the encoder returns no vector for
            each token, or no hidden states for `scalar_mix`; or if `preprocessor` does not take words or does not fit
            the encoder.

    Example:
    ```python
    model = keras_transfer.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=["DET", "NOUN", "VERB"])
    model.compile(keras_transfer.adaptation.FusedAdamW(1e-4))
    model.fit([["The", "film", "ends"], ["Films", "end"]], [["DET", "NOUN", "VERB"], ["NOUN", "VERB"]])
    model.predict_words([["A", "story", "begins"]])
    ```

    Source: https://arxiv.org/abs/1810.04805, section 5.3; for the field, https://arxiv.org/abs/1603.01360.
    """

    head_name = "tokens"
    head_sizes = ("label_names",)
    word_level = True
    # The threads (replicas have their own) in which `compute_loss` has updated the metrics of the current step.
    _measured = frozenset()

    def __init__(
        self,
        encoder,
        label_names,
        preprocessor=None,
        dropout=0.1,
        name=None,
        scalar_mix=False,
        hidden_activation=None,
        hidden_norm=False,
        crf=False,
    ):
        # === Layers ===
        label_names = checked_names(label_names)
        encoded, scalar_mix = encode_mixed(encoder, scalar_mix)
        if encoded.sequence is None:
            raise ValueError(f"`encoder` must return a vector for each token. Received: encoder={encoder!r}")
        if preprocessor is not None:
            check_word_level(preprocessor)
        initializer = keras.initializers.TruncatedNormal(stddev=getattr(encoder, "initializer_range", 0.02))
        head_dropout = Dropout(dropout, dtype=encoder.dtype_policy, name="head_dropout")
        logits = keras.layers.Dense(len(label_names), kernel_initializer=initializer, dtype="float32", name="logits")

        # === Functional model ===
        vectors = hidden_vectors(encoded.sequence, encoder, hidden_activation, hidden_norm)
        outputs = logits(head_dropout(vectors))
        if crf:
            outputs = ConditionalRandomField(allowed=allowed_transitions(label_names), dtype="float32", name="crf")(
                outputs
            )
        super().__init__(encoder, preprocessor, outputs, name, scalar_mix)

        # === Config ===
        self.label_names = label_names
        self.dropout = dropout
        self.hidden_activation = hidden_activation
        self.hidden_norm = hidden_norm
        self.crf = bool(crf)

    @property
    def random_field(self):
        """The `layers.ConditionalRandomField`, or None without `crf=True`."""
        return self.get_layer("crf") if self.crf else None

    # === Loss, metrics and labels ===

    def default_loss(self):
        if self.crf:
            return ChainLoss(self.random_field)
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=NO_WORD)

    def named_metrics(self):
        return {"entity_f1": lambda: EntityF1(self.label_names)}

    def default_metrics(self):
        if not any(name.startswith(("B-", "I-", "E-", "S-")) for name in self.label_names):
            return [WordAccuracy()]
        try:
            return [WordAccuracy(), EntityF1(self.label_names)]
        except ValueError as error:
            log.warning("`EntityF1` is not used, because some of `label_names` are not entity labels: %s", error)
            return [WordAccuracy()]

    def compile(self, optimizer="auto", loss="auto", metrics="auto", **kwargs):
        """Configures training as `Task.compile` does. `"accuracy"` is the accuracy over words.

        Raises:
            ValueError: If the loss, or a metric of Keras, would count positions without a word, or if `Task.compile`
                raises an error.
        """
        if self.crf and loss != "auto":
            raise ValueError(
                f"With `crf=True`, the loss must be `'auto'`, the loss of the CRF. Received: loss={loss!r}"
            )
        check_word_loss(loss)
        if not isinstance(metrics, str) or metrics != "auto":
            metrics = keras.tree.map_structure(word_metric, metrics)
        weighted = keras.tree.map_structure(word_metric, kwargs.pop("weighted_metrics", None))
        self._measured = frozenset()  # A step may have failed.
        super().compile(optimizer, loss=loss, metrics=metrics, weighted_metrics=weighted, **kwargs)

    def compile_from_config(self, config):
        super().compile_from_config(config)
        if self.crf:
            self.loss.field = self.random_field

    def check_class_weight(self, class_weight):
        """Raises a `ValueError` if `class_weight` is used, which Keras would apply to positions."""
        if class_weight is not None:
            raise ValueError(
                "`fit()` does not support `class_weight`. Pass it to `text.word_batches(sentences, labels, "
                "preprocessor=model.preprocessor, label_names=..., class_weight=...)`, and the result to `fit()`. "
                f"Received: class_weight={class_weight}"
            )

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Computes the loss as Keras does. All negative labels are ignored. Weights [batch] apply to whole rows.

        With `crf=True`, it also updates the metrics, because on JAX only the loss can read the weights of the model.
        """
        y = ops.convert_to_tensor(y)  # On torch, batches of `train_on_batch` are arrays.
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight)
            if len(sample_weight.shape) == 1:  # Only prepared data have these.
                sample_weight = sample_weight[:, None] * ops.ones_like(y, dtype=sample_weight.dtype)
        if self.crf:
            labels = self.random_field.decode(ops.stop_gradient(y_pred), y >= 0)
            super().compute_metrics(x, y, ops.one_hot(labels, len(self.label_names)), sample_weight)
            self._measured |= {threading.get_ident()}
            sample_weight = None if sample_weight is None else row_weights(sample_weight, y >= 0)
        y = ops.where(y < 0, ops.cast(NO_WORD, y.dtype), y)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates and returns the metrics as Keras does. With `crf=True`, `compute_loss` has updated them."""
        if threading.get_ident() not in self._measured:  # Also when Keras creates the metrics, before a first step.
            return super().compute_metrics(x, y, y_pred, sample_weight)
        self._measured -= {threading.get_ident()}
        return self.get_metrics_result()

    def check_labels(self, labels):
        labels = to_numpy(labels) if keras.ops.is_tensor(labels) else labels
        kind = getattr(getattr(labels, "dtype", None), "kind", "O")
        if isinstance(labels, (list, tuple)) or hasattr(labels, "to_pylist") or kind in "OUS":
            return check_labels_of_sentences(labels)  # `word_batches` checks the labels of words.
        labels = np.asarray(labels)
        received = f"{labels.dtype} of shape {labels.shape}"
        if labels.ndim == 2 and labels.dtype.kind in "iuf":
            with np.errstate(invalid="ignore"):
                wrong = np.argwhere((labels >= len(self.label_names)) | (labels % 1 != 0))
            if not len(wrong):
                return
            place = tuple(wrong[0].tolist())
            received = f"{labels[place]} at position {place}"
        raise ValueError(
            "Labels must contain one list for each sentence. For prepared data, they must be integers [batch, length] "
            f"from 0 to {len(self.label_names) - 1}, and negative at positions without a word. Received: {received}"
        )

    def placeholder_labels(self, x):
        return [[0] * len(words) for words in self.raw_columns(x)] if self.is_raw(x) else None

    def mask_labels(self, labels, sample_weight):
        if labels is None:
            raise ValueError(
                "Prepared data for a `TokenClassifier` must include labels [batch, length], which mark the words. "
                "Received: no labels"
            )
        if self.crf:
            raise ValueError(
                "The labels of a `TokenClassifier` with `crf=True` have no likelihoods of their own, only rows have. "
                "Received: crf=True"
            )
        weights = labels >= 0
        if sample_weight is not None:
            weights = weights * (sample_weight[:, None] if sample_weight.ndim == 1 else sample_weight)
        return np.maximum(labels, 0), weights.astype("float32")

    # === Data ===

    def is_raw(self, x):
        return is_sentences(x) or is_text(x)

    def raw_columns(self, x):
        if is_sentences(x):
            return to_sentences(x)
        if isinstance(x, tuple):
            raise ValueError(
                "Sentences must be a list of lists of words. Pairs are not supported. Pass labels as a separate "
                f"argument: `fit(sentences, labels)`. Received: {x!r:.100}"
            )
        require_preprocessor(self)
        sentences = self.preprocessor.words(x)
        warn_of_words(sentences)
        return sentences

    def make_batches(self, x, y, batch_size, shuffle, sample_weight):
        options = {"shuffle": shuffle, "sample_weight": sample_weight, "label_names": self.label_names}
        batches = word_batches(x, y, preprocessor=self.preprocessor, batch_size=batch_size, **options)
        if self.crf:
            warn_of_impossible(batches, self.label_names, self.random_field.allowed)
        return batches

    def prepare_stream(self, dataset):
        if texts_of_stream(dataset):
            raise ValueError(
                "A `tf.data.Dataset` must contain ids. For words and their labels, use `text.word_batches(sentences, "
                "labels, preprocessor=model.preprocessor, label_names=model.label_names)` instead. "
                f"Received: {dataset.element_spec}"
            )
        return dataset

    def encode_batch(self, texts):
        raise ValueError(
            "A `TokenClassifier` can be called on prepared inputs only, since a long sentence has several rows. Use "
            f"`predict` or `predict_words` for sentences and texts. Received: {texts!r:.100}"
        )

    # === Prediction ===

    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None):
        """Returns the logits of words.

        Args:
            x: Sentences as lists of words, texts, which the preprocessor splits into words, or prepared data as for
                `dataset`.
            batch_size: Integer. Number of rows per batch, for data in memory. Defaults to `32`.
            verbose: As in Keras. Defaults to `"auto"`.
            steps: Integer. Number of batches, only for datasets. Defaults to `None`.
            callbacks: As in Keras. Defaults to `None`.

        Returns:
            List of arrays [words, labels], one for each sentence. For prepared data an array [batch, length, labels].

        Raises:
            ValueError: If `dataset` rejects the data, or if `steps` is used with data in memory.
            RuntimeError: If a callback stops the prediction of data in memory.
        """
        return super().predict(x, batch_size, verbose, steps, callbacks)

    def predict_in_order(self, data, predict):
        if data.places is None:
            return super().predict_in_order(data, predict)
        logits = np.zeros((len(data.places.row), len(self.label_names)), "float32")
        for part, outputs in predict.parts(data):
            words, found = part.places.word_outputs(part.order, outputs)
            logits[words] = found
        return data.places.per_sentence(logits)

    def predict_nothing(self, columns):
        return super().predict_nothing(columns) if isinstance(columns, dict) else []

    def predict_words(self, x, batch_size=None, verbose=0):
        """Returns each word with its most likely label, or with its label in the most likely sequence of a sentence.

        Args:
            x: Sentences as lists of words, or texts, which the preprocessor splits into words.
            batch_size: Integer. Number of rows per batch. Defaults to `32`.
            verbose: See `predict`. Defaults to `0`.

        Returns:
            List of lists of `(word, label name)`, one list for each sentence.

        Raises:
            ValueError: If `x` is not sentences or texts, if the task has no preprocessor, or if an output of the model
                is not a finite number.

        Example:
        ```python
        model = keras_transfer.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=["NOUN", "VERB"])
        model.predict_words(["Films end."])  # [[("Films", "NOUN"), ("end", "VERB"), (".", "NOUN")]], not trained yet
        ```
        """
        if not self.is_raw(x):
            raise ValueError(f"`x` must be a list of lists of words, or texts. Received: {type(x).__name__}")
        require_preprocessor(self)
        sentences = self.raw_columns([x] if isinstance(x, (str, bytes)) else x)
        logits = check_numbers(self.predict(sentences, batch_size=batch_size, verbose=verbose))
        labels = decode_sentences(self.random_field, logits) if self.crf else [row.argmax(-1) for row in logits]
        return [
            [(word, self.label_names[best]) for word, best in zip(words, of_words)]
            for words, of_words in zip(sentences, labels)
        ]

    # === Export ===

    def signatures(self, pairs=False):
        """Returns the signatures of an exported model.

        Args:
            pairs: Must be `False`, because a `TokenClassifier` does not support pairs.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `text`, which the preprocessor splits, to `words`, and the `label_id` and
              `probabilities` of each
            - `"words"`: from `words` to `label_id` and `probabilities`
            - `"tokens"`: from the encoder's inputs to `logits`

        Raises:
            ValueError: If `pairs=True`.
        """
        signatures = super().signatures(pairs)

        def tag(words):
            rows = self.preprocessor.encode_words(words, sequence_length="longest")
            # The model runs on whole rows: every sentence has one, even if no sentence has a word.
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

    # === Config ===

    def get_config(self):
        return {
            **super().get_config(),
            "label_names": self.label_names,
            "dropout": self.dropout,
            "hidden_activation": None
            if self.hidden_activation is None
            else serialize_activation(self.hidden_activation),
            "hidden_norm": self.hidden_norm,
            "crf": self.crf,
        }
