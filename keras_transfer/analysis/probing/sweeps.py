"""The scores of the probes of all layers: a table, a plot, differences, and their correlation with a task."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transfer.analysis.result import PlottedResult, Result
from keras_transfer.analysis.significance import resampled_means, spearman
from keras_transfer.core.expect import NotApplicableError, Rule, expect, expects
from keras_transfer.core.plots import BLACK, GREY, draw_lines

MIX = "mix"
_EXACT = 7  # Encoders of which all permutations are compared.
_SCORES = Rule(
    "a dict of at least 4 encoders", lambda value: isinstance(value, Mapping) and len(value) >= 4, ({}, [1.0])
)


class LayerSweep(PlottedResult):
    """The scores of the probes of all layers, which `Probe.sweep` returns.

    `plot()` draws the scores over the layers, with their intervals, controls, and the mix as bars.

    Attributes:
        layers: List of strings. Names of the layers, from the lowest, and perhaps `"mix"`.
        classes: List of strings. Names of the classes.
        rows: List of dicts, one for each layer: `score` (accuracy, or micro F1 of spans) with its 95% interval `low` to
            `high` over sentences and its `seeds_std`, and with the controls `control` and `selectivity`; `bits` and
            `compression`; `subset` and `random` (both scores on a part of the data), and their difference `gain` with
            its interval `gain_low` to `gain_high`.
        mix: Float array `[seeds, layers]`. The fraction of each layer in the mix, or `None`.
        word_types: Float. Score of the most frequent label of each word or text, or `None`.
    """

    title, index = "Probes", ("layer",)
    columns = {
        "layer": "",
        "score": ".4f",
        "95% interval": (("low", "high"), ".4f"),
        "+- seeds": ("seeds_std", ".4f"),
        **dict.fromkeys(("control", "selectivity"), ".4f"),
        "bits": ",.0f",
        "compression": ".2f",
        **dict.fromkeys(("subset", "random", "gain"), ".4f"),
    }

    def __init__(self, layers: list, classes: list, items: Any, found: dict, seeds: int, part: str):
        self.layers, self.classes, self._items, self._part = layers, classes, items, part
        self.mix: Any = None
        self.word_types: Any = None
        self._counts = _counts(found, items, slice(seeds))
        by_seed = _scores(*_counts(found, items))
        low, high = np.quantile(_draws(self._counts, items), [0.025, 0.975], axis=-1)
        self.rows: list[dict] = [{"layer": layer} for layer in layers]
        self._add(score=by_seed[:, :seeds].mean(axis=1), low=low, high=high)
        if seeds > 1:
            self._add(seeds_std=by_seed[:, :seeds].std(axis=1, ddof=1))
        if by_seed.shape[1] > seeds:
            control = by_seed[:, seeds:].mean(axis=1)
            self._add(control=control, selectivity=by_seed[:, :seeds].mean(axis=1) - control)

    def _add(self, **columns):
        """Adds columns of values for each layer."""
        for i, row in enumerate(self.rows):
            row |= {name: float(values[i]) for name, values in columns.items()}

    def _add_random(self, trained, random, items):
        """Adds the scores of probes of the encoder and of one with random weights on some items."""
        values = _difference([_counts(found, items, slice(1)) for found in (trained, random)], items)
        self._add(**dict(zip(("subset", "random", "gain", "gain_low", "gain_high"), values)))

    @property
    def best(self) -> str:
        """String. The layer with the highest score, apart from the mix."""
        return max((row for row in self.rows if row["layer"] != MIX), key=lambda row: row["score"])["layer"]

    @property
    def center_of_gravity(self) -> float | None:
        """Float. The mean of the numbers of the layers, from 0, weighted by the mix. `None` without a mix."""
        return None if self.mix is None else float(self.mix.mean(axis=0) @ np.arange(self.mix.shape[1]))

    def compare_with(self, other: "LayerSweep") -> Result:
        """Returns the differences from the scores of another sweep over the same test data.

        Args:
            other: `LayerSweep`, such as that of the model before fine-tuning, or of word vectors.

        Returns:
            A `Result` with a row for each layer that both have, or for each if the other encoder has only one: `score`,
            `other`, and their `difference` with its 95% interval `low` to `high` over sentences.

        Raises:
            ValueError: If the sweeps have other test data, or no common layer.
        """
        ours, theirs = self._items, other._items
        real = slice(None if ours.of_spans else 1)  # The other columns are of control tasks.
        same = self.classes == other.classes and np.array_equal(ours.sentences, theirs.sentences)
        same = same and np.array_equal(ours.labels[:, real], theirs.labels[:, real])
        expect(same, "Both sweeps must have the same test labels.", items=(len(ours), len(theirs)))
        pairs = [(layer, layer if len(other.layers) > 1 else other.layers[0]) for layer in self.layers]
        pairs = [pair for pair in pairs if pair[1] in other.layers]
        rule = "Both sweeps must have a layer in common."
        expect(pairs, rule, error=NotApplicableError, layers=(self.layers, other.layers))
        counts = [
            [part[:, [each.layers.index(name) for name in names]] for part in each._counts]
            for each, names in zip((self, other), zip(*pairs))
        ]
        names, values = ("score", "other", "difference", "low", "high"), _difference(counts, ours)
        rows = [{"layer": layer, **dict(zip(names, map(float, own)))} for (layer, _), *own in zip(pairs, *values)]
        columns: dict = {"layer": "", "score": ".4f", "other": ".4f", "difference": "+.4f"}
        columns["95% interval"] = (("low", "high"), "+.4f")
        return Result(rows, columns, title="Differences", index=("layer",))

    def _draw(self, axes):
        rows = [row for row in self.rows if row["layer"] != MIX]
        places, names = np.arange(len(rows)), [row["layer"] for row in rows]
        if self.mix is not None:
            bars = axes.twinx()
            bars.bar(places, self.mix.mean(axis=0), color=GREY, alpha=0.3, width=0.5)
            bars.set(ylabel="fraction in the mix", ylim=(0, 3 * float(self.mix.mean(axis=0).max())))
            bars.spines[["top"]].set_visible(False)
        kinds = {"score": "probe", "control": "control task", "random": "random weights"}
        draw_lines(axes, places, rows, {kind: label for kind, label in kinds.items() if kind in rows[0]})
        if self.word_types is not None:
            axes.axhline(self.word_types, color=BLACK, linestyle=":", label="most frequent label")
        axes.set_xticks(places, names, rotation=45 if len(names) > 8 else 0)
        axes.set(xlabel="layer", ylabel="micro F1" if self._items.of_spans else "accuracy")
        axes.legend()

    def _notes(self):
        texts, metric = len(np.unique(self._items.sentences)), "Micro F1" if self._items.of_spans else "Accuracy"
        data = f"{texts:,} texts of the {self._part} data, {len(self.classes)} classes"
        notes = [f"{metric} on {len(self._items):,} labels of {data}."]
        if self._part == "validation":
            notes.append("The validation data also chose the epochs, so the scores are a little too high.")
        if unknown := int((self._items.labels[:, 0] < 0).sum()):
            notes.append(f"{unknown} labels are missing from the training data, and count as errors.")
        if self.word_types is not None:
            notes.append(f"The most frequent label of each word or text: {self.word_types:.4f}.")
        if self.mix is not None:
            notes.append(f"Center of gravity of the mix: {self.center_of_gravity:.2f} of {self.mix.shape[1] - 1}.")
        return notes


def _counts(found, items, members=None):
    """Returns the parts of micro F1, `2 * hits` and `claims + labels`, [items, layers, members], or their means.

    With one claim for one label, F1 is the accuracy.
    """
    wanted = items.labels.sum(axis=1) if items.of_spans else np.ones(len(items))
    both = 2.0 * found["hits"], found["claims"] + wanted[:, None, None]
    return both if members is None else tuple(part[..., members].mean(axis=-1) for part in both)


def _scores(hits, sizes):
    return hits.sum(axis=0) / sizes.sum(axis=0)


def _draws(counts, items):
    """Returns the scores [layers, draws] of sentences that are drawn with replacement, each time in the same way."""
    hits, sizes = counts
    return resampled_means(hits, np.unique(items.sentences, return_inverse=True)[1], sizes)


def _difference(counts, items):
    """Returns the scores [layers] of two counts, their difference, and the limits of its interval."""
    first, second = (_scores(*own) for own in counts)
    low, high = np.quantile(np.subtract(*(_draws(own, items) for own in counts)), [0.025, 0.975], axis=-1)
    return first, second, first - second, low, high


@expects(sweeps=_SCORES, scores=_SCORES)
def probe_correlation(sweeps: Mapping, scores: Mapping) -> Result:
    """Returns whether encoders with better probes are better in a task, as a rank correlation.

    Args:
        sweeps: Dict from the names of at least four encoders to numbers, or to `LayerSweep`s, whose best layer counts.
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
    rows: list[dict] = []
    for name, each in sweeps.items():
        scores_of = {row["layer"]: row["score"] for row in each.rows} if isinstance(each, LayerSweep) else {}
        best = scores_of[each.best] if scores_of else float(each)
        rows.append({"encoder": name, "probe": best, "task": float(scores[name])})
    first, second = (np.array([row[name] for row in rows]) for name in ("probe", "task"))
    correlation, random, count = spearman(first, second), np.random.default_rng(0), len(rows)
    rule = "The encoders must differ in their probes, and in the task."
    expect(correlation == correlation, rule, probes=first.tolist(), task=second.tolist())
    orders: Any = itertools.permutations(range(count))
    if count > _EXACT:
        orders = [range(count), *(random.permutation(count) for _ in range(9999))]
    others = np.array([spearman(first, second[[*order]]) for order in orders])
    p = float(np.mean(np.abs(others) >= abs(correlation) - 1e-9))
    resampled = [spearman(first[own], second[own]) for own in random.integers(0, count, (2000, count))]
    low, high = map(float, np.nanquantile(resampled, [0.025, 0.975]))
    note = f"Spearman's correlation {correlation:.2f}, 95% interval [{low:.2f}, {high:.2f}], p = {p:.3f}."
    values = {"correlation": correlation, "low": low, "high": high, "p": p}
    columns = {"encoder": "", "probe": ".4f", "task": ".4f"}
    return Result(rows, columns, title="Probes and a task", index=("encoder",), notes=[note], **values)
