"""What Keras's `fit` knows: its first epoch, and its state on JAX."""

import keras


def initial_epoch(model):
    """Returns the epoch in which `fit` begins, which overrides its argument `initial_epoch`. Usually, it is None."""
    return model._initial_epoch


def set_initial_epoch(model, epoch):
    """Makes `fit` begin in an epoch if called in `on_train_begin`. Keras's `BackupAndRestore` does the same."""
    model._initial_epoch = epoch


def forget_jax_state(model):
    """Makes `fit` on JAX read the current values of the variables instead of overwriting them with its own state."""
    model._jax_state = None


def build_metrics(model, labels):
    """Creates the metrics that were given to `compile` by name, without replicas on TensorFlow.

    Keras would create them in the first trace of a step. TensorFlow would therefore trace the step twice. The same
    holds for the variables of metrics whose `build_for(true_shape, shape)` creates them for labels and outputs.
    """
    if keras.backend.backend() != "tensorflow" or model._distribute_strategy is not None:
        return
    outputs, names = model.output, set(labels) if isinstance(labels, dict) else None
    if names is not None and not (isinstance(outputs, dict) and names == set(outputs)):
        return

    def like(part):
        return keras.KerasTensor((None, *part.shape[1:]), keras.backend.standardize_dtype(part.dtype))

    labels = keras.tree.map_structure(like, labels)
    metrics, loss = (getattr(model, name, None) for name in ("_compile_metrics", "_compile_loss"))
    if names is not None and loss is not None and not loss.built:  # It has a metric for the loss of each head.
        loss.build(labels, outputs)
    if metrics is not None and not metrics.built:
        metrics.build(labels, outputs)
        for metric in metrics.metrics if names is None else ():
            if hasattr(metric, "build_for"):
                metric.build_for(labels.shape, outputs.shape)


def build_for_step(model, batch):
    """Creates the metrics and the optimizer's variables of a compiled model, as `fit` does before its first step."""
    model._symbolic_build(data_batch=batch)


def has_metrics(model):
    """Returns whether Keras has created the metrics that were given to `compile`, or there are none to create."""
    metrics = getattr(model, "_compile_metrics", None)
    return metrics is None or metrics.built


def keep_values(model):
    """Returns a function that restores the values of a model's variables on JAX after a method has failed.

    Keras takes the values out of the variables while it runs, and puts them back only if nothing fails.
    """
    if keras.backend.backend() != "jax":
        return lambda: None
    if any(variable._value is None for variable in model.variables):
        model.jax_state_sync()  # in the middle of an epoch of `fit`
    forget_jax_state(model)  # An earlier method may have left its state.
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *(optimizer.variables if optimizer is not None else ()), *model.metrics_variables]
    kept = [(variable, variable.value) for variable in variables]

    def restore():
        model.jax_state_sync()  # This sets the values after the last step, if there was one.
        for variable, value in kept:
            if variable._value is None and not value.is_deleted():
                variable.assign(value)
        if any(variable._value is None for variable in model.metrics_variables):  # Keras has created them since.
            model.reset_metrics()
        forget_jax_state(model)
        model._jax_state_synced = True  # An outer `fit` takes the variables as they are now.

    return restore


class BuildsFromOneReplica:
    """A mixin for a model that Keras builds from the first replica's part of the first batch, not from an average."""

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        strategy = self.distribute_strategy
        if iterator is not None and strategy.num_replicas_in_sync > 1:
            _, _, batches = next(iter(iterator))
            data_batch = keras.tree.map_structure(
                lambda value: strategy.experimental_local_results(value)[0], next(batches)
            )
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)
