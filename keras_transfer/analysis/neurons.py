"""Single dimensions of hidden states: which of them carry a label, and how high one of them is in each word."""

import itertools
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis import page
from keras_transfer.analysis.probing.bank import Items
from keras_transfer.analysis.probing.probes import part_of
from keras_transfer.analysis.result import PlottedResult, Result
from keras_transfer.analysis.significance import bootstrap_interval
from keras_transfer.analysis.stored_states import blocks, hidden_states, subject_of
from keras_transfer.core.expect import expect, expects, integer, number
from keras_transfer.core.plots import BLUE, RED, STYLES, draw_lines, new_axes
from keras_transfer.text import is_sentences, is_text, to_sentences

_SHARES = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)  # Of the neurons, which a probe keeps.
_ITEMS, _EPOCHS, _STEPS = 128, 10, 300  # Of a training step, and at least of the training.
_READ = 4096  # Number of items in memory at once.


class NeuronRanking(PlottedResult):
    """The neurons of hidden states in the order in which a probe relies on them, which `rank_neurons` returns.

    `plot()` draws the accuracy of the probe by the number of neurons that it sees.

    Attributes:
        rows: List of dicts: the accuracies of the probe on held-out words or texts if it sees only the first (`top`),
            the last (`bottom`) or `random` neurons, and the limits of the 95% bootstrap interval of `top`.
        order: List of tuples of the name of a layer and the number of a neuron, the most important one first.
        weights: Float array `[neurons, labels]`. Weights of the probe for inputs of variance 1, in the same order.
        label_names: List of the labels.
        baseline: Float. Accuracy of the most frequent label.
    """

    title = "Neurons"
    index = ("neurons",)
    columns = {"neurons": "", "top": ".3f", "95% interval": (("low", "high"), ".3f"), "random": ".3f", "bottom": ".3f"}

    def __init__(self, rows, order, weights, label_names, baseline, count):
        self.rows, self.order, self.weights, self.label_names = rows, order, weights, label_names
        self.baseline, first = baseline, ", ".join(f"{name}.{unit}" for name, unit in order[:5])
        self.notes = [f"Accuracy on {count:,} held-out items. Most frequent label: {baseline:.3f}. First: {first}."]

    def _draw(self, axes):
        lines = {name: name for name in ("top", "random", "bottom")}
        draw_lines(axes, [row["neurons"] for row in self.rows], self.rows, lines)
        axes.axhline(self.baseline, color=STYLES[2]["color"], linewidth=0.8)
        axes.set(xlabel="neurons that the probe sees, line: most frequent label", ylabel="accuracy", xscale="log")
        axes.legend(frameon=False)


@expects(penalty=number(0), seed=integer(0))
def rank_neurons(
    model: keras.Model,
    x: Any,
    y: Any,
    *,
    layer: int | str | None = None,
    penalty: float = 1e-5,
    preprocessor: Any = None,
    seed: int = 0,
    verbose: str | int = "auto",
) -> NeuronRanking:
    """Orders the neurons of hidden states by how much a linear probe with an elastic net relies on them.

    The probe learns labels from four fifths of the sentences or texts, and is tested on the others with all but some
    neurons set to their mean. If few neurons are as good as all, the label is localized. If the last ones are good,
    too, it is redundant. That a probe can use a neuron does not show that the model does.

    Args:
        model: A task, or an encoder.
        x: List of sentences, which are lists of words, or of texts.
        y: List with the labels of the words of each sentence, or with the label of each text.
        layer: Integer or string. Number or name of a layer, as for `hidden_states`. Defaults to `None`, for the neurons
            of all layers together.
        penalty: Float. Factor of the absolute and of the squared weights in the loss. Defaults to `1e-5`.
        preprocessor: The preprocessor of the encoder. Defaults to `None`, that of the task.
        seed: Integer. Seed of the held-out part and of the order. Defaults to `0`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        A `NeuronRanking`.

    Raises:
        ValueError: If `hidden_states` rejects the model or the data, if labels and words differ in number, or if there
            are fewer than 5 sentences or 2 labels.

    Example:
    ```python
    data = keras_transfer.datasets.load_demo_questions()
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
    texts, labels = (column[:40] for column in data.train)
    ranking = keras_transfer.analysis.rank_neurons(model, texts, labels, layer=-1)
    ranking.order[:5]
    ```

    Source: Dalvi et al. 2019, https://arxiv.org/abs/1812.09355
    """
    part = part_of("token" if is_sentences(x) else "sentence", (x, y), "x")
    rule = "There must be at least 5 sentences or texts, one of which is held out."
    expect(part.count >= 5, rule, rows=part.count)
    label_names, labels = np.unique(np.ravel(part.labels), return_inverse=True)
    expect(len(label_names) > 1, "There must be at least 2 labels.", labels=label_names.tolist())
    layers = None if layer is None else [layer]
    states = hidden_states(model, x, preprocessor=preprocessor, layers=layers, verbose=verbose)
    held_out = np.random.default_rng(seed).permutation(part.count)[: part.count // 5]
    is_test = np.isin(part.sentences, held_out)
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    known = Items(states, train, labels[train], part.sentences[train], keys=train)
    mean, scale = (np.concatenate(each) for each in known.statistics())

    def read(items):
        return (np.concatenate([*states.flat(items).values()], axis=1) - mean) * scale

    kernel, bias = _elastic_net(read, train, labels, penalty, seed)
    order = _by_share(kernel)
    shuffled = np.random.default_rng(seed).permutation(len(order))
    counts = sorted({max(1, round(share * len(order))) for share in _SHARES})
    hits = np.empty((len(test), len(counts), 3))
    for start in range(0, len(test), _READ):
        items = test[start : start + _READ]
        vectors = read(items)
        for place, count in enumerate(counts):
            for kind, kept in enumerate((order[:count], shuffled[:count], order[-count:])):
                answers = (vectors[:, kept] @ kernel[kept] + bias).argmax(axis=1)
                hits[start : start + _READ, place, kind] = answers == labels[items]
    groups = np.unique(part.sentences[test], return_inverse=True)[1]
    limits = bootstrap_interval(hits[:, :, 0], groups, seed=seed)
    columns = (counts, *hits.mean(axis=0).T.tolist(), *(each.tolist() for each in limits))
    rows = [dict(zip(("neurons", "top", "random", "bottom", "low", "high"), row)) for row in zip(*columns)]
    baseline = float(np.mean(labels[test] == np.bincount(labels[train]).argmax()))
    neurons = [(name, unit) for name, width in states.widths.items() for unit in range(width)]
    names = [neurons[place] for place in order]
    return NeuronRanking(rows, names, kernel[order], label_names.tolist(), baseline, len(test))


def _elastic_net(read, items, labels, penalty, seed):
    """Trains a linear probe, and returns its kernel and bias as arrays."""
    size = min(_ITEMS, len(items))
    epochs = max(_EPOCHS, -(-_STEPS * size // len(items)))
    options = {"kernel_initializer": "zeros", "kernel_regularizer": keras.regularizers.L1L2(penalty, penalty)}
    probe = keras.Sequential([keras.layers.Dense(int(labels.max()) + 1, dtype="float32", **options)])
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, epochs * -(-len(items) // size))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    probe.compile(keras.optimizers.Adam(schedule), loss, jit_compile=False)
    for epoch in range(epochs):
        for places, weights in blocks(len(items), size, seed, epoch):
            own = items[places]
            probe.train_on_batch(read(own), labels[own], weights)
    return probe.get_weights()


def _by_share(kernel):
    """Returns the order of neurons by the smallest share of a label's weights that the neurons before each have."""
    sizes = np.abs(kernel)
    order = np.argsort(-sizes, axis=0, kind="stable")
    shares = np.cumsum(np.take_along_axis(sizes, order, axis=0), axis=0, dtype="float64")
    before, total = np.empty_like(shares), np.maximum(shares[-1:], 1e-30)
    np.put_along_axis(before, order, np.concatenate([0 * total, shares[:-1]]) / total, axis=0)
    return np.lexsort([-(sizes / total).max(axis=1), before.min(axis=1)])  # Each label has a first neuron.


class UnitActivations(Result):
    """How high one neuron is in each word of some texts, which `unit_activations` returns.

    Attributes:
        rows: List of dicts, one for each `text`, with the `mean` and `highest` value, and the `word` with the highest.
        words: List of lists of strings.
        values: List of float arrays `[words]`.
    """

    index = ("text",)
    columns = {"text": "", "mean": ".3f", "highest": ".3f", "word": ""}

    def __init__(self, words, values, layer, unit):
        self.words, self.values, self.title = words, values, f"Neuron {unit} of the layer {layer}"
        self.rows = [
            {"text": i, "mean": float(own.mean()), "highest": float(own.max()), "word": words[i][own.argmax()]}
            for i, own in enumerate(values)
        ]

    def plot(self, labels: Any = None) -> Any:
        """Plots a histogram of the mean of the neuron in each text.

        Args:
            labels: List with the label of each text, for a histogram of each. Defaults to `None`.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If there is not one label for each text.
        """
        means = np.array([row["mean"] for row in self.rows])
        labels = np.asarray([""] * len(means) if labels is None else labels)
        expect(len(labels) == len(means), "There must be a label for each text.", labels=len(labels), texts=len(means))
        axes, bins = new_axes(), np.histogram_bin_edges(means, bins=min(30, max(5, len(means) // 4)))
        for label, style in zip(np.unique(labels), itertools.cycle(STYLES)):
            options = {name: style[name] for name in ("color", "linestyle")}
            axes.hist(means[labels == label], bins, histtype="step", label=str(label), **options)
        axes.set(xlabel=f"mean of {self.title.lower()}", ylabel="texts")
        if len(set(labels.tolist())) > 1:
            axes.legend(frameon=False)
        return axes.figure

    def _repr_html_(self):
        center = float(np.median(np.concatenate(self.values)))
        most = max(float(np.abs(np.concatenate(self.values) - center).max()), 1e-30)
        parts = [f"<p>Orange: above the median, {center:.3g}. Blue: below it. Strongest color: {most:.3g} from it.</p>"]
        for words, values in zip(self.words, self.values):
            shades = [(RED if value > center else BLUE, 75 * abs(value - center) / most) for value in values]
            colors = [f"color-mix(in srgb, {color} {share:.0f}%, transparent)" for color, share in shades]
            parts.append(page.text_spans(words, colors, [f"{value:.3f}" for value in values]))
        return "\n".join(parts)


@expects(unit=integer(0))
def unit_activations(
    model: keras.Model, texts: Any, layer: int | str, unit: int, *, preprocessor: Any = None
) -> UnitActivations:
    """Returns how high one neuron of a hidden state is in each word of some texts, such as a neuron for sentiment.

    The value of a word is the mean over its pieces.

    Args:
        model: A task, or an encoder with tokens.
        texts: List of texts, or of sentences, which are lists of words.
        layer: Integer or string. Number or name of a layer, as for `hidden_states`.
        unit: Integer. Number of the neuron, from 0.
        preprocessor: The preprocessor of the encoder. Defaults to `None`, that of the task.

    Returns:
        `UnitActivations`.

    Raises:
        ValueError: If `hidden_states` rejects the model or the data, or if there is no such layer or neuron.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.analysis.unit_activations(model, ["A fine film.", "A dull film."], layer=-1, unit=7)
    ```

    Source: Radford et al. 2017. https://arxiv.org/abs/1704.01444
    """
    _, preprocessor = subject_of(model, preprocessor)
    if not is_sentences(texts):
        rule = "`texts` must be a list of texts that the preprocessor splits into words, or of lists of words."
        fits = is_text(texts) and not isinstance(texts, (str, tuple)) and hasattr(preprocessor, "words")
        expect(fits, rule, texts=texts, preprocessor=preprocessor)
        texts = preprocessor.words(texts)
    words = to_sentences(texts)
    expect(words and all(words), "Each text must have a word.", texts=words)
    states = hidden_states(
        model, words, preprocessor=preprocessor, pieces="mean", layers=[layer], dtype=None, verbose=0
    )
    [(name, width)] = states.widths.items()
    expect(unit < width, f"`unit` must be from 0 to {width - 1}.", unit=unit)
    values = np.asarray(states.column(name)[:, unit])
    return UnitActivations(words, np.split(values, states.starts[1:-1]), name, unit)
