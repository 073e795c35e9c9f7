"""What all tasks share: a flat model over an encoder, raw text in `fit`, and what survives `.keras`."""

import logging

import keras
import numpy as np

from keras_transfer.encoders import Encoder
from keras_transfer.encoders.encoder import checkpoint_functions, select_inputs
from keras_transfer.text import TextBatches, batches, is_text, to_columns
from keras_transfer.text.preprocessor import preprocess

log = logging.getLogger("keras_transfer")


class Task(keras.Model):
    """Base of the tasks: a functional model from an encoder's own inputs through its layers to a head.

    `model.encoder` and `model.preprocessor` are references; every layer of the encoder is a layer of the task.

    `fit`, `evaluate` and `predict` take raw texts (lists, arrays, columns; a tuple of two for pairs), which the
    preprocessor turns into batches of like length, as well as prepared data: `text.batches`, tf.data (of raw texts
    too), dicts of ids. The outputs are logits, in the order of the texts.

    Args:
        encoder: an encoder of ours or a KerasHub backbone.
        preprocessor: callable from texts to the encoder's inputs; None for a model of prepared ids.
        outputs: symbolic tensors.
        name: str.
    """

    def __init__(self, encoder, preprocessor, outputs, name=None):
        super().__init__(inputs=encoder.input, outputs=outputs, name=name)
        # References, not layers of this model: it has the encoder's layers, but not a pooler it has no use for.
        object.__setattr__(self, "encoder", encoder)
        object.__setattr__(self, "preprocessor", preprocessor)
        self.dtype_policy = encoder.dtype_policy
        _check_fit(encoder, preprocessor)

    @classmethod
    def from_pretrained(cls, source, *, sequence_length=None, encoder=None, **kwargs):
        """Builds the task over a pretrained encoder, with the encoder's preprocessor.

        Args:
            source: as for `Encoder.from_pretrained`.
            sequence_length: int, where texts are truncated; None for what the checkpoint says.
            encoder: dict of arguments of the encoder that differ from the checkpoint's (`{"dropout": 0.0}`).
            **kwargs: arguments of the task.

        Returns:
            The task, not compiled.

        Raises:
            CheckpointError: the checkpoint cannot be read or does not fit.
        """
        options = {} if sequence_length is None else {"sequence_length": sequence_length}
        preprocessor = checkpoint_functions["load_preprocessor"](source, **options)
        return cls(Encoder.from_pretrained(source, **(encoder or {})), preprocessor=preprocessor, **kwargs)

    def call(self, inputs, training=None, mask=None):
        return super().call(select_inputs(inputs, self.input), training=training, mask=mask)

    # === What a subclass says ===

    def default_loss(self):
        """Returns the loss that `loss="auto"` stands for."""
        raise NotImplementedError(f"{type(self).__name__} must say its loss")

    def default_metrics(self):
        """Returns the metrics that `metrics="auto"` stands for."""
        raise NotImplementedError(f"{type(self).__name__} must say its metrics")

    def check_labels(self, labels):
        """Raises a ValueError where labels cannot be this task's."""

    # === Compiling ===

    def compile(self, optimizer="auto", loss="auto", metrics="auto", weighted_metrics=None, **kwargs):
        """Configures training as `keras.Model.compile` does, with the task's own loss and metrics as defaults.

        Args:
            optimizer: as in Keras; `"auto"` is AdamW at 5e-5.
            loss: as in Keras, of logits; `"auto"` is the task's.
            metrics: as in Keras; `"auto"` are the task's. They are weighted by the sample weights, so that the rows
                that fill up the last batch (weight 0) do not count.
            weighted_metrics: further metrics; the same as `metrics` here.

        Raises:
            ValueError: the loss expects probabilities.
        """
        optimizer = keras.optimizers.AdamW(5e-5) if isinstance(optimizer, str) and optimizer == "auto" else optimizer
        loss = self.default_loss() if isinstance(loss, str) and loss == "auto" else loss
        metrics = self.default_metrics() if isinstance(metrics, str) and metrics == "auto" else metrics
        _check_of_logits(loss)
        if metrics and weighted_metrics:
            metrics = [*metrics, *weighted_metrics]
        super().compile(optimizer, loss=loss, weighted_metrics=metrics or weighted_metrics, **kwargs)

    def compile_from_config(self, config):
        """Compiles a reloaded model as it was: Keras itself skips this for a class with its own `compile`."""
        super().compile(**keras.saving.deserialize_keras_object(config))
        if getattr(self, "optimizer", None) is not None:
            self.optimizer.build(self.trainable_variables)

    # === Raw text ===

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        validation_split=0.0,
        validation_data=None,
        shuffle=True,
        class_weight=None,
        sample_weight=None,
        **kwargs,
    ):
        """Trains the model as `keras.Model.fit` does; `x`, and that of `validation_data`, may be raw text.

        Raises:
            ValueError: texts and labels differ in number, a text is not a string, a label is out of range.
        """
        if validation_split and is_text(x):
            (x, y, sample_weight), validation_data = _split(x, y, sample_weight, validation_split)
            validation_split = 0.0
        options = {"batch_size": batch_size or 32}
        data = self._prepare(x, y, sample_weight, shuffle=bool(shuffle), **options)
        if isinstance(data, TextBatches):
            x, y, sample_weight, batch_size = data, None, None, None
            if class_weight is not None:
                x, class_weight = x.with_class_weight(class_weight), None
        elif data is not None:
            x = data
        if isinstance(validation_data, tuple) and is_text(validation_data[0]):
            validation_data = self._prepare(*validation_data, shuffle=False, **options)
        elif validation_data is not None and not isinstance(validation_data, tuple):
            validation_data = self._prepare(validation_data, shuffle=False, **options) or validation_data
        return super().fit(
            x,
            y,
            batch_size=batch_size,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_split=validation_split,
            validation_data=validation_data,
            shuffle=shuffle,
            class_weight=class_weight,
            sample_weight=sample_weight,
            **kwargs,
        )

    def evaluate(self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, **kwargs):
        """Returns loss and metrics as `keras.Model.evaluate` does; `x` may be raw text."""
        data = self._prepare(x, y, sample_weight, batch_size=batch_size or 32, shuffle=False)
        if data is not None:
            x, y, sample_weight, batch_size = data, None, None, None
        return super().evaluate(x, y, batch_size=batch_size, verbose=verbose, sample_weight=sample_weight, **kwargs)

    def predict(self, x, batch_size=None, verbose="auto", **kwargs):
        """Returns the logits as `keras.Model.predict` does, a row for each text in order; `x` may be raw text."""
        data = self._prepare([x] if isinstance(x, str) else x, batch_size=batch_size or 32, shuffle=False)
        if not isinstance(data, TextBatches):
            return super().predict(x if data is None else data, batch_size=batch_size, verbose=verbose, **kwargs)
        restore = data.restorer()
        return restore(super().predict(data, verbose=verbose, **kwargs))

    def _prepare(self, x, y=None, sample_weight=None, batch_size=32, shuffle=False):
        """`TextBatches` or a mapped tf.data.Dataset for raw text; None for what Keras takes as it is."""
        if isinstance(x, TextBatches):
            if x.labels is not None:
                self.check_labels(x.labels)
            return x
        if _is_tf_dataset(x):
            return self._map_dataset(x)
        if x is None or not is_text(x):
            return None
        self._require_preprocessor()
        if y is not None and len(y):
            self.check_labels(y)
        return batches(to_columns(x), y, self.preprocessor, batch_size, shuffle=shuffle, sample_weight=sample_weight)

    def _map_dataset(self, dataset):
        spec = dataset.element_spec
        texts = spec[0] if isinstance(spec, tuple) and len(spec) in (2, 3) else spec
        if getattr(texts, "dtype", None) != "string" and not (
            isinstance(texts, tuple) and all(getattr(part, "dtype", None) == "string" for part in texts)
        ):
            return None
        self._require_preprocessor()
        if any(len(part.shape) != 1 for part in (texts if isinstance(texts, tuple) else [texts])):
            raise ValueError(f"a tf.data.Dataset of texts must be batched: `dataset.batch(32)`. Received: {spec}")

        def prepare(x, *rest):
            x = preprocess(self.preprocessor, x)
            return (x, *rest) if rest else x

        return dataset.map(prepare, num_parallel_calls=-1).prefetch(-1)

    def _require_preprocessor(self):
        if self.preprocessor is None:
            raise ValueError(
                "raw text needs a preprocessor: give the task `preprocessor=...`, or pass token ids. Received: texts"
            )

    # === Config ===

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "frozen": [variable.path for variable in self.weights if not variable.trainable],
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        frozen = set(config.pop("frozen", ()))
        for part in ("encoder", "preprocessor"):
            config[part] = keras.saving.deserialize_keras_object(config[part], custom_objects=custom_objects)
        task = cls(**config)
        for variable in task.weights:
            if variable.path in frozen:
                variable.trainable = False
        return task


def _check_of_logits(loss):
    expects = {"sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy"}
    config = loss.get_config() if isinstance(loss, keras.losses.Loss) else {}
    if (isinstance(loss, str) and loss in expects) or config.get("from_logits") is False:
        raise ValueError(
            "the model returns logits, and this loss expects probabilities: use loss='auto', or the loss's class with "
            f"from_logits=True. Received: {loss!r}"
        )


def _check_fit(encoder, preprocessor):
    """A preprocessor must not make ids or positions that the encoder has no row for."""
    tokens = getattr(preprocessor, "sequence_length", None)
    rows = getattr(encoder, "max_sequence_length", None)
    if tokens is not None and rows is not None and tokens > rows:
        raise ValueError(
            f"the encoder has positions for {rows} tokens: give the preprocessor a `sequence_length` of at most that. "
            f"Received: sequence_length={tokens}"
        )
    words = _vocabulary_size(preprocessor)
    rows = getattr(encoder, "vocabulary_size", None)
    if words is None or rows is None or words == rows:
        return
    if words > rows:
        raise ValueError(
            f"the preprocessor's vocabulary does not fit the encoder: its embedding has {rows} rows. "
            f"Received: a vocabulary of {words} tokens"
        )
    log.warning("the embedding has %d rows and the vocabulary %d tokens: is it the encoder's own?", rows, words)


def _vocabulary_size(preprocessor):
    try:
        if hasattr(preprocessor, "vocabulary_size"):
            return preprocessor.vocabulary_size
        tokenizer = getattr(preprocessor, "tokenizer", None)  # KerasHub
        return None if tokenizer is None else tokenizer.vocabulary_size()
    except ValueError:  # it has none yet: out of a `.keras` file it comes after the model
        return None


def _is_tf_dataset(x):
    # Without importing TensorFlow: a dataset of its can only exist where it was.
    return type(x).__module__.startswith("tensorflow.") and hasattr(x, "element_spec")


def _split(x, y, sample_weight, share):
    """The last `share` of the data for validation, as Keras does, before any shuffling."""
    x = to_columns(x)
    count = len(x[0]) if isinstance(x, tuple) else len(x)
    at = int(count * (1 - share))

    def take(values, part):
        if isinstance(values, tuple):
            return tuple(column[part] for column in values)
        return None if values is None else np.asarray(values)[part]

    train, rest = slice(None, at), slice(at, None)
    return tuple(take(v, train) for v in (x, y, sample_weight)), tuple(take(v, rest) for v in (x, y, sample_weight))
