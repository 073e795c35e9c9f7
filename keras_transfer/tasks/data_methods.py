"""Keras's methods that accept data, such as `fit`, for the raw text of a task."""

import contextlib
import logging
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import expects
from keras_transfer.data import check_apart, compiles_each_length, label_of_accuracy
from keras_transfer.distribute import check_scope, replicas_of
from keras_transfer.keras_internals import keep_values, trace_predict
from keras_transfer.tasks.card_facts import FitRecord, remember_fit
from keras_transfer.tasks.checks import check_fit_options, require_compiled
from keras_transfer.tasks.reader import ALL_ROWS, check_kind, kind_of
from keras_transfer.tasks.source import batch_of, divided, read_data, source_of, validation_of
from keras_transfer.tasks.token_targets import TokenTargets
from keras_transfer.training import TrainingCheckpoint, build_optimizer, fit_in_run

_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.
log = logging.getLogger("keras_transfer")
_SHARE, _ROWS, _TOKENS = 0.1, 2000, 100  # Fewer tokens say nothing.


class DataMethods(_Task):
    """A mixin for `Task` with the methods of `keras.Model` that accept data. `fits` has a `FitRecord` of each `fit`."""

    fits: tuple[FitRecord, ...] = ()

    def dataset(
        self, x: Any, y: Any = None, sample_weight: Any = None, *, batch_size: int | None = None, shuffle: bool = False
    ) -> Any:
        """Returns the user's data as a dataset of batches for `keras.Model.fit`, `evaluate` and `predict`.

        This method alone decides how data is interpreted. All methods of the task, and the functions that adapt it,
        call it.

        Args:
            x: One of the following:
                - Raw text in memory: a list, an array, a column of a table, or a tuple of two of these for pairs. A
                  `TokenClassifier` also accepts sentences as lists of words.
                - Prepared arrays: a dict of the encoder's inputs, or a list of them in the order of `model.input`.
                - A loader, a `tf.data.Dataset` or a generator of batches of all this: `x`, `(x, y)` or `(x, y,
                  sample_weight)`. Labels that are numbers are then positions.
                - Any other dataset that Keras accepts, such as `text.batches`. It is returned unchanged.
            y: Labels of data in memory. Defaults to `None`, for prediction and for datasets, which contain labels.
            sample_weight: Array of floats. Weights of the rows of data in memory. Defaults to `None`.
            batch_size: Integer. Number of rows per batch, for data in memory. Defaults to `None`, for 32, rounded up to
                a multiple of the number of replicas.
            shuffle: Boolean. Whether to shuffle data in memory in every epoch. If `False`, the data keeps its order.
                Defaults to `False`.

        Returns:
            `Batches` for data in memory, or an empty `keras.utils.PyDataset` if the data has no rows. A
            `tf.data.Dataset` for a loader or another `tf.data.Dataset`, which is iterated once to inspect its first
            batch. Any other dataset unchanged.

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
        return read_data(self, "dataset", x, y, sample_weight, batch_size, shuffle).for_user()

    @expects()
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: str | int = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model as `keras.Model.fit` does, on raw text or prepared data.

        Args:
            x: Training data in any form that `dataset` accepts, such as a list of texts.
            y: Labels of data in memory. Defaults to `None`, for datasets, which contain labels.
            batch_size: Integer. Number of rows per batch, for data in memory. Defaults to `None`, for 32.
            epochs: Integer. Number of the last epoch to train. Defaults to `1`.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line per epoch). Defaults to `"auto"`.
            callbacks: List of Keras callbacks. Defaults to `None`.
            validation_split: Float between 0 and 1. Fraction of the data in memory, taken from its end, to validate on.
                For data that is sorted by its labels, use `datasets.hold_out`. Defaults to `0.0`.
            validation_data: Tuple `(x, y)` or `(x, y, sample_weight)`, or a dataset, to evaluate after each epoch. It
                overrides `validation_split`. Defaults to `None`.
            shuffle: Boolean. Whether to shuffle the rows in every epoch. Defaults to `True`.
            class_weight: Dict from classes, their names or numbers, to weights in the loss, which are 1 for others, or
                `"balanced"`, which gives all classes the same total weight. For a `TextClassifier`, and for the words
                of a `TokenClassifier`. Defaults to `None`.
            sample_weight: Array of floats `[rows]` of at least 0. Weights of the rows in the loss, which are multiplied
                by those of the classes. For several heads, also a dict with an array for each of them. Defaults to
                `None`.
            **kwargs: Other arguments of `keras.Model.fit`, such as `initial_epoch` or `steps_per_epoch`.

        Returns:
            A `keras.callbacks.History`, whose `history` has the loss and metrics of each epoch.

        Raises:
            ValueError: If the model is not compiled, if `dataset` rejects the data, if labels are missing, if the
                replicas cannot share the batches, or if another argument is invalid.
        """
        check_scope(self)
        require_compiled(self, "fit")
        check_fit_options(epochs, callbacks, validation_split, shuffle, kwargs)
        if validation_split and validation_data is None:  # As in Keras, the data takes precedence.
            x, validation_data = divided(self, x, y, sample_weight, validation_split)
            y = sample_weight = None
        if validation_data is not None:
            size = kwargs.get("validation_batch_size")
            validation_data = validation_of(self, validation_data, batch_size if size is None else size)
        data = source_of(self, "fit", x, y, sample_weight, batch_size, bool(shuffle), class_weight)
        kind = kind_of(self, data)
        if validation_data is not None:
            check_kind(self, kind_of(self, validation_data), kind)
        if not isinstance(callbacks, keras.callbacks.CallbackList):  # It already knows its model and parameters.
            callbacks = sorted(keras.tree.flatten(callbacks or []), key=writes_states)
        given = getattr(callbacks, "callbacks", callbacks)
        if any(map(writes_states, given)):
            check_apart(data.position, None if validation_data is None else validation_data.position)
        self.fitted_on = kind
        warn_of_unknown_tokens(self, data)
        options = {
            "validation_data": validation_data,
            "epochs": epochs,
            "verbose": verbose,
            **data.options_of_fit(bool(shuffle), class_weight),
            **kwargs,
        }
        settings, before = {"shuffle": bool(shuffle), "class_weight": class_weight}, getattr(self, "history", None)
        keras_fit = super().fit

        def fit(*args, **kwargs):
            with mends_failures(self, "train_function", data):
                return keras_fit(*args, **kwargs)

        try:
            found = fit_in_run(fit, data, callbacks, options, settings=settings)
        except BaseException:
            remember_fit(self, before, ())  # Callbacks restore weights only at the end.
            raise
        remember_fit(self, before, given)
        warn_of_one_answer(self, data, validation_data, found.history)
        return found

    @expects()
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: str | int = "auto",
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Returns the loss and metrics as `keras.Model.evaluate` does.

        Args:
            x: Data in any form that `dataset` accepts, such as a list of texts.
            y: Labels of data in memory. Defaults to `None`, for datasets, which contain labels.
            batch_size: Integer. Number of rows per batch, for data in memory. Defaults to `None`, for 32.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.
            sample_weight: Array of floats `[rows]`. Weights of the rows. Defaults to `None`.
            **kwargs: Other arguments of `keras.Model.evaluate`, such as `return_dict`.

        Returns:
            Float, the loss, or a list of the loss and the metrics. With `return_dict=True`, a dict from their names to
            floats.

        Raises:
            ValueError: If the model is not compiled, if `dataset` rejects the data, if labels are missing, or, on
                replicas of TensorFlow, if there are fewer rows than replicas.
        """
        require_compiled(self, "evaluate")
        data = getattr(x, "made_from", x)
        if not getattr(data, "one_epoch", False):  # Keras's `fit` evaluates the validation data that it has received.
            data = source_of(self, "evaluate", x, y, sample_weight, batch_size)
            check_kind(self, kind_of(self, data), self.fitted_on)
            x = data.for_keras()
        with mends_failures(self, "test_function", data):
            return super().evaluate(x, verbose=verbose, **kwargs)

    @expects()
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: str | int = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Returns the outputs as `keras.Model.predict` does, one row for each text, in order.

        The outputs of a `TokenClassifier` and of a `CausalLM` are lists of arrays, one for each sentence or text. Some
        tasks predict prepared data only, and have other methods for texts, such as `SpanExtractor.answer`. A text that
        occurs several times is computed once. If `x` has no rows, the result has none, and the model does not run.

        Args:
            x: Data in any form that `dataset` accepts, such as a list of texts.
            batch_size: Integer. Number of rows per batch, for data in memory. Defaults to `None`, for 32. On a CPU,
                unless XLA compiles the step or there are several replicas, rows of one text or pair each are in batches
                of up to 1,024 tokens that take the least time: at least 4 rows, or 32 with an encoder that is no
                `TransformerStack`.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.
            steps: Integer. Number of batches of a dataset to predict. Defaults to `None`, for all of them.
            callbacks: List of Keras callbacks. Defaults to `None`.

        Returns:
            Float array of logits, such as `[texts, classes]`. A dict or list of arrays if the model has several
            outputs.

        Raises:
            ValueError: If `dataset` rejects the data, or if `steps` is used with data in memory.
            RuntimeError: If a callback stops the prediction of data in memory.
        """
        distinct, places = distinct_rows(x) if self.reader.accepts(x) else (x, None)
        if places is not None:  # Explanations of texts, such as LIME's, ask for the same ones again and again.
            found = DataMethods.predict(self, distinct, batch_size, verbose, steps, callbacks)
            if isinstance(found, list) and not isinstance(self.output, list):  # It has an array for each row.
                return [found[place] for place in places]
            return keras.tree.map_structure(lambda output: output[places], found)
        data = source_of(self, "predict", x, batch_size=batch_size)
        check_kind(self, kind_of(self, data), self.fitted_on)
        if not data.in_memory:
            with mends_failures(self, "predict_function", data):
                return super().predict(data.for_keras(), verbose=verbose, steps=steps, callbacks=callbacks)
        if steps is not None:
            raise ValueError(
                "`steps` cannot be used with data in memory, because `predict()` returns a result for each row. "
                f"Leave it out, or pass fewer rows. Received: steps={steps}"
            )
        if data.is_empty:
            return self.reader.nothing(self, data.columns)
        data = data.apart(labels=None, sample_weight=None, makes_labels=False)
        trace_predict(self, data[0])
        run = super().predict
        predict = Prediction(self, lambda batches, **options: run(batches.for_keras(), **options), verbose, callbacks)
        with mends_failures(self, "predict_function", data):
            return self.reader.restore(data, predict)

    # === One batch ===

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Trains on one batch as `keras.Model.train_on_batch` does.

        Args:
            x: Raw text in memory or prepared inputs: one batch.
            y: Labels `[batch]` in any form that `fit` accepts. Defaults to `None`, for tasks that make their targets.
            sample_weight: Array of floats `[batch]`. Weights of the rows. Defaults to `None`.
            class_weight: Dict from classes to weights, as for `fit`. Defaults to `None`.
            return_dict: Boolean. Whether to return a dict instead of a list. Defaults to `False`.

        Returns:
            Float, the loss, or a list or dict of the loss and the metrics.

        Raises:
            ValueError: If the model is not compiled, if the batch is invalid, or if labels are missing.
        """
        batch, kind = batch_of(self, "train_on_batch", x, y, sample_weight, class_weight)
        self.fitted_on = kind
        with mends_failures(self, "train_function"):
            return super().train_on_batch(*batch, return_dict=return_dict)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """Evaluates one batch as `keras.Model.test_on_batch` does.

        Args:
            x: Raw text in memory or prepared inputs: one batch.
            y: Labels `[batch]` in any form that `fit` accepts. Defaults to `None`, for tasks that make their targets.
            sample_weight: Array of floats `[batch]`. Weights of the rows. Defaults to `None`.
            return_dict: Boolean. Whether to return a dict instead of a list. Defaults to `False`.

        Returns:
            Float, the loss, or a list or dict of the loss and the metrics.

        Raises:
            ValueError: If the model is not compiled, if the batch is invalid, or if labels are missing.
        """
        batch, _ = batch_of(self, "test_on_batch", x, y, sample_weight)
        with mends_failures(self, "test_function"):
            return super().test_on_batch(*batch, return_dict=return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """Returns the outputs for one batch, in the form that `predict` returns.

        Args:
            x: Raw text in memory or prepared inputs: one batch.

        Returns:
            Float array of logits, or what else `predict` of the task returns.

        Raises:
            ValueError: If the batch is invalid.
        """
        if not self.reader.accepts(x):
            return super().predict_on_batch(x)
        data = read_data(self, "predict_on_batch", x, batch_size=ALL_ROWS)
        check_kind(self, kind_of(self, data), self.fitted_on)
        if data.is_empty:
            return self.reader.nothing(self, data.columns)
        predict = super().predict_on_batch
        return self.reader.restore(data, Prediction(self, lambda batches, **options: predict(batches[0][0])))


def writes_states(callback):
    """Returns whether a callback writes the states of all others, so that it must come last."""
    return isinstance(callback, TrainingCheckpoint)


@contextlib.contextmanager
def mends_failures(task, function, data=None):
    """Keeps the model usable if Keras's method in this context fails, and raises the error of a `Stream` in its place.

    TensorFlow creates variables only while it traces a function for the first time. If that fails, the function stays
    unusable, so Keras must make it again. On JAX, the variables are restored to their previous values.
    """
    trains = function == "train_function" and task.trainable_variables and getattr(task, "optimizer", None) is not None
    if trains and keras.backend.backend() == "jax":
        build_optimizer(task)  # Keras would build it after its values are kept.
    restore = keep_values(task)
    try:
        yield
    except BaseException as error:
        restore()
        if keras.backend.backend() == "tensorflow":
            setattr(task, function, None)
        # An invalid label in a prefetched batch is not the cause of an error elsewhere.
        found = None if data is None else data.error
        if found is None or not type(error).__module__.startswith("tensorflow"):
            raise
        raise found from error


def warn_of_unknown_tokens(task, data):
    """Logs a warning if more than a tenth of the tokens in a sample of the training data are unknown ones."""
    if not data.in_memory:
        return
    rows = np.linspace(0, len(data.real) - 1, min(len(data.real), _ROWS)).astype(int)
    inputs, labels = data.read(rows, data.options.lengths[-1]), data.read_labels(rows)
    if not {"token_ids", "padding_mask"} <= inputs.keys():
        return
    columns = [(inputs["token_ids"], inputs["padding_mask"] != 0, task.preprocessor)]
    if isinstance(task.labels, TokenTargets) and getattr(labels, "ndim", 0) == 2:
        columns.append((labels, labels >= 0, getattr(task, "target_preprocessor", None) or task.preprocessor))
    for ids, real, preprocessor in columns:
        unknown = getattr(preprocessor, "unk_id", None)
        if unknown is None or getattr(preprocessor, "warned_of_unknown", False):
            continue
        tokens = ids[real]
        special = set(getattr(preprocessor, "special_ids", ())) - {unknown}
        tokens = tokens[~np.isin(tokens, [*special])]
        share = float(np.mean(tokens == unknown)) if len(tokens) >= _TOKENS else 0.0
        if share > _SHARE:
            preprocessor.warned_of_unknown = True
            log.warning(
                "%.0f%% of the tokens of the texts are unknown to the vocabulary, so the model cannot tell them apart. "
                "Load an encoder that was pretrained on texts in this language and script, such as a multilingual one "
                "(XLM-R, multilingual BERT), or word vectors that contain these words.",
                100 * share,
            )


def warn_of_one_answer(task, data, validation_data, logs):
    """Logs a warning if the last accuracy in `logs` is exactly that of the same answer to all texts."""
    part, prefix = (data, "") if validation_data is None else (validation_data, "val_")
    labels = part.labels
    if task.label_names is None or getattr(labels, "dtype", None) is None or labels.dtype.kind not in "iu":
        return
    if labels.ndim != (1 if task.labels.places is None else 2) or f"{prefix}accuracy" not in logs:
        return
    accuracy = logs[f"{prefix}accuracy"][-1]
    found = label_of_accuracy(labels[labels >= 0], accuracy)
    if found is not None:
        log.warning(
            "The %saccuracy, %.4f, is exactly that of the answer %r to everything. The model has probably learned only "
            "which label is frequent. Try another learning rate or more epochs, and look at its answers.",
            "validation " if prefix else "",
            accuracy,
            task.label_names[found],
        )


def distinct_rows(x):
    """Returns raw texts, in one or several columns, without repeated rows, and the position of each row among these.

    If `x` is anything else, or if no row is repeated, it is returned unchanged with `None`.
    """
    columns = list(x) if isinstance(x, tuple) else [x]
    columns = [column.tolist() if hasattr(column, "tolist") else column for column in columns]
    if not all(isinstance(column, list) for column in columns) or len(set(map(len, columns))) != 1:
        return x, None
    rows = list(zip(*([tuple(value) if isinstance(value, list) else value for value in column] for column in columns)))
    if not all(isinstance(text, str) for row in rows for value in row for text in _texts_of(value)):
        return x, None
    found = {}
    places = [found.setdefault(row, len(found)) for row in rows]
    if len(found) == len(rows):
        return x, None
    first = dict(zip(reversed(places), reversed(range(len(rows)))))
    columns = [[column[first[place]] for place in range(len(found))] for column in columns]
    return tuple(columns) if isinstance(x, tuple) else columns[0], np.array(places)


def _texts_of(value):
    return value if isinstance(value, tuple) and value else (value,)


def by_length(data):
    """Yields the same `Batches`, padded to a few lengths, as one dataset for each length."""
    data = data.few_lengths()
    for length in sorted({length for length, _ in data.planned()}):
        yield data.pinned([batch for batch in data.planned() if batch[0] == length])


class Prediction:
    """`predict` of a task with fixed options, for `Reader.restore`.

    A call with batches returns their outputs, which are joined, so they must have the same length.

    If a step is compiled for each length, Keras predicts batches in its own loop. Otherwise, they are predicted one by
    one, since making a pipeline takes longer than predicting a few texts. Replicas always get their batches from Keras,
    because its `predict_on_batch` would pass the whole batch to each of them.
    """

    def __init__(self, task, predict, verbose=0, callbacks=None):
        self.task, self.predict = task, predict
        self.verbose, self.callbacks = verbose, callbacks
        self._in_loop = compiles_each_length() or replicas_of(task)[0] > 1 or task.steps_per_execution > 1

    def __call__(self, data):
        if not self._in_loop:
            outputs = [found for _, found in self._one_by_one(data)]
            return keras.tree.map_structure(lambda *parts: np.concatenate(parts), *outputs)
        outputs = self.predict(data, verbose=self.verbose, callbacks=self.callbacks)
        self._check_complete()
        return outputs

    def by_row(self, data, used=lambda row: slice(None)):
        """Returns a list of the outputs of each row, cut to the positions that `used` returns for it.

        A `shard` of `Batches`, for example, does not have all rows.
        """
        found = {}
        for part, outputs in self.parts(data):
            for row, values in zip(part.order, outputs):
                found[row] = values[used(row)]
        return [found[row] for row in sorted(found)]

    def parts(self, data):
        """Yields parts of `Batches`, each of one length, with their outputs.

        In its own loop, Keras predicts all batches of a length together. Otherwise each part is one batch, as long as
        its longest text.
        """
        if not self._in_loop:
            yield from self._one_by_one(data)
        elif len(data) == 1:
            yield data, self(data)
        else:
            yield from ((part, self(part)) for part in by_length(data))

    def _one_by_one(self, data):
        callbacks = self.callbacks
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            shown = {"add_progbar": self.verbose != 0, "verbose": self.verbose, "epochs": 1, "steps": len(data)}
            callbacks = keras.callbacks.CallbackList(callbacks, model=self.task, **shown)
        self.task.stop_predicting = False
        callbacks.on_predict_begin()
        for index in range(len(data.planned())):
            batch = data.only(index)
            callbacks.on_predict_batch_begin(index)
            outputs = keras.Model.predict_on_batch(self.task, batch[0][0])
            callbacks.on_predict_batch_end(index, {"outputs": outputs})
            self._check_complete()
            yield batch, outputs
        callbacks.on_predict_end()

    def _check_complete(self):
        """Raises a `RuntimeError` if a callback has stopped Keras, because every row must have an output."""
        if getattr(self.task, "stop_predicting", False):
            raise RuntimeError("`predict` of data in memory returns a result for each row, but a callback stopped it.")
