"""The base of all tasks: a functional model from an encoder's inputs to a head, which takes raw text."""

import keras

from keras_transfer.batches import Batches, all_class_weights, as_pipeline, batches, batches_of, counting_epochs
from keras_transfer.distribute import StringInputs, check_distribution, check_scope, replicas_of, share
from keras_transfer.encoders.base import select_inputs
from keras_transfer.keras_internals import trace_predict
from keras_transfer.tasks.base.checks import check_preprocessor, require_compiled
from keras_transfer.tasks.base.compiled import Compiled
from keras_transfer.tasks.base.failures import mends_failures
from keras_transfer.tasks.base.given_adapters import GivenAdapters
from keras_transfer.tasks.base.one_batch import OneBatch
from keras_transfer.tasks.base.prediction import Prediction
from keras_transfer.tasks.base.pretrained import Pretrained
from keras_transfer.tasks.base.saved import Saved
from keras_transfer.tasks.base.signatures import Signature
from keras_transfer.tasks.inputs import (
    NoRows,
    batch_arrays,
    check_columns,
    check_inputs,
    check_kind,
    check_stream_shares,
    check_weights_of_classes,
    checked_batches,
    columns_of,
    count_rows,
    is_stream,
    kind_of,
    lacks_labels,
    no_outputs,
    prepare_metrics,
    preprocess_stream,
    split_last,
    validation_parts,
)
from keras_transfer.text.base import is_text, to_columns
from keras_transfer.text.preprocessors import PlainText, WindowPreprocessor
from keras_transfer.training.optimizers import build_optimizer, train_step
from keras_transfer.training.resume import TrainingCheckpoint
from keras_transfer.training.runs import Run, ScheduleLength


class Task(Compiled, OneBatch, GivenAdapters, Pretrained, Saved, StringInputs, keras.Model):
    """Base class of the tasks: a functional model from an encoder's inputs, through its layers, to a head.

    Each layer of the encoder is a layer of the task. `model.encoder` and `model.preprocessor` are references.

    `fit`, `evaluate` and `predict` take raw text and whatever else `dataset` describes. The outputs are logits, in the
    order of the texts. The methods for one batch, such as `train_on_batch`, and the call of the model also take raw
    text.

    Several replicas (`tf.distribute`, or `keras.distribution` on JAX) share each batch of data in memory evenly.
    `evaluate` and `predict` count every text once. Keras shards prepared datasets unchanged. Use full batches: the
    gradients of all replicas have the same weight, even if a replica has only few rows of a short batch.

    Threads can use different tasks at the same time. A task must be compiled, trained and evaluated by one thread at a
    time. On TensorFlow, other threads can predict with it meanwhile. On JAX, Keras takes the weights out of the model
    while a method runs, so use a lock: only one thread at a time can use a task.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        preprocessor: Callable from texts to the encoder's inputs, or None if the encoder takes text itself or if only
            prepared data are used.
        outputs: Symbolic tensors. Outputs of the head.
        name: String. Name of the model. Defaults to `None`.
        scalar_mix: `layers.ScalarMix` between the encoder and the head, or None. Defaults to `None`.
        inputs: Symbolic tensors. Inputs of the model. Defaults to `None`, the inputs of the encoder.

    Attributes:
        fitted_on: String. For tasks that read single texts or pairs of texts, which of them the last `fit` received:
            `"texts"` or `"pairs"`. The other kind is then an error. `None` if it is unknown, as for prepared arrays.
    """

    label_names = None  # Names of the classes, in the order of the logits.
    makes_targets = False  # Whether raw text needs no labels, because `make_targets` makes them.
    predicts_one_class = True  # Whether the outputs are logits whose softmax is the likelihood of labels.
    takes_class_weight = True  # Whether `fit` takes `class_weight`.
    takes_windows = False  # Whether the task splits the rows of a `text.WindowPreprocessor`.
    takes_either = False  # Whether single texts and pairs of texts are both valid, and mean something different.
    part = None  # What the upper part of another task checks, from `adaptation.cache_features`.
    fitted_on = None  # What it was trained on: "texts", "pairs", or None if that is unknown.

    def __init__(self, encoder, preprocessor, outputs, name=None, scalar_mix=None, inputs=None):
        if preprocessor is None and isinstance(encoder.input, dict) and "text" in encoder.input:
            preprocessor = PlainText()
        if isinstance(preprocessor, WindowPreprocessor) and not self.takes_windows:
            raise ValueError(
                f"A `{type(self).__name__}` reads no windows. Pass `preprocessor.preprocessor`, which truncates texts. "
                "Received: a `WindowPreprocessor`"
            )
        check_preprocessor(encoder, preprocessor)
        super().__init__(inputs=encoder.input if inputs is None else inputs, outputs=outputs, name=name)
        # Keras must not track these: the task has all layers of the encoder that it uses, and no others.
        object.__setattr__(self, "_encoder", encoder)  # for `Pretrained.encoder`
        object.__setattr__(self, "preprocessor", preprocessor)
        object.__setattr__(self, "scalar_mix", scalar_mix)
        # Maps inactive adapters to the values of their head, for `adaptation.set_active_adapter`.
        object.__setattr__(self, "adapter_heads", {})
        self.remember_adapters()
        self.dtype_policy = encoder.dtype_policy
        self._made_for = None

    def call(self, inputs, training=None, mask=None):
        self.check_adapters()
        if isinstance(inputs, dict) and not isinstance(self.input, dict):  # `dataset` names all arrays.
            inputs = keras.tree.pack_sequence_as(self.input, [inputs[tensor.name] for tensor in self.inputs])
        return super().call(select_inputs(inputs, self.input), training=training, mask=mask)

    # === What a subclass defines ===

    def default_loss(self):
        """Returns the loss that `compile(loss="auto")` uses."""
        raise NotImplementedError(f"{type(self).__name__} must implement `default_loss`.")

    def default_metrics(self):
        """Returns the metrics that `compile(metrics="auto")` uses."""
        raise NotImplementedError(f"{type(self).__name__} must implement `default_metrics`.")

    def named_losses(self):
        """Returns a dict from further names that `compile(loss=...)` takes to functions that return the losses."""
        return {}

    def named_metrics(self):
        """Returns a dict from further names that `compile(metrics=...)` takes to functions that return the metrics."""
        return {}

    def encode_labels(self, labels):
        """Returns labels in memory as the loss takes them. Labels that need no change are returned as they are."""
        return labels

    def labels_of_any_rows(self, labels):
        """Returns labels in memory in a form that `encode_labels` reads in the same way if some rows are left out."""
        return labels

    def check_labels(self, labels):
        """Raises a `ValueError` if labels in memory cannot be labels of this task."""
        raise NotImplementedError(f"{type(self).__name__} must implement `check_labels`.")

    def check_class_weight(self, class_weight):
        """Raises a `ValueError` if `class_weight` is not a dict from classes to weights, or if the task takes none."""
        if class_weight is not None and not self.takes_class_weight:
            raise ValueError(f"A `{type(self).__name__}` has no `class_weight`. Received: class_weight={class_weight}")
        if class_weight is not None and hasattr(self.output, "shape"):  # one output
            check_weights_of_classes(class_weight, self.output.shape[-1])

    def encode_class_weight(self, class_weight, labels):
        """Returns `class_weight` as Keras takes it, given all labels in memory or None."""
        return class_weight

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
            return {"logits": self(inputs, training=False)}

        return {"tokens": Signature(tokens, self.input, shared_axes=len(self.output.shape) - 1)}

    # === What a subclass overrides if its raw data are not texts ===

    def is_raw(self, x):
        """Returns whether `x` is raw data in memory, which the preprocessor takes."""
        return is_text(x)

    def raw_columns(self, x):
        """Returns raw data as columns that can be sliced: an array or a list, or a tuple of them."""
        return to_columns(x)

    def make_batches(self, x, y, batch_size, shuffle, sample_weight):
        """Returns raw data as `Batches`."""
        options = {"batch_size": batch_size, "shuffle": shuffle, "sample_weight": sample_weight}
        return batches(x, y, preprocessor=self.preprocessor, **options)

    def make_targets(self, dataset):
        """Returns a dataset of raw text with the targets that the task makes from it, and any other one unchanged."""
        return dataset

    def prepare_stream(self, dataset):
        """Converts a `tf.data.Dataset` to one of prepared batches."""
        return preprocess_stream(self, dataset)

    def predict_in_order(self, data, predict):
        """Returns the outputs for `Batches` in the order of the texts.

        Args:
            data: `Batches`.
            predict: `Prediction`. A call returns the outputs of batches in their own order.
        """
        restore = data.restorer()
        return restore(predict(data))

    def predict_nothing(self, columns):
        """Returns the outputs for data without rows, which are never passed to the model."""
        return no_outputs(self, columns)

    def placeholder_labels(self, x):
        """Returns arbitrary valid labels for raw data whose batches cannot be read without labels, or None."""
        return None

    def mask_labels(self, labels, sample_weight):
        """Returns labels of a batch without placeholders, and sample weights that are 0 where placeholders were.

        Args:
            labels: Array of labels, or None.
            sample_weight: Array of sample weights, or None.
        """
        return labels, sample_weight

    # === Compiling ===

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

    def train_step(self, *args, **kwargs):
        """Runs a training step as `keras.Model` does, on TensorFlow without the gradients of frozen weights."""
        if keras.backend.backend() != "tensorflow":
            return super().train_step(*args, **kwargs)
        return train_step(self, *args, **kwargs)

    # === Data ===

    def dataset(self, x, y=None, sample_weight=None, batch_size=None, shuffle=False):
        """Returns the user's data as a dataset of batches for `keras.Model.fit`, `evaluate` and `predict`.

        Only this method decides what the data is. All methods of the task, and those that adapt it, call it.

        Args:
            x: One of the following:
                - Raw text in memory: a list, an array, a column of a table, or a tuple of two of these for pairs. A
                  `TokenClassifier` also takes sentences as lists of words.
                - Prepared arrays: a dict of the encoder's inputs, or a list of them in the order of `model.input`.
                - A `tf.data.Dataset` of batches of texts or of prepared inputs.
                - Any other dataset that Keras takes, such as `text.batches`. It is returned unchanged.
            y: Labels of data in memory. Defaults to `None`, for prediction and for datasets, which contain labels.
            sample_weight: Array of floats. Weights of the rows of data in memory. Defaults to `None`.
            batch_size: Integer. Number of rows per batch, for data in memory. Defaults to 32, rounded up to a multiple
                of the number of replicas.
            shuffle: Boolean. Whether data in memory are shuffled in every epoch. If `False`, they keep their order.
                Defaults to `False`.

        Returns:
            `Batches` for data in memory, or an empty `keras.utils.PyDataset` if they have no rows. Otherwise a
            dataset of the type of `x`.

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
        y = None if y is None else self.encode_labels(y)
        return self.make_targets(self._dataset_of(columns_of(self, x), x, y, sample_weight, batch_size, shuffle))

    def _dataset_of(self, columns, x, y, sample_weight, batch_size, shuffle):
        """Returns `dataset(x, ...)`, given the columns of `x`."""
        if columns is None:
            if y is not None or sample_weight is not None:
                raise ValueError(
                    "`y` and `sample_weight` must be None if `x` is a dataset, which contains them. "
                    f"Received: x of type {type(x).__name__}, and {'sample_weight' if y is None else 'y'}"
                )
            return self.prepare_stream(x) if is_stream(x) else x
        if count_rows(columns) == 0:
            return NoRows(columns)
        if batch_size is None:
            replicas, _ = replicas_of(self)
            batch_size = -(-32 // replicas) * replicas
        if isinstance(columns, dict):
            return batch_arrays(columns, y, sample_weight, batch_size, shuffle)
        return self.make_batches(columns, y, batch_size, shuffle, sample_weight)

    def _dataset_for(self, method, x, y=None, sample_weight=None, batch_size=None, shuffle=False):
        """Returns `dataset(...)` in the form that a method needs on the model's replicas."""
        if self.part is not None:
            self.part.check_data(self, method, x)
        self.check_adapters()
        check_distribution(self)
        check_inputs(self, x)
        check_columns(x, y, sample_weight)
        y = None if y is None else self.encode_labels(y)
        labels = x.labels if isinstance(x, Batches) else y
        columns = columns_of(self, x)
        if labels is not None:
            self.check_labels(labels)
        data = self._dataset_of(columns, x, y, sample_weight, batch_size, shuffle)
        data = data if method == "predict" else self.make_targets(data)
        if method != "predict" and isinstance(data, NoRows):
            raise ValueError("`x` must have at least one row. Received: no rows")
        if method != "predict" and isinstance(data, Batches) and not data.has_labels:
            raise ValueError(f"`{method}` requires labels. Received: y=None")
        if method != "predict" and not self.makes_targets and lacks_labels(data):
            raise ValueError(
                f"`{method}` requires a dataset of `(inputs, labels)`. Received: a `tf.data.Dataset` of "
                f"{data.element_spec}"
            )
        if is_stream(data) and data is not x:
            check_stream_shares(self, x, method)
        if method == "evaluate" and isinstance(data, Batches):
            data = data.in_one_epoch()
        prepare_metrics(self, data)
        return share(self, data, method) if isinstance(data, Batches) else checked_batches(self, data, method)

    # === Training and prediction ===

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
        columns = None
        if validation_split:
            check_inputs(self, x)
            check_columns(x, y, sample_weight)
            columns = columns_of(self, x)
        if columns is not None:
            if y is None and not self.makes_targets:
                raise ValueError("`validation_split` requires labels. Received: y=None")
            y = y if y is None else self.labels_of_any_rows(y)
            (x, y, sample_weight), validation_data = split_last(columns, y, sample_weight, validation_split)
            validation_split = 0.0
        kind = kind_of(self, x)
        if class_weight is not None:
            encoded = x.labels if isinstance(x, Batches) else None if y is None else self.encode_labels(y)
            class_weight = self.encode_class_weight(class_weight, encoded)
        self.check_class_weight(class_weight)
        if validation_data is not None:
            parts = validation_parts(self, validation_data)
            check_kind(self, parts[0], kind)
            size = kwargs.get("validation_batch_size")
            validation_data = self._dataset_for("evaluate", *parts, batch_size=batch_size if size is None else size)
        data = self._dataset_for("fit", x, y, sample_weight, batch_size, bool(shuffle))
        self.fitted_on = kind
        pipeline = as_pipeline(data)
        if not isinstance(callbacks, keras.callbacks.CallbackList):  # It already knows its model and parameters.
            callbacks = [*keras.tree.flatten(callbacks or []), ScheduleLength()]
            callbacks.sort(key=lambda callback: isinstance(callback, TrainingCheckpoint))  # They write what others did.
        settings = {"shuffle": bool(shuffle), "class_weight": class_weight}
        run = Run(data, getattr(callbacks, "callbacks", callbacks), validation_data is not None, settings)
        shuffle = shuffle and not isinstance(data, Batches)  # These shuffle themselves with their own seed.
        with run, mends_failures(self, "train_function"), counting_epochs(data, pipeline, callbacks) as callbacks:
            return super().fit(
                pipeline,
                epochs=epochs,
                verbose=verbose,
                callbacks=callbacks,
                validation_split=validation_split,
                validation_data=as_pipeline(validation_data),
                shuffle=shuffle,
                class_weight=all_class_weights(class_weight, pipeline),
                **kwargs,
            )

    def evaluate(self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, **kwargs):
        """Returns loss and metrics as `keras.Model.evaluate` does. `x`, `y` and `sample_weight` are as for `dataset`.

        Raises:
            ValueError: If the model is not compiled, if `dataset` rejects the data, if labels are missing, or if the
                replicas cannot share the batches: there must be at least as many rows as replicas, and on JAX a
                multiple.
        """
        require_compiled(self, "evaluate")
        check_kind(self, x, self.fitted_on)
        # Keras's `fit` evaluates the validation data that it has prepared.
        if batches_of(x) is x:
            x = as_pipeline(self._dataset_for("evaluate", x, y, sample_weight, batch_size))
        with mends_failures(self, "test_function"):
            return super().evaluate(x, verbose=verbose, **kwargs)

    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None):
        """Returns the logits as `keras.Model.predict` does, one row for each text, in order. `x` is as for `dataset`.

        If `x` has no rows, the result has none, and the model does not run.

        Raises:
            ValueError: If `dataset` rejects the data, or if `steps` is used with data in memory.
            RuntimeError: If a callback stops the prediction of data in memory.
        """
        check_kind(self, x, self.fitted_on)
        data = self._dataset_for("predict", x, batch_size=batch_size)
        if not isinstance(data, (Batches, NoRows)):
            with mends_failures(self, "predict_function"):
                return super().predict(data, verbose=verbose, steps=steps, callbacks=callbacks)
        if steps is not None:
            raise ValueError(
                "`steps` cannot be used with data in memory, because `predict()` returns a result for each row. "
                f"Received: steps={steps}"
            )
        if isinstance(data, NoRows):
            return self.predict_nothing(data.columns)
        data = data.without_labels()
        trace_predict(self, data[0])
        run = super().predict
        predict = Prediction(self, lambda batches, **options: run(as_pipeline(batches), **options), verbose, callbacks)
        with mends_failures(self, "predict_function"):
            return self.predict_in_order(data, predict)
