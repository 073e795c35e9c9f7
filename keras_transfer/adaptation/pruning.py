"""Pruning that makes a task smaller: heads, neurons and blocks are left out of a copy of it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation.fisher import apply_to_examples
from keras_transfer.core.expect import FLAG, RATE, Rule, expect, expects, instance_of, integer, list_of, optional
from keras_transfer.encoders import Encoder, by_path, is_quantized
from keras_transfer.layers import DisentangledAttention, MultiHeadAttention, TransformerBlock
from keras_transfer.tasks import Task

_TASK = instance_of(Task, "a task, such as a `TextClassifier`")
_AMOUNT = Rule(
    "a fraction from 0 to below 1, or a dict from blocks to lists of what to cut",
    lambda value: isinstance(value, Mapping) or RATE.is_met(value),
    (1.0, -0.1, "half", None),
)


class Importance(NamedTuple):
    """What the loss depends on: for each block, an array with a value for each of its heads or neurons.

    Args:
        heads: List of float arrays `[heads]`, one for each block.
        neurons: List of float arrays `[neurons]`, one for each block.

    Example:
    ```python
    keras_transfer.adaptation.Importance(heads=[[0.3, 0.1]], neurons=[[0.2, 0.0, 0.4]])
    ```
    """

    heads: list
    neurons: list


@expects(task=_TASK, samples=integer(1))
def head_importance(
    task: Task, x: Any, y: Any = None, *, samples: int | None = None, loss: Any = None, seed: int | None = None
) -> Importance:
    """Returns how much the loss of labeled texts depends on each attention head and on each feed-forward neuron.

    The importance of a head is the mean over texts of `|dL / dg|`, where the factor `g` of its output is 1 (Michel et
    al. 2019). It equals `|sum(W * dL / dW)|` over the rows W of the output kernel that read the head, and that of a
    neuron is the same over its row of the second feed-forward kernel. The gradient of each text is computed separately,
    which takes as long as an epoch with batches of one. A few hundred texts are enough. The task does not change.

    Args:
        task: Trained `Task` with an encoder-only Transformer of this library. Its blocks must train.
        x: Texts, or anything else that `fit` of the task accepts.
        y: Labels of the texts. Defaults to `None`, for datasets, which contain them.
        samples: Integer. Maximum number of texts, drawn at random. Defaults to `None`, for all texts.
        loss: Loss of one text, or its name. Defaults to `None`, the default loss of the task.
        seed: Integer. Makes the drawn texts reproducible. Defaults to `None`, which follows
            `keras.utils.set_random_seed`.

    Returns:
        An `Importance`, for `prune`.

    Raises:
        ValueError: If the task has another encoder, adapters, quantized or frozen blocks, or if labels are missing.

    Example:
    ```python
    data = keras_transfer.datasets.load_demo_questions()
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
    importance = keras_transfer.adaptation.head_importance(model, *data.train, samples=4)
    importance.heads[0]  # one number for each head of the first block
    ```

    Source: https://arxiv.org/abs/1905.10650
    """
    blocks = blocks_of(task)
    kernels = [(block.attention.output_dense.kernel, block.attention.num_heads) for block in blocks]
    kernels += [(block.feed_forward.outer.kernel, block.feed_forward.intermediate_dim) for block in blocks]
    frozen = [kernel.path for kernel, _ in kernels if not kernel.trainable]
    expect(not frozen, "The blocks must train. Call `adaptation.unfreeze(task)` first.", frozen=frozen)
    loss = task.labels.loss() if loss is None and not task.labels.one_of else loss
    optimizer = _Products(kernels)
    count = apply_to_examples(optimizer, task, x, y, True, samples, loss, seed, power=1)
    found = [ops.convert_to_numpy(total) / count for total in optimizer.totals]
    return Importance(found[: len(blocks)], found[len(blocks) :])


class _Products(keras.optimizers.Optimizer):
    """An optimizer that leaves the weights unchanged, and sums `|sum(W * gradient)|` over parts of some kernels.

    Args:
        kernels: List of kernels with the number of parts of their rows.
    """

    def __init__(self, kernels):
        super().__init__(learning_rate=0.0, name="products")
        self.kernels = lambda: kernels  # Keras would track a list, as variables of the optimizer.

    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.totals = [self.add_variable((count,), dtype="float32", name="totals") for _, count in self.kernels()]
            places = {id(variable): place for place, variable in enumerate(variables)}
            self.places = [places[id(kernel)] for kernel, _ in self.kernels()]

    def apply(self, grads, trainable_variables=None):
        for (kernel, count), place, total in zip(self.kernels(), self.places, self.totals):
            product = ops.cast(kernel, "float32") * ops.cast(grads[place], "float32")
            self.assign_add(total, ops.abs(ops.sum(ops.reshape(product, (count, -1)), axis=1)))


@expects(
    task=_TASK,
    heads=_AMOUNT,
    neurons=_AMOUNT,
    layers=optional(list_of(integer(0), 1)),
    importance=optional(instance_of(Importance, "an `Importance`, from `head_importance`")),
    per_block=FLAG,
)
def prune(
    task: Task,
    *,
    heads: float | Mapping = 0.0,
    neurons: float | Mapping = 0.0,
    layers: Sequence | None = None,
    importance: Importance | None = None,
    per_block: bool = False,
) -> Task:
    """Returns a smaller task without some of the attention heads, feed-forward neurons or blocks of another one.

    The kernels become smaller, so that every answer needs less time, in Keras and in exported files. The other weights
    are copies. Fine-tune the new task for one or two epochs, or use `distill`, to gain back what it has lost. Token
    embeddings are not pruned: use `trim_vocabulary`, before or after.

    A fraction cuts those with the lowest `importance` of all blocks together, after that of each block is divided by
    its L2 norm, as in the paper. At least one head and one neuron of each block remain.

    Args:
        task: `Task` with an encoder-only Transformer of this library, such as BERT. Heads with relative positions of
            their own (MPNet, T5) cannot be pruned, but neurons and blocks can.
        heads: Float from 0 to below 1, the fraction of heads to cut, or a dict from blocks to lists of their heads,
            both numbered from 0. Defaults to `0.0`.
        neurons: The same for feed-forward neurons. Defaults to `0.0`.
        layers: List of integers, the blocks to keep, from 0. `[0, 1, 2, 3]` drops the top two of six
            (https://arxiv.org/abs/2004.03844). Defaults to `None`, all blocks.
        importance: `Importance` from `head_importance`, for fractions. Defaults to `None`.
        per_block: Boolean. Whether a fraction applies to each block separately. If only neurons are cut, the blocks are
            then alike, so that `save_pretrained` can write the task. Defaults to `False`.

    Returns:
        A new task of the same class, with the same preprocessor. It is not compiled, and all of its weights train.

    Raises:
        ValueError: If there is no such block, head or neuron, if nothing of a block would remain, if a fraction has no
            `importance`, or if the task has another encoder, several encoders, shared blocks, adapters, a `scalar_mix`
            or quantized weights.

    Example:
    ```python
    data = keras_transfer.datasets.load_demo_questions()
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
    importance = keras_transfer.adaptation.head_importance(model, *data.train, samples=4)
    small = keras_transfer.adaptation.prune(model, heads=0.5, neurons=0.5, importance=importance)
    ```

    Source: https://arxiv.org/abs/1905.10650
    """
    blocks = blocks_of(task)
    layers = list(range(len(blocks)) if layers is None else layers)
    expect(max(layers) < len(blocks), f"`layers` must be blocks from 0 to {len(blocks) - 1}.", layers=layers)
    kinds, encoder = {type(block.attention) for block in blocks}, task.encoder
    block_inputs = getattr(encoder, "block_inputs", None)
    plain = kinds <= {MultiHeadAttention, DisentangledAttention} and not hasattr(block_inputs, "num_heads")
    rule = f"The heads of a `{type(encoder).__name__}` have further weights. Prune its neurons or layers instead."
    expect(plain or not heads, rule, attention=[kind.__name__ for kind in kinds], block_inputs=block_inputs)

    counts = [block.attention.num_heads for block in blocks], [block.feed_forward.intermediate_dim for block in blocks]
    scores = importance or (None, None)
    kept_heads = _kept("heads", heads, counts[0], layers, scores[0], per_block)
    kept_neurons = _kept("neurons", neurons, counts[1], layers, scores[1], per_block)
    config = {**task.get_config(), "frozen": [], "preprocessor": task.preprocessor}
    sizes = config["encoder"]["config"]
    sizes["num_layers"], sizes["intermediate_dim"] = len(layers), [len(kept_neurons[layer]) for layer in layers]
    if len(set(sizes["intermediate_dim"])) == 1:
        sizes["intermediate_dim"] = sizes["intermediate_dim"][0]
    if heads or isinstance(sizes["num_heads"], (list, tuple)):
        sizes["num_heads"] = [len(kept_heads[layer]) for layer in layers]
        sizes["head_dim"] = blocks[0].attention.head_dim
    remain = {}
    for layer in layers:
        remain |= _remaining(blocks[layer], kept_heads[layer], kept_neurons[layer])

    def value_of(old, _):
        axis, indices = remain.get(id(old), (0, None))
        value = ops.convert_to_numpy(old)
        return value if indices is None else np.take(value, indices, axis)

    return remade(task, config, value_of, layers)


def remade(task, config, value_of, layers=None):
    """Returns a task made of a config, whose weights are `value_of(old, new)` of those of a task.

    Args:
        layers: List of the blocks of `task` that those of the new one replace. Defaults to `None`, all.
    """
    new, blocks = type(task).from_config(config), task.encoder.blocks
    kept = {} if layers is None else {own.name: blocks[i] for own, i in zip(new.encoder.blocks, layers, strict=True)}
    rule = "The blocks must be of the same kind as those at their new places."
    kinds = [
        [(type(block), block.attention.causal, block.attention.window) for block in part]
        for part in (new.encoder.blocks[: len(kept)], kept.values())
    ]
    expect(kinds[0] == kinds[1], rule, layers=layers)
    weights = by_path(task.weights)
    for name, weight in by_path(new.weights).items():
        parts = [kept[part].name if part in kept else part for part in name.split("/")]
        weight.assign(value_of(weights["/".join(parts)], weight))
    return new


def blocks_of(task):
    """Returns the blocks of a task whose parts can be left out."""
    encoder, blocks = task.encoder, list(getattr(task.encoder, "blocks", ()))
    rule = "The task must have one encoder-only Transformer of `keras_transfer.encoders` with different blocks."
    is_ours = isinstance(encoder, Encoder) and all(isinstance(block, TransformerBlock) for block in blocks)
    expect(is_ours and len(set(blocks)) == encoder.settings.get("num_layers"), rule, encoder=encoder)
    rule = "The task must be without adapters, a second encoder, a `scalar_mix` and quantized weights."
    others = [name for name in ("scalar_mix", *task.saved_apart) if getattr(task, name) is not None]
    expect(not (others or encoder.adapters or is_quantized(task)), rule, adapters=[*encoder.adapters], others=others)
    return blocks


def _kept(kind, amount, counts, layers, scores, per_block):
    """Returns the indices of the heads or neurons that remain of each block, as a list or a dict."""
    if isinstance(amount, Mapping):
        for block, cut in amount.items():
            expect(block in range(len(counts)), f"Blocks are numbered from 0 to {len(counts) - 1}.", block=block)
            wrong, last = [index for index in cut if index not in range(counts[block])], counts[block] - 1
            expect(not wrong, f"The {kind} of block {block} are numbered from 0 to {last}.", **{kind: wrong})
            expect(len(set(cut)) <= last, f"At least one of the {kind} of block {block} must remain.", **{kind: cut})
        return [np.setdiff1d(np.arange(count), amount.get(block, ())) for block, count in enumerate(counts)]
    if amount == 0:
        return [np.arange(count) for count in counts]
    rule = f"A fraction of {kind} requires the `importance` of this task. Call `head_importance(task, texts, labels)`."
    expect(scores is not None and [len(each) for each in scores] == counts, rule, importance=scores)
    values = {layer: np.array(scores[layer], "float64") for layer in layers}
    for each in values.values():
        each /= max(np.linalg.norm(each), 1e-30)
        each[each.argmax()] = np.inf  # It remains.
    kept = {}
    for group in [[layer] for layer in layers] if per_block else [layers]:
        found = np.concatenate([values[layer] for layer in group])
        cut = np.argsort(found, kind="stable")[: min(round(amount * len(found)), len(found) - len(group))]
        remains = np.split(~np.isin(np.arange(len(found)), cut), np.cumsum([counts[layer] for layer in group])[:-1])
        kept |= {layer: np.flatnonzero(part) for layer, part in zip(group, remains)}
    return kept


def _remaining(block, heads, neurons):
    """Returns a dict from the ids of the weights of a block to the axis and the indices that remain of them."""
    attention, feed_forward = block.attention, block.feed_forward
    columns = np.arange(attention.query_key_value.kernel.shape[-1]).reshape(3, attention.num_heads, -1)[:, heads]
    rows = columns[0].ravel()
    cuts = [(attention.query_key_value, -1, columns.ravel()), (feed_forward.inner, -1, neurons)]
    cuts += [(feed_forward.gate, -1, neurons)] if hasattr(feed_forward, "gate") else []
    found = {id(weight): (axis, indices) for dense, axis, indices in cuts for weight in dense.weights}
    return found | {id(attention.output_dense.kernel): (0, rows), id(feed_forward.outer.kernel): (0, neurons)}
