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
_WHICH = Rule(
    'a dict from layers to lists of heads or neurons, or for `part="layers"` a list of layers',
    lambda value: isinstance(value, (Mapping, list, tuple)) and len(value) > 0,
    (3, "all", [], {}),
)
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
        self.rows, self.baseline, self._part, self._lines = rows, baseline, part, notes
        self.index = ("layer",) if part == "layers" else ("layer", _PARTS[part])

    def plot(self) -> Any:
        """Plots the changes, or the importance: of heads as a picture with a layer in each line, of others as points.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        name = "importance" if self.baseline is None else "change"
        values = np.array([row[name] for row in self.rows])
        if self._part == "heads":
            layers, heads = (np.array([row[key] for row in self.rows]) for key in self.index)
            grid = np.full((layers.max() + 1, heads.max() + 1), np.nan)
            grid[layers, heads] = values
            axes, most = new_axes(1.6 + 0.4 * grid.shape[1], 1.2 + 0.4 * grid.shape[0]), np.abs(values).max() or 1
            axes.set_facecolor("0.8")  # Of heads that were not left out.
            image = axes.imshow(grid, cmap="PuOr", vmin=-most, vmax=most, aspect="auto")
            axes.set(xlabel="head", ylabel="layer", xticks=range(grid.shape[1]), yticks=range(grid.shape[0]))
            axes.figure.colorbar(image, ax=axes, label=name)
            return axes.figure
        axes, places = new_axes(), np.arange(len(values))
        if self.baseline is None:
            axes.plot(places, values, "o", markersize=3, color=BLUE)
        else:
            limits = [[abs(row[key] - row["change"]) for row in self.rows] for key in ("low", "high")]
            axes.errorbar(places, values, yerr=limits, fmt="o", markersize=4, color=BLUE)
        axes.axhline(0, color=GREY, linestyle="--")
        labels = [".".join(str(row[key]) for key in self.index) for row in self.rows]
        shown = places[:: -(-len(places) // 24)]
        axes.set(xlabel=" and ".join(self.index), ylabel=name)
        axes.set_xticks(shown, [labels[place] for place in shown], rotation=90 if len(self.index) == 2 else 0)
        return axes.figure

    def _cells(self):
        names = list(self.rows[0])
        signs = {"score": ".4f", "importance": ".3g"}
        return names, [
            [str(row[name]) if name in self.index else f"{row[name]:{signs.get(name, '+.4f')}}" for name in names]
            for row in self.rows
        ]

    def _notes(self):
        return self._lines


@expects(
    task=instance_of(Task, "a task, such as a `TextClassifier`"),
    part=one_of(*_PARTS),
    by=one_of("zero", "mean", "gradient"),
    which=optional(_WHICH),
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
            of the texts, so that only what depends on the text is lost. `"gradient"` estimates the importance of heads
            and neurons with `adaptation.head_importance`, in a single pass. Defaults to `"zero"`.
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
        ValueError: If `x` is not in memory, if the task has another encoder, shared blocks, adapters or quantized
            weights, if there is no such part, if `by` does not fit the part, if a mean cannot be added because the
            layers have no biases, or if the task needs a `metric`.

    Example:
    ```python
    data = keras_transfer.datasets.load_demo_questions()
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
    keras_transfer.analysis.ablate(model, *data.test, which={0: [0, 1]}, samples=8)
    ```

    Source: Michel et al. 2019, https://arxiv.org/abs/1905.10650; means, https://arxiv.org/abs/2211.00593
    """
    blocks = blocks_of(task)
    expect(task.reader.accepts(x), "`x` must be texts or sentences in memory.", x=type(x).__name__)
    rule = 'Layers are ablated by "zero", and neurons by "zero" or "gradient".'
    fits = {"heads": True, "neurons": by != "mean", "layers": by == "zero"}
    expect(fits[part], rule, part=part, by=by)
    biases = all(block.attention.output_dense.bias is not None for block in blocks)
    expect(
        by != "mean" or biases, 'The attention has no biases, to which means could be added. Use `by="zero"`.', by=by
    )
    places = _places(blocks, part, by, which)
    columns = task.reader.columns(x)
    total = count_rows(columns)
    drawn = np.sort(np.random.default_rng(seed).permutation(total)[:samples])
    x, y = take_rows(columns, drawn), None if y is None else take_rows(_rows(y), drawn)
    kind = _PARTS[part]
    if by == "gradient":
        values = getattr(head_importance(task, x, y, seed=seed), part)
        rows = [{"layer": layer, kind: own, "importance": float(values[layer][own])} for layer, own in places]
        return Ablation(rows, part, None, [f"Mean of the absolute change of the loss of {len(drawn):,} texts."])
    metric = metric if callable(metric) else _metric_of(task, metric)
    means = _mean_heads(task, x) if by == "mean" else None

    def score():
        values = np.asarray(metric(task, x, y), "float64")
        rule = "`metric` must return a number for each text."
        expect(values.shape == (len(drawn),), rule, shape=values.shape, texts=len(drawn))
        return values

    before, rows = score(), []
    bar = keras.utils.Progbar(len(places), verbose=1 if verbose == "auto" else verbose, unit_name=kind or "layer")
    for layer, own in places:
        with _without(blocks[layer], part, own, None if means is None else means[layer]):
            change = score() - before
        low, high = bootstrap_interval(change, seed=seed)
        place = {"layer": layer} if kind is None else {"layer": layer, kind: own}
        mean = float(change.mean())
        score_of = {"score": float(before.mean()) + mean, "change": mean, "low": float(low), "high": float(high)}
        rows.append({**place, **score_of})
        bar.add(1)
    notes = [f"{before.mean():.4f} with all {part}, {len(drawn):,} texts. low, high: 95% interval of the change."]
    if part == "layers" and any(block.norm != "pre" for block in blocks):
        notes.append("The norms of a layer remain.")
    return Ablation(rows, part, float(before.mean()), notes)


def _places(blocks, part, by, which):
    """Returns the parts as a list of layers and of the numbers of their heads or neurons, `None` for a whole layer."""
    counts = {
        "heads": [block.attention.num_heads for block in blocks],
        "neurons": [block.feed_forward.intermediate_dim for block in blocks],
        "layers": [1] * len(blocks),
    }[part]
    rule = "There are too many neurons to leave out each of them. Pass `which={layer: [neuron]}`, or `by='gradient'`."
    expect(part != "neurons" or which is not None or by == "gradient", rule, which=which)
    if which is None:
        which = [*range(len(counts))] if part == "layers" else {layer: range(n) for layer, n in enumerate(counts)}
    rule = "`which` must be a list of layers for `part='layers'`, and otherwise a dict from layers to lists."
    expect(isinstance(which, Mapping) == (part != "layers"), rule, which=which)
    found = []
    for layer in which:
        expect(layer in range(len(counts)), f"Layers are numbered from 0 to {len(counts) - 1}.", layer=layer)
        own = which[layer] if isinstance(which, Mapping) else [None]
        wrong = [one for one in own if one is not None and one not in range(counts[layer])]
        expect(not wrong, f"The {part} of layer {layer} are numbered from 0 to {counts[layer] - 1}.", **{part: wrong})
        found += [(layer, one) for one in own]
    return found


@contextlib.contextmanager
def _without(block, part, own, means=None):
    """A context in which a block does not have a head or neuron, or changes nothing. Its weights are put back."""
    attention, outer = block.attention.output_dense, block.feed_forward.outer
    changed = {"heads": [attention.kernel], "neurons": [outer.kernel], "layers": [*attention.weights, *outer.weights]}
    weights = [*changed[part], *([] if means is None else [attention.bias])]
    before = [ops.convert_to_numpy(weight).copy() for weight in weights]
    size = {"heads": block.attention.head_dim, "neurons": 1}.get(part)
    rows = slice(None) if size is None else slice(own * size, (own + 1) * size)
    after = [value.copy() for value in before]
    for value in after[: len(changed[part])]:
        value[rows] = 0
    if means is not None:
        after[1] = after[1] + (means[rows] @ before[0][rows].astype("float64")).astype(after[1].dtype)
    try:
        for weight, value in zip(weights, after):
            weight.assign(value)
        yield
    finally:
        for weight, value in zip(weights, before):
            weight.assign(value)


def _mean_heads(task, x):
    """Returns the mean outputs of the heads of each block over the tokens of texts, as arrays `[heads * head_dim]`."""
    inputs = {name: np.asarray(values) for name, values in task.reader.inputs(x).items()}
    rule = '`by="mean"` requires a task that encodes a text or a pair as one row. Use `by="zero"`.'
    expect(set(task.encoder.input) <= set(inputs), rule, inputs=list(inputs))
    sums, total = [0] * len(task.encoder.blocks), 0
    for start in range(0, len(inputs["padding_mask"]), _ROWS):
        batch = {name: ops.convert_to_tensor(values[start : start + _ROWS]) for name, values in inputs.items()}
        heads: list = []
        task.encoder.attention_weights(select_inputs(batch, task.encoder.input), heads)
        mask = ops.convert_to_numpy(batch["padding_mask"]) != 0
        for layer, values in enumerate(heads):
            sums[layer] = sums[layer] + ops.convert_to_numpy(values)[mask].sum(axis=0, dtype="float64")
        total += mask.sum()
    return [each / total for each in sums]


def _rows(y):
    return y if isinstance(y, (list, dict, tuple)) else np.asarray(y)


def _metric_of(task, name):
    """Returns a metric of a task, given its name, `None` for the default."""
    if isinstance(task, TextClassifier) and task.labels.one_of:
        return functools.partial(_score_labels, in_logs=name is not None)
    rule = "Pass as `metric` a function of the task, `x` and `y` that returns the score of each text."
    expect(isinstance(task, TokenClassifier) and name is None, rule, task=type(task).__name__)
    return _fraction_right


def _score_labels(task, x, y, in_logs):
    probabilities = task.predict_proba(x)
    labels = class_positions(y, task.label_names or range(probabilities.shape[1]))
    if in_logs:
        return np.log(np.maximum(probabilities[np.arange(len(labels)), labels], SMALLEST))
    return probabilities.argmax(axis=1) == labels


def _fraction_right(task, x, y):
    found = []
    for words, labels in zip(task.predict_words(x), y):
        names = [label if isinstance(label, str) else task.label_names[label] for label in labels]
        found.append(np.mean([name == given for (_, name), given in zip(words, names)]))
    return np.array(found)
