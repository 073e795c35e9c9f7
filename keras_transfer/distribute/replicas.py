"""What several replicas of a task need: one scope for all of it, and batches that they can share."""

import keras


def replicas_of(model):
    """Returns how many replicas share a batch, and whether they must share it evenly, as on JAX."""
    strategy = getattr(model, "distribute_strategy", None)  # on TensorFlow
    distribution = keras.distribution.distribution()
    if strategy is None and distribution is not None:
        return distribution.num_model_replicas, True
    return (1 if strategy is None else strategy.num_replicas_in_sync), False


def check_scope(model):
    """Raises a ValueError where weights were made in another scope than the model is trained in.

    Weights made outside a strategy's scope are on one device: Keras trains on that alone, or fails oddly.
    """
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None:
        return
    created_inside = strategy.extended.variable_created_in_scope
    apart = [weight.path for weight in model.weights if not created_inside(weight.value)]
    if apart:
        raise ValueError(
            "the encoder and the model are made inside `strategy.scope()`, then compiled there. "
            f"Received: {len(apart)} weights made in another scope, the first {apart[0]}"
        )


def check_distribution(model):
    """Raises a ValueError where weights that were distributed on JAX are used without the distribution.

    Keras asks for it again in `fit`, `evaluate` and `predict`, and shares nothing where it is gone.
    """
    # What JAX says of an array's devices; other backends have no distribution.
    devices = {len(getattr(getattr(weight.value, "sharding", None), "device_set", ())) for weight in model.weights}
    if keras.distribution.distribution() is None and max(devices, default=0) > 1:
        raise ValueError(
            "a model made with a distribution is used with it: `fit`, `evaluate` and `predict` inside its scope, or "
            "after `keras.distribution.set_distribution`. "
            f"Received: weights on {max(devices)} devices, and no distribution"
        )


def share(model, data, method):
    """Returns batches of texts in memory such that the replicas can share them.

    Args:
        model: the task.
        data: `TextBatches`.
        method: `"fit"`, `"evaluate"` or `"predict"`.

    Raises:
        ValueError: they cannot.
    """
    replicas, evenly = replicas_of(model)
    if replicas == 1:
        return data
    count = len(data.order)
    if method == "predict":
        return data.for_replicas(replicas, repeat=True)
    if data.batch_size % replicas:
        raise ValueError(
            f"`batch_size` must be a multiple of the {replicas} replicas that share it. Received: {data.batch_size}"
        )
    if method == "evaluate" and (count < replicas or (evenly and count % replicas)):
        wanted = f"a multiple of {replicas}" if evenly else f"at least {replicas}"
        raise ValueError(f"to evaluate with {replicas} replicas takes {wanted} texts. Received: {count}")
    return data.for_replicas(replicas, repeat=method == "fit")
