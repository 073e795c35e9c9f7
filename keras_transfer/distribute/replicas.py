"""Models on several replicas: checks of scopes and distributions, and batches that are divided evenly."""

import keras

from keras_transfer.keras_internals import accumulation_steps


def replicas_of(model):
    """Returns the number of replicas, and whether batches must be divisible by it, as on JAX."""
    strategy = getattr(model, "distribute_strategy", None)  # on TensorFlow
    distribution = keras.distribution.distribution()
    if strategy is None and distribution is not None:
        return distribution.num_model_replicas, True
    return (1 if strategy is None else strategy.num_replicas_in_sync), False


def check_scope(model):
    """Raises a ValueError if weights were created in a scope other than the one in which the model is trained.

    Weights that are created outside a strategy's scope are on one device. Keras then uses only this device or fails.
    """
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None:
        return
    created_inside = strategy.extended.variable_created_in_scope
    apart = [weight.path for weight in model.weights if not created_inside(weight.value)]
    if apart:
        raise ValueError(
            "Create the encoder and the model inside `strategy.scope()`, and compile the model there. "
            f"Received: {len(apart)} weights that were created outside the scope, such as {apart[0]}"
        )


def check_accumulation(model, optimizer):
    """Raises a `ValueError` if an optimizer accumulates gradients on replicas of TensorFlow, which Keras cannot do."""
    strategy = getattr(model, "distribute_strategy", None)
    replicas = 1 if strategy is None else strategy.num_replicas_in_sync
    steps = accumulation_steps(optimizer) if isinstance(optimizer, keras.optimizers.Optimizer) else 1
    if replicas > 1 and steps > 1:
        raise ValueError(
            "Keras cannot accumulate gradients on several replicas of TensorFlow. Use larger batches and an optimizer "
            f"without `gradient_accumulation_steps`. Received: gradient_accumulation_steps={steps} on {replicas} "
            "replicas"
        )


def check_distribution(model):
    """Raises a ValueError if a model cannot run as it was distributed on JAX.

    `fit`, `evaluate` and `predict` need the same distribution to divide the batches. If there were several processes,
    each would feed all texts, and every text would count several times.
    """
    if keras.backend.backend() == "jax":
        import jax

        if jax.process_count() > 1:
            raise ValueError(
                "A task runs in a single JAX process on all of its devices. Several processes are not supported yet. "
                f"Received: {jax.process_count()} processes"
            )
    # Only JAX arrays have a `sharding`; other backends have no distribution.
    devices = {len(getattr(getattr(weight.value, "sharding", None), "device_set", ())) for weight in model.weights}
    if keras.distribution.distribution() is None and max(devices, default=0) > 1:
        raise ValueError(
            "The model was created with a distribution. Call `fit()`, `evaluate()` and `predict()` inside its scope "
            "or after `keras.distribution.set_distribution()`. "
            f"Received: weights on {max(devices)} devices, and no distribution"
        )


def share(model, data, method):
    """Returns batches of texts in memory in the form that a method needs, divisible among the replicas.

    Args:
        model: The task.
        data: `Batches`.
        method: String. `"fit"`, `"evaluate"` or `"predict"`.

    Raises:
        ValueError: If the batch size or the number of texts does not allow this.
    """
    data = data if method == "fit" else data.grouped()  # Only the order of `fit` matters.
    data = data.few_lengths() if model.jit_compile else data
    replicas, evenly = replicas_of(model)
    if replicas == 1:  # With several replicas, Keras builds the model on the first batch.
        return data.replace(inferred=False)
    if method == "predict":
        return data.replace(replicas=replicas, repeat=True)
    if data.options.batch_size % replicas:
        raise ValueError(
            f"`batch_size` must be a multiple of the number of replicas, {replicas}. "
            f"Received: batch_size={data.options.batch_size}"
        )
    count = len(data.order) if method == "evaluate" else None
    if count is not None and (count < replicas or (evenly and count % replicas)):
        wanted = f"a multiple of {replicas}" if evenly else f"at least {replicas}"
        raise ValueError(f"`evaluate()` on {replicas} replicas requires {wanted} texts. Received: {count}")
    return data.replace(replicas=replicas, repeat=method == "fit")
