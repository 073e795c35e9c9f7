"""What all tasks share: a flat model over an encoder, raw text in `fit`, and what survives `.keras`."""

import inspect
import logging

import keras

from keras_transfer.distribute import StringInputs
from keras_transfer.encoders import Encoder
from keras_transfer.encoders.encoder import checkpoint_functions, select_inputs
from keras_transfer.layers.trainable import could_train, set_trainable
from keras_transfer.tasks.in_memory import is_empty, no_outputs, split_last
from keras_transfer.tasks.replicas import build_optimizer, check_distribution, check_scope, replicas_of, share
from keras_transfer.tasks.run_length import ScheduleLength
from keras_transfer.text import PlainText, TextBatches, batches, is_text, to_columns
from keras_transfer.text.preprocessor import preprocess
from keras_transfer.text.word_rows import OfWords

log = logging.getLogger("keras_transfer")


class Task(StringInputs, keras.Model):
    """Base of the tasks: a functional model from an encoder's own inputs through its layers to a head.

    `model.encoder` and `model.preprocessor` are references; every layer of the encoder is a layer of the task.

    `fit`, `evaluate` and `predict` take raw texts (lists, arrays, columns; a tuple of two for pairs), which the
    preprocessor turns into batches of like length, as well as prepared data: `text.batches`, tf.data (of raw texts
    too), dicts of ids. The outputs are logits, in the order of the texts.

    Several replicas (`tf.distribute`, `keras.distribution` on JAX) share the batches of texts in memory evenly, as
    `text.batches` says; `evaluate` and `predict` count every text once. Prepared data Keras shares as it is: give it
    whole batches, since the gradients of all replicas weigh the same, however few rows of a short batch one has.

    Args:
        encoder: an encoder of ours (`hub.HubEncoder` for a TF Hub module) or a KerasHub backbone.
        preprocessor: callable from texts to the encoder's inputs; None for a model of prepared ids, or for an encoder
            that takes text itself.
        outputs: symbolic tensors.
        name: str.
        scalar_mix: the `ScalarMix` through which the head reads the encoder, or None.
    """

    word_level = False  # whether the preprocessor must take words

    def __init__(self, encoder, preprocessor, outputs, name=None, scalar_mix=None):
        if preprocessor is not None and not callable(preprocessor):
            raise ValueError(f"a preprocessor is called on texts. Received: preprocessor={preprocessor!r}")
        if preprocessor is None and isinstance(encoder.input, dict) and "text" in encoder.input:
            preprocessor = PlainText()
        super().__init__(inputs=encoder.input, outputs=outputs, name=name)
        # References, not layers of this model: it has the encoder's layers, but not a pooler it has no use for.
        object.__setattr__(self, "encoder", encoder)
        object.__setattr__(self, "preprocessor", preprocessor)
        object.__setattr__(self, "scalar_mix", scalar_mix)
        self.dtype_policy = encoder.dtype_policy
        self._made_for = None
        _check_fit(encoder, preprocessor)

    @classmethod
    def from_pretrained(cls, source, *, sequence_length=None, encoder=None, **kwargs):
        """Builds the task over a pretrained encoder, with the encoder's preprocessor.

        Args:
            source: As for `Encoder.from_pretrained`.
            sequence_length: Integer. Where texts are truncated. Defaults to what the checkpoint says.
            encoder: Dict of arguments of the encoder that differ from the checkpoint's (`{"dropout": 0.0}`).
            **kwargs: Arguments of the task.

        Returns:
            The task, not compiled.

        Raises:
            CheckpointError: If the checkpoint cannot be read, does not fit, or has no preprocessor for the task.
        """
        preprocessor = checkpoint_functions["load_preprocessor"](source, sequence_length, cls.word_level)
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
        """Raises a ValueError where labels in memory cannot be this task's."""
        raise NotImplementedError(f"{type(self).__name__} must say what its labels are")

    # === What a subclass may say, where its raw data are no texts ===

    def is_raw(self, x):
        """Whether `x` is raw data in memory, for the preprocessor."""
        return is_text(x)

    def raw_columns(self, x):
        """Returns raw data as what can be cut into parts: arrays or lists, or a tuple of them."""
        return to_columns(x)

    def make_batches(self, x, y, batch_size, shuffle, sample_weight):
        """Returns raw data as `TextBatches`."""
        return batches(x, y, self.preprocessor, batch_size, shuffle=shuffle, sample_weight=sample_weight)

    # === Compiling ===

    def compile(self, optimizer="auto", loss="auto", metrics="auto", **kwargs):
        """Configures training as `keras.Model.compile` does, with the task's own loss and metrics as defaults.

        Args:
            optimizer: as in Keras; `"auto"` is AdamW at 5e-5.
            loss: as in Keras, of logits; `"auto"` is the task's.
            metrics: as in Keras; `"auto"` are the task's.
            **kwargs: as in Keras.

        Raises:
            ValueError: the loss is a cross-entropy that expects probabilities; the model, or its encoder, was made
                outside the strategy's scope.
        """
        check_scope(self)
        optimizer = keras.optimizers.AdamW(5e-5) if isinstance(optimizer, str) and optimizer == "auto" else optimizer
        loss = self.default_loss() if isinstance(loss, str) and loss == "auto" else loss
        metrics = self.default_metrics() if isinstance(metrics, str) and metrics == "auto" else metrics
        _check_of_logits(loss)
        super().compile(optimizer, loss=loss, metrics=metrics, **kwargs)

    def compile_from_config(self, config):
        """Compiles a reloaded model as it was: Keras itself skips this for a class with its own `compile`."""
        super().compile(**keras.saving.deserialize_keras_object(config))
        if getattr(self, "optimizer", None) is not None:
            self.optimizer.build(self.trainable_variables)

    def make_train_function(self, force=False):
        """Makes the train function as `keras.Model` does, and anew where other weights train than when it was made.

        Keras on TensorFlow would go on training what it did, without a word. It would also trace the first step twice,
        the first time only to create the optimizer's variables, so these are created here.
        """
        trainable = tuple(id(variable) for variable in self.trainable_variables)
        force, self._made_for = force or trainable != self._made_for, trainable
        if trainable:
            build_optimizer(self)
        return super().make_train_function(force=force)

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
            ValueError: texts and labels differ in number, a text is not a string, a label is out of range; the
                replicas cannot share the batches.
        """
        check_scope(self)
        if validation_split and self.is_raw(x):
            _require_labels(y)
            x, y = self.raw_columns(x), list(y) if isinstance(y, tuple) else y
            (x, y, sample_weight), validation_data = split_last(x, y, sample_weight, validation_split)
            validation_split = 0.0
        if validation_data is not None:
            parts = tuple(validation_data) if isinstance(validation_data, (list, tuple)) else (validation_data,)
            size = kwargs.get("validation_batch_size")
            data = self._prepare("evaluate", *parts, batch_size=batch_size if size is None else size)
            validation_data = validation_data if data is parts[0] else data
        data = self._prepare("fit", x, y, sample_weight, batch_size, shuffle=bool(shuffle))
        if _of_texts(data, x):
            y = sample_weight = batch_size = None
        if isinstance(data, TextBatches):  # they are shuffled, by their seed; Keras would draw their order anew
            shuffle = False
        if isinstance(callbacks, keras.callbacks.CallbackList):  # it has been told of its model and its run already
            listed = callbacks.callbacks
        else:
            listed = callbacks = [*keras.tree.flatten(callbacks or []), ScheduleLength()]
        for callback in listed:
            if hasattr(callback, "follow"):  # adaptation's `Checkpoint`, which keeps where the data are
                callback.follow(data)
        return super().fit(
            data,
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
        """Returns loss and metrics as `keras.Model.evaluate` does; `x` may be raw text.

        Raises:
            ValueError: there are fewer texts than replicas; on JAX, no multiple of them; `batch_size` is no multiple.
        """
        data = self._prepare("evaluate", x, y, sample_weight, batch_size)
        if _of_texts(data, x):
            y = sample_weight = batch_size = None
        return super().evaluate(data, y, batch_size=batch_size, verbose=verbose, sample_weight=sample_weight, **kwargs)

    def predict(self, x, batch_size=None, verbose="auto", steps=None, **kwargs):
        """Returns the logits as `keras.Model.predict` does, a row for each text in order; `x` may be raw text.

        Returns arrays with zero rows if `x` is empty.

        Raises:
            ValueError: `steps` with raw text, of which every row is wanted.
        """
        data = self._prepare("predict", x, batch_size=batch_size)
        if steps is not None and (isinstance(data, TextBatches) or self.is_raw(x)):
            raise ValueError(f"of raw text every row is predicted: pass fewer texts. Received: steps={steps}")
        if data is None:
            return no_outputs(self, x)
        if not isinstance(data, TextBatches):
            return super().predict(data, batch_size=batch_size, verbose=verbose, steps=steps, **kwargs)
        restore = data.restorer()
        return restore(super().predict(data, verbose=verbose, **kwargs))

    def _prepare(self, method, x, y=None, sample_weight=None, batch_size=None, shuffle=False):
        """`TextBatches` or a mapped tf.data.Dataset for raw text, `x` itself where Keras takes it as it is.

        None where there are no rows to predict: no kernel should see an empty batch, and Keras fails on none.
        """
        check_distribution(self)
        if _is_tf_dataset(x):
            return self._map_dataset(x, method)
        raw, made = self.is_raw(x), isinstance(x, TextBatches)
        if raw:
            self._require_preprocessor()
        labels = x.labels if made else y
        if method != "predict" and (raw or made):
            _require_labels(labels)
        if labels is not None:
            self.check_labels(labels)
        if method == "predict" and is_empty(x, raw):
            if raw:
                self.raw_columns(x)  # raises an error where `x` is more than just empty
            return None
        replicas, _ = replicas_of(self)
        if raw:
            size = -(-32 // replicas) * replicas if batch_size is None else batch_size
            x = self.make_batches(x, y, size, shuffle, sample_weight)
        return share(self, x, method) if isinstance(x, TextBatches) else x

    def _map_dataset(self, dataset, method):
        spec = dataset.element_spec
        parts = spec if isinstance(spec, tuple) and len(spec) in (2, 3) else (spec,)
        texts = parts[0] if isinstance(parts[0], tuple) else (parts[0],)
        if not all(getattr(part, "dtype", None) == "string" for part in texts):
            return dataset
        if len(parts) > 1 and getattr(parts[1], "dtype", None) == "string":
            raise ValueError(f"labels are numbers, and pairs without labels are `((a, b),)`. Received: {spec}")
        self._require_preprocessor()
        if any(len(part.shape) != 1 for part in texts):
            raise ValueError(f"a tf.data.Dataset of texts must be batched: `dataset.batch(32)`. Received: {spec}")
        (replicas, evenly), size = replicas_of(self), texts[0].shape[0]
        if (method == "fit" or evenly) and (size or 1) % replicas:
            raise ValueError(
                f"{replicas} replicas share a batch: `dataset.batch(size, drop_remainder=True)`, size a multiple of "
                f"{replicas}. Received: {spec}"
            )

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
        mix = {} if self.scalar_mix is None else {"scalar_mix": keras.saving.serialize_keras_object(self.scalar_mix)}
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "frozen": [variable.path for variable in self.weights if not variable.trainable],
            "name": self.name,
            **mix,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        frozen = set(config.pop("frozen", ()))
        for part in {"encoder", "preprocessor", "scalar_mix"} & set(config):
            config[part] = keras.saving.deserialize_keras_object(config[part], custom_objects=custom_objects)
        task = cls(**config)
        return set_trainable(task, [weight for weight in could_train(task) if weight.path not in frozen])


def _of_texts(data, x):
    """Whether `data` was made of texts in memory, and holds their labels and weights."""
    return isinstance(data, TextBatches) and not isinstance(x, TextBatches)


def _require_labels(y):
    if y is None:
        raise ValueError("texts need labels, the second argument. Received: None")


def _check_of_logits(losses):
    for loss in keras.tree.flatten(losses):
        function = keras.losses.get(loss)
        if isinstance(function, keras.losses.Loss):
            of_probabilities = function.get_config().get("from_logits") is False
        else:
            options = inspect.signature(function).parameters if callable(function) else {}
            of_probabilities = "from_logits" in options and options["from_logits"].default is False
        if of_probabilities:
            raise ValueError(
                "the model returns logits, and this loss expects probabilities: use loss='auto', or the loss's class "
                f"with from_logits=True. Received: {loss!r}"
            )


def _check_fit(encoder, preprocessor):
    """A preprocessor must make what the encoder takes, and no ids or positions that it has no row for."""
    if isinstance(preprocessor, OfWords) and isinstance(encoder.input, dict):
        made = preprocessor.compute_output_spec(keras.KerasTensor((None,), "string"), sequence_length="longest")
        for name, tensor in encoder.input.items():
            shape = made[name].shape if name in made else None
            if shape is None or len(shape) != len(tensor.shape) or not _alike(shape[2:], tensor.shape[2:]):
                shapes = {key: value.shape for key, value in made.items()}
                raise ValueError(
                    f"the encoder takes {name!r} of shape {tensor.shape}: it needs another preprocessor. "
                    f"Received: {type(preprocessor).__name__}, which makes {shapes}"
                )
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


def _alike(shape, other):
    return all(a == b or None in (a, b) for a, b in zip(shape, other))


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
