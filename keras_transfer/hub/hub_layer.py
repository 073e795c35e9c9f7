"""A TF Hub module as a Keras 3 layer."""

import contextlib
import itertools
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_transfer.core.lazy import tf
from keras_transfer.hub.errors import expect, one_line, raising, shown
from keras_transfer.hub.module import load, open_module
from keras_transfer.hub.tensors import as_tensors, describe, placeholders, spec_of, symbolic, with_shape
from keras_transfer.hub.tf1_module import is_loaded_tf1_module, open_loaded_tf1_module, open_tf1_module
from keras_transfer.hub.trust import from_trusted_config, is_rebuilding

log = logging.getLogger("keras_transfer")


@keras.saving.register_keras_serializable(package="keras_transfer")
class HubLayer(keras.layers.Layer):
    """A module from TF Hub or Kaggle, or any SavedModel, as a trainable layer.

    The layer replaces `tensorflow_hub.KerasLayer` and has the same arguments. It supports TF2 modules (reusable
    SavedModels), their signatures, Keras exports, and modules in the TF1 Hub format. Its weights are the module's own
    variables, not copies, with the module's names, such as `"hub_layer/transformer/layer_0/dense/kernel"`.

    A module computes in the dtypes that it was saved with. Numeric inputs are cast to the dtypes that it expects, and
    mixed precision applies only to later layers. Under `tf.distribute`, a trainable module must be created inside
    `strategy.scope()`. Each replica then updates its own statistics (batch normalization), and their mean is read and
    saved.

    Args:
        handle: String or path. A folder, an archive, a URL or `"google/nnlm/tensorFlow2/en-dim128/1"`; see `resolve`.
            It can also be an object from `tensorflow_hub.load` or `tf.saved_model.load`, or a callable with optional
            lists `variables`, `trainable_variables` and `regularization_losses`. A layer of such an object has no
            config, so its model can be exported, but not saved as `.keras`. A loaded object of TensorFlow 1 cannot be
            trained.
        trainable: Boolean. Whether to train the module, or to run it in inference mode only. Defaults to `False`.
        arguments: Dict of JSON values. Additional arguments for each call of the module. Defaults to `None`.
        tags: String or list of strings. Variant of the module to load. Defaults to the only variant. In the TF1 Hub
            format, defaults to the one without tags, and to the one tagged `train` for training.
        signature: String. Signature of the module to call. Defaults to `None`: the module itself, or, in the TF1 Hub
            format, `"default"`.
        signature_outputs_as_dict: Boolean. Whether to return all outputs of a signature as a dict. Defaults to `None`.
        output_key: String. Key of the output to return. Not needed if a signature has only one output or one named
            `"default"`. Defaults to `None`.
        output_shape: Tuple of integers or `None`, or a dict or list of tuples for several outputs. Shapes without the
            batch dimension, for modules that do not specify them. Defaults to `None`.
        load_options: `tf.saved_model.LoadOptions`, which are not saved in the config. Defaults to `None`.
        sha256: String. Expected checksum of the handle's archive. Defaults to `None`.
        **kwargs: `name`, and, as in Keras 2, `dtype` (the dtype of the module's inputs) and `input_shape` (not needed).

    Inputs: What the module expects: strings `[batch]`, a dict of token ids `[batch, length]` and so on. Lists of Python
        values are converted.

    Outputs: As the module returns them.

    Raises:
        HubError: If the module cannot be found, loaded or trained, does not have the tags, signature or output, was
            created outside the strategy's scope, or if the inputs do not match it.
        RuntimeError: If the backend is not TensorFlow.

    Example:
    ```python
    module = tf.Module()
    module.table = tf.Variable(tf.ones([10, 4]), name="table")
    strings = [tf.TensorSpec([None], tf.string)]
    module.__call__ = tf.function(lambda text: tf.gather(module.table, tf.strings.length(text) % 10), strings)
    tf.saved_model.save(module, "module")

    layer = keras_transfer.hub.HubLayer("module", trainable=True)
    model = keras.Sequential([keras.Input((), dtype="string"), layer, keras.layers.Dense(1)])
    model.predict(tf.constant(["A fine film."]))
    ```

    Source: The conventions at https://www.tensorflow.org/hub/reusable_saved_models.
    """

    def __init__(
        self,
        handle: str | os.PathLike,
        trainable: bool = False,
        *,
        arguments: Mapping | None = None,
        tags: str | Sequence[str] | None = None,
        signature: str | None = None,
        signature_outputs_as_dict: bool | None = None,
        output_key: str | None = None,
        output_shape: Any = None,
        load_options: Any = None,
        sha256: str | None = None,
        **kwargs: Any,
    ):
        rule, backend = "A TF Hub module requires the TensorFlow backend.", keras.backend.backend()
        expect(backend == "tensorflow", f"{rule} Set KERAS_BACKEND=tensorflow.", backend, error=RuntimeError)
        # === Module ===
        handle = os.fspath(handle) if isinstance(handle, os.PathLike) else handle
        tags = None if tags is None else sorted([tags] if isinstance(tags, str) else tags)
        with tf.init_scope(), tf.name_scope(""):  # eager even inside a graph, and without the caller's name scopes
            module = _open(handle, tags, signature, load_options, sha256)
        kwargs.pop("input_shape", None)
        dtype = _input_dtype(module, kwargs.pop("dtype", None))
        super().__init__(trainable=trainable, dtype=dtype, autocast=False, **kwargs)
        self.supports_jit = False  # XLA has no tables or strings, and would recompile at every training step
        self._module = module
        self.resources = module.resources  # an attribute is saved with the layer
        self._names = []
        self._module_weights = list(self._weights_of(module))  # Keras tracks attributes
        for weight in self.weights:
            weight.trainable = weight.trainable and trainable
        if trainable and not self.trainable_weights:
            log.warning("%s has no trainable weights, because the module lists no trainable variables.", self.name)
        self.built = True

        # === Config ===
        self.handle = handle
        self.arguments = dict(arguments or {})
        self.tags = tags
        self.signature = signature
        self.signature_outputs_as_dict = signature_outputs_as_dict
        self.output_key = output_key
        self.output_shape = output_shape
        self.sha256 = sha256
        self._not_rebuilt = None
        self._chosen_output = self._choose_output()
        module.check_arguments(self.arguments)
        self._check_trainable()

    def _weights_of(self, module):
        """Yields the module's variables as weights of this layer, without a copy and with the module's names."""
        taken = set()
        for variables, trainable in ((module.trainable_variables, True), (module.other_variables, False)):
            for variable in variables:
                if variable.dtype == "string":  # neither trainable nor supported by Keras
                    continue
                path = name = variable.name.split(":")[0]
                numbers = itertools.count(1)
                while path in taken:
                    path = f"{name}_{next(numbers)}"
                taken.add(path)
                self._names.append(path)
                scopes = [self.name, *filter(None, path.split("/"))]
                name = scopes.pop()
                with contextlib.ExitStack() as stack:
                    for scope in scopes:
                        stack.enter_context(keras.name_scope(scope))
                    dtype = variable.dtype.name
                    yield keras.Variable(variable, dtype=dtype, trainable=trainable, autocast=False, name=name)

    def _choose_output(self):
        """Returns the key of the output to return, or None for all that the module returns."""
        key, as_dict = self.output_key, self.signature_outputs_as_dict
        if not self._module.by_name:
            expect(not as_dict, "`signature_outputs_as_dict=True` requires `signature`.", received="signature=None")
            return key
        if as_dict:
            rule = "`output_key` and `signature_outputs_as_dict` cannot be combined."
            expect(key is None, rule, output_key=key)
            return None
        names = sorted(self._module.function.structured_outputs)
        chosen = key or (names[0] if len(names) == 1 else "default")
        rule = f"`output_key` is invalid. Expected one of {names}, or `signature_outputs_as_dict=True`."
        expect(chosen in names, rule, output_key=key)
        return chosen

    def _check_trainable(self):
        if not self.trainable:
            return
        reason = self._module.frozen_because
        expect(not reason, f"The module cannot be trained: {reason}.", received="trainable=True")
        strategy = tf.distribute.get_strategy()
        if strategy.num_replicas_in_sync == 1:
            return
        in_scope = all(map(strategy.extended.variable_created_in_scope, self._module.trainable_variables))
        rule = (
            "To train a module on several replicas, create the layer inside `strategy.scope()`. If you pass a loaded "
            "object, load it there too."
        )
        expect(in_scope, rule, received=f"{self.name!r}, created outside the scope")
        if not isinstance(self.handle, str) and self._module.takes_training:
            on_read = tf.VariableSynchronization.ON_READ
            others = [each for each in self._module.other_variables if each.dtype.is_floating]
            moving = [each.name for each in others if getattr(each, "synchronization", None) != on_read]
            rule = (
                "Training would update these statistics from the first replica only. Pass the handle instead of the "
                "loaded object, or create the variables of your own one with "
                "`synchronization=tf.VariableSynchronization.ON_READ` and `aggregation=tf.VariableAggregation.MEAN`."
            )
            expect(not moving, rule, received=f"handle={self.handle!r} with {moving}")

    @property
    def resolved_object(self) -> Any:
        """The loaded module."""
        return self._module.loaded

    @property
    def input_specs(self) -> list:
        """List of nests of `tf.TypeSpec`. Inputs must fit one of them. Empty if the module does not specify them."""
        return self._module.input_specs

    def __call__(self, inputs, **kwargs):
        # Checked here, since Keras and TensorFlow add text to errors in `call`.
        if is_rebuilding():
            return self._rebuilt(inputs, kwargs)
        self._check_trainable()
        inputs = as_tensors(inputs)
        self._module.spec_for(inputs, self.arguments)
        return super().__call__(inputs, **kwargs)

    def _rebuilt(self, inputs, kwargs):
        """Returns outputs for Keras's placeholders. Keras hides errors here, and then does not load later layers."""
        try:
            self._check_trainable()
            inputs = as_tensors(inputs)
            spec = self._module.spec_for(inputs, self.arguments, shapes_only=True)
            inputs = inputs if spec is None else placeholders(inputs, spec)
            outputs = super().__call__(inputs, **kwargs)
        except Exception as error:
            self._not_rebuilt = one_line(error)
            raise
        self._not_rebuilt = None
        return outputs

    def load_own_variables(self, store):
        rule = (
            "Keras cannot rebuild the model with this layer, and would not load the layers above it. Give the model a "
            "method `build_from_config` that calls it on real inputs."
        )
        expect(not self._not_rebuilt, rule, received=self._not_rebuilt)
        super().load_own_variables(store)

    def call(self, inputs, training=None):
        if self.trainable:
            for loss in self._module.losses:
                self.add_loss(loss())
        return self._outputs(inputs, training)

    def _outputs(self, inputs, training):
        options = dict(self.arguments)
        if self._module.takes_training:
            options["training"] = bool(training) and self.trainable
        outputs = self._module(inputs, **options)
        if self._chosen_output is not None:
            key = self._chosen_output
            has_key = isinstance(outputs, dict) and key in outputs
            expect(has_key, f"The module returns {describe(outputs)}.", output_key=key)
            outputs = outputs[key]
        if self.output_shape is None:
            return outputs
        batch = keras.tree.flatten(inputs)[0].shape[:1]
        return with_shape(outputs, self.output_shape, batch)

    def compute_output_spec(self, inputs, training=None):
        specs = keras.tree.map_structure(spec_of, inputs)
        function = tf.function(lambda inputs: self._outputs(inputs, training), autograph=False)
        outputs = function.get_concrete_function(specs).structured_outputs
        return keras.tree.map_structure(symbolic, outputs)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the outputs, or a nest of shapes."""
        dtypes = [spec.dtype.name for spec in keras.tree.flatten(self.input_specs[:1])]
        dtypes = itertools.chain(dtypes, itertools.repeat(self.dtype))
        inputs = keras.tree.map_shape_structure(lambda shape: keras.KerasTensor(shape, next(dtypes)), input_shape)
        return keras.tree.map_structure(lambda output: output.shape, self.compute_output_spec(inputs))

    def layer_groups(self) -> list:
        """Returns the module's weights in order.

        Returns:
            A list of `(name, kind, weights)`.
        """
        groups = {}
        for name, weight in zip(self._names, self._module_weights, strict=True):
            groups.setdefault(_group(name), []).append(weight)
        return [(name, kind, weights) for (_, _, name, kind), weights in sorted(groups.items())]

    def get_config(self):
        rule = "A `HubLayer` can be saved only if `handle` is a string or a path. Pass it instead of the loaded object."
        expect(isinstance(self.handle, str), rule, handle=self.handle)
        rule = f"A `HubLayer` can be saved only if its `arguments` are JSON values, and not {self.arguments}."
        with raising(rule, TypeError):
            json.dumps(self.arguments)
        config = super().get_config()
        del config["dtype"]
        names = ("handle", "arguments", "tags", "signature", "signature_outputs_as_dict", "output_key", "output_shape")
        return {**config, **{name: getattr(self, name) for name in (*names, "sha256")}}

    @classmethod
    def from_config(cls, config, custom_objects=None, safe_mode=None):
        """Creates the layer from its config, which loads the module.

        Args:
            config: Dict from `get_config`.
            safe_mode: Boolean. Pass `False` if you trust the module. Defaults to the value of the loading function.

        Raises:
            ValueError: If safe mode is on.
            HubError: If the module cannot be loaded.
        """
        return from_trusted_config(cls, config, safe_mode)


def _open(handle, tags, signature, load_options, sha256):
    """Returns the `Module` of a handle or of a loaded object."""
    if isinstance(handle, str):
        with _averaged_statistics():
            loaded, is_tf1, folder = load(handle, tags=tags, load_options=load_options, sha256=sha256)
        if is_tf1:
            return open_tf1_module(loaded, folder, tags, signature or "default")
        return open_module(loaded, signature, name=repr(shown(handle)))
    rule = "`handle` must be a string, a path, a loaded SavedModel or a callable."
    expect(callable(handle) or hasattr(handle, "signatures"), rule, handle)
    rule = "`tags`, `load_options` and `sha256` require a path or a URL."
    expect(tags is load_options is sha256 is None, rule, handle=handle)
    if is_loaded_tf1_module(handle):
        return open_loaded_tf1_module(handle, signature, name=repr(handle))
    return open_module(handle, signature, name=repr(handle))


@contextlib.contextmanager
def _averaged_statistics():
    """Gives each replica its own copy of non-trainable variables when they are loaded. Reading returns their mean."""

    def creator(next_creator, **options):
        if options["trainable"] is False:
            mean = tf.VariableAggregation.MEAN
            first = tf.VariableAggregation.ONLY_FIRST_REPLICA
            options["synchronization"] = tf.VariableSynchronization.ON_READ
            options["aggregation"] = mean if tf.as_dtype(options["dtype"]).is_floating else first
        return next_creator(**options)

    with tf.variable_creator_scope(creator) if tf.distribute.has_strategy() else contextlib.nullcontext():
        yield


def _input_dtype(module, given):
    """Returns the dtype of a module's first input, or `given` if the module does not specify it.

    The configs of `hub.KerasLayer` contain float32, the default of Keras 2, for all modules. Here it is ignored.
    """
    dtypes = [spec.dtype.name for spec in keras.tree.flatten(module.input_specs)]
    given = keras.backend.standardize_dtype(given or "float32")
    if not dtypes:
        return given
    fits = given in ("float32", *dtypes)
    expect(fits, f"The module expects {describe(module.input_specs[0])}.", dtype=given)
    return given if given in dtypes else dtypes[0]


def _group(name):
    """Returns `(order, number, name, kind)` of the layer group of a variable with this name."""
    if block := re.search(r"(?:^|[/.]|transformer_)layers?(?:_\.)?_?(\d+)(?=[/_.]|$)", name, re.IGNORECASE):
        return 1, int(block[1]), f"layer_{block[1]}", "block"
    if re.search(r"embed", name, re.IGNORECASE):
        return 0, 0, "embeddings", "embeddings"
    if re.search(r"pooler", name, re.IGNORECASE):
        return 2, 0, "pooler", "pooler"
    return 3, 0, "other", "other"
