"""The base of all tasks: a functional model from an encoder's inputs to a head, with a reader of data and labels."""

import copy

import keras

from keras_transfer.batches import Batches, as_pipeline, batches_of
from keras_transfer.checkpoints.base import TaskHead
from keras_transfer.distribute import check_accumulation, check_scope, reducible
from keras_transfer.encoders.base import Quantizes, select_inputs
from keras_transfer.encoders.keras_hub import current_encoder
from keras_transfer.keras_internals import NotCloned, trace_predict
from keras_transfer.names import check_foreign_arguments
from keras_transfer.tasks.base.checks import check_preprocessor, require_compiled, warn_of_half_weights
from keras_transfer.tasks.base.data_path import batches_or_stream, ready_batch, ready_data, ready_for_fit, stream_of
from keras_transfer.tasks.base.failures import mends_failures
from keras_transfer.tasks.base.head_adapters import HeadAdapters
from keras_transfer.tasks.base.prediction import Prediction
from keras_transfer.tasks.base.pretrained import Pretrained
from keras_transfer.tasks.base.saved import config_of, from_config, store_heads, take_heads
from keras_transfer.tasks.base.several_devices import SeveralDevices
from keras_transfer.tasks.base.signatures import Signature
from keras_transfer.tasks.inputs import (
    ALL_ROWS,
    NoRows,
    check_columns,
    check_kind,
    columns_of,
    epochs_of_stream,
    kind_of,
    position_of_stream,
)
from keras_transfer.text.preprocessors import PlainText, WindowPreprocessor
from keras_transfer.training.optimizers import FusedAdamW, build_optimizer, train_step
from keras_transfer.training.resume import TrainingCheckpoint
from keras_transfer.training.runs import ScheduleLength, fit_in_run

_RATES = {"auto": 5e-5, "adamw": 1e-3}  # Learning rates of the optimizers that `compile` has names for.


def of_part(part, name, doc=None):
    """Returns a property of a task for an attribute of one of its parts.

    Args:
        part: String, `"reader"` or `"labels"`.
        name: String. Name of the attribute.
        doc: String. Docstring of the property. Defaults to `None`.
    """

    def get(task):
        return getattr(getattr(task, part), name)

    def put(task, value):
        setattr(getattr(task, part), name, value)

    return property(get, put, doc=doc)


class Task(Pretrained, SeveralDevices, NotCloned, Quantizes, keras.Model):
    """Base class of the tasks: an encoder, a head on it, a reader of the user's data, and labels.

    It is a functional model from the encoder's inputs, through its layers, to the head. Each layer of the encoder is a
    layer of the task. A subclass has a constructor that chooses the parts, and methods that answer in plain Python.
    There is nothing else that it must override.

    `fit`, `evaluate` and `predict` take raw text and whatever else `dataset` describes. The outputs are logits, in the
    order of the texts. The methods for one batch, such as `train_on_batch`, and the call of the model also take raw
    text.

    Several replicas (`tf.distribute`, or `keras.distribution` on JAX) share each batch of data in memory evenly.
    `evaluate` and `predict` count every text once. Keras shards prepared datasets unchanged.

    Threads can use different tasks at the same time. A task must be compiled, trained and evaluated by one thread at a
    time. On TensorFlow, other threads can predict with it meanwhile. On JAX, Keras takes the weights out of the model
    while a method runs, so use a lock: only one thread at a time can use a task.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        outputs: Symbolic tensors. Outputs of the head.
        reader: `Reader`. Which raw data the task takes, and how they become batches.
        labels: `Labels`. What `y` is, and the loss and metrics that fit it.
        inputs: Symbolic tensors. Inputs of the model. Defaults to `None`, the inputs of the encoder.
        scalar_mix: `layers.ScalarMix` between the encoder and the head, or None. Defaults to `None`.
        settings: Dict of further arguments of the subclass's constructor, which become attributes and the config.
            Defaults to `None`, for none.
        name: String. Name of the model. Defaults to `None`.

    Attributes:
        preprocessor: The preprocessor of the reader.
        label_names: List of strings. Names of the classes, in the order of the logits. `None` without classes.
        fitted_on: String. For tasks that read single texts or pairs of texts, which of them the last `fit` received:
            `"texts"` or `"pairs"`. The other kind is then an error. `None` if it is unknown, as for prepared arrays.
        checkpoint_head: `checkpoints.base.TaskHead`. Which head of a checkpoint belongs to the class.
        saved_apart: Tuple of strings. Attributes that are models with checkpoints of their own, or None.
        head_adapters: The adapters that the head belongs to.
        further_heads: Tuple of layers of the head that are not part of the functional model.
        reads: Tuple of strings. Those outputs of the encoder that the head reads, if the encoder has them.
        head_is_pretrained: Boolean. Whether the head was pretrained together with the encoder. It is then frozen with
            adapters, and `"new"` does not select it.
    """

    preprocessor = of_part("reader", "preprocessor")
    label_names = of_part("labels", "names")
    checkpoint_head = TaskHead()
    saved_apart: tuple[str, ...] = ()
    further_heads: tuple[str, ...] = ()
    reads: tuple[str, ...] = ("pooled_output", "sequence_output")
    fitted_on = of_part("reader", "fitted_on")
    head_is_pretrained = False
    kept_error = None  # An error in a function that TensorFlow runs, which reports it without its type.

    def __new__(cls, *args, **kwargs):
        check_foreign_arguments(cls, kwargs)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, encoder, outputs, reader, labels, *, inputs=None, scalar_mix=None, settings=None, name=None):
        if reader.preprocessor is None and isinstance(encoder.input, dict) and "text" in encoder.input:
            reader = copy.copy(reader)
            reader.preprocessor = PlainText()
        if isinstance(reader.preprocessor, WindowPreprocessor) and not reader.takes_windows:
            raise ValueError(
                f"A `{type(self).__name__}` reads no windows. Pass `preprocessor.preprocessor`, which truncates texts. "
                "Received: a `WindowPreprocessor`"
            )
        check_preprocessor(encoder, reader)
        super().__init__(inputs=encoder.input if inputs is None else inputs, outputs=outputs, name=name)
        self.reader, self.labels = reader, labels
        # Keras must not track these: the task has all layers of the encoder that it uses, and no others.
        object.__setattr__(self, "_encoder", encoder)
        object.__setattr__(self, "scalar_mix", scalar_mix)
        object.__setattr__(self, "head_adapters", HeadAdapters(self))
        self.dtype_policy = encoder.dtype_policy
        self._made_for = None
        self._settings = tuple(settings or ())
        for argument, value in (settings or {}).items():
            setattr(self, argument, value)

    def over(self, inputs, outputs, reader, name):
        """Returns a task of the same class with the same encoder, labels and settings, but other tensors and data.

        Args:
            inputs, outputs: Symbolic tensors. Outputs are computed by layers of this task.
            reader: `Reader`.
            name: String.
        """
        other, settings = type(self).__new__(type(self)), {name: getattr(self, name) for name in self._settings}
        options = {"inputs": inputs, "scalar_mix": self.scalar_mix, "settings": settings, "name": name}
        Task.__init__(other, self.encoder, outputs, reader, self.labels, **options)
        return other

    @property
    def encoder(self):
        """The encoder. If a KerasHub backbone has adapters, an encoder over the backbone that contains them."""
        return current_encoder(self._encoder)

    # === Calling ===

    def __call__(self, inputs, *args, **kwargs):
        """Returns the outputs of one batch of prepared inputs or of raw text."""
        if self.reader.accepts(inputs):
            check_kind(self, inputs, self.fitted_on)
            inputs = self.reader.inputs(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None, mask=None):
        self.head_adapters.check()
        if isinstance(inputs, dict) and not isinstance(self.input, dict):  # `dataset` names all arrays.
            inputs = keras.tree.pack_sequence_as(self.input, [inputs[tensor.name] for tensor in self.inputs])
        return super().call(select_inputs(inputs, self.input), training=training, mask=mask)

    # === Training ===

    def compile(self, optimizer="auto", loss="auto", metrics="auto", weighted_metrics=None, **kwargs):
        """Configures training as `keras.Model.compile` does, with defaults for the task.

        Args:
            optimizer: As in Keras. `"adamw"` is a `FusedAdamW`. Defaults to `"auto"`, a `FusedAdamW` with a learning
                rate of 5e-5.
            loss: As in Keras, for logits, or a name that the task has for a loss. Defaults to `"auto"`, the loss of the
                task.
            metrics: As in Keras, or names that the task has for metrics. Defaults to `"auto"`, the metrics of the task,
                or the accuracy if these do not take the labels of the loss.
            weighted_metrics: As in Keras, or names that the task has for metrics. Defaults to `None`.
            **kwargs: As in Keras.

        Raises:
            ValueError: If the name of a loss or metric is unknown, if one of them expects probabilities or does not fit
                the task, if a metric takes other labels than the loss, if the model or its encoder was created outside
                of the strategy's scope, or if the optimizer accumulates gradients on several replicas of TensorFlow.
        """
        check_scope(self)
        check_accumulation(self, optimizer)
        warn_of_half_weights(self)
        if isinstance(optimizer, str) and optimizer in _RATES:
            optimizer = FusedAdamW(_RATES[optimizer])
        loss, metrics, weighted_metrics = self.labels.compiled(loss, metrics, weighted_metrics)
        if loss is None and kwargs.get("loss_weights") is not None:
            raise ValueError(
                "`loss_weights` cannot be used without a loss, as for tasks that have their own. "
                f"Received: loss_weights={kwargs['loss_weights']!r:.100}"
            )
        super().compile(optimizer, loss=loss, metrics=metrics, weighted_metrics=weighted_metrics, **kwargs)
        self.head_adapters.compile_again = False

    def compile_from_config(self, config):
        """Compiles a loaded model as it was before. Keras skips this for a class that overrides `compile`."""
        super().compile(**keras.saving.deserialize_keras_object(config))
        if getattr(self, "optimizer", None) is not None:
            self.optimizer.build(self.trainable_variables)

    def make_train_function(self, force=False):
        """Makes the train function as `keras.Model` does, and again if other weights are trainable than last time.

        Keras on TensorFlow would silently train the same weights as before. It would also trace the first step twice,
        the first time only to create the optimizer's variables, so this method creates them.
        """
        trainable = tuple(id(variable) for variable in self.trainable_variables)
        force, self._made_for = force or trainable != self._made_for, trainable
        if trainable:
            build_optimizer(self)
        return super().make_train_function(force=force)

    def train_step(self, *args):
        """Runs a training step as `keras.Model` does, on TensorFlow without the gradients of frozen weights."""
        if keras.backend.backend() != "tensorflow":
            return super().train_step(*args)
        return reducible(self, train_step(self, *args, weight_of=self.labels.weight_of))

    def dataset(self, x, y=None, sample_weight=None, *, batch_size=None, shuffle=False):
        """Returns the user's data as a dataset of batches for `keras.Model.fit`, `evaluate` and `predict`.

        Only this method decides what the data is. All methods of the task, and those that adapt it, call it.

        Args:
            x: One of the following:
                - Raw text in memory: a list, an array, a column of a table, or a tuple of two of these for pairs. A
                  `TokenClassifier` also takes sentences as lists of words.
                - Prepared arrays: a dict of the encoder's inputs, or a list of them in the order of `model.input`.
                - A `tf.data.Dataset` of batches of texts or of prepared inputs.
                - A loader: an iterable of such batches, `(x, y)` or `(x, y, sample_weight)`, as torch's and Grain's.
                - Any other dataset that Keras takes, such as `text.batches`. It is returned unchanged.
            y: Labels of data in memory. Defaults to `None`, for prediction and for datasets, which contain labels.
            sample_weight: Array of floats. Weights of the rows of data in memory. Defaults to `None`.
            batch_size: Integer. Number of rows per batch, for data in memory. Defaults to 32, rounded up to a multiple
                of the number of replicas.
            shuffle: Boolean. Whether data in memory are shuffled in every epoch. If `False`, they keep their order.
                Defaults to `False`.

        Returns:
            `Batches` for data in memory, or an empty `keras.utils.PyDataset` if they have no rows. A
            `tf.data.Dataset` for a loader, which is read once to see its first batch; a loader of prepared inputs is
            returned unchanged, unless the task makes its targets. Otherwise a dataset of the type of `x`.

        Raises:
            ValueError: If raw text is passed to a task without a preprocessor; if a text is not a string; if texts and
                labels differ in number; or if a dataset is passed together with labels.

        Example:
        ```python
        model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
        train = model.dataset(["What a film!", "What a bore.", "Fine."], [1, 0, 1], batch_size=2, shuffle=True)
        inputs, labels = train[0]
        model.compile()
        model.fit(train, epochs=2)
        ```
        """
        check_columns(x, y, sample_weight)
        y = None if y is None else self.labels.encode(y)
        x = stream_of(self, x, "fit")
        data = batches_or_stream(self, columns_of(self, x), x, y, sample_weight, batch_size, shuffle)
        return self.labels.targets(data, self)

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
        """Trains the model as `keras.Model.fit` does.

        `x`, `y`, `sample_weight` and the tuple `validation_data` can be anything that `dataset` accepts. `class_weight`
        is a dict from classes to weights. A `TextClassifier` also takes names as classes, and `"balanced"`, which gives
        all classes the same total weight.

        Raises:
            ValueError: If the model is not compiled, if `dataset` rejects the data, if labels are missing, or if the
                replicas cannot share the batches.
        """
        check_scope(self)
        require_compiled(self, "fit")
        data, validation_data, class_weight = ready_for_fit(
            self,
            x,
            y,
            sample_weight=sample_weight,
            batch_size=batch_size,
            shuffle=shuffle,
            class_weight=class_weight,
            validation_split=validation_split,
            validation_data=validation_data,
            validation_batch_size=kwargs.get("validation_batch_size"),
            callbacks=callbacks,
        )
        if not isinstance(callbacks, keras.callbacks.CallbackList):  # It already knows its model and parameters.
            callbacks = [*keras.tree.flatten(callbacks or []), ScheduleLength(), *epochs_of_stream(data)]
            callbacks.sort(key=lambda callback: isinstance(callback, TrainingCheckpoint))  # They write what others did.
        options = {
            "validation_data": validation_data,
            "class_weight": class_weight,
            "epochs": epochs,
            "verbose": verbose,
            # `Batches` shuffle themselves with their own seed, and streams have an order.
            "shuffle": bool(shuffle) and isinstance(data, keras.utils.PyDataset) and not isinstance(data, Batches),
            **kwargs,
        }
        settings = {"shuffle": bool(shuffle), "class_weight": class_weight}
        fit = mends_failures(self, "train_function")(super().fit)
        return fit_in_run(fit, data, callbacks, options, settings=settings, position=position_of_stream(data))

    def evaluate(self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, **kwargs):
        """Returns loss and metrics as `keras.Model.evaluate` does. `x`, `y` and `sample_weight` are as for `dataset`.

        Raises:
            ValueError: If the model is not compiled, if `dataset` rejects the data, if labels are missing, or, on
                replicas of TensorFlow, if there are fewer rows than replicas.
        """
        require_compiled(self, "evaluate")
        check_kind(self, x, self.fitted_on)
        # Keras's `fit` evaluates the validation data that it has prepared.
        if batches_of(x) is x:
            x = as_pipeline(ready_data(self, "evaluate", x, y, sample_weight, batch_size))
        with mends_failures(self, "test_function"):
            return super().evaluate(x, verbose=verbose, **kwargs)

    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None):
        """Returns the outputs as `keras.Model.predict` does, one row for each text, in order. `x` is as for `dataset`.

        The outputs of a `TokenClassifier` and of a `CausalLM` are lists of arrays, one for each sentence or text. Some
        tasks predict prepared data only, and have other methods for texts, such as `SpanExtractor.answer`.

        If `x` has no rows, the result has none, and the model does not run.

        Raises:
            ValueError: If `dataset` rejects the data, or if `steps` is used with data in memory.
            RuntimeError: If a callback stops the prediction of data in memory.
        """
        check_kind(self, x, self.fitted_on)
        data = ready_data(self, "predict", x, batch_size=batch_size)
        if not isinstance(data, (Batches, NoRows)):
            with mends_failures(self, "predict_function"):
                return super().predict(data, verbose=verbose, steps=steps, callbacks=callbacks)
        if steps is not None:
            raise ValueError(
                "`steps` cannot be used with data in memory, because `predict()` returns a result for each row. "
                f"Received: steps={steps}"
            )
        if isinstance(data, NoRows):
            return self.reader.nothing(self, data.columns)
        data = data.apart(labels=None, sample_weight=None, makes_labels=False)
        trace_predict(self, data[0])
        run = super().predict
        predict = Prediction(self, lambda batches, **options: run(as_pipeline(batches), **options), verbose, callbacks)
        with mends_failures(self, "predict_function"):
            return self.reader.restore(data, predict)

    # === One batch ===

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        """Trains on one batch as `keras.Model.train_on_batch` does. `x` may be raw text."""
        batch = ready_batch(self, "train_on_batch", x, y, sample_weight)
        if class_weight is not None:
            class_weight = self.labels.class_weight(class_weight, batch[1])
        self.fitted_on = kind_of(self, x)
        with mends_failures(self, "train_function"):
            return super().train_on_batch(*batch, class_weight=class_weight, return_dict=return_dict)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
        """Evaluates one batch as `keras.Model.test_on_batch` does. `x` may be raw text."""
        check_kind(self, x, self.fitted_on)
        batch = ready_batch(self, "test_on_batch", x, y, sample_weight)
        with mends_failures(self, "test_function"):
            return super().test_on_batch(*batch, return_dict=return_dict)

    def predict_on_batch(self, x):
        """Returns what `predict` returns, for one batch. `x` may be raw text."""
        self.head_adapters.check()
        self.reader.check(x, "predict_on_batch")
        if not self.reader.accepts(x):
            return super().predict_on_batch(x)
        check_kind(self, x, self.fitted_on)
        data = self.dataset(x, batch_size=ALL_ROWS)
        if isinstance(data, NoRows):
            return self.reader.nothing(self, data.columns)
        predict = super().predict_on_batch
        return self.reader.restore(data, Prediction(self, lambda batches, **options: predict(batches[0][0])))

    # === Export and files ===

    def signatures(self, pairs=False):
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Whether requests hold pairs of texts. Defaults to `False`.

        Returns:
            Dict from names to `Signature`s: `"tokens"`, from the encoder's inputs to logits, unless the encoder takes
            text. Subclasses add signatures that take text.

        Raises:
            ValueError: If `pairs=True` and the task does not support pairs.
        """
        if pairs:
            raise ValueError(f"`{type(self).__name__}` does not support pairs of texts. Received: pairs=True")
        if not isinstance(self.input, dict) or "text" in self.input:
            return {}

        def tokens(**inputs):
            outputs = self(inputs, training=False)
            return outputs if isinstance(self.output, dict) else {"logits": outputs}

        axes = min(len(output.shape) - 1 for output in keras.tree.flatten(self.output))
        return {"tokens": Signature(tokens, self.input, shared_axes=axes)}

    def get_config(self):
        return config_of(self, self._settings)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return from_config(cls, config, custom_objects)

    def save_own_variables(self, store):
        self.head_adapters.check()
        super().save_own_variables(store)
        store_heads(self.head_adapters, store)

    def load_own_variables(self, store):
        values, heads = take_heads(self.head_adapters, store)
        super().load_own_variables(values)
        self.head_adapters.heads.update(heads)
