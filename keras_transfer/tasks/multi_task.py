"""Several tasks on one encoder, each with data of its own, that train in one `fit`."""

import functools
import re
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import Rule, expect, expects, integer, number
from keras_transfer.core.names import did_you_mean
from keras_transfer.data import SAMPLING, GivenDataset, Mixture, errors_of
from keras_transfer.distribute import processes_of, replicas_of, share_of_loss
from keras_transfer.encoders import TracesAgain, attached_to
from keras_transfer.keras_internals import ReachesAllLayers, accumulation_steps, build_for_step
from keras_transfer.tasks.card_facts import remember_fit
from keras_transfer.tasks.checks import check_fit_options, check_optimizer, require_compiled
from keras_transfer.tasks.data_methods import mends_failures, writes_states
from keras_transfer.tasks.reader import check_kind, kind_of
from keras_transfer.tasks.saved import config_of_tasks, tasks_from_config
from keras_transfer.tasks.source import parts_of, source_of
from keras_transfer.tasks.task import Task
from keras_transfer.training import FusedAdamW, build_optimizer, fine_tuning_rate, fit_in_run, step_of_part

_TASKS = Rule(
    "a dict from names to at least two tasks",
    lambda value: isinstance(value, dict) and len(value) > 1 and all(isinstance(task, Task) for task in value.values()),
    ({}, [], None),
)
_WEIGHTS = Rule(
    "None, 'uncertainty', or a dict from names of tasks to weights of at least 0",
    lambda value: (
        value in (None, "uncertainty") or (isinstance(value, dict) and all(map(number(0).is_met, value.values())))
    ),
    ("equal", {"a": -1}),
)


@keras.saving.register_keras_serializable(package="keras_transfer")
class MultiTask(ReachesAllLayers, TracesAgain, keras.Model):
    """Several tasks on one encoder, each with its own data, which train together (multi-task learning).

    Each batch comes from one task. A step runs this task alone, so it costs as much as a step of the task, and the
    heads of the others, their adapters and the optimizer's moments for them do not change at all. The tasks remain
    usable on their own, each with its adapters: `model.tasks["name"]` predicts, evaluates and is exported as any task.
    One of them may be an objective on unlabeled texts, such as a `MaskedLM`.

    The data is a dict with the names of the tasks. The log has the loss and the metrics of each task over its own
    batches, with its name in front, and `loss`, the mean of all batches.

    Args:
        encoder: Encoder of this library, or a KerasHub backbone, which all tasks share.
        tasks: Dict from names to tasks over this encoder, at least two.
        sampling: String or float. How often each task is drawn, given the numbers of its rows: `"proportional"` to
            them, to their `"square_root"`, `"equal"` for all, `"annealed"` from proportional to a power of 0.2 in the
            last epoch (Stickland & Murray 2019), or the power as a float. Defaults to `"proportional"`.
        loss_weights: Dict from names of tasks to factors of their losses, which are 1 for others, or `"uncertainty"`,
            which learns them: `exp(-s) * loss + s / 2`, with a weight `s` for each task (Kendall et al. 2018). Defaults
            to `None`, for equal weights.
        name: String. Name of the model. Defaults to `None`.

    Attributes:
        tasks: Dict of the tasks.

    Raises:
        ValueError: If the tasks do not have the same encoder, or an argument is invalid.

    Example:
    ```python
    mood = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    length = keras_transfer.tasks.TextRegressor(mood.encoder, mood.preprocessor, num_targets=1)
    model = keras_transfer.tasks.MultiTask(mood.encoder, {"mood": mood, "length": length})
    model.compile()
    model.fit({"mood": (["What a film!", "What a bore."], ["good", "bad"]), "length": (["a", "a b"], [1.0, 2.0])})
    mood.predict_labels(["What a day!"])
    ```

    Source: https://arxiv.org/abs/1902.02671 (sampling), https://arxiv.org/abs/1705.07115 (uncertainty).
    """

    @expects(tasks=_TASKS, sampling=SAMPLING, loss_weights=_WEIGHTS)
    def __init__(
        self,
        encoder: keras.Model,
        tasks: dict[str, Task],
        *,
        sampling: str | float = "proportional",
        loss_weights: dict[str, float] | str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        others = [name for name, task in tasks.items() if task.encoder is not encoder]
        expect(not others, "All tasks must be created with `encoder`.", tasks_of_others=others)
        self.tasks = dict(tasks)
        for task in tasks.values():
            task.head_adapters.switches = True
        self.dtype_policy = encoder.dtype_policy  # Keras scales the loss of float16 by it.
        self.sampling, self.loss_weights = sampling, loss_weights
        if isinstance(loss_weights, dict):
            self._check_names("loss_weights", loss_weights)
        self._log_variances = {
            name: self.add_weight(name=f"log_variance_of_{name}", shape=(), initializer="zeros")
            for name in (tasks if loss_weights == "uncertainty" else ())
        }
        self._mean_loss = keras.metrics.Mean(name="loss")
        self._made_for = self._specs = None
        object.__setattr__(self, "_data", {})  # What `fit` reads, which Keras must not track.
        self.built = True

    @property
    def encoder(self):
        """The encoder that all tasks share."""
        return next(iter(self.tasks.values())).encoder

    @property
    def further_heads(self):
        """The learned weights of losses, which belong to the layer group of the heads."""
        return tuple(self._log_variances.values())

    def call(self, inputs, training=None):
        return {name: self.tasks[name](part, training=training) for name, part in inputs.items()}

    # === Training ===

    def dataset(self, x: dict[str, Any], *, batch_size: int | None = None) -> dict[str, Any]:
        """Returns the data of all tasks as batches for `fit`, which are shuffled in every epoch.

        Args:
            x: Dict from the names of all tasks to their data, as for `fit`.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32.

        Returns:
            Dict from the names to what `dataset` of each task returns.

        Raises:
            ValueError: If the names are not those of the tasks, or if a task rejects its data.

        Example:
        ```python
        mood = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
        length = keras_transfer.tasks.TextRegressor(mood.encoder, mood.preprocessor, num_targets=1)
        model = keras_transfer.tasks.MultiTask(mood.encoder, {"mood": mood, "length": length})
        data = model.dataset({"mood": (["Good.", "Bad."], [1, 0]), "length": (["a", "a b"], [1.0, 2.0])}, batch_size=2)
        model.compile()
        model.fit(data)
        ```
        """
        self._check_names("x", x, of_all=True)
        found = {}
        for name, task in self.tasks.items():
            with errors_of(name):
                parts = parts_of(task, x[name], f"x[{name!r}]")
                found[name] = task.dataset(*parts, batch_size=batch_size, shuffle=True)
        return found

    @expects()
    def compile(self, optimizer: Any = "auto", loss: Any = "auto", metrics: Any = "auto", **kwargs: Any) -> None:
        """Configures training with one optimizer for all tasks.

        Args:
            optimizer: Keras optimizer or its name. Defaults to `"auto"`, as for any task.
            loss: Dict from names of tasks to what `compile` of the task accepts. Defaults to `"auto"`, the loss of each
                task, as for tasks that are missing in a dict.
            metrics: Dict from names of tasks to lists of metrics. Defaults to `"auto"`, the metrics of each task.
            **kwargs: `run_eagerly` and `jit_compile`, as for `keras.Model.compile`.

        Raises:
            ValueError: If an argument is invalid for one of the tasks, or if the optimizer accumulates gradients.
        """
        if isinstance(optimizer, str) and optimizer in ("auto", "adamw"):
            optimizer = FusedAdamW(fine_tuning_rate(self) / 2)
        check_optimizer(optimizer)
        expect(kwargs.keys() <= {"run_eagerly", "jit_compile"}, "Unknown arguments.", **kwargs)
        for argument, values in (("loss", loss), ("metrics", metrics)):
            if isinstance(values, dict):
                self._check_names(argument, values)
        super().compile(optimizer, **kwargs)
        rule = "A batch has rows of one task only, so several cannot make an update together. Use larger batches."
        steps = accumulation_steps(self.optimizer)
        expect(steps == 1, rule, gradient_accumulation_steps=steps)
        for name, task in self.tasks.items():
            own = (values.get(name, "auto") if isinstance(values, dict) else values for values in (loss, metrics))
            task.compile(self.optimizer, *own, **kwargs)
        self.loss = {name: task.loss for name, task in self.tasks.items()}
        self._compiled_with = {"loss": loss, "metrics": metrics, **kwargs}

    def get_compile_config(self):
        if not self.compiled:
            return None
        return keras.saving.serialize_keras_object({"optimizer": self.optimizer, **self._compiled_with})

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles a loaded model as it was before.

        Args:
            config: Dict. What `get_compile_config` returned when the model was saved.
        """
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    @expects(epochs=integer(1))
    def fit(
        self,
        x: dict[str, Any],
        *,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: str | int = "auto",
        callbacks: Any = None,
        validation_data: dict[str, Any] | None = None,
        steps_per_epoch: int | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the tasks together as `keras.Model.fit` does.

        Args:
            x: Dict from the names of all tasks to their data: `(texts, labels)`, `(texts, labels, sample_weight)`,
                `Batches`, texts alone for a task that makes its targets, or a loader that `fit` of the task accepts: a
                `tf.data.Dataset`, a generator or another iterable of batches. It begins again when it ends, and counts
                for `sampling` as rows in as many batches as the first one.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32.
            epochs: Integer. Number of the last epoch to train. Defaults to `1`.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line per epoch). Defaults to `"auto"`.
            callbacks: List of Keras callbacks. Defaults to `None`.
            validation_data: Dict from names of some tasks to data to evaluate after each epoch. Defaults to `None`.
            steps_per_epoch: Integer. Number of batches in an epoch. Defaults to `None`, the number of batches of all
                data, so that `"proportional"` reads each row once per epoch on average. It is required, together with
                `sampling="equal"`, if a loader has no length.
            **kwargs: `initial_epoch` and `validation_freq`, as for `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            ValueError: If the model is not compiled, if a task was compiled alone since, if the names are not those of
                the tasks, if a task rejects its data, if a loader is a `keras.utils.PyDataset` or lacks a length that
                is needed, if a run with loaders has a `TrainingCheckpoint`, or if another argument is invalid.
        """
        self._require_compiled("fit")
        rule = "The orders of the tasks and of their rows are random, and weights of rows are a part of the data."
        expect(kwargs.keys() <= {"initial_epoch", "validation_freq"}, f"Unknown arguments. {rule}", **kwargs)
        check_fit_options(epochs, callbacks, 0.0, True, {**kwargs, "steps_per_epoch": steps_per_epoch})
        alone = [name for name, task in self.tasks.items() if task.optimizer is not self.optimizer]
        expect(not alone, "Tasks were compiled alone since. Call `compile` of the `MultiTask` again.", alone=alone)
        replicas, evenly = replicas_of(self)
        rule = "Several tasks train on a single device, or on replicas of TensorFlow in a single process."
        expect(replicas == 1 or (not evenly and processes_of(self)[1] == 1), rule, replicas=replicas)
        self._check_names("x", x, of_all=True)
        parts = {name: self._read(name, "fit", "x", x[name], batch_size) for name in self.tasks}
        source = Mixture(parts, self.sampling, epochs, steps_per_epoch, replicas=replicas)
        source.epoch = kwargs.get("initial_epoch", 0)
        callbacks = sorted(keras.tree.flatten(callbacks or []), key=writes_states)
        rule = "A run with a `TrainingCheckpoint` requires the data of all tasks in memory."
        expect(not (source.loaders and any(map(writes_states, callbacks))), rule, loaders=[*source.loaders])
        if validation_data is not None:
            validation_data = self._read_for_evaluation("validation_data", validation_data, batch_size)
            kwargs["validation_data"] = (np.arange(1),)  # `evaluate` knows what is meant.
        build_optimizer(self)
        if keras.backend.backend() == "tensorflow":
            specs = {name: part.spec for name, part in parts.items()}
            if specs != self._specs:  # The steps were made for batches of another structure.
                self.train_function = None
            object.__setattr__(self, "_specs", specs)
            with self.distribute_strategy.scope():  # The first step of a task shows the metrics of all.
                for name, spec in specs.items() if replicas > 1 else ():
                    build_for_step(self.tasks[name], spec)
        else:
            for name, part in parts.items():
                build_for_step(self.tasks[name], (part.apart() if part.in_memory else part.first)[0])
        object.__setattr__(self, "_data", {"train": source.endless(), "validation": validation_data})
        settings, keras_fit, before = {"sampling": self.sampling}, super().fit, getattr(self, "history", None)

        def fit(*args, **kwargs):
            with mends_failures(self, "train_function"):
                return keras_fit(*args, **kwargs)

        # Keras counts the batches. The model itself reads them, because Keras expects the same structure of all.
        options = {"batch_size": replicas, "shuffle": False, "epochs": epochs, "verbose": verbose, **kwargs}
        ended = ()  # Callbacks restore weights only at the end.
        try:
            found = fit_in_run(fit, source, callbacks, options, settings=settings)
            ended = callbacks
            return found
        finally:
            object.__setattr__(self, "_data", {})
            if getattr(self, "history", None) is not before:
                self._remember_fit(ended)

    def _remember_fit(self, callbacks):
        """Notes in each task that it was trained, so that another `fit` draws other targets, and its own scores."""
        for name, task in self.tasks.items():
            before, task.history = getattr(task, "history", None), keras.callbacks.History()
            task.history.epoch, own = getattr(self.history, "epoch", []), re.compile(rf"(val_)?{re.escape(name)}_")
            found = {key: values for key, values in self.history.history.items() if own.match(key)}
            task.history.history = {own.sub(r"\1", key, count=1): values for key, values in found.items()}
            remember_fit(task, before, callbacks)

    def discard_if_changed(self):
        """Discards what was made for the tasks if their layers have changed since, whichever task was used last."""
        next(iter(self.tasks.values())).head_adapters.check()
        super().discard_if_changed()

    def make_train_function(self, force=False):
        """Makes the function that Keras calls for each step: it reads a batch and runs the step of its task."""
        self.discard_if_changed()
        trainable = tuple(id(variable) for variable in self.trainable_variables)
        if self.train_function is not None and not force and trainable == self._made_for:
            return
        self._made_for, steps = trainable, {}

        def train(*arguments):
            *state, numbers = arguments
            if not isinstance(numbers, list):  # Keras on torch passes a list.
                next(numbers)
            name, item = next(self._data["train"])
            if name not in steps:
                steps[name] = self._step_of(name)
            return steps[name](*state, item)

        self.train_function = train

    def _step_of(self, name):
        """Returns the function of a training step of a task, which is traced or compiled at its first batch."""
        task, weigh = self.tasks[name], functools.partial(self._weighed, name)
        idle = [
            id(weight)
            for slot in attached_to(self.encoder).slots
            for adapters, layer in slot.adapters.items()
            if adapters not in task.head_adapters.given
            for weight in layer.weights
        ]
        weights = [weight for weight in task.trainable_weights if id(weight) not in idle]
        weights += [self._log_variances[name]] if name in self._log_variances else []
        return step_of_part(self, task, weights, weigh, self._specs and self._specs[name])

    def _weighed(self, name, loss):
        """Returns the loss of a task as the optimizer minimizes it, and adds it to the mean of all batches."""
        if name in self._log_variances:
            log_variance = ops.cast(self._log_variances[name], loss.dtype)
            loss = ops.exp(-log_variance) * loss + share_of_loss(log_variance / 2)
        elif self.loss_weights is not None:
            loss *= self.loss_weights.get(name, 1.0)
        self._mean_loss.update_state(ops.stop_gradient(loss) * replicas_of(self)[0])  # It is a part of the sum of all.
        return loss

    @property
    def metrics(self):
        """List of the metrics of the model and of all tasks."""
        return [self._mean_loss, *(metric for task in self.tasks.values() for metric in task.metrics)]

    def get_metrics_result(self):
        """Returns the loss, and the loss and the metrics of each task over its own batches.

        Returns:
            Dict from names to values.
        """
        found = {"loss": self._mean_loss.result()}
        for name, task in self.tasks.items():
            found |= {f"{name}_{metric}": value for metric, value in task.get_metrics_result().items()}
        return found

    # === Answers ===

    @expects()
    def evaluate(
        self,
        x: dict[str, Any],
        *,
        batch_size: int | None = None,
        verbose: str | int = "auto",
        **kwargs: Any,
    ) -> dict[str, float]:
        """Returns the loss and the metrics of tasks on their data.

        Args:
            x: Dict from names of tasks to data, in any form that `fit` accepts.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32.
            verbose: `"auto"`, `0` (silent), `1` (progress bars) or `2` (a line for each task). Defaults to `"auto"`.
            **kwargs: Arguments with which `fit` of Keras calls this method, and no others.

        Returns:
            Dict from names, such as `"mood_accuracy"`, to floats. `"loss"` is the mean of the tasks' losses.

        Raises:
            ValueError: If the model is not compiled, or if a task rejects its data.
        """
        self._require_compiled("evaluate")
        in_fit, callbacks = "_use_cached_eval_dataset" in kwargs, kwargs.get("callbacks")
        unknown = set() if in_fit else kwargs.keys() - {"return_dict"}
        rule = "Unknown arguments. The result is a dict with the values of each task over all of its data."
        expect(not unknown and kwargs.get("return_dict", True), rule, **kwargs)
        sources = self._data["validation"] if in_fit else self._read_for_evaluation("x", x, batch_size)
        if in_fit:
            callbacks.on_test_begin()
        found = {}
        for name, source in sources.items():
            logs = self.tasks[name].evaluate(source.for_keras(), verbose=0 if in_fit else verbose, return_dict=True)
            expect(logs, "The loader yields its batches only once. Pass one that begins again.", task=name)
            found |= {f"{name}_{metric}": value for metric, value in logs.items()}
        found = {"loss": float(np.mean([found[f"{name}_loss"] for name in sources])), **found}
        if in_fit:
            callbacks.on_test_end(found)
        return found

    def predict(self, x: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Returns the outputs of tasks for their data.

        Args:
            x: Dict from names of tasks to data, in any form that `predict` of the task accepts.
            **kwargs: Other arguments of `predict`, such as `batch_size` and `verbose`.

        Returns:
            Dict from the names to the outputs.

        Raises:
            ValueError: If a name is unknown, or if a task rejects its data.
        """
        self._check_names("x", x)
        return {name: self.tasks[name].predict(part, **kwargs) for name, part in x.items()}

    # === Data ===

    def _check_names(self, argument, values, of_all=False):
        which = "the names of all tasks," if of_all else "names of tasks, some of"
        rule = f"`{argument}` must be a dict with {which} {list(self.tasks)}."
        expect(isinstance(values, dict), rule, values)
        for name in values:
            expect(name in self.tasks, f"{rule}{did_you_mean(name, self.tasks)}", name=name)
        expect(not of_all or len(values) == len(self.tasks), rule, names=list(values))

    def _read(self, name, method, argument, data, batch_size):
        """Returns the data of a task as a `Source`."""
        task, where = self.tasks[name], f"{argument}[{name!r}]"
        with errors_of(name):
            parts = parts_of(task, data, where)
            found = source_of(task, method, *parts, batch_size=batch_size, shuffle=method == "fit")
        kind = kind_of(task, found)
        if method == "fit":
            rule = f"`{where}` must be data in memory, or a loader that yields batches, such as a generator."
            expect(not isinstance(found, GivenDataset), rule, data)
            task.fitted_on = kind
        else:
            check_kind(task, kind, task.fitted_on)
        return found

    def _read_for_evaluation(self, argument, data, batch_size):
        self._check_names(argument, data)
        return {name: self._read(name, "evaluate", argument, part, batch_size) for name, part in data.items()}

    def _require_compiled(self, method):
        """Raises a `ValueError` if the model is not compiled, or the adapters of a task have changed since."""
        expect(self.compiled, f"Call `compile` before `{method}`: `model.compile()`.", compiled=False)
        for task in self.tasks.values():
            require_compiled(task, method)

    # === Files ===

    def get_config(self):
        tasks = config_of_tasks(list(self.tasks.values()))
        for task in tasks["tasks"]:
            task.pop("compile_config", None)
        return {
            "names": list(self.tasks),
            **tasks,
            "sampling": self.sampling,
            "loss_weights": self.loss_weights,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        tasks = tasks_from_config(config, custom_objects)
        options = {name: config[name] for name in ("sampling", "loss_weights", "name")}
        return cls(tasks[0].encoder, dict(zip(config["names"], tasks)), **options)
