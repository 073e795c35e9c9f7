"""The base class of all tasks: a functional model from an encoder's inputs to heads, with a reader of data."""

import contextlib
import copy
import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

import keras

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.door import NamesElsewhere, missing_attribute
from keras_transfer.core.expect import expect, expects
from keras_transfer.data import compiles_each_length, renamed
from keras_transfer.distribute import check_scope, cut_off, factors_of_means, reducible
from keras_transfer.encoders import (
    LoadsOwnWeights,
    Quantizes,
    TracesAgain,
    attached_to,
    current_encoder,
    select_inputs,
    store_weight_facts,
    without_weight_facts,
)
from keras_transfer.keras_internals import NotCloned, ReachesAllLayers, optimizers, with_few_passes
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.checks import (
    check_floatx,
    check_optimizer,
    check_preprocessor,
    warn_of_half_weights,
    warn_of_own_lora,
)
from keras_transfer.tasks.data_methods import DataMethods
from keras_transfer.tasks.labels import JointLabels
from keras_transfer.tasks.named_heads import NamedLabels
from keras_transfer.tasks.pretrained import Pretrained
from keras_transfer.tasks.reader import check_kind
from keras_transfer.tasks.saved import (
    arguments_of,
    config_of,
    from_config,
    names_of_classes,
    store_heads,
    take_heads,
)
from keras_transfer.tasks.several_devices import SeveralDevices
from keras_transfer.text import PlainText, WindowPreprocessor
from keras_transfer.training import (
    FusedAdamW,
    build_optimizer,
    fine_tuning_rate,
    labels_of_update,
    train_step,
    weighed_step,
)

_LABELS = "labels of update"  # The name in files of `labels_of_update`.
_ANSWERS = {"encode": None}  # The `answers` of all tasks, in this order, and that of sentence-transformers.


def of_part(part, name, doc=None):
    """Returns a property of a task that forwards to an attribute of its reader or its labels."""

    def get(task):
        return getattr(getattr(task, part), name)

    def put(task, value):
        setattr(getattr(task, part), name, value)

    return property(get, put, doc=doc)


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function with which an exported task answers requests.

    Args:
        function: Function that accepts tensors by the names in `inputs` and returns a dict of tensors. It is traced on
            the TensorFlow backend. Outputs may be ragged. For an output `label_id`, the export adds `label` with the
            names.
        inputs: Dict of `keras.KerasTensor`s, the shapes and dtypes of the inputs: all `[batch]`, or all `[batch,
            length, ...]`.
        shared_axes: Integer, 1 or 2. Number of leading axes that the outputs have in common with the inputs.
        input_axes: Integer, 1 or 2. Number of leading axes that several inputs have in common.
        ragged: Boolean. Whether `function` expects its string input `[batch, length]` as a ragged tensor, without the
            `""` that pads its rows.

    Example:
    ```python
    def lengths(texts):
        return {"length": tf.strings.length(texts)}

    inputs = {"texts": keras.KerasTensor((None,), "string", name="texts")}
    signature = keras_transfer.tasks.Signature(lengths, inputs)
    signature.function(tf.constant(["good"]))["length"]  # [4]
    ```
    """

    function: Callable
    inputs: dict
    shared_axes: int = 1
    input_axes: int = 2
    ragged: bool = False


def texts_named(*names):
    """Returns the inputs of a `Signature` that accepts texts `[batch]` by these names."""
    return {name: keras.KerasTensor((None,), "string", name=name) for name in names}


class Task(
    Pretrained,
    DataMethods,
    SeveralDevices,
    NotCloned,
    ReachesAllLayers,
    LoadsOwnWeights,
    TracesAgain,
    Quantizes,
    keras.Model,
    metaclass=NamesElsewhere,
):
    """Base class of the tasks: an encoder, a reader of the user's data, and one head or several named heads.

    A task is a functional model from the encoder's inputs, through its layers, to the heads. Each layer of the encoder
    is a layer of the task. A subclass has a constructor that chooses the components, and methods that answer in plain
    Python. It does not need to override anything else.

    `fit`, `evaluate` and `predict` accept raw text and everything else that `dataset` describes. The outputs are
    logits, in the order of the texts. The methods for one batch, such as `train_on_batch`, and the call of the model
    also accept raw text.

    Several replicas (`tf.distribute`, or `keras.distribution` on JAX) share each batch of data in memory evenly.
    `evaluate` and `predict` count every text once. Keras shards prepared datasets unchanged.

    Threads can use different tasks at the same time. Only one thread at a time may compile, train or evaluate a task.
    On TensorFlow, other threads can predict with it meanwhile. On JAX, Keras removes the weights from the model while a
    method runs, so protect a shared task with a lock.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        reader: `Reader`. Which raw data the task accepts, and how it becomes batches.
        heads: `Head`, or a dict from names to several. The outputs, what `y` is, and the loss and metrics for it. With
            several heads, the outputs of the task and `y` are dicts with their names.
        inputs: Symbolic tensors. Inputs of the model. Defaults to `None`, the inputs of the encoder.
        scalar_mix: `layers.ScalarMix` between the encoder and the head, or `None`. Defaults to `None`.
        settings: Dict of arguments of the subclass's constructor, perhaps in another form, which become attributes.
            Files have the values of these attributes, and other arguments as they were given. Defaults to `None`.
        name: String. Name of the model. Defaults to `None`.

    Attributes:
        preprocessor: The preprocessor of the reader.
        heads: Dict of the `Head`s. A single head has the name `"head"`.
        labels: `Labels` of the only head, or those of several heads, which expect and return dicts.
        label_names: List of strings. Class names, in the order of the logits. `None` without classes.
        fitted_on: String, for tasks that accept both single texts and pairs of texts. Which of them the last `fit`
            received: `"texts"` or `"pairs"`. The other one then raises a `ValueError`. `None` if it is unknown, as for
            prepared arrays.
        checkpoint_head: `checkpoints.TaskHead`. Which head of a checkpoint belongs to the class.
        purpose: `Purpose`, what model cards say about the class, or `None`.
        answers: Tuple of strings. The methods of the class with which it answers, which errors name.
        saved_apart: Tuple of strings. Attributes that are `None` or models with their own checkpoints.
        head_adapters: The adapters that the head belongs to.
        further_heads: Tuple of layers of the head that are not part of the functional model.
        reads: Tuple of strings. The encoder outputs that the head uses, if the encoder has them.
        arguments: Dict of the constructor's arguments, as they were given.
        head_is_pretrained: Boolean. Whether the head was pretrained together with the encoder. If so, adding adapters
            freezes it, and `"new"` does not select it.
        labels_of_update: `keras.Variable`, the number of labels whose gradients the optimizer has accumulated, or
            `None`.
    """

    preprocessor = of_part("reader", "preprocessor")
    checkpoint_head = TaskHead()
    purpose: Purpose | None = None
    answers: tuple[str, ...] = ()
    saved_apart: tuple[str, ...] = ()
    further_heads: tuple[str, ...] = ()
    reads: tuple[str, ...] = ("pooled_output", "sequence_output")
    fitted_on = of_part("reader", "fitted_on")
    head_is_pretrained = False
    labels_of_update: Any = None
    arguments: Mapping[str, Any] = types.MappingProxyType({})

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        _ANSWERS.update(dict.fromkeys(cls.answers))

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls, *args, **kwargs)
        # Keras must not track the layers in it, and saves those of any container that it knows.
        object.__setattr__(self, "arguments", types.MappingProxyType(arguments_of(cls, args, kwargs)))
        return self

    def __init__(
        self,
        encoder: keras.Model,
        reader: Any,
        heads: Any,
        *,
        inputs: Any = None,
        scalar_mix: keras.layers.Layer | None = None,
        settings: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        if reader.preprocessor is None and isinstance(encoder.input, dict) and "text" in encoder.input:
            reader = copy.copy(reader)
            reader.preprocessor = PlainText()
        if isinstance(reader.preprocessor, WindowPreprocessor) and not reader.takes_windows:
            raise ValueError(
                f"A `{type(self).__name__}` does not accept a `WindowPreprocessor`. Pass `preprocessor.preprocessor`, "
                "which truncates texts. Received: a `WindowPreprocessor`"
            )
        check_preprocessor(encoder, reader)
        several = isinstance(heads, dict)
        weight = 1 if several else heads.weight
        expect(weight == 1, "Only one of several heads has a `weight`. A single one has none.", weight=weight)
        outputs = {name: head.outputs for name, head in heads.items()} if several else heads.outputs
        super().__init__(inputs=encoder.input if inputs is None else inputs, outputs=outputs, name=name)
        self.reader = reader
        self.labels: Any = NamedLabels({name: head.labels for name, head in heads.items()}) if several else heads.labels
        # Keras must not track these: the task has all layers of the encoder that it uses, and no others.
        object.__setattr__(self, "heads", dict(heads) if several else {"head": heads})
        object.__setattr__(self, "_encoder", encoder)
        object.__setattr__(self, "scalar_mix", scalar_mix)
        object.__setattr__(self, "head_adapters", HeadAdapters(self))
        self.dtype_policy = encoder.dtype_policy
        self._made_for: tuple[int, ...] | None = None
        of_parts = [name for name in settings or () if isinstance(getattr(type(self), name, None), property)]
        self._settings = tuple(name for name in settings or () if name not in of_parts)
        for argument in self._settings:
            setattr(self, argument, settings[argument])

    if not TYPE_CHECKING:  # A type checker would no longer find misspelled attributes.

        def __getattr__(self, name):
            if name in _ANSWERS:
                own = [f"`{answer}`" for answer in type(self).answers] or ["`predict`"]
                raise AttributeError(
                    f"A `{type(self).__name__}` has no method `{name}`. It answers with {', '.join(own)}. "
                    f"Received: {type(self).__name__}.{name}"
                )
            inherited = getattr(super(), "__getattr__", None)  # torch's module has one.
            if inherited is not None:
                return inherited(name)
            if name.startswith("_") or hasattr(type(self), name):  # A property may have failed.
                return object.__getattribute__(self, name)
            raise AttributeError(missing_attribute(type(self), name))

    def over(self, inputs: Any, outputs: Any, reader: Any, name: str | None) -> Self:
        """Returns a task of the same class with the same encoder, labels and settings, but other tensors and data.

        Args:
            inputs: Symbolic tensors. Inputs of the new task.
            outputs: Symbolic tensors, computed by layers of this task.
            reader: `Reader` of the new task.
            name: String. Name of the new task.

        Returns:
            The new `Task`, which shares the layers of this one.
        """
        self.head_adapters.check()  # The other task has the adapters that are active now.
        other = type(self).__new__(type(self), **self.arguments)
        settings = {name: getattr(self, name) for name in self._settings}
        options = {"inputs": inputs, "scalar_mix": self.scalar_mix, "settings": settings, "name": name}
        several = isinstance(self.labels, NamedLabels)
        heads: Any = {
            name: dataclasses.replace(head, outputs=outputs[name] if several else outputs)
            for name, head in self.heads.items()
        }
        Task.__init__(other, self.encoder, reader, heads if several else heads["head"], **options)
        return other

    @expects()
    def with_heads(self, heads: dict[str, Any]) -> "Task":
        """Returns a task with other heads, or further ones, over the same layers and data.

        Training it trains the layers of this task, which keeps its own head and its methods that answer. So another
        loss, such as that of a teacher's outputs, is a head for the time of the training.

        Args:
            heads: Dict from names to `Head`s, whose outputs are computed from the inputs of this task. The own head is
                `task.heads["head"]`.

        Returns:
            A `Task` whose outputs and labels are dicts with these names. It is not compiled, and cannot be saved.

        Raises:
            ValueError: If the task cuts long texts into `windows`, or has `JointLabels`.

        Example:
        ```python
        task = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
        length = keras.layers.Dense(1, name="length")(task.encoder.output["pooled_output"])
        numbers = keras_transfer.tasks.Numbers()
        both = task.with_heads(
            {"label": task.heads["head"], "length": keras_transfer.tasks.Head(length, numbers, weight=0.1)}
        )
        both.compile()
        both.fit(["What a film!", "A bore."], {"label": ["good", "bad"], "length": [12.0, 7.0]})
        task.predict_labels(["A fine film."])
        ```
        """
        rule = "A task that cuts texts into `windows` cannot have further heads. Create it without them."
        expect(not self.reader.takes_windows, rule, task=self)
        self.head_adapters.check()  # The other task has the adapters that are active now.
        return Task(self.encoder, self.reader, heads, inputs=self.input, scalar_mix=self.scalar_mix)

    @property
    def encoder(self):
        """The encoder. If a KerasHub backbone has adapters, an encoder over the backbone that contains them."""
        return current_encoder(self._encoder)

    @property
    def label_names(self):
        """List of strings. Class names, in the order of the logits. `None` without classes."""
        return self.labels.names

    @label_names.setter
    def label_names(self, names):
        self.labels.names = renamed(self.labels.names, names)

    # === Calling ===

    def __call__(self, inputs, *args, **kwargs):
        """Returns the outputs of one batch of prepared inputs or of raw text."""
        self.head_adapters.check()
        if self.reader.accepts(inputs):
            check_kind(self, "pairs" if isinstance(inputs, tuple) else "texts", self.fitted_on)
            inputs = self.reader.inputs(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None, mask=None):
        if isinstance(inputs, dict) and not isinstance(self.input, dict):  # `dataset` names all arrays.
            inputs = keras.tree.pack_sequence_as(self.input, [inputs[tensor.name] for tensor in self.inputs])
        return super().call(select_inputs(inputs, self.input), training=training, mask=mask)

    def discard_if_changed(self):
        """Discards what was made for this task if its layers have changed since, and checks that its head fits them."""
        self.head_adapters.check()
        super().discard_if_changed()

    # === Training ===

    @expects()
    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        metrics: Any = "auto",
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Configures training as `keras.Model.compile` does, with defaults for the task.

        Args:
            optimizer: Keras optimizer or its name. Defaults to `"auto"`, which is also `"adamw"`: a `FusedAdamW` with
                half of the encoder's `default_learning_rate`, since the rate stays constant. For all-MiniLM-L6-v2, it
                is 5e-5.
            loss: Keras loss or function that expects logits, or the name of a loss of Keras or of the task. For several
                heads, also a dict with their names: a head without an entry has its default loss, and one with `None`
                does not train. Defaults to `"auto"`, the loss of the task.
            metrics: List of Keras metrics, or of names of metrics of Keras or of the task, or a single one. Defaults to
                `"auto"`, the metrics of the task, or the accuracy if those do not accept the labels of the loss.
            weighted_metrics: List of metrics, as for `metrics`, that are weighted by `sample_weight` or `class_weight`.
                Defaults to `None`.
            **kwargs: Other arguments of `keras.Model.compile`, such as `run_eagerly`, `jit_compile` or
                `steps_per_execution`.

        Raises:
            ValueError: If `optimizer` is no optimizer or its learning rate is negative or not finite, if the name of a
                loss or metric is unknown, if one of them expects probabilities or does not fit the task, if a metric
                expects different labels from the loss, if the model or its encoder was created outside of the
                strategy's scope, if `keras.config.floatx()` is in half precision, or if the optimizer accumulates
                gradients on several replicas of TensorFlow.
        """
        check_floatx()
        check_scope(self, optimizer)
        warn_of_half_weights(self)
        if isinstance(optimizer, str) and optimizer in ("auto", "adamw"):
            optimizer = FusedAdamW(fine_tuning_rate(self) / 2)
        check_optimizer(optimizer)
        metrics, weighted_metrics = (_as_list(given) for given in (metrics, weighted_metrics))
        loss, metrics, weighted_metrics = self.labels.compiled(loss, metrics, weighted_metrics)
        weights = {name: head.weight for name, head in self.heads.items()}
        if kwargs.get("loss_weights") is None and isinstance(loss, dict) and {*weights.values()} != {1.0}:
            kwargs["loss_weights"] = weights
        weights = kwargs.get("loss_weights")
        rule = "`loss_weights` cannot be used without a loss, as for tasks that have their own."
        if weights is not None:
            expect(loss is not None, rule, loss_weights=weights)
        super().compile(optimizer, loss=loss, metrics=metrics, weighted_metrics=weighted_metrics, **kwargs)
        object.__setattr__(self, "labels_of_update", labels_of_update(self))
        self.head_adapters.compile_again = False

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles a loaded model as it was before. Keras skips this step for a class that overrides `compile`.

        Args:
            config: Dict. What `get_compile_config` returned when the model was saved.
        """
        super().compile(**keras.saving.deserialize_keras_object(config))
        object.__setattr__(self, "labels_of_update", labels_of_update(self))
        if getattr(self, "optimizer", None) is not None:
            self.optimizer.build(self.trainable_variables)

    def make_train_function(self, force: bool = False) -> Any:
        """Makes the train function as `keras.Model` does, and makes it again if different weights are trainable.

        Keras on TensorFlow would silently train the same weights as before. It would also trace the first step twice,
        the first time only to create the optimizer's variables, so this method creates them. On a CPU, its graph is
        optimized with few passes.
        """
        trainable = tuple(id(variable) for variable in self.trainable_variables)
        force, self._made_for = force or trainable != self._made_for, trainable
        if trainable:
            build_optimizer(self)
        before = self.train_function
        super().make_train_function(force=force)
        is_traced = self.train_function is not before and not self.run_eagerly
        if keras.backend.backend() == "tensorflow" and is_traced and not compiles_each_length():
            self.train_function = with_few_passes(self.train_function)
        return self.train_function

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Computes the loss of `compile` as Keras does, or the sum of the means that `JointLabels` return."""
        if not isinstance(self.labels, JointLabels):
            if y is not None:
                y, sample_weight = self.labels.for_loss(x, y, sample_weight)
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        means = self.labels.means(x, y, y_pred, sample_weight)
        factors = factors_of_means(*(mean.count for mean in means))
        loss = sum(mean.weight * (factor * mean.value) for mean, factor in zip(means, factors))
        return loss + super().compute_loss() if self.losses else loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates and returns the metrics as Keras does, or those of `JointLabels`."""
        if not isinstance(self.labels, JointLabels):
            return super().compute_metrics(x, y, y_pred, sample_weight)
        self.labels.update_metrics(x, y, y_pred, sample_weight)
        return self.get_metrics_result()

    @property
    def metrics_variables(self):
        """List of the variables of the metrics, and of what else a step changes besides weights and optimizer."""
        return super().metrics_variables + ([] if self.labels_of_update is None else [self.labels_of_update])

    def train_step(self, *args):
        """Runs a training step as `keras.Model` does, on TensorFlow without the gradients of frozen weights.

        On JAX, it leaves out the rows that were added for several devices.
        Batches whose gradients are accumulated are weighted by the numbers of their labels or rows.
        """
        *state, data = args
        data, weights, options = cut_off(data), self.trainable_variables, {}
        # Keras does not add up the scales of float8 layers, so their batches count the same.
        adds_up = weights and not any(getattr(weight, "overwrite_with_gradient", False) for weight in weights)
        if self.labels_of_update is not None and adds_up:
            options = {"weigh": functools.partial(self._weighed, data)}
        if keras.backend.backend() == "tensorflow":
            return reducible(self, train_step(self, data, self.labels.weight_of, **options))
        return weighed_step(self, *state, data, **options) if options else super().train_step(*state, data)

    def _weighed(self, data, loss):
        """Returns the loss of a batch as the optimizer minimizes it."""
        count = self.labels.count_of(*keras.utils.unpack_x_y_sample_weight(data))
        return loss * keras.ops.cast(optimizers.weigh_batch(self.optimizer, self.labels_of_update, count), loss.dtype)

    # === Export and files ===

    def export(self, filepath: Any, format: str = "savedmodel", verbose: Any = 1, **kwargs: Any) -> Any:
        """Writes the task with its tokenizer and its labels, as `serving.export` does.

        `keras.Model.export` writes only the model from token ids to logits: `keras.Model.export(model, folder)`.

        Args:
            filepath: String or path. Folder that does not exist yet.
            format: String, as in `serving.export`, or Keras's name `"tf_saved_model"`. Defaults to `"savedmodel"`.
            verbose: Boolean or integer. Whether to print what was measured. Defaults to `1`.
            **kwargs: Other arguments of `serving.export`, such as `quantization` and `overwrite`.

        Returns:
            The folder as a `pathlib.Path`.

        Raises:
            FileExistsError: If the folder exists and `overwrite=False`.
            ValueError: If `serving.export` rejects the task or an argument, such as a task without a preprocessor.
        """
        from keras_transfer.serving import export

        format = "savedmodel" if format == "tf_saved_model" else format
        return export(self, filepath, format=format, verbose=1 if verbose is None else int(verbose), **kwargs)

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Whether requests contain pairs of texts. Defaults to `False`.

        Returns:
            Dict from names to `Signature`s: `"tokens"`, from the encoder's inputs to logits, unless the encoder accepts
            text. Subclasses add signatures that accept text.

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
        return config_of(self)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return from_config(cls, config, custom_objects)

    def weight_facts(self) -> dict:
        """Returns what files of weights say about the task.

        Returns:
            Dict of JSON values.
        """
        return attached_to(self.encoder).facts(names_of_classes(self.labels))

    def save_own_variables(self, store):
        warn_of_own_lora(self)
        super().save_own_variables(store)
        store_heads(self.head_adapters, store)
        if self.labels_of_update is not None and self.optimizer is not None:
            store[_LABELS] = keras.ops.convert_to_numpy(self.labels_of_update)
        store_weight_facts(store, self.weight_facts())

    def checked_variables(self, store: Any) -> tuple:
        """Returns what `save_own_variables` of Keras has written, and the heads of adapters, after a check of the file.

        Args:
            store: Dict-like store of a file.

        Returns:
            Tuple of two dicts of arrays.
        """
        return take_heads(self.head_adapters, without_weight_facts(store, self.weight_facts()))

    def load_own_variables(self, store):
        values, heads = self.checked_variables(store)
        labels = values.pop(_LABELS, 0.0)
        if self.labels_of_update is not None and self.optimizer is not None:  # Without one, its state is not loaded.
            self.labels_of_update.assign(labels)
        super().load_own_variables(values)
        self.head_adapters.heads.update(heads)


def _as_list(metrics):
    """Returns a single metric as a list, in which Keras requires it, and anything else unchanged."""
    is_name = isinstance(metrics, str) and metrics != "auto"
    return [metrics] if is_name or isinstance(metrics, keras.metrics.Metric) or callable(metrics) else metrics


class HeadAdapters:
    """Compares the encoder's adapters with the adapters that the task last knew. A task has it as `head_adapters`.

    Tasks on one encoder share its adapters, but each has its own head. After another task has changed the adapters, the
    head of this task and the functions that Keras has traced no longer match them.

    Attributes:
        heads: Dict from inactive choices of adapters (`"first+second"`) to the weights of their head.
        given: Tuple of the names of the adapters that the head belongs to, in order.
        known: Dict from the names of all adapters of the encoder to their kinds, at the time when the task last changed
            its adapters. Adapters that replace others under the same name have a different list of kinds.
        switches: Boolean. Whether the task applies its adapters again before each use, as one in a larger model does.
        compile_again: Boolean. Whether the adapters have changed since `compile`.
        trained: Set of the `id`s of the weights that trained after the last change of the adapters, or `None`.
    """

    def __init__(self, task):
        self._task, self.heads, self.compile_again, self.trained = task, {}, False, None
        self.switches = False
        self.remember()

    def remember(self, given=None, known=None):
        """Sets `given` and `known`, by default to the current adapters of the encoder."""
        encoder = self._task.encoder
        self.given = attached_to(encoder).active if given is None else tuple(given)
        self.known = dict(attached_to(encoder).adapters if known is None else known)

    @contextlib.contextmanager
    def applying(self, names=None):
        """Applies adapters in this context, by default those of the head, without exchanging the head."""
        attached, given = attached_to(self._task.encoder), self.given
        if names is None and self.replaced() & {*given}:
            self.check()
        before, names = attached.active, given if names is None else tuple(names)
        if names != before:
            attached.activate(names)
        self.remember(names, self.known)
        try:
            yield
        finally:
            if names != before:
                attached.activate(before)
            self.remember(given, self.known)

    def replaced(self):
        """Returns the set of names of adapters that another task has removed (and possibly added again)."""
        now = attached_to(self._task.encoder).adapters
        return {name for name, kinds in self.known.items() if now.get(name) is not kinds}

    def forget_replaced(self):
        """Forgets the heads of adapters that no longer exist."""
        replaced = self.replaced()
        for choice in [choice for choice in self.heads if replaced & set(choice.split("+"))]:
            self.heads.pop(choice, None)  # Another thread may already have removed it.

    def check(self):
        """Raises a `ValueError` if the encoder's active adapters are not the ones that the head belongs to."""
        attached = attached_to(self._task.encoder)
        active = attached.active
        replaced = [name for name in self.given if name in self.replaced()]
        if active == self.given and not replaced:
            self.forget_replaced()
            return
        if self.switches and not replaced:
            attached.activate(self.given)
            return
        own = f"`set_active_adapter(model, {_argument(self.given)})` to use its adapters again, or "
        removed = f" (since removed: {replaced})" if replaced else ""
        raise ValueError(
            "The adapters of the encoder were changed through another task or the encoder itself, so they do not "
            f"belong to the head of this task. Call {'' if replaced else own}"
            f"`set_active_adapter(model, {_argument(active)})` to use the current ones. Received: "
            f"model={self._task.name!r}, which was last given {list(self.given)}{removed}, and an encoder with the "
            f"active adapters {list(active)} of {list(attached.adapters)}"
        )


def _argument(names):
    """Returns adapter names in the form that `set_active_adapter` expects."""
    return repr(None if not names else names[0] if len(names) == 1 else list(names))
