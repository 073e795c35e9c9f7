"""A TF Hub module as a Keras 3 layer."""

import contextlib
import itertools
import json
import logging
import os
import re

import keras

from keras_transfer.hub.errors import HubError
from keras_transfer.hub.loading import load
from keras_transfer.hub.modules import open_module
from keras_transfer.hub.tensors import as_tensors, describe, spec_of, symbolic, with_shape
from keras_transfer.hub.tf1 import is_loaded_tf1_module, open_loaded_tf1_module, open_tf1_module
from keras_transfer.hub.trust import trusted

log = logging.getLogger("keras_transfer")


@keras.saving.register_keras_serializable(package="keras_transfer")
class HubLayer(keras.layers.Layer):
    """A module from TF Hub or Kaggle, or any SavedModel, as a layer that trains.

    It takes the place of `tensorflow_hub.KerasLayer`, with the same arguments. It takes TF2 modules (reusable
    SavedModels), their signatures, Keras exports, and modules in the TF1 Hub format. The module's own variables are the
    layer's weights, not copies, under the module's names, such as `"hub_layer/transformer/layer_0/dense/kernel"`.

    The module's dtypes are those it was saved with. Numbers are cast to what it takes, and mixed precision starts
    behind it. Under `tf.distribute` a module that trains is made inside `strategy.scope()`; of statistics that
    training may move (batch normalisation), each replica has its own, and their mean is what is read and saved.

    Args:
        handle: str or path: a folder, an archive, a URL, `"google/nnlm/tensorFlow2/en-dim128/1"`; see `resolve`. Or
            what `tensorflow_hub.load` or `tf.saved_model.load` returned, or a callable, which may have lists
            `variables`, `trainable_variables` and `regularization_losses` (of callables). A layer of such an object
            has no handle, so it has no config: its model can be exported and its weights can be saved, but not the
            `.keras` file. A loaded object of TensorFlow 1 cannot be trained.
        trainable: bool, whether the module trains; where False it also runs as in prediction (no dropout).
        arguments: dict of further arguments for every call of the module; plain values, which go into the config.
        tags: str or list of str, the variant of the module to load. None for its only one; in the TF1 Hub format for
            the one without tags, to which training adds the one tagged `train`.
        signature: str, which of the module's signatures to call; None to call the module itself. In the TF1 Hub
            format None is `"default"`.
        signature_outputs_as_dict: bool, whether a signature returns all its outputs, in a dict.
        output_key: str, which item of the module's dict to return. A signature with one output, or one that is called
            `"default"`, needs none.
        output_shape: tuple of int or None, or a dict or list of such for several outputs: their shapes without the
            batch, where the module does not say them.
        load_options: `tf.saved_model.LoadOptions`; not in the config.
        sha256: str, the checksum that the handle's archive must have.
        **kwargs: `name`, and of Keras 2 `dtype`, the dtype of what the module takes, and `input_shape`, which is not
            needed.

    Inputs: what the module takes: strings [batch], a dict of token ids [batch, length], ... Lists of Python values are
        taken too.

    Outputs: what it returns.

    Raises:
        HubError: the module cannot be found or loaded; it has no such tags, signature or output; inputs do not fit; it
            cannot be trained, or was made outside the strategy's scope.
        RuntimeError: the backend is not TensorFlow.

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

    Source: the conventions of https://www.tensorflow.org/hub/reusable_saved_models.
    """

    def __init__(
        self,
        handle,
        trainable=False,
        arguments=None,
        tags=None,
        signature=None,
        signature_outputs_as_dict=None,
        output_key=None,
        output_shape=None,
        load_options=None,
        sha256=None,
        **kwargs,
    ):
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(
                "a TF Hub module is a TensorFlow graph: set KERAS_BACKEND=tensorflow. "
                f"Received: the backend {keras.backend.backend()!r}"
            )
        import tensorflow as tf

        # === Module ===
        handle = os.fspath(handle) if isinstance(handle, os.PathLike) else handle
        tags = [tags] if isinstance(tags, str) else tags if tags is None else sorted(tags)
        with tf.init_scope(), tf.name_scope(""):  # wherever this is made: eagerly, and under the module's names
            module = _open(handle, tags, signature, load_options, sha256)
        kwargs.pop("input_shape", None)
        dtype = _input_dtype(module, kwargs.pop("dtype", None))
        super().__init__(trainable=trainable, dtype=dtype, autocast=False, **kwargs)
        self.supports_jit = False  # tables and strings; and XLA compiles a trainable module anew at every step
        self._module = module
        self.resources = module.resources  # an attribute, so that it is saved with the layer
        self._names = []
        self._module_weights = list(self._weights_of(module))  # an attribute too, so that Keras tracks them
        for weight in self.weights:
            weight.trainable = weight.trainable and trainable
        if trainable and not self.trainable_weights:
            log.warning("%s has nothing to train: the module lists no trainable variables", self.name)
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
        self._chosen_output = self._choose_output()
        module.check_arguments(self.arguments)
        self._check_trainable()

    def _weights_of(self, module):
        """The module's variables as weights of this layer, without a copy, under the module's names."""
        taken = set()
        for variables, trainable in ((module.trainable_variables, True), (module.other_variables, False)):
            for variable in variables:
                if variable.dtype == "string":  # nothing that trains, and nothing that Keras could save
                    continue
                path = name = variable.name.split(":")[0]
                numbers = itertools.count(1)
                while path in taken:
                    path = f"{name}_{next(numbers)}"
                taken.add(path)
                self._names.append(path)
                *scopes, name = [self.name, *filter(None, path.split("/"))]
                with contextlib.ExitStack() as stack:
                    for scope in scopes:
                        stack.enter_context(keras.name_scope(scope))
                    dtype = variable.dtype.name
                    yield keras.Variable(variable, dtype=dtype, trainable=trainable, autocast=False, name=name)

    def _choose_output(self):
        """The output that was asked for, or the only one, or `"default"`; None for all that the module returns."""
        key, as_dict = self.output_key, self.signature_outputs_as_dict
        if not self._module.by_name:
            if as_dict:
                raise HubError("`signature_outputs_as_dict` goes with `signature`. Received: signature=None")
            return key
        if as_dict:
            if key is not None:
                raise HubError(f"either `output_key` or `signature_outputs_as_dict`. Received: {key!r} and {as_dict}")
            return None
        names = sorted(self._module.function.structured_outputs)
        chosen = key or (names[0] if len(names) == 1 else "default")
        if chosen not in names:
            raise HubError(
                f"the signature's outputs are {names}: choose an `output_key`, or signature_outputs_as_dict=True. "
                f"Received: output_key={key!r}"
            )
        return chosen

    def _check_trainable(self):
        if not self.trainable:
            return
        import tensorflow as tf

        if self._module.frozen_because:
            raise HubError(f"this module cannot be trained: {self._module.frozen_because}. Received: trainable=True")
        strategy = tf.distribute.get_strategy()
        if strategy.num_replicas_in_sync == 1:
            return
        if not all(map(strategy.extended.variable_created_in_scope, self._module.trainable_variables)):
            raise HubError(
                "a module that several replicas train is made inside `strategy.scope()`, and a loaded one is loaded "
                f"there. Received: {self.name!r}, made outside"
            )
        if not isinstance(self.handle, str) and self._module.takes_training:
            on_read = tf.VariableSynchronization.ON_READ
            others = [each for each in self._module.other_variables if each.dtype.is_floating]
            if moving := [each.name for each in others if getattr(each, "synchronization", None) != on_read]:
                advice = "Pass the handle instead of the loaded object, and the layer shares them."
                if not hasattr(self.handle, "signatures"):  # not a loaded SavedModel
                    advice = (
                        "Create these variables with `synchronization=tf.VariableSynchronization.ON_READ` and "
                        "`aggregation=tf.VariableAggregation.MEAN`."
                    )
                raise HubError(
                    "Statistics that training may move would be those of the first replica alone. "
                    f"{advice} Received: handle={self.handle!r} with {moving}"
                )

    @property
    def resolved_object(self):
        """The loaded module."""
        return self._module.loaded

    @property
    def input_specs(self):
        """What the module takes: a list of nests of `tf.TypeSpec`, of which inputs must fit one; empty if unknown."""
        return self._module.input_specs

    def __call__(self, inputs, **kwargs):
        # Checked here, before Keras and TensorFlow wrap what they say around a message.
        self._check_trainable()
        inputs = as_tensors(inputs)
        self._module.spec_for(inputs, self.arguments)
        return super().__call__(inputs, **kwargs)

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
            if not isinstance(outputs, dict) or self._chosen_output not in outputs:
                raise HubError(f"the module returns {describe(outputs)}. Received: output_key={self._chosen_output!r}")
            outputs = outputs[self._chosen_output]
        if self.output_shape is None:
            return outputs
        batch = keras.tree.flatten(inputs)[0].shape[:1]
        return with_shape(outputs, self.output_shape, batch)

    def compute_output_spec(self, inputs, training=None):
        import tensorflow as tf

        specs = keras.tree.map_structure(spec_of, inputs)
        function = tf.function(lambda inputs: self._outputs(inputs, training), autograph=False)
        outputs = function.get_concrete_function(specs).structured_outputs
        return keras.tree.map_structure(symbolic, outputs)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the outputs, or a nest of such."""
        dtypes = [spec.dtype.name for spec in keras.tree.flatten(self.input_specs[:1])]
        dtypes = itertools.chain(dtypes, itertools.repeat(self.dtype))
        inputs = keras.tree.map_shape_structure(lambda shape: keras.KerasTensor(shape, next(dtypes)), input_shape)
        return keras.tree.map_structure(lambda output: output.shape, self.compute_output_spec(inputs))

    def layer_groups(self):
        """Returns the module's weights in order, as a list of `(name, kind, weights)`; see `layer_groups`."""
        rungs = {}
        for name, weight in zip(self._names, self._module_weights, strict=True):
            rungs.setdefault(_rung(name), []).append(weight)
        return [(name, kind, weights) for (_, _, name, kind), weights in sorted(rungs.items())]

    def get_config(self):
        if not isinstance(self.handle, str):
            raise ValueError(
                "A `HubLayer` can be saved only if `handle` is a string or a path. Pass the handle instead of the "
                f"loaded object. Received: {self.handle!r}"
            )
        try:
            json.dumps(self.arguments)
        except TypeError as error:
            raise ValueError(f"`arguments` must be plain values to be saved. Received: {self.arguments}") from error
        config = super().get_config()
        del config["dtype"]
        return {
            **config,
            "handle": self.handle,
            "arguments": self.arguments,
            "tags": self.tags,
            "signature": self.signature,
            "signature_outputs_as_dict": self.signature_outputs_as_dict,
            "output_key": self.output_key,
            "output_shape": self.output_shape,
            "sha256": self.sha256,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None, safe_mode=None):
        """Builds the layer again, which loads its module.

        Args:
            config: dict, from `get_config`.
            safe_mode: bool, False to say that the module is trusted; None for what the loading function was told.

        Raises:
            ValueError: nobody said that the module is trusted.
            HubError: the module cannot be loaded.
        """
        return trusted(cls, config, safe_mode)


def _open(handle, tags, signature, load_options, sha256):
    """The `Module` of a handle, or of what was loaded before."""
    if isinstance(handle, str):
        with _statistics_of_all_replicas():
            loaded, is_tf1, folder = load(handle, tags=tags, load_options=load_options, sha256=sha256)
        if is_tf1:
            return open_tf1_module(loaded, folder, tags, signature or "default")
        return open_module(loaded, signature, name=repr(handle))
    if not callable(handle) and not hasattr(handle, "signatures"):
        raise HubError(f"a handle is a str or a path, a loaded SavedModel or a callable. Received: {handle!r}")
    if (tags, load_options, sha256) != (None, None, None):
        raise HubError(f"`tags`, `load_options` and `sha256` are of what is to be loaded. Received: handle={handle!r}")
    if is_loaded_tf1_module(handle):
        return open_loaded_tf1_module(handle, signature, name=repr(handle))
    return open_module(handle, signature, name=repr(handle))


@contextlib.contextmanager
def _statistics_of_all_replicas():
    """Loads what does not train so that its mean over the replicas is read: each one's graph moves its own."""
    import tensorflow as tf

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
    """The dtype of a module's first input; what is given where the module does not say it."""
    dtypes = [spec.dtype.name for spec in keras.tree.flatten(module.input_specs)]
    given = given and keras.backend.standardize_dtype(given)
    if given and dtypes and given not in dtypes:
        raise HubError(f"the module takes {describe(module.input_specs[0])}. Received: dtype={given!r}")
    return given or next(iter(dtypes), "float32")


def _rung(name):
    """`(order, number, name, kind)` of the rung that a variable of this name belongs to."""
    if block := re.search(r"(?:^|[/.]|transformer_)layers?(?:_\.)?_?(\d+)(?=[/_.]|$)", name, re.IGNORECASE):
        return 1, int(block[1]), f"layer_{block[1]}", "block"
    if re.search(r"embed", name, re.IGNORECASE):
        return 0, 0, "embeddings", "embeddings"
    if re.search(r"pooler", name, re.IGNORECASE):
        return 2, 0, "pooler", "pooler"
    return 3, 0, "other", "other"
