"""What a task loses without one of its attention heads, feed-forward neurons or layers."""

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation import blocks_of
from keras_transfer.analysis.attention import inputs_of
from keras_transfer.analysis.classification_report import class_positions
from keras_transfer.analysis.result import PlottedResult
from keras_transfer.analysis.scores import SMALLEST
from keras_transfer.analysis.significance import bootstrap_interval
from keras_transfer.analysis.stored_states import check_one_row
from keras_transfer.core.expect import Rule, expect, expects, instance_of, integer, one_of, optional
from keras_transfer.core.plots import BLUE, GREY
from keras_transfer.encoders import select_inputs
from keras_transfer.tasks import Task, TextClassifier, TokenClassifier, count_rows, take_rows

_PARTS = {"heads": ("layer", "head"), "neurons": ("layer", "neuron"), "layers": ("layer",)}
_METRIC = '"log_likelihood", or a function of the task, `x` and `y`'
_ROWS = 32  # Number of texts whose heads are recorded at once.


class Ablation(PlottedResult):
    """What a task loses without each of its parts, which `ablate` returns.

    `plot()` draws the changes with their intervals, the heads or neurons of a layer side by side.

    Attributes:
        rows: List of dicts, one for each part, with its `layer` and its `head` or `neuron`. `score` is the mean score
            without it, `change` its difference from the `baseline`, and `low` and `high` are the limits of the 95%
            bootstrap interval of the change over texts.
        baseline: Float. The mean score of the whole task.
    """

    title = "Ablation"
    columns = {"layer": "", "head": "", "neuron": "", "score": ".4f", "change": "+.4f"}
    columns["95% interval"] = (("low", "high"), "+.4f")

    def __init__(self, rows, index, baseline, notes):
        self.rows, self.index, self.baseline, self.notes = rows, index, baseline, notes

    def _draw(self, axes):
        part = self.index[-1]
        layer, place, change, *limits = (
            np.array([row[name] for row in self.rows]) for name in ("layer", part, "change", "low", "high")
        )
        places = layer if part == "layer" else layer + 0.8 * (place / max(place.max(), 1) - 0.5)
        axes.errorbar(places, change, yerr=np.abs(limits - change), fmt="o", markersize=4, color=BLUE)
        axes.axhline(0, color=GREY, linestyle="--")
        axes.set(xlabel=" and ".join(self.index), ylabel="change", xticks=np.unique(layer))


@expects(
    task=instance_of(Task, "a task, such as a `TextClassifier`"),
    part=one_of(*_PARTS),
    by=one_of("zero", "mean"),
    metric=optional(Rule(_METRIC, lambda value: callable(value) or value == "log_likelihood", ("accuracy", 1))),
    samples=integer(2),
    seed=integer(0),
)
def ablate(
    task: Task,
    x: Any,
    y: Any = None,
    *,
    part: str = "heads",
    by: str = "zero",
    which: Mapping | list | None = None,
    metric: Callable | str | None = None,
    samples: int = 500,
    seed: int = 0,
    verbose: str | int = "auto",
) -> Ablation:
    """Returns what a task loses without each of its attention heads, feed-forward neurons or layers, one at a time.

    The task predicts the texts once for each part, whose rows of the output kernel are 0 meanwhile. Parts that do the
    same may replace each other, so that the loss without two is not the sum of both losses. Zeros are unlike anything
    that the model has seen. Means break less of what the part does for every text alike.
    `adaptation.head_importance` estimates the importance of all heads and neurons in a single pass.

    Args:
        task: Trained `Task` with an encoder-only Transformer of this library. It is unchanged afterwards.
        x: Texts, sentences or pairs in memory, as for `predict`.
        y: Their labels, as for `fit`. Defaults to `None`, for a `metric` that needs none.
        part: String. `"heads"`, `"neurons"` or `"layers"`. Without a layer, its vectors are those below. In encoders
            that normalize after each sublayer, such as BERT, the norms of the layer remain. Defaults to `"heads"`.
        by: String. What takes the place of the output of a part: `"zero"`, or `"mean"` for its mean over all tokens of
            the texts. For a layer, these are the outputs of its attention and of its feed-forward network. Defaults to
            `"zero"`.
        which: Dict from layers to lists of heads or neurons, or a list of layers, all numbered from 0. Required for
            neurons. Defaults to `None`, all.
        metric: `"log_likelihood"`, the logarithm of the probability that a classifier gives to the label; or a function
            of the task, `x` and `y` that returns the score of each text, such as
            `lambda task, x, y: task.score(x).log_likelihoods` for a `CausalLM`. Defaults to `None`: 1 if a classifier
            is right and 0 if not, and for a `TokenClassifier` the fraction of the words that are right.
        samples: Integer. Maximum number of texts, which are drawn at random. Defaults to `500`.
        seed: Integer. Seed of the drawn texts and of the bootstrap. Defaults to `0`.
        verbose: `"auto"`, `0` (silent) or `1` (progress bar). Defaults to `"auto"`.

    Returns:
        An `Ablation`.

    Raises:
        ValueError: If `x` is not in memory or differs from `y` in length, if the task has another encoder, shared
            blocks, adapters or quantized weights, if there is no such part, if it has no bias for a mean, or if the
            task needs labels or a `metric`.

    Example:
    ```python
    data = keras_transfer.datasets.load_demo_questions()
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
    keras_transfer.analysis.ablate(model, *data.test, which={0: [0, 1]}, samples=8)
    ```

    Source: Michel et al. 2019, https://arxiv.org/abs/1905.10650; means, https://arxiv.org/abs/2211.00593
    """
    blocks, index = blocks_of(task), _PARTS[part]
    expect(task.reader.accepts(x), "`x` must be texts or sentences in memory.", x=type(x).__name__)
    places = _places(blocks, part, which)
    columns = task.reader.columns(x)
    total, y = count_rows(columns), y if y is None or isinstance(y, (list, dict, tuple)) else np.asarray(y)
    given = total if y is None else count_rows(y)
    expect(total and given == total, "There must be texts, each with a label.", texts=total, labels=given)
    drawn = np.sort(np.random.default_rng(seed).permutation(total)[:samples])
    x, y = take_rows(columns, drawn), take_rows(y, drawn)
    if not callable(metric):
        is_classifier = isinstance(task, TextClassifier) and task.labels.one_of
        rule = "Pass as `metric` a function of the task, `x` and `y` that returns the score of each text."
        fits = is_classifier or (isinstance(task, TokenClassifier) and metric is None)
        expect(y is not None and fits, rule, task=type(task).__name__, metric=metric, y=type(y).__name__)
        metric = functools.partial(_scores, in_logs=metric is not None)
    means = _means(task, x, part) if by == "mean" else [(None, None)] * len(blocks)

    def score():
        values = np.asarray(metric(task, x, y), "float64")
        rule = "`metric` must return a finite number for each text."
        expect(values.shape == drawn.shape and np.isfinite(values).all(), rule, values)
        return values

    before, rows = score(), []
    baseline = float(before.mean())
    bar = keras.utils.Progbar(len(places), verbose=1 if verbose == "auto" else verbose, unit_name=index[-1])
    for layer, own in places:
        with _without(blocks[layer], part, own, means[layer]):
            change = score() - before
        mean, (low, high) = float(change.mean()), map(float, bootstrap_interval(change, seed=seed))
        found = {"score": baseline + mean, "change": mean, "low": low, "high": high}
        rows.append(dict(zip(index, (layer, own))) | found)
        bar.add(1)
    notes = [f"{baseline:.4f} with all {part}, {len(drawn):,} texts."]
    if part == "layers" and any(block.norm != "pre" for block in blocks):
        notes.append("The norms of a layer remain.")
    return Ablation(rows, index, baseline, notes)


def _places(blocks, part, which):
    """Returns the parts as a list of layers and of the numbers of their heads or neurons, `None` for a whole layer."""
    counts = {
        "heads": [block.attention.num_heads for block in blocks],
        "neurons": [block.feed_forward.intermediate_dim for block in blocks],
        "layers": [1] * len(blocks),
    }[part]
    rule = "There are too many neurons to leave out each of them. Pass `which={layer: [neuron]}`."
    expect(part != "neurons" or which is not None, rule, which=which)
    if which is None:
        which = [*range(len(blocks))] if part == "layers" else {layer: range(n) for layer, n in enumerate(counts)}
    rule = "`which` must be a list of layers for `part='layers'`, and otherwise a dict from layers to lists."
    expect(isinstance(which, (list, tuple) if part == "layers" else Mapping) and which, rule, which=which)
    found = [(layer, own) for layer in which for own in (which[layer] if isinstance(which, Mapping) else [None])]
    for layer, own in found:
        fits = layer in range(len(blocks)) and (own or 0) in range(counts[layer])
        expect(fits, f"There is no such place. The layers have {counts} {part}, numbered from 0.", layer, own)
    return found


def _outputs(block, part):
    """Returns the dense layers whose kernels have a row for each output of the heads or neurons of a block, or both."""
    found = {"heads": block.attention.output_dense, "neurons": block.feed_forward.outer}
    return list(found.values()) if part == "layers" else [found[part]]


@contextlib.contextmanager
def _without(block, part, own, means):
    """A context in which a block does not have a head, a neuron or any of them. Its weights are put back."""
    layers, size = _outputs(block, part), block.attention.head_dim if part == "heads" else 1
    rows = slice(None) if part == "layers" else slice(own * size, (own + 1) * size)
    before = [[value.copy() for value in layer.get_weights()] for layer in layers]
    try:
        for layer, mean, (kernel, *biases) in zip(layers, means, before):
            rest = kernel.copy()
            rest[rows] = 0
            if mean is not None:
                biases = [biases[0] + (mean[rows] @ kernel[rows].astype("float64")).astype(biases[0].dtype)]
            elif part == "layers":
                biases = [np.zeros_like(bias) for bias in biases]
            layer.set_weights([rest, *biases])
        yield
    finally:
        for layer, values in zip(layers, before):
            layer.set_weights(values)


def _means(task, x, part):
    """Returns the means over the tokens of texts of what the layers of `_outputs` read, a list for each block."""
    rule = f'The {part} have no biases, to which means could be added. Use `by="zero"`.'
    biases = [layer.use_bias for block in task.encoder.blocks for layer in _outputs(block, part)]
    expect(all(biases), rule, use_bias=biases)
    inputs = inputs_of(task, x)
    check_one_row(task.preprocessor, inputs)
    rule = '`by="mean"` requires a task that encodes a text, a sentence or a pair. Use `by="zero"`.'
    expect(set(task.encoder.input) <= set(inputs), rule, inputs=list(inputs))
    sums = []
    for start in range(0, len(inputs["padding_mask"]), _ROWS):
        batch = {name: ops.convert_to_tensor(values[start : start + _ROWS]) for name, values in inputs.items()}
        real = inputs["padding_mask"][start : start + _ROWS].ravel() != 0
        found: dict = {kind: [] for kind in ("heads", "neurons") if part in (kind, "layers")}
        task.encoder.attention_weights(select_inputs(batch, task.encoder.input), **found)
        sums.append([[_sum(values, real) for values in own] for own in zip(*found.values())])
    return keras.tree.map_structure(lambda *own: sum(own) / (inputs["padding_mask"] != 0).sum(), *sums)


def _sum(values, real):
    """Returns the sum of the vectors of real tokens."""
    return ops.convert_to_numpy(values).reshape(len(real), -1)[real].sum(axis=0, dtype="float64")


def _scores(task, x, y, in_logs=False):
    """Returns the log-likelihoods of the labels, or whether or how far they are those that the task predicts."""
    if isinstance(task, TokenClassifier):
        found = []
        for place, (words, labels) in enumerate(zip(task.predict_words(x), y)):
            rule = "Each sentence must have a word, and as many labels as words."
            expect(len(words) == len(labels) > 0, rule, sentence=place, words=len(words), labels=len(labels))
            names = [label if isinstance(label, str) else task.label_names[label] for label in labels]
            found.append(np.mean([name == given for (_, name), given in zip(words, names)]))
        return found
    probabilities = task.predict_proba(x)
    labels = class_positions(y, task.label_names or range(probabilities.shape[1]))
    if in_logs:
        return np.log(np.maximum(probabilities[np.arange(len(labels)), labels], SMALLEST))
    return probabilities.argmax(axis=1) == labels
