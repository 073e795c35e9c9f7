"""The scores of the probes of all layers: a table, a plot, differences, and their correlation with a task."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transfer.analysis.result import Result
from keras_transfer.analysis.significance import resampled_means, spearman
from keras_transfer.core.expect import Rule, expect, expects, one_of
from keras_transfer.core.plots import BLACK, GREY, STYLES, new_axes

MIX = "mix"
_EXACT = 7  # Encoders of which all permutations are compared.
_SCORES = Rule(
    "a dict of at least 4 encoders", lambda value: isinstance(value, Mapping) and len(value) >= 4, ({}, [1.0])
)


class LayerSweep(Result):
    """The scores of the probes of all layers, which `Probe.sweep` returns.

    Args:
        layers: List of strings. Names of the layers, from the lowest, and perhaps `"mix"`.
        classes: List of strings. Names of the classes.
        items: What was asked.
        found: Dict of the losses, answers and hits of the probes.
        seeds: Integer. Number of probes of each layer.
        has_control: Boolean. Whether there are as many probes of the control task.
        has_test: Boolean. Whether the items are those of a test part, and not of the validation part.

    Attributes:
        rows: List of dicts, one for each layer: `score` (accuracy), `low` and `high` (its 95% interval over sentences),
            `seeds_std` (the standard deviation over seeds), and with the controls `control` and `selectivity`; `bits`,
            `compression` and `authors_kbits`; `subset`, `random` (both scores on a part of the data), `gain`,
            `gain_low` and `gain_high` (their difference and its interval).
        mix: Float array `[seeds, layers]`. The fraction of each layer in the mix, or `None`.
        word_types: Float. Accuracy of the most frequent label of each word or text, or `None`.
        against: `LayerSweep` of another encoder, or `None`.
        best: String. The layer with the highest score.
        center_of_gravity: Float. The mean number of a layer, weighted by the mix, or `None` without a mix.

    Example:
    ```python
    vectors = keras_transfer.checkpoints.WordVectors(["cat", "dog", "runs", "sits"], np.eye(4))
    encoder = keras_transfer.encoders.WordVectorEncoder.from_vectors(vectors)
    data = [["cat", "runs"], ["dog", "sits"]] * 5, [["NOUN", "VERB"]] * 10
    probe = keras_transfer.analysis.Probe(epochs=2, seeds=1, controls=())
    sweep = probe.sweep(encoder, data, preprocessor=keras_transfer.text.WordPreprocessor(vectors.words))
    sweep.best, sweep.rows[0]["score"]
    ```
    """

    title, index = "Probes", ("layer",)

    def __init__(
        self, layers: list, classes: list, items: Any, found: dict, seeds: int, has_control: bool, has_test: bool
    ):
        self.layers, self.classes, self.has_test = layers, classes, has_test
        self.mix: Any = None
        self.word_types: Any = None
        self.against: Any = None
        self._items, self._answers = items, found["answer"][..., :seeds]
        self._of_spans = items.places.ndim > 1
        wanted = items.labels.sum(axis=1) if self._of_spans else np.ones(len(items))
        self._unknown = int((items.labels[:, 0] < 0).sum())
        self._hits, self._sizes = _counts(found, wanted, slice(seeds))
        by_seed = self._hits.sum(axis=0) / self._sizes.sum(axis=0)
        draws = _draws(self._hits.mean(axis=-1), self._sizes.mean(axis=-1), items.sentences)
        low, high = np.quantile(draws, [0.025, 0.975], axis=-1)
        self.rows = [
            {"layer": layer, "score": float(own.mean()), "low": float(low[i]), "high": float(high[i])}
            | {"seeds_std": float(own.std(ddof=1)) if seeds > 1 else None}
            for i, (layer, own) in enumerate(zip(layers, by_seed))
        ]
        if has_control:
            control = found["hits"][..., seeds:].mean(axis=(0, 2))
            self._add(control=control, selectivity=by_seed.mean(axis=1) - control)

    def _add(self, **columns):
        """Adds columns of values for each layer."""
        for i, row in enumerate(self.rows):
            row |= {name: float(values[i]) for name, values in columns.items()}

    def _add_code(self, length):
        self.uniform_bits = length.uniform_bits
        self._add(bits=length.bits, compression=length.compression, authors_kbits=length.authors_kbits)

    def _add_random(self, trained, random, items):
        if random is None:
            return
        wanted = items.labels.sum(axis=1) if self._of_spans else np.ones(len(items))
        pairs = [[each[..., 0] for each in _counts(found, wanted, slice(1))] for found in (trained, random)]
        scores = [hits.sum(axis=0) / sizes.sum(axis=0) for hits, sizes in pairs]
        gains = np.subtract(*(_draws(*pair, items.sentences) for pair in pairs))
        low, high = np.quantile(gains, [0.025, 0.975], axis=-1)
        self._add(subset=scores[0], random=scores[1], gain=scores[0] - scores[1], gain_low=low, gain_high=high)

    def _add_word_types(self, guessed, labels):
        hits, claims = (guessed * labels, guessed.sum() + labels.sum()) if self._of_spans else (guessed == labels, 0)
        self.word_types = float(2 * hits.sum() / claims if self._of_spans else hits.mean())

    @property
    def best(self) -> str:
        """String. The layer with the highest score, apart from the mix."""
        return max((row for row in self.rows if row["layer"] != MIX), key=lambda row: row["score"])["layer"]

    @property
    def center_of_gravity(self) -> float | None:
        """Float. The mean of the numbers of the layers, from 0, weighted by the mix. `None` without a mix."""
        return None if self.mix is None else float(self.mix.mean(axis=0) @ np.arange(self.mix.shape[1]))

    def _asked(self):
        labels = self._items.labels if self._of_spans else self._items.labels[:, 0]
        return labels, self._items.sentences

    def _place(self, layer):
        one_of(*self.layers).check("layer", layer)
        return self.layers.index(layer)

    def predictions(self, layer: str) -> list[str]:
        """Returns the answers of the first probe of a layer, for spans the most likely class.

        Args:
            layer: String. Name of the layer.

        Returns:
            List of strings, one for each word or text of the test data, in order.

        Raises:
            ValueError: If there is no such layer.
        """
        return [self.classes[place] for place in self._answers[:, self._place(layer), 0].tolist()]

    def confusion(self, layer: str) -> np.ndarray:
        """Returns how often the first probe of a layer gives each answer to each label.

        Args:
            layer: String. Name of the layer.

        Returns:
            Integer array `[classes, classes]`, with a row for each label and a column for each answer.

        Raises:
            ValueError: If there is no such layer, or for probes of spans.
        """
        expect(not self._of_spans, "Spans can have several labels, and have no confusion matrix.", layer=layer)
        labels, found = self._items.labels[:, 0], self._answers[:, self._place(layer), 0]
        counts = np.zeros((len(self.classes),) * 2, int)
        np.add.at(counts, (labels[labels >= 0], found[labels >= 0]), 1)
        return counts

    def compare_with(self, other: "LayerSweep") -> "SweepDifference":
        """Returns the differences of the scores to those of another sweep over the same test data.

        Args:
            other: `LayerSweep`, such as that of the model before fine-tuning.

        Returns:
            A `Result` with a row for each layer that both have: `score`, `other`, `difference`, and the interval `low`
            to `high` of the difference over sentences.

        Raises:
            ValueError: If the sweeps have other test data, or no common layer.
        """
        same = self.classes == other.classes and all(map(np.array_equal, *(each._asked() for each in (self, other))))
        expect(same, "Both sweeps must have the same test labels.", items=(len(self._items), len(other._items)))
        shared = [layer for layer in self.layers if layer in other.layers]
        expect(shared, "Both sweeps must have a layer in common.", layers=(self.layers, other.layers))
        scores, draws = [], []
        for each in (self, other):
            places = [each._place(layer) for layer in shared]
            hits, sizes = (counts[:, places].mean(axis=-1) for counts in (each._hits, each._sizes))
            scores.append(hits.sum(axis=0) / sizes.sum(axis=0))
            draws.append(_draws(hits, sizes, each._items.sentences))
        low, high = np.quantile(draws[0] - draws[1], [0.025, 0.975], axis=-1)
        columns = (*scores, scores[0] - scores[1], low, high)
        names = ("score", "other", "difference", "low", "high")
        return SweepDifference(
            [{"layer": layer, **dict(zip(names, map(float, values)))} for layer, *values in zip(shared, *columns)]
        )

    def plot(self) -> Any:
        """Plots the scores over the layers, with their intervals, controls, and the mix as bars.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes, rows = new_axes(), [row for row in self.rows if row["layer"] != MIX]
        places, names = np.arange(len(rows)), [row["layer"] for row in rows]
        if self.mix is not None:
            bars = axes.twinx()
            bars.bar(places, self.mix.mean(axis=0), color=GREY, alpha=0.3, width=0.5)
            bars.set(ylabel="fraction in the mix", ylim=(0, 3 * float(self.mix.mean(axis=0).max())))
            bars.spines[["top"]].set_visible(False)
        kinds = {"score": "probe", "control": "control task", "random": "random weights"}
        styles: Any = STYLES
        for (kind, label), style in zip(kinds.items(), styles):
            if kind in rows[0]:
                axes.plot(places, [row[kind] for row in rows], label=label, **style)
        low, high = ([row[name] for row in rows] for name in ("low", "high"))
        axes.fill_between(places, low, high, color=STYLES[0]["color"], alpha=0.2)
        if self.word_types is not None:
            axes.axhline(self.word_types, color=BLACK, linestyle=":", label="most frequent label")
        axes.set_xticks(places, names, rotation=45 if len(names) > 8 else 0)
        axes.set(xlabel="layer", ylabel="micro F1" if self._of_spans else "accuracy")
        axes.legend()
        return axes.figure

    def _cells(self):
        columns = [
            ("score", "score", ".4f"),
            ("seeds_std", "+- seeds", ".4f"),
            ("control", "control", ".4f"),
            ("selectivity", "selectivity", ".4f"),
            ("bits", "bits", ",.0f"),
            ("compression", "compression", ".2f"),
            ("subset", "subset", ".4f"),
            ("random", "random", ".4f"),
            ("gain", "gain", ".4f"),
        ]
        columns = [each for each in columns if self.rows[0].get(each[0]) is not None]
        heads, rows = ["layer", columns[0][1], "95% interval", *(head for _, head, _ in columns[1:])], []
        for row in self.rows:
            cells = [format(row[name], form) for name, _, form in columns]
            rows.append([row["layer"], cells[0], f"{row['low']:.4f} to {row['high']:.4f}", *cells[1:]])
        return heads, rows

    def _notes(self):
        items, part = len(self._items), "test" if self.has_test else "validation"
        texts, metric = len(np.unique(self._items.sentences)), "Micro F1" if self._of_spans else "Accuracy"
        data = f"{texts:,} texts of the {part} data, {len(self.classes)} classes"
        notes = [f"{metric} on {items:,} labels of {data}."]
        if not self.has_test:
            notes.append("The validation data also chose the epochs, so the scores are a little too high.")
        if self._unknown:
            notes.append(f"{self._unknown} labels are missing from the training data, and count as errors.")
        if self.word_types is not None:
            notes.append(f"The most frequent label of each word or text: {self.word_types:.4f}.")
        if self.mix is not None:
            notes.append(f"Center of gravity of the mix: {self.center_of_gravity:.2f} of {self.mix.shape[1] - 1}.")
        if self.against is not None:
            best = max(self.against.rows, key=lambda row: row["score"])
            notes.append(f"The other encoder: {best['score']:.4f} ({best['low']:.4f} to {best['high']:.4f}).")
        return notes


def _counts(found, wanted, members):
    """Returns the parts of F1, `2 * hits` and `claims + labels`, which is the accuracy of one claim for one label."""
    hits, claims = (np.asarray(found[name][..., members], "float64") for name in ("hits", "claims"))
    return 2 * hits, claims + wanted[:, None, None]


def _draws(hits, sizes, sentences):
    """Returns the scores [layers, draws] of sentences that are drawn with replacement, each time in the same way."""
    return resampled_means(hits, np.unique(sentences, return_inverse=True)[1], sizes)


class SweepDifference(Result):
    """The differences between two sweeps, which `LayerSweep.compare_with` returns.

    Args:
        rows: List of dicts, one for each layer.
    """

    title, index = "Differences", ("layer",)

    def __init__(self, rows: list):
        self.rows = rows

    def _cells(self):
        heads = ["layer", "score", "other", "difference", "95% interval"]
        return heads, [
            [row["layer"], *(f"{row[name]:.4f}" for name in ("score", "other", "difference"))]
            + [f"{row['low']:+.4f} to {row['high']:+.4f}"]
            for row in self.rows
        ]


@expects(sweeps=_SCORES, scores=_SCORES)
def probe_correlation(sweeps: Mapping, scores: Mapping) -> "ProbeCorrelation":
    """Returns whether encoders with better probes are better in a task, as a rank correlation.

    Args:
        sweeps: Dict from the names of at least four encoders to their `LayerSweep`s, of which the best layer counts, or
            to numbers.
        scores: Dict from the same names to the scores of the encoders in a task, such as after fine-tuning.

    Returns:
        A `Result` with a row for each encoder and the attributes `correlation` (Spearman's), `low` and `high` (its 95%
        interval over encoders), and `p` (of a permutation test).

    Raises:
        ValueError: If there are fewer than four encoders, or the names differ.

    Example:
    ```python
    probes, tasks = {"a": 0.7, "b": 0.8, "c": 0.85, "d": 0.9}, {"a": 0.6, "b": 0.8, "c": 0.7, "d": 0.95}
    print(keras_transfer.analysis.probe_correlation(probes, tasks))
    ```
    """
    expect(set(sweeps) == set(scores), "Both must have the same names.", sweeps=list(sweeps), scores=list(scores))
    best = {
        name: max(row["score"] for row in each.rows) if isinstance(each, LayerSweep) else float(each)
        for name, each in sweeps.items()
    }
    return ProbeCorrelation([{"encoder": name, "probe": best[name], "task": float(scores[name])} for name in best])


class ProbeCorrelation(Result):
    """The rank correlation of probes and a task, which `probe_correlation` returns.

    Args:
        rows: List of dicts, one for each encoder.
    """

    title, index = "Probes and a task", ("encoder",)

    def __init__(self, rows: list):
        self.rows, count = rows, len(rows)
        first, second = (np.array([row[name] for row in rows]) for name in ("probe", "task"))
        self.correlation, random = spearman(first, second), np.random.default_rng(0)
        if count <= _EXACT:
            orders = np.array([*itertools.permutations(range(count))])
        else:
            orders = np.stack([np.arange(count), *(random.permutation(count) for _ in range(9999))])
        others = np.array([spearman(first, second[order]) for order in orders])
        self.p = float(np.mean(np.abs(others) >= abs(self.correlation) - 1e-9))
        drawn = random.integers(0, count, (2000, count))
        resampled = [spearman(first[own], second[own]) for own in drawn]
        self.low, self.high = map(float, np.nanquantile(resampled, [0.025, 0.975]))

    def _cells(self):
        return ["encoder", "probe", "task"], [
            [row["encoder"], f"{row['probe']:.4f}", f"{row['task']:.4f}"] for row in self.rows
        ]

    def _notes(self):
        interval = f"95% interval {self.low:.2f} to {self.high:.2f}"
        return [
            f"Spearman's correlation {self.correlation:.2f} ({interval}), p = {self.p:.3f}, {len(self.rows)} encoders."
        ]
