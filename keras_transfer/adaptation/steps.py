"""What stands in `model.train_function` while a callback of ours watches a `fit`.

Keras tells callbacks when a step begins and ends, not when it fails, and has no way to pass over a batch without
training on it. `Steps` calls the function that Keras made, and adds these two. (It rests on one private name,
`_jax_state`.)
"""


class Steps:
    """A train function that can pass over batches, and says when it fails.

    Args:
        model: the model whose train function it is.

    Attributes:
        function: the train function that Keras made.
        skipping: bool, take the next batches from the data and do nothing with them.
        on_failure: list of functions without arguments, called when a step raises.
    """

    def __init__(self, model):
        self.model = model
        self.function = model.train_function
        self.skipping = False
        self.on_failure = []
        self._begun = False

    def begin(self):
        """Says that a step of the `fit` that is watched is about to be taken."""
        self._begun = True

    def __call__(self, *args):
        # A `fit` that ended in an error outside a step told nobody; the next one would train what its last stage did.
        if not self._begun:
            self.fail()
            raise RuntimeError(
                "an earlier `fit` of this model ended in an error, and left it in the middle of its stages. What "
                "trains is now as it was before: call `fit` again. Received: a step of another `fit`"
            )
        self._begun = False
        try:
            return self._skip(*args) if self.skipping else self.function(*args)
        except StopIteration:  # the end of the data
            raise
        except BaseException:
            if len(args) == 2:
                _recover(self.model, args[0])
            self.fail()
            raise

    def fail(self):
        """Calls what is to be done when a step raises, once."""
        while self.on_failure:
            self.on_failure.pop()()

    def _skip(self, *args):
        *state, iterator = args  # JAX: (state, iterator); TensorFlow: (iterator,); torch: (batch,)
        if hasattr(iterator, "__next__"):
            next(iterator)
        return ({}, *state) if state else {}


def watch(model):
    """Returns the `Steps` in the model's train function, a new one if there is none."""
    if not isinstance(model.train_function, Steps):
        model.make_train_function()
        model.train_function = Steps(model)
    return model.train_function


def renew(model):
    """Lets Keras make the model's functions anew, for other weights that train, and keeps the `Steps` around them."""
    steps = model.train_function
    model.make_train_function(force=True)
    if isinstance(steps, Steps):
        steps.function = model.train_function
        model.train_function = steps
    if hasattr(model, "jax_state_sync"):  # on JAX these two know trainable from other weights
        model.test_function = model.predict_function = None


def unwatch(model):
    """Takes the `Steps` off again."""
    if isinstance(model.train_function, Steps):
        model.train_function = model.train_function.function


def _recover(model, state):
    """Gives the variables back what the failed step was to start from: JAX's `fit` has taken their values away."""
    if any(value.is_deleted() for values in state for value in values):
        return  # the step failed after XLA had taken them; what Keras keeps is all there is
    trainable, others, optimizer, metrics = state
    variables = [model.trainable_variables, model.non_trainable_variables, model.optimizer.variables]
    for references, values in zip([*variables, model.metrics_variables], (trainable, others, optimizer, metrics)):
        for reference, value in zip(references, values):
            reference.assign(value)
    model._jax_state = None  # else Keras puts an older state back, by a division that may be another


def sync(model):
    """Gives the model's variables their values in the middle of an epoch, which only JAX keeps elsewhere."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()
