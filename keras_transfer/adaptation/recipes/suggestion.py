"""A rule of thumb that suggests a recipe for a task and its data, with estimates of time and memory."""

import math
import os
import time

import keras
import numpy as np

from keras_transfer.adaptation.features import row_ends
from keras_transfer.adaptation.recipes.recipes import get_recipe
from keras_transfer.batches import Batches
from keras_transfer.groups import layer_groups
from keras_transfer.keras_internals import calls_of
from keras_transfer.tasks.base import Task

# The thresholds are our choice. We have no experiments that support exactly these numbers.
FEW, SOME = 100, 1000  # Texts.
PER_CLASS = 10
EFFICIENCY = 0.5  # Speed of a step as a fraction of the speed of a large matrix product.
VALUES = 20  # Vectors per token that a block keeps for its backward pass.


def suggest(model, x, y=None, *, memory=None, minutes=None):
    """Suggests a recipe for a task and its data, prints it with the reasons, and returns it.

    This is a rule of thumb, not a prediction:

    - fewer than 100 texts, or fewer than 10 for each class: `"feature_extraction"`
    - fewer than 1,000 texts: `"linear_probe_then_finetune"`
    - otherwise `"bert"`, which trains everything
    - if the estimate for that exceeds `memory` or `minutes`: `"last_layers"`, or `"feature_extraction"` if
      `"last_layers"` exceeds them too

    Fine-tuning all weights on few texts gives results that vary widely between seeds (Dodge et al. 2020) and can
    distort what the encoder has learned (Kumar et al. 2022). The number of texts at which this begins depends on the
    task. The thresholds are round numbers of our choice. If you have labelled validation data, compare the suggestion
    with other recipes on these data.

    The memory is estimated from the sizes of the weights, their gradients, Adam's slots, and the activations of a
    batch of the longest texts, without the framework itself. The time is estimated from the number of operations and
    the speed of a matrix product on this machine, measured in a fraction of a second. Expect either to be wrong by a
    factor of two.

    Args:
        model: `Task` with labels.
        x: Data in memory, as for `fit`, or `text.batches` or `text.word_batches` with labels.
        y: Labels of data in memory. Defaults to `None`.
        memory: Number of bytes that training may use. Defaults to `None`, all memory of the machine. Pass the memory of
            the device if you train on a GPU.
        minutes: Float. Maximum duration of the run. Defaults to `None`, no limit.

    Returns:
        A `Recipe`, which `fine_tune` takes.

    Raises:
        ValueError: If `model` is not a task with labels, or if the data are not in memory or have no labels.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    recipe = keras_transfer.adaptation.suggest(model, ["What a film!", "What a bore."], [1, 0])
    ```

    Source: https://arxiv.org/abs/2002.06305, https://arxiv.org/abs/2202.10054
    """
    if not isinstance(model, Task) or model.labels.optional:
        raise ValueError(f"`model` must be a task with labels, such as a `TextClassifier`. Received: model={model!r}")
    if not hasattr(model.output, "shape"):
        raise ValueError(f"`model` must have one output. Received: outputs {list(model.output)}")
    data = model.dataset(x, y)
    if not isinstance(data, Batches) or not data.has_labels:
        raise ValueError(
            "The data must be in memory, with labels: `x` and `y`, `text.batches(...)` or `text.word_batches(...)`. "
            f"Received: x of type {type(x).__name__}{'' if y is not None else ', and y=None'}"
        )
    memory = _memory_of_machine() if memory is None else memory
    ends, classes = row_ends(data), model.output.shape[-1]
    texts = len(ends)
    labels = len(data.places.row) if data.places is not None else texts
    reasons = [f"{texts:,} rows of {ends.mean():.0f} tokens on average, at most {ends.max()}; {classes} classes"]
    if texts < FEW or labels < PER_CLASS * classes:
        name = "feature_extraction"
        reasons.append(f"fewer than {FEW} rows, or {PER_CLASS} labels for each class: the encoder is not trained")
    elif texts < SOME:
        name = "linear_probe_then_finetune"
        reasons.append(f"fewer than {SOME:,} rows: a head that is trained first distorts the encoder less")
    else:
        name = "bert"
        reasons.append(f"at least {SOME:,} rows: enough to train all weights")
    blocks = sum(group.kind == "block" for group in layer_groups(model))
    recipes = {other: get_recipe(other) for other in ("bert", "linear_probe_then_finetune", "feature_extraction")}
    recipes["last_layers"] = get_recipe("last_layers", last_blocks=max(1, round(blocks / 4))) if blocks else None
    recipes = {other: recipe for other, recipe in recipes.items() if recipe is not None}
    speed = _speed()
    estimates = {other: _estimate(model, recipe, ends, speed) for other, recipe in recipes.items()}
    for smaller in ("last_layers", "feature_extraction"):
        estimate = estimates[name]
        over = [f"{estimate['memory'] / 1e9:.1f} GB of {memory / 1e9:.1f}"] if estimate["memory"] > memory else []
        over += [f"{estimate['minutes']:.0f} minutes of {minutes}"] if minutes and estimate["minutes"] > minutes else []
        if over and smaller in recipes and name != "feature_extraction":
            reasons.append(f"{name} would need {' and '.join(over)}")
            name = smaller
    lines = [f"Suggested recipe: {name}", *(f"- {reason}" for reason in reasons), "", _HEAD]
    for other, estimate in estimates.items():
        costs = f"{estimate['memory'] / 1e9:>9.2f} GB{estimate['minutes']:>9.1f} min"
        lines.append(f"{other:28}{estimate['trainable']:>10.2%}{costs}")
    print("\n".join([*lines, "Memory and time are rough: expect a factor of two."]))
    return recipes[name]


_HEAD = f"{'recipe':28}{'trainable':>10}{'memory':>12}{'time':>13}"


def _estimate(model, recipe, ends, speed):
    """Returns the fraction of trainable weights, bytes and minutes of a recipe."""
    groups = layer_groups(model)
    trained = [group for group in groups if recipe.frozen != "pretrained" or not group.pretrained]
    if recipe.last_blocks:
        blocks = [group.depth for group in groups if group.kind == "block"]
        trained = [group for group in groups if group.depth >= blocks[-recipe.last_blocks]]
    weights = sum(group.parameters for group in groups)
    trainable = sum(group.parameters for group in trained)
    embeddings = {id(weight) for group in groups if group.kind == "embeddings" for weight in group.variables}
    up = {id(weight) for group in trained for weight in group.variables}
    products = {True: 0, False: 0}  # Sizes of matrices that multiply each token, by whether they train.
    layers = dict.fromkeys((True, False), 0)
    for call in calls_of(model):
        own = [weight for weight in getattr(call.operation, "weights", ()) if id(weight) not in embeddings]
        trains = any(id(weight) in up for weight in own)
        products[trains] += sum(math.prod(weight.shape) for weight in own if len(weight.shape) > 1)
        layers[trains] += bool(own)
    tokens, batch = int(ends.sum()), recipe.batch_size
    operations = 2 * tokens * (products[False] + 3 * products[True])  # A backward pass takes twice a forward pass.
    epochs = recipe.epochs
    if recipe.unfreezing == "linear_probe":
        forward = 2 * tokens * (products[False] + products[True])
        operations = (operations + forward) / 2
    dim = max((tensor.shape[-1] or 0 for tensor in _states(model)), default=0)
    heads = getattr(model.encoder, "num_heads", 0)
    kept = batch * int(ends.max()) * (VALUES * dim + 2 * heads * int(ends.max())) * layers[True]
    return {
        "trainable": trainable / weights,
        "memory": 4 * (weights + 3 * trainable + kept),
        "minutes": epochs * operations / speed / EFFICIENCY / 60,
    }


def _states(model):
    """Returns the symbolic outputs of the encoder."""
    return keras.tree.flatten(model.encoder.output)


def _speed(size=1024, repeats=4):
    """Returns the number of floating-point operations per second of a matrix product on the default device."""
    matrix = keras.ops.convert_to_tensor(np.random.default_rng(0).normal(size=(size, size)).astype("float32"))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        keras.ops.convert_to_numpy(keras.ops.matmul(matrix, matrix)[:1, :1])
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times)


def _memory_of_machine():
    """Returns the number of bytes of the machine's memory, or infinity if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf
