"""What a task loses without one of its attention heads, feed-forward neurons or layers."""

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation import blocks_of, head_importance
from keras_transfer.analysis.classification_report import class_positions
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.scores import SMALLEST
from keras_transfer.analysis.significance import bootstrap_interval
from keras_transfer.core.expect import Rule, expect, expects, instance_of, integer, one_of, optional
from keras_transfer.core.plots import BLUE, GREY, new_axes
from keras_transfer.encoders import select_inputs
from keras_transfer.tasks import Task, TextClassifier, TokenClassifier, count_rows, take_rows

_PARTS = {"heads": "head", "neurons": "neuron", "layers": None}
_METRIC = '"log_likelihood", or a function of the task, `x` and `y`'
_ROWS = 32  # Number of texts whose heads are recorded at once.


class Ablation(Result):
    """What a task loses without each of its parts, which `ablate` returns.

    Attributes:
        rows: List of dicts, one for each part, with its `layer` and its `head` or `neuron`. `score` is the mean score
            without it, `change` its difference from the `baseline`, and `low` and `high` are the limits of the 95%
            bootstrap interval of the change over texts. With `by="gradient"`, there is only the `importance`.
        baseline: Float. The mean score of the whole task, or `None` with `by="gradient"`.
    """

    title = "Ablation"

    def __init__(self, rows, part, baseline, notes):
        self.rows, self.baseline, self.notes = rows, baseline, notes
        self.index = ("layer",) if part == "layers" else ("layer", _PARTS[part])
        values = {"score": ".4f", "change": "+.4f", "95% interval": (("low", "high"), "+.4f")}
        self.columns = dict.fromkeys(self.index, "") | ({"importance": ".3g"} if baseline is None else values)

    def plot(self) -> Any:
        """Plots the changes, or the importance: of heads as a picture with a layer in each line, of others as points.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        name = "importance" if self.baseline is None else "change"
        values = np.array([row[name] for row in self.rows])
        if "head" in self.index:
            layers, heads = (np.array([row[key] for row in self.rows]) for key in self.index)
            grid = np.full((layers.max() + 1, heads.max() + 1), np.nan)
            grid[layers, heads] = values
            axes, most = new_axes(1.6 + 0.4 * grid.shape[1], 1.2 + 0.4 * grid.shape[0]), np.abs(values).max() or 1
            axes.set_facecolor("0.8")  # Of heads that were not left out.
            image = axes.imshow(grid, cmap="PuOr", vmin=-most, vmax=most, aspect="auto")
            axes.set(xlabel="head", ylabel="layer", xticks=range(grid.shape[1]), yticks=range(grid.shape[0]))
            axes.figure.colorbar(image, ax=axes, label=name)
            return axes.figure
        axes, places, limits = new_axes(), range(len(values)), None
        if self.baseline is not None:
            limits = [[abs(row[key] - row["change"]) for row in self.rows] for key in ("low", "high")]
        axes.errorbar(places, values, yerr=limits, fmt="o", markersize=4, color=BLUE)
        axes.axhline(0, color=GREY, linestyle="--")
        axes.set(xlabel=" and ".join(self.index), ylabel=name)
        shown = places[:: -(-len(places) // 24)]
        labels = [".".join(str(self.rows[place][key]) for key in self.index) for place in shown]
        axes.set_xticks(shown, labels, rotation=90 * (len(self.index) - 1))
        return axes.figure


@expects(
    task=instance_of(Task, "a task, such as a `TextClassifier`"),
    part=one_of(*_PARTS),
    by=one_of("zero", "mean", "gradient"),
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
    same may replace each other, so that the loss without two is not the sum of both losses. `adaptation.prune` cuts
    several, and makes the task smaller.

    Args:
        task: Trained `Task` with an encoder-only Transformer of this library. It is unchanged afterwards.
        x: Texts, sentences or pairs in memory, as for `task.predict`.
        y: Their labels, as for `fit`. Defaults to `None`, for a `metric` that needs none.
        part: String. `"heads"`, `"neurons"` or `"layers"`. Without a layer, its vectors are those below. In encoders
            that normalize after each sublayer, such as BERT, the norms of the layer remain. Defaults to `"heads"`.
        by: String. What takes the place of a part: `"zero"`, or `"mean"` for the mean output of a head over all tokens
            of the texts. `"gradient"` estimates the importance of heads and neurons with `adaptation.head_importance`,
            in a single pass. Defaults to `"zero"`.
        which: Dict from layers to lists of heads or neurons, or a list of layers, all numbered from 0. Required for
            neurons unless `by="gradient"`. Defaults to `None`, all.
        metric: `"log_likelihood"`, for a classifier the natural logarithm of the probability of the label, which small
            losses change as well; or a function of the task, `x` and `y` that returns an array with the score of each
            text, such as `lambda task, x, y: task.score(x).log_likelihoods` for a `CausalLM`. Defaults to `None`: 1 if
            a classifier is right and 0 if not, and for a `TokenClassifier` the fraction of the words that are right.
        samples: Integer. Maximum number of texts, which are drawn at random. Defaults to `500`.
        seed: Integer. Seed of the drawn texts and of the bootstrap. Defaults to `0`.
        verbose: `"auto"`, `0` (silent) or `1` (progress bar). Defaults to `"auto"`.

    Returns:
        An `Ablation`.

    Raises:
        ValueError: If `x` is not in memory or differs from `y` in length, if the task has another encoder, shared
            blocks, adapters or quantized weights, if there is no such part, if `by` does not fit the part or the
            encoder, or if the task needs labels or a `metric`.

    Example:
    ```python
    data = keras_transfer.datasets.load_demo_questions()
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
    keras_transfer.analysis.ablate(model, *data.test, which={0: [0, 1]}, samples=8)
    ```

    Source: Michel et al. 2019, https://arxiv.org/abs/1905.10650; means, https://arxiv.org/abs/2211.00593
    """
    blocks, kind = blocks_of(task), _PARTS[part]
    expect(task.reader.accepts(x), "`x` must be texts or sentences in memory.", x=type(x).__name__)
    fits = {"heads": True, "neurons": by != "mean", "layers": by == "zero"}
    rule = 'Layers are ablated by "zero", and neurons by "zero" or "gradient".'
    expect(fits[part], rule, part=part, by=by)
    rule = "There are too many neurons to leave out each of them. Pass `which={layer: [neuron]}`, or `by='gradient'`."
    expect(part != "neurons" or which is not None or by == "gradient", rule, which=which)
    places = _places(blocks, part, which)
    columns = task.reader.columns(x)
    total = count_rows(columns)
    y = y if y is None or isinstance(y, (list, dict, tuple)) else np.asarray(y)
    given = total if y is None else count_rows(y)
    expect(given == total, "Each text must have a label.", texts=total, labels=given)
    drawn = np.sort(np.random.default_rng(seed).permutation(total)[:samples])
    x, y, count = take_rows(columns, drawn), take_rows(y, drawn), len(drawn)
    if by == "gradient":
        values = getattr(head_importance(task, x, y, seed=seed), part)
        rows = [{"layer": layer, kind: own, "importance": float(values[layer][own])} for layer, own in places]
        return Ablation(rows, part, None, [f"Mean of the absolute change of the loss of {count:,} texts."])
    metric = metric if callable(metric) else _metric_of(task, metric, y)
    means = _mean_heads(task, x) if by == "mean" else [None] * len(blocks)

    def score():
        values = np.asarray(metric(task, x, y), "float64")
        rule = "`metric` must return a number for each text."
        expect(values.shape == (count,), rule, shape=values.shape, texts=count)
        return values

    before, rows = score(), []
    baseline = float(before.mean())
    bar = keras.utils.Progbar(len(places), verbose=1 if verbose == "auto" else verbose, unit_name=kind or "layer")
    for layer, own in places:
        with _without(blocks[layer], part, own, means[layer]):
            change = score() - before
        low, high = bootstrap_interval(change, seed=seed)
        place = {"layer": layer} if kind is None else {"layer": layer, kind: own}
        mean = float(change.mean())
        rows.append({**place, "score": baseline + mean, "change": mean, "low": float(low), "high": float(high)})
        bar.add(1)
    notes = [f"{baseline:.4f} with all {part}, {count:,} texts."]
    if part == "layers" and any(block.norm != "pre" for block in blocks):
        notes.append("The norms of a layer remain.")
    return Ablation(rows, part, baseline, notes)


def _places(blocks, part, which):
    """Returns the parts as a list of layers and of the numbers of their heads or neurons, `None` for a whole layer."""
    counts = {
        "heads": [block.attention.num_heads for block in blocks],
        "neurons": [block.feed_forward.intermediate_dim for block in blocks],
        "layers": [1] * len(blocks),
    }[part]
    if which is None:
        which = [*range(len(blocks))] if part == "layers" else {layer: range(n) for layer, n in enumerate(counts)}
    rule = "`which` must be a list of layers for `part='layers'`, and otherwise a dict from layers to lists."
    expect(isinstance(which, (list, tuple) if part == "layers" else Mapping) and which, rule, which=which)
    found = []
    for layer in which:
        expect(layer in range(len(blocks)), f"Layers are numbered from 0 to {len(blocks) - 1}.", layer=layer)
        own = which[layer] if isinstance(which, Mapping) else [None]
        wrong = [one for one in own if one is not None and one not in range(counts[layer])]
        expect(not wrong, f"The {part} of layer {layer} are numbered from 0 to {counts[layer] - 1}.", **{part: wrong})
        found += [(layer, one) for one in own]
    return found


@contextlib.contextmanager
def _without(block, part, own, means):
    """A context in which a block does not have a head or neuron, or changes nothing. Its weights are put back."""
    attention, outer = block.attention.output_dense, block.feed_forward.outer
    weights = {"heads": attention.weights, "neurons": [outer.kernel], "layers": [*attention.weights, *outer.weights]}
    before = [ops.convert_to_numpy(weight).copy() for weight in weights[part]]
    after = [value.copy() for value in before]
    if part == "layers":
        after = [np.zeros_like(value) for value in before]
    else:
        size = block.attention.head_dim if part == "heads" else 1
        rows = slice(own * size, (own + 1) * size)
        after[0][rows] = 0
        if means is not None:
            after[1] += (means[rows] @ before[0][rows].astype("float64")).astype(after[1].dtype)
    try:
        for weight, value in zip(weights[part], after):
            weight.assign(value)
        yield
    finally:
        for weight, value in zip(weights[part], before):
            weight.assign(value)


def _mean_heads(task, x):
    """Returns the mean outputs of the heads of each block over the tokens of texts, as arrays `[heads * head_dim]`."""
    rule = 'The attention has no biases, to which means could be added. Use `by="zero"`.'
    biases = [block.attention.output_dense.use_bias for block in task.encoder.blocks]
    expect(all(biases), rule, use_bias=biases)
    inputs = {name: np.asarray(values) for name, values in task.reader.inputs(x).items()}
    rule = '`by="mean"` requires a task that encodes a text or a pair as one row. Use `by="zero"`.'
    expect(set(task.encoder.input) <= set(inputs), rule, inputs=list(inputs))
    sums: list[Any] = [0] * len(task.encoder.blocks)
    for start in range(0, len(inputs["padding_mask"]), _ROWS):
        batch = {name: ops.convert_to_tensor(values[start : start + _ROWS]) for name, values in inputs.items()}
        heads: list = []
        task.encoder.attention_weights(select_inputs(batch, task.encoder.input), heads)
        mask = ops.convert_to_numpy(batch["padding_mask"]) != 0
        sums = [total + ops.convert_to_numpy(own)[mask].sum(axis=0, dtype="float64") for total, own in zip(sums, heads)]
    return [total / (inputs["padding_mask"] != 0).sum() for total in sums]


def _metric_of(task, name, y):
    """Returns a metric of a task, given its name, `None` for the default."""
    if isinstance(task, TextClassifier) and task.labels.one_of:
        metric: Callable = functools.partial(_score_labels, in_logs=name is not None)
    else:
        rule = "Pass as `metric` a function of the task, `x` and `y` that returns the score of each text."
        expect(isinstance(task, TokenClassifier) and name is None, rule, task=type(task).__name__)
        metric = _fraction_right
    expect(y is not None, "The metric needs labels. Pass `y`, or a `metric` of your own.", y=y)
    return metric


def _score_labels(task, x, y, in_logs):
    probabilities = task.predict_proba(x)
    labels = class_positions(y, task.label_names or range(probabilities.shape[1]))
    if in_logs:
        return np.log(np.maximum(probabilities[np.arange(len(labels)), labels], SMALLEST))
    return probabilities.argmax(axis=1) == labels


def _fraction_right(task, x, y):
    found = []
    for place, (words, labels) in enumerate(zip(task.predict_words(x), y)):
        rule = "Each sentence must have a word, and as many labels as words."
        expect(len(words) == len(labels) > 0, rule, sentence=place, words=len(words), labels=len(labels))
        names = [label if isinstance(label, str) else task.label_names[label] for label in labels]
        found.append(np.mean([name == given for (_, name), given in zip(words, names)]))
    return np.array(found)
