"""Models on several replicas: checks of scopes and distributions, and batches that are divided evenly."""

import dataclasses
import hashlib

import keras
import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.lazy import tf
from keras_transfer.distribute.processes import ALL, Share, agree, gather, processes_of, strategy_of, workers_of
from keras_transfer.keras_internals import accumulation_steps
from keras_transfer.version import __version__


def replicas_of(model):
    """Returns the number of replicas, and whether batches must be divisible by it, as on JAX."""
    strategy = getattr(model, "distribute_strategy", None)  # on TensorFlow
    distribution = keras.distribution.distribution()
    if strategy is None and distribution is not None:
        return distribution.num_model_replicas, True
    return (1 if strategy is None else strategy.num_replicas_in_sync), False


def track_loss(model, loss, weight, count):
    """Adds the loss of a step on TensorFlow to the model's metric, and returns it as the gradient needs it.

    Keras weighs the mean losses of all replicas equally, although they may have different numbers of rows or words. The
    mean over the replicas of the returned loss equals one device's loss.

    A layer that adds means by `add_loss` has a list `mean_over`: for each of them, the number of what it is over.

    Args:
        weight: Tensor. Number of what its mean is over.
        count: Tensor. Number by which the metric weights the loss of this replica, such as its rows.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    mean = loss
    if replicas > 1:
        # This reads the losses of the layers before replicas wait for each other, since they share the lists.
        layers = [layer for layer in model.layers if getattr(layer, "mean_over", None) is not None]
        added = [pair for layer in layers if layer.losses for pair in zip(layer.losses, layer.mean_over, strict=True)]
        counts = [weight, count, *(count for _, count in added)]
        (factor, _, *factors), (_, in_all, *_) = _factors_and_sums(counts, replicas)
        loss *= tf.cast(factor, loss.dtype)
        for (each, _), own in zip(added, factors):
            loss += tf.cast((own - factor) * each / replicas, loss.dtype)
        mean, count = loss * replicas, in_all / replicas
    model.metrics[0].update_state(mean, sample_weight=count)
    return loss


def is_replica():
    """Returns whether this code is a part of a step on one of several replicas of TensorFlow."""
    if keras.backend.backend() != "tensorflow" or tf.distribute.in_cross_replica_context():
        return False
    return tf.distribute.get_strategy().num_replicas_in_sync > 1


def factors_of_means(*counts):
    """Returns the factors of this replica's means, such that the mean over the replicas is that over all rows.

    A task with several losses needs it, since each may be a mean over something else. Its labels then have the
    `weight_of` 1. The factors are 1 on a single device, on JAX, and where Keras builds a model outside the replicas.

    Args:
        *counts: Numbers of what each mean is over: of rows, or of words.
    """
    if not is_replica():
        return [1.0] * len(counts)
    return _factors_and_sums(counts, tf.distribute.get_strategy().num_replicas_in_sync)[0]


def _factors_and_sums(counts, replicas):
    """Returns the factors of this replica's means over such counts, and the sums of the counts of all replicas."""
    counts = [tf.cast(count, "float32") for count in counts]
    sums = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, counts)
    parts = [tf.math.divide_no_nan(count, total) for count, total in zip(counts, sums)]
    return [tf.where(total > 0, replicas * part, 1.0) for part, total in zip(parts, sums)], sums


def share_of_loss(loss):
    """Returns a loss that a task computes without Keras's losses, divided by the number of replicas of TensorFlow.

    Keras adds up the gradients of all replicas.
    """
    if keras.backend.backend() != "tensorflow":
        return loss
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    return loss if replicas == 1 else loss / replicas


def check_scope(model, optimizer=None):
    """Raises a ValueError if weights were created in a scope other than the one in which the model is trained.

    Weights that are created outside a strategy's scope are on one device. Keras then uses only this device or fails.
    The same error is raised if the strategy has devices that do not exist, or if its replicas would have to accumulate
    gradients, which Keras cannot do.
    """
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None:
        return
    if (replicas := strategy.num_replicas_in_sync) > 1:
        _check_devices(strategy)
        steps = accumulation_steps(optimizer) if isinstance(optimizer, keras.optimizers.Optimizer) else 1
        rule = (
            "Keras cannot accumulate gradients on several replicas of TensorFlow. Use larger batches and an optimizer "
            "without `gradient_accumulation_steps`."
        )
        expect(steps == 1, rule, gradient_accumulation_steps=steps, replicas=replicas)
    created_inside = strategy.extended.variable_created_in_scope
    apart = [weight.path for weight in model.weights if not created_inside(weight.value)]
    if apart:
        raise ValueError(
            "Create the encoder and the model inside `strategy.scope()`, and compile the model there. "
            f"Received: {len(apart)} weights that were created outside the scope, such as {apart[0]}"
        )


def _check_devices(strategy):
    """Raises a `ValueError` if a strategy of one machine has devices that TensorFlow lacks.

    TensorFlow would put their replicas on the devices that it has, where all replicas wait for each other forever.
    """
    there = [device.name.rpartition("device:")[2] for device in tf.config.list_logical_devices()]
    own = [device for device in strategy.extended.worker_devices if device.startswith("/job:localhost/")]
    if missing := [name for device in own if (name := device.rpartition("device:")[2]) not in there]:
        count = 1 + max((int(name.rpartition(":")[2]) for name in missing if name.startswith("CPU")), default=0)
        divide = (
            "To divide a CPU, call `tf.config.set_logical_device_configuration(tf.config.list_physical_devices('CPU')"
            f"[0], [tf.config.LogicalDeviceConfiguration()] * {count})` at the start of the program. "
        )
        raise ValueError(
            f"The devices of a `{type(strategy).__name__}` must exist. Leave out the list of devices to use all GPUs. "
            f"{divide if count > 1 else ''}Received: {missing}, and the devices {there}"
        )


def check_distribution(model):
    """Raises a ValueError if a model cannot run as it was distributed.

    `fit`, `evaluate` and `predict` need the same distribution of JAX to divide the batches, or the same strategy of
    TensorFlow. Without one, each of several processes would train a model of its own.
    """
    if keras.backend.backend() == "tensorflow":
        is_server = isinstance(strategy_of(model), tf.distribute.ParameterServerStrategy)
        rule = (
            "Keras 3 does not train with parameter servers. Use `distribute.initialize()`, whose workers add up their "
            "gradients."
        )
        expect(not is_server, rule, strategy="ParameterServerStrategy")
        count, own = workers_of(strategy_of())[1], processes_of(model)[1]
        rule = "Create and compile the model in the scope of what `distribute.initialize()` returned."
        expect(count == own, rule, of_model=own, of_strategy=count)
    if keras.backend.backend() == "jax" and keras.distribution.distribution() is None:
        index, count = processes_of(model)
        rule = (
            "Several processes of JAX train together only with a distribution. Call "
            "`keras_transfer.distribute.initialize()` before the model is created, and create it in the scope."
        )
        expect(count == 1, rule, process=index, count=count)
        devices = max((len(weight.value.sharding.device_set) for weight in model.weights), default=1)
        rule = (
            "The model was created with a distribution. Call `fit()`, `evaluate()` and `predict()` inside its scope or "
            "after `keras.distribution.set_distribution()`."
        )
        expect(devices == 1, rule, devices=devices)


def check_stream(model, method):
    """Raises a `ValueError` if a loader cannot be divided among the processes of JAX.

    For training and evaluation, it is the part of each process, as in Keras. Predictions would be of all parts.
    """
    index, count = processes_of(model)
    rule = "Several processes of JAX predict data in memory, and share them. Pass texts or arrays."
    expect(method != "predict" or count == 1 or keras.backend.backend() != "jax", rule, process=index, count=count)


def share(model, data, method):
    """Returns batches of texts in memory in the form that a method needs, divisible among the replicas."""
    replicas, evenly = replicas_of(model)
    data = data if method == "fit" else data.grouped()  # Only the order of `fit` matters.
    data = (data.few_lengths() if model.jit_compile else data).replace(inferred=False)
    index, count = processes_of(model)
    if count > 1 and data.seed is not None:
        data.seed = agree(data.seed, model)
    check_processes(model, data, method)
    rule = "Each process must have equally many replicas of the model."
    if evenly:
        expect(replicas % count == 0, rule, replicas=replicas, processes=count)
    part = Share(index, count) if evenly else ALL  # TensorFlow gives each worker its rows of a batch.
    if replicas == 1:
        return data
    rule = (
        "Replicas of TensorFlow cannot share streams, whose state is carried from batch to batch. Train on one device, "
        "or on JAX."
    )
    if data.num_streams is not None:
        expect(evenly, rule, replicas=replicas)
    if method == "predict":
        return data.replace(replicas=replicas, repeat="even", share=part)
    rule = f"`batch_size` must be a multiple of the number of replicas, {replicas}."
    expect(data.options.batch_size % replicas == 0, rule, batch_size=data.options.batch_size)
    if method == "evaluate" and not evenly:
        rule = f"`evaluate()` on {replicas} replicas requires at least {replicas} texts."
        expect(len(data.order) >= replicas, rule, texts=len(data.order))
    # Replicas of TensorFlow may have different numbers of rows, but none may be empty.
    repeat = "few" if method == "fit" and not evenly else None
    return data.replace(replicas=replicas, repeat=repeat, filled=evenly, share=part)


def check_processes(model, data, method):
    """Raises a `ValueError` in all processes if they do not run the same model on the same data."""
    if processes_of(model)[1] == 1:
        return
    versions = f"keras_transfer {__version__}, Keras {keras.__version__} on {keras.backend.backend()}"
    _check("versions", versions, [], model)
    options = dataclasses.replace(data.options, share=ALL)  # It has its share if `fit` has prepared it before.
    _check("method and options of batches", f"{method} with {options}", [], model)
    _check("rows", f"{len(data.real)} rows", _arrays_of(data), model)
    if method == "fit":
        shapes = [(tuple(weight.shape), weight.trainable) for weight in model.weights]
        weights = [keras.ops.convert_to_numpy(weight) for weight in model.weights]
        _check("weights", f"{len(shapes)} weights", [np.array(str(shapes)), *weights], model)
        config = keras.saving.serialize_keras_object(model.optimizer)["config"]
        _check("optimizer", str({name: value for name, value in config.items() if name != "name"}), [], model)


def _arrays_of(data):
    """Returns arrays that tell the rows of `Batches` from others: lengths, labels, weights and the first inputs."""
    arrays = [data.real] if isinstance(data.real, np.ndarray) else []
    arrays += [column for column in keras.tree.flatten((data.labels, data.sample_weight)) if column is not None]
    if "token_ids" in data.inputs or not isinstance(data.inputs, dict):
        first = data.read(np.arange(min(len(data.real), 8)), data.options.lengths[-1])
        arrays += keras.tree.flatten(first)
    return arrays


def _check(what, text, arrays, model):
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).view("uint8").data)
    (index, _), own = processes_of(model), np.frombuffer(digest.digest()[:8], "int64")
    found = gather(own, model)
    if others := np.flatnonzero(found != found[0]).tolist():
        raise ValueError(
            f"All processes must have the same {what}. Received: {text:.300} in process {index}, and others than in "
            f"process 0 in processes {others}"
        )
