"""One label for each word of a sentence."""

import logging

import keras
import numpy as np

from keras_transfer.layers import Dropout
from keras_transfer.metrics import EntityF1, WordAccuracy
from keras_transfer.tasks.mixed import encode_mixed
from keras_transfer.tasks.task import Task
from keras_transfer.text import WordBatches, is_text, word_batches
from keras_transfer.text.inputs import is_sentences, to_sentences
from keras_transfer.text.word_batching import NO_WORD, checked_names
from keras_transfer.text.word_level import check_word_level

log = logging.getLogger("keras_transfer")


@keras.saving.register_keras_serializable(package="keras_transfer")
class TokenClassifier(Task):
    """A tagger of words: an encoder, dropout, and a dense layer of logits at every token.

    `fit`, `evaluate` and `predict` take sentences as lists of words, and their labels as lists as long, of names or
    numbers. A word's label is read at its first sub-word (at the word itself, where an encoder takes words), and a
    sentence that is too long in parts that overlap: no word is lost. Prepared data have labels [batch, length], -1
    where none is read: the loss and `metrics.WordAccuracy` leave these out. The loss is the mean over the words of a
    batch; of several replicas each has the mean over its own.

    Args:
        encoder: an encoder of ours (`hub.HubEncoder` for a TF Hub module) or a KerasHub backbone.
        label_names: list of str, at least 2, in the order of the logits.
        preprocessor: a preprocessor that takes words (`text.BertPreprocessor`, `ElmoPreprocessor`, `WordPreprocessor`);
            None for a model of prepared ids.
        dropout: float, dropout before the dense layer.
        name: str.
        scalar_mix: True to label a mean of all the encoder's layers, whose weights are learnt, instead of the last; or
            a `layers.ScalarMix` to set its options. It is `model.scalar_mix`.

    Outputs: logits [batch, length, labels], float32.

    Raises:
        ValueError: names are missing or twice; the encoder shows no vector for each token, or no hidden states for
            `scalar_mix`; the preprocessor does not fit the encoder, or takes no words.

    Example:
    ```python
    model = keras_transfer.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=["DET", "NOUN", "VERB"])
    model.compile(keras.optimizers.AdamW(1e-4))
    model.fit([["The", "film", "ends"], ["Films", "end"]], [["DET", "NOUN", "VERB"], ["NOUN", "VERB"]])
    model.predict_words([["A", "story", "begins"]])
    ```

    Source: https://arxiv.org/abs/1810.04805, section 5.3.
    """

    word_level = True

    def __init__(self, encoder, label_names, preprocessor=None, dropout=0.1, name=None, scalar_mix=False):
        # === Layers ===
        label_names = checked_names(label_names)
        encoded, scalar_mix = encode_mixed(encoder, scalar_mix)
        if encoded.sequence is None:
            raise ValueError(
                f"to label words takes an encoder that shows a vector for each token. Received: {encoder!r}"
            )
        if preprocessor is not None:
            check_word_level(preprocessor)
        initializer = keras.initializers.TruncatedNormal(stddev=getattr(encoder, "initializer_range", 0.02))
        head_dropout = Dropout(dropout, dtype=encoder.dtype_policy, name="head_dropout")
        logits = keras.layers.Dense(len(label_names), kernel_initializer=initializer, dtype="float32", name="logits")

        # === Functional model ===
        super().__init__(encoder, preprocessor, logits(head_dropout(encoded.sequence)), name, scalar_mix)

        # === Config ===
        self.label_names = label_names
        self.dropout = dropout

    # === What a task says ===

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=NO_WORD)

    def default_metrics(self):
        if not any(name.startswith(("B-", "I-", "E-", "S-")) for name in self.label_names):
            return [WordAccuracy()]
        try:
            return [WordAccuracy(), EntityF1(self.label_names)]
        except ValueError as error:
            log.warning("these names are not all of entities, and no F1 of entities is among the metrics: %s", error)
            return [WordAccuracy()]

    def compile(self, optimizer="auto", loss="auto", metrics="auto", **kwargs):
        """Configures training as `Task.compile` does; "accuracy" is that of words.

        Raises:
            ValueError: the loss, or a metric of Keras, would count positions where no word is read; else as for
                `Task.compile`.
        """
        for function in map(_of_name, keras.tree.flatten(loss)):
            config = function.get_config() if isinstance(function, keras.losses.Loss) else {}
            if config.get("ignore_class", NO_WORD) != NO_WORD:
                raise ValueError(
                    "labels are -1 where no word is read, and this loss counts these: use loss='auto', or "
                    f"`ignore_class=-1`. Received: {function!r}"
                )
        if not isinstance(metrics, str) or metrics != "auto":
            metrics = keras.tree.map_structure(_of_words, metrics)
        weighted = keras.tree.map_structure(_of_words, kwargs.pop("weighted_metrics", None))
        super().compile(optimizer, loss=loss, metrics=metrics, weighted_metrics=weighted, **kwargs)

    def fit(self, x=None, y=None, *args, class_weight=None, **kwargs):
        """Trains the model as `Task.fit` does, on sentences and the labels of their words.

        Raises:
            ValueError: `class_weight`, which Keras would take for weights of positions; else as for `Task.fit`.
        """
        if class_weight is not None:
            raise ValueError(
                "weights of labels are an argument of `text.word_batches(sentences, labels, model.preprocessor, "
                f"label_names=..., class_weight=...)`, whose batches `fit` takes. Received: class_weight={class_weight}"
            )
        return super().fit(x, y, *args, **kwargs)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Computes the loss as Keras does; all labels below 0 are of no word, and weights [batch] of all in a row."""
        if sample_weight is not None and len(sample_weight.shape) == 1:  # of prepared data: ours have [batch, length]
            sample_weight = sample_weight[:, None] * keras.ops.ones_like(y, dtype=sample_weight.dtype)
        if "int" in keras.backend.standardize_dtype(y.dtype):
            y = keras.ops.where(y < 0, keras.ops.cast(NO_WORD, y.dtype), y)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def check_labels(self, labels):
        kind = getattr(getattr(labels, "dtype", None), "kind", "O")
        if isinstance(labels, (list, tuple)) or hasattr(labels, "to_pylist") or kind in "OUS":
            return  # lists of labels, of each word: `make_batches` looks at them
        labels = np.asarray(labels)
        wrong = labels.ndim != 2 or labels.dtype.kind not in "iu"
        if wrong or (labels.size and not -1 <= labels.min() <= labels.max() < len(self.label_names)):
            received = f"{labels.dtype} of shape {labels.shape}"
            if not wrong:
                received += f" from {labels.min()} to {labels.max()}"
            raise ValueError(
                "labels are a list for each sentence, or for prepared data whole numbers [batch, length] from 0 to "
                f"{len(self.label_names) - 1}, and -1 where no word is read. Received: {received}"
            )

    # === Sentences ===

    def is_raw(self, x):
        return is_sentences(x) or is_text(x)

    def raw_columns(self, x):
        if is_sentences(x):
            return to_sentences(x)
        if isinstance(x, tuple):
            raise ValueError(f"sentences are a list of lists of words, without pairs. Received: {x!r:.100}")
        return self.preprocessor.words(x)

    def make_batches(self, x, y, batch_size, shuffle, sample_weight):
        return word_batches(
            self.raw_columns(x),
            y,
            self.preprocessor,
            batch_size,
            shuffle=shuffle,
            sample_weight=sample_weight,
            label_names=self.label_names,
        )

    def predict(self, x, batch_size=None, verbose="auto", steps=None, **kwargs):
        """Returns the logits of words.

        Args:
            x: sentences as lists of words, or texts, which the preprocessor splits into words; or what `keras.Model`
                takes.
            batch_size, verbose, steps, **kwargs: as for `keras.Model.predict`.

        Returns:
            A list of arrays [words, labels], one for each sentence; of prepared data what `keras.Model.predict` does.

        Raises:
            ValueError: `steps` with sentences, of which every word is wanted.
        """
        data = self._prepare("predict", x, batch_size=batch_size)
        if steps is not None and (isinstance(data, WordBatches) or self.is_raw(x)):
            raise ValueError(f"of sentences every word is predicted: pass fewer of them. Received: steps={steps}")
        if data is None and self.is_raw(x):
            return []
        if not isinstance(data, WordBatches):
            return super().predict(x, batch_size=batch_size, verbose=verbose, steps=steps, **kwargs)
        logits = np.zeros((len(data.row), len(self.label_names)), "float32")
        for part in data.by_length():
            words, found = part.word_outputs(super(Task, self).predict(part, verbose=verbose, **kwargs))
            logits[words] = found
        return data.per_sentence(logits)

    def predict_words(self, x, batch_size=None, verbose=0):
        """Returns each word with its most likely label.

        Args:
            x: sentences as lists of words, or texts, which the preprocessor splits into words.
            batch_size: int, rows of a batch.
            verbose: as for `predict`.

        Returns:
            A list for each sentence of `(word, label name)`.

        Raises:
            ValueError: `x` is neither.

        Example:
        ```python
        model = keras_transfer.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=["NOUN", "VERB"])
        model.predict_words(["Films end."])  # [[("Films", "NOUN"), ("end", "VERB"), (".", "NOUN")]], not trained yet
        ```
        """
        if not self.is_raw(x):
            raise ValueError(f"sentences are a list of lists of words, or texts. Received: {type(x).__name__}")
        self._require_preprocessor()
        sentences = self.raw_columns([x] if isinstance(x, (str, bytes)) else x)
        logits = self.predict(sentences, batch_size=batch_size, verbose=verbose)
        return [
            [(word, self.label_names[best]) for word, best in zip(words, of_words.argmax(-1))]
            for words, of_words in zip(sentences, logits)
        ]

    def _map_dataset(self, dataset, method):
        parts = dataset.element_spec
        inputs = parts[0] if isinstance(parts, tuple) else parts
        if any(getattr(part, "dtype", None) == "string" for part in keras.tree.flatten(inputs)):
            raise ValueError(
                "words with labels are prepared in memory: `text.word_batches(sentences, labels, model.preprocessor, "
                f"label_names=model.label_names)`; a tf.data.Dataset holds ids. Received: {parts}"
            )
        return dataset

    # === Config ===

    def get_config(self):
        return {
            **super().get_config(),
            "label_names": self.label_names,
            "dropout": self.dropout,
        }


def _of_words(metric):
    """A metric that leaves out where no word is read; "accuracy" is ours."""
    if metric is None or metric in ("accuracy", "acc"):
        return metric and WordAccuracy()
    module = getattr(metric, "__module__", None) or type(metric).__module__
    if isinstance(metric, str) or module.startswith("keras."):
        raise ValueError(
            "labels are -1 where no word is read, and Keras's metrics count these: use metrics='auto', or those of "
            f"`keras_transfer.metrics`. Received: {metric!r}"
        )
    return metric


def _of_name(loss):
    return loss if loss is None or loss == "auto" else keras.losses.get(loss)
