"""Loading a module, and one interface for loaded modules of all kinds: function, variables and losses."""

import dataclasses
import inspect

import keras

from keras_transfer.core.lazy import tf
from keras_transfer.hub.archives import MAX_BYTES
from keras_transfer.hub.errors import HubError, expect, one_line
from keras_transfer.hub.handles import resolve
from keras_transfer.hub.tensors import best_fit, cast


def load(handle, tags=None, load_options=None, cache_dir=None, sha256=None, max_bytes=MAX_BYTES):
    """Loads a module.

    TF Text is imported first if it is installed, since many modules need its ops.

    Args:
        handle, cache_dir, sha256, max_bytes: See `resolve`.
        tags: String or list of strings. Variant of the graph. Defaults to the only variant, or, in the TF1 Hub format,
            to the one without tags.
        load_options: `tf.saved_model.LoadOptions`. Defaults to `None`.

    Returns:
        A tuple `(object, is_tf1, folder)`: the object from `tf.saved_model.load`, whether the module is in the TF1 Hub
        format, and the folder from `resolve`.
    """
    folder = resolve(handle, cache_dir, sha256, max_bytes)
    text_problem = _register_text_ops()
    try:
        is_tf1 = tf.io.gfile.exists(f"{folder}/tfhub_module.pb")
        if is_tf1 and tags is None:
            tags = []
        return tf.saved_model.load(str(folder), tags, load_options), is_tf1, folder
    except Exception as error:  # a damaged module raises OSError, OpError, IndexError, DecodeError and more
        reason = one_line(error)
        if "Op type not registered" in reason:
            advice = "Import the package that defines this op first"
            advice += f". For TF Text, run `pip install tensorflow-text` ({text_problem})" if text_problem else ""
        elif "MetaGraph" in reason:
            advice = f"Pass one of the module's sets of `tags`, not {tags!r}"
        else:
            advice = "If its files are damaged, download it again (delete the folder if it is in the cache)"
        raise HubError(
            f"TensorFlow {tf.__version__} cannot load the module {folder}. {advice}. Received: {reason}"
        ) from error


def _register_text_ops():
    """Imports TF Text. Returns the error if that fails, or else None."""
    try:
        import tensorflow_text  # noqa: F401
    except Exception as error:  # ImportError, or TensorFlow's own error for an incompatible build
        return one_line(error)
    return None


@dataclasses.dataclass
class Module:
    """A loaded module, which `open_module` or `open_tf1_module` creates.

    Attributes:
        function: Callable. Takes one nest of tensors, or keyword arguments if `by_name`, and `training` if
            `takes_training`.
        input_specs: List of the nests of `tf.TypeSpec` that `function` was traced for: one dict if `by_name`, empty if
            the function was not traced.
        resources: The object to save with the variables. It owns the tables and their files.
        losses: List of callables that return a scalar tensor. The module's own regularization.
        by_name: Boolean. Whether `function` accepts keyword arguments and returns a dict, as signatures do.
        frozen_because: String. Why the module cannot be trained, or `None` if it can.
    """

    function: object
    input_specs: list
    trainable_variables: list
    other_variables: list
    loaded: object
    resources: object
    losses: list = dataclasses.field(default_factory=list)
    takes_training: bool = False
    by_name: bool = False
    frozen_because: str | None = None

    def __call__(self, inputs, **options):
        """Casts a nest of tensors to the dtypes that the module was traced for, and returns its outputs."""
        spec = self.spec_for(inputs, options)
        inputs = inputs if spec is None else cast(inputs, spec)
        if not self.by_name:
            return self.function(inputs, **options)
        if not isinstance(inputs, dict):
            (name,) = self.input_specs[0].keys() - options.keys()
            inputs = {name: inputs}
        return self.function(**inputs, **options)

    def spec_for(self, inputs, options=(), shapes_only=False):
        """Returns the item of `input_specs` that the inputs fit, or None if there are no specs.

        Args:
            inputs: Nest of tensors or symbolic tensors. A signature with one argument also accepts the value alone.
        """
        specs = self.input_specs
        if self.by_name:
            spec = {name: each for name, each in specs[0].items() if name not in options}
            specs = list(spec.values()) if len(spec) == 1 and not isinstance(inputs, dict) else [spec]
        return best_fit(inputs, specs, shapes_only) if specs else None

    def check_arguments(self, arguments):
        """Raises a HubError if the function does not accept these arguments. Keras sets `training`."""
        if self.by_name:
            known = sorted(self.input_specs[0])
        else:
            parameters = _parameters(self.function).values()
            if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
                return
            known = [parameter.name for parameter in parameters if parameter.name != "training"][1:]
        rule = f"Unknown arguments. The module accepts {known}."
        expect(set(known).issuperset(arguments), rule, received=f"arguments={dict(arguments)}")


def open_module(loaded, signature=None, name="the module"):
    """Returns the `Module` of a TF2 SavedModel, a Keras export or any callable.

    Args:
        loaded: Object from `tf.saved_model.load`, or a callable that follows the conventions of reusable SavedModels
            (`variables`, `trainable_variables`, `regularization_losses`).
        signature: String. Name of a signature. Defaults to `None`: the object itself, or the endpoint `serve` of a
            Keras export.
    """
    signatures = getattr(loaded, "signatures", {})
    rule, received = f"`signature` must be one of {sorted(signatures)}", f"signature={signature!r}"
    if signature is not None:
        expect(signature in signatures, f"{rule} for {name}.", received=received)
        function = signatures[signature]
        specs, takes_training = [function.structured_input_signature[1]], False
    else:
        function = loaded if callable(loaded) else getattr(loaded, "serve", None)
        expect(function is not None, f"{rule}, because {name} is not callable.", received=received)
        specs, takes_training = _input_specs(function), "training" in _parameters(function)
    losses = list(getattr(loaded, "regularization_losses", ()))
    trainable, others = _variables(loaded, function)
    by_name = signature is not None
    unwatched = [variable.name for variable in trainable if not variable.trainable]
    reason = f"TensorFlow does not watch some of its trainable variables: {unwatched}" if unwatched else None
    return Module(function, specs, trainable, others, loaded, loaded, losses, takes_training, by_name, reason)


def _parameters(function):
    return inspect.signature(_called(function)).parameters


def _traces(function):
    """Returns the concrete functions of a loaded function or a callable loaded object."""
    return getattr(_called(function), "concrete_functions", [])


def _called(function):
    """Returns `__call__` of a loaded object, which has the signature and traces, or any other callable itself."""
    return function.__call__ if hasattr(function.__call__, "concrete_functions") else function


def _input_specs(function):
    """Returns the specs of the first argument of each trace whose first argument is a nest of tensors."""
    first = [arguments[0] for trace in _traces(function) if (arguments := trace.structured_input_signature[0])]
    return [spec for spec in first if all(isinstance(leaf, tf.TypeSpec) for leaf in keras.tree.flatten(spec))]


def _variables(loaded, function):
    """Returns `(trainable, others)`: the variables that the object lists, or else those that the function uses."""
    if hasattr(loaded, "variables") or hasattr(loaded, "trainable_variables"):
        trainable, every = getattr(loaded, "trainable_variables", ()), getattr(loaded, "variables", ())
    else:
        every = [variable for each in _traces(function) or [function] for variable in getattr(each, "variables", ())]
        trainable = [variable for variable in every if variable.trainable]
    trainable = {id(variable): variable for variable in trainable}
    others = {id(variable): variable for variable in every if id(variable) not in trainable}
    return list(trainable.values()), list(others.values())
