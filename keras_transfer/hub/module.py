"""One interface for loaded modules of all kinds: function, variables and losses."""

import dataclasses
import inspect

import keras

from keras_transfer.core.lazy import tf
from keras_transfer.hub.errors import require
from keras_transfer.hub.tensors import best_fit, cast


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
        require(set(known).issuperset(arguments), rule, f"arguments={dict(arguments)}")


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
        require(signature in signatures, f"{rule} for {name}.", received)
        function = signatures[signature]
        specs, takes_training = [function.structured_input_signature[1]], False
    else:
        function = loaded if callable(loaded) else getattr(loaded, "serve", None)
        require(function is not None, f"{rule}, because {name} is not callable.", received)
        specs, takes_training = _input_specs(function), "training" in _parameters(function)
    losses = list(getattr(loaded, "regularization_losses", ()))
    rule = f"`regularization_losses` of {name} must be callables that return a scalar."
    require(all(map(callable, losses)), rule, losses)
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
