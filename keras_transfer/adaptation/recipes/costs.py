"""The cost of a recipe for a task and its data: estimates of trainable weights, memory and time."""

import math
import os
import time

import keras
import numpy as np

from keras_transfer.groups import layer_groups
from keras_transfer.keras_internals import calls_of

EFFICIENCY = 0.5  # Speed of a step as a fraction of the speed of a large matrix product.
VALUES = 20  # Number of vectors per token that a block stores for its backward pass.


def estimate(model, recipe, ends, speed, added=0):
    """Returns a dict of the fraction of `trainable` weights, the bytes of `memory` and the `minutes` of a recipe.

    Args:
        model: `Task`.
        recipe: `Recipe`.
        ends: Integer array [rows]. Number of tokens of each row.
        speed: Float. Floating-point operations per second of a matrix product.
        added: Integer. Number of weights in the adapters of the recipe. Defaults to `0`.
    """
    groups, has_adapters = layer_groups(model), recipe.adapters is not None
    only_new = recipe.frozen == "pretrained" or has_adapters
    trained = [group for group in groups if not only_new or not group.pretrained]
    if recipe.last_blocks:
        blocks = [group.depth for group in groups if group.kind == "block"]
        trained = [group for group in groups if group.depth >= blocks[-recipe.last_blocks]]
    weights = sum(group.parameters for group in groups)
    trainable = sum(group.parameters for group in trained) + added
    embeddings = {id(weight) for group in groups if group.kind == "embeddings" for weight in group.variables}
    up = {id(weight) for group in trained for weight in group.variables}
    products = {True: 0, False: 0}  # Maps whether matrices are trainable to the total size of those applied per token.
    layers = dict.fromkeys((True, False), 0)
    for call in calls_of(model):
        own = [weight for weight in getattr(call.operation, "weights", ()) if id(weight) not in embeddings]
        trains = any(id(weight) in up for weight in own)
        products[trains] += sum(math.prod(weight.shape) for weight in own if len(weight.shape) > 1)
        layers[trains] += bool(own)
    tokens, batch = int(ends.sum()), recipe.batch_size
    # A backward pass costs twice a forward pass. Around adapters, only the gradients of the activations are needed,
    # which are half of it.
    operations = 2 * tokens * ((2 if has_adapters else 1) * products[False] + 3 * products[True])
    epochs = recipe.steps * batch / len(ends) if recipe.epochs is None else recipe.epochs
    if recipe.unfreezing == "linear_probe":
        forward = 2 * tokens * (products[False] + products[True])
        operations = (operations + forward) / 2
    dim = max((tensor.shape[-1] or 0 for tensor in _states(model)), default=0)
    heads = getattr(model.encoder, "num_heads", 0)
    kept = batch * int(ends.max()) * (VALUES * dim + 2 * heads * int(ends.max()))
    kept *= layers[True] + (layers[False] if has_adapters else 0)
    return {
        "trainable": trainable / (weights + added),
        "memory": 4 * (weights + added + 3 * trainable + kept),
        "minutes": epochs * operations / speed / EFFICIENCY / 60,
    }


def _states(model):
    """Returns the symbolic outputs of the encoder."""
    return keras.tree.flatten(model.encoder.output)


def measure_speed(size=1024, repeats=4):
    """Returns the number of floating-point operations per second of a matrix product on the default device."""
    matrix = keras.ops.convert_to_tensor(np.random.default_rng(0).normal(size=(size, size)).astype("float32"))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        keras.ops.convert_to_numpy(keras.ops.matmul(matrix, matrix)[:1, :1])
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times)


def memory_of_machine():
    """Returns the number of bytes of the machine's memory, or infinity if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf
