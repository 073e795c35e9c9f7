"""What a loaded module can do, whichever kind it is: its function, its variables, its losses."""

import dataclasses
import inspect

import keras

from keras_transfer.hub.errors import HubError
from keras_transfer.hub.tensors import best_fit, cast


@dataclasses.dataclass
class Module:
    """A loaded module behind one face; `open_module` and `open_tf1_module` make them.

    Attributes:
        function: callable of the inputs: one nest of tensors, or tensors by name where `by_name`; `training=` too where
            `takes_training`.
        input_specs: list of the nests of `tf.TypeSpec` that `function` was traced for; where `by_name` one dict; empty
            where it is no traced function.
        trainable_variables, other_variables: lists of `tf.Variable`.
        loaded: the loaded object.
        resources: what must be saved with the variables: the loaded object with its tables and their files.
        losses: list of callables that return a scalar tensor, the module's own regularisation.
        takes_training: bool.
        by_name: bool, whether `function` takes keyword arguments and returns a dict, as signatures do.
        frozen_because: str, why it cannot be trained; None if it can.
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
        """Returns the module's outputs for a nest of tensors, cast to what it was traced for."""
        spec = self.spec_for(inputs, options)
        inputs = inputs if spec is None else cast(inputs, spec)
        if not self.by_name:
            return self.function(inputs, **options)
        if not isinstance(inputs, dict):
            (name,) = self.input_specs[0].keys() - options.keys()
            inputs = {name: inputs}
        return self.function(**inputs, **options)

    def spec_for(self, inputs, options=()):
        """Returns which of the `input_specs` the inputs fit, or None where there are none.

        Args:
            inputs: nest of tensors, or of symbolic ones; of a signature's only argument it may be the value alone.
            options: names of the arguments that come besides.

        Raises:
            HubError: they fit none.
        """
        specs = self.input_specs
        if self.by_name:
            spec = {name: each for name, each in specs[0].items() if name not in options}
            specs = list(spec.values()) if len(spec) == 1 and not isinstance(inputs, dict) else [spec]
        return best_fit(inputs, specs) if specs else None

    def check_arguments(self, arguments):
        """Raises a HubError where the function takes no arguments of these names; `training` is for Keras to say."""
        if self.by_name:
            known = sorted(self.input_specs[0])
        else:
            parameters = _parameters(self.function).values()
            if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
                return
            known = [parameter.name for parameter in parameters if parameter.name != "training"][1:]
        if not set(known).issuperset(arguments):
            raise HubError(f"the module takes the arguments {known}. Received: arguments={dict(arguments)}")


def open_module(loaded, signature=None, name="the module"):
    """Returns the `Module` of a TF2 SavedModel, of a Keras export, or of any callable.

    Args:
        loaded: what `tf.saved_model.load` returned, or a callable that follows the conventions of reusable SavedModels
            (`variables`, `trainable_variables`, `regularization_losses`).
        signature: str, a signature's name; None to call the object itself, or the endpoint `serve` of a Keras export.
        name: str for messages.

    Returns:
        A `Module`.

    Raises:
        HubError: it has no such signature, or cannot be called.
    """
    signatures = getattr(loaded, "signatures", {})
    if signature is not None:
        if signature not in signatures:
            raise HubError(f"{name} has the signatures {sorted(signatures)}. Received: signature={signature!r}")
        function = signatures[signature]
        specs, takes_training = [function.structured_input_signature[1]], False
    else:
        function = loaded if callable(loaded) else getattr(loaded, "serve", None)
        if function is None:
            raise HubError(
                f"{name} cannot be called itself: choose one of the signatures {sorted(signatures)}. "
                "Received: signature=None"
            )
        specs, takes_training = _input_specs(function), "training" in _parameters(function)
    losses = list(getattr(loaded, "regularization_losses", ()))
    if not all(map(callable, losses)):
        raise HubError(f"`regularization_losses` of {name} must be callables that return a scalar. Received: {losses}")
    trainable, others = _variables(loaded, function)
    by_name = signature is not None
    unwatched = [variable.name for variable in trainable if not variable.trainable]
    reason = f"it lists as trainable what TensorFlow gives no gradients for: {unwatched}" if unwatched else None
    return Module(function, specs, trainable, others, loaded, loaded, losses, takes_training, by_name, reason)


def _parameters(function):
    return inspect.signature(_called(function)).parameters


def _traces(function):
    """The concrete functions of a loaded function, or of a loaded object that can be called."""
    return getattr(_called(function), "concrete_functions", [])


def _called(function):
    """Of a loaded object its attribute, which alone has a signature and traces; any other callable itself."""
    return function.__call__ if hasattr(function.__call__, "concrete_functions") else function


def _input_specs(function):
    """What the traces take as their first argument, where that is tensors."""
    import tensorflow as tf

    first = [arguments[0] for trace in _traces(function) if (arguments := trace.structured_input_signature[0])]
    return [spec for spec in first if all(isinstance(leaf, tf.TypeSpec) for leaf in keras.tree.flatten(spec))]


def _variables(loaded, function):
    """`(trainable, others)`: what the object lists, as reusable SavedModels do, else what the function uses."""
    if hasattr(loaded, "variables") or hasattr(loaded, "trainable_variables"):
        trainable, every = getattr(loaded, "trainable_variables", ()), getattr(loaded, "variables", ())
    else:
        every = [variable for each in _traces(function) or [function] for variable in getattr(each, "variables", ())]
        trainable = [variable for variable in every if variable.trainable]
    trainable = {id(variable): variable for variable in trainable}
    others = {id(variable): variable for variable in every if id(variable) not in trainable}
    return list(trainable.values()), list(others.values())
