"""Probes: small classifiers that show in which layers of an encoder a property of words or texts can be read."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis.probe_bank import Items, ProbeBank, answers, steps_of, train
from keras_transfer.analysis.probe_controls import code_lengths, code_steps, control_labels, frequent_labels
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.significance import bootstrap_interval
from keras_transfer.analysis.stored_states import (
    PIECES,
    POOLINGS,
    hidden_states,
    random_weights,
    subject_of,
)
from keras_transfer.core.expect import FLAG, POSITIVE, expect, expects, integer, list_of, one_of, optional
from keras_transfer.core.plots import BLACK, GREY, STYLES, new_axes
from keras_transfer.data import names_in
from keras_transfer.text import is_sentences, to_columns, to_sentences

CONTROLS = {
    "token": ("selectivity", "description_length", "random_weights", "word_types"),
    "sentence": ("description_length", "random_weights", "word_types"),
}
MIX = "mix"
_HELD_OUT = 0.1


@expects(
    kind=one_of(*CONTROLS),
    hidden_dim=optional(integer(1)),
    scalar_mix=FLAG,
    seeds=integer(1),
    epochs=integer(1),
    batch_size=integer(1),
    learning_rate=POSITIVE,
    controls=optional(list_of(one_of(*CONTROLS["token"]))),
    control_rows=integer(10),
    pieces=one_of(*PIECES),
    pooling=one_of(*POOLINGS),
)
@dataclasses.dataclass(frozen=True)
class Probe:
    """Probes all layers of an encoder at once for a property of words or texts.

    A probe is a small classifier on the frozen vectors of one layer. Its score says that a property *can be read* from
    that layer, not that the model uses it. Therefore, controls stand beside it:

    - `"selectivity"`: the score minus that in a control task, in which each word has one random class (Hewitt and Liang
      2019). A probe that remembers words has a high score in both.
    - `"description_length"`: the bits in which the labels can be sent if the vectors are known (Voita and Titov 2020).
      It counts how easily a property is found, too.
    - `"random_weights"`: the same architecture with initial weights, on a part of the data.
    - `"word_types"`: the most frequent label of each word, without a model.

    All layers, seeds and control tasks are trained together, as one Keras model that reads each batch once. Each probe
    is what it would be alone. Vectors are scaled to mean 0 and variance 1 in each dimension, which a linear probe can
    undo, so that one learning rate fits all encoders. The seeds differ in initial weights and in the control task.

    Args:
        kind: String, `"token"` for labels of words or `"sentence"` for labels of texts. Defaults to `"token"`.
        hidden_dim: Integer. Width of a hidden layer with ReLU. Defaults to `None`, linear probes.
        layers: List of names or numbers of layers, as in `hidden_states`. Defaults to `None`, all layers.
        scalar_mix: Boolean. Whether a last probe reads a learned weighted mean of all layers (if they have one width).
            Its weights show where the property is. Defaults to `True`.
        seeds: Integer. Number of probes of each layer. Defaults to `3`.
        epochs: Integer. Number of epochs. Few data are read more often. After each, each probe is compared on the
            validation data, and keeps its best weights. Defaults to `10`.
        batch_size: Integer. Most words or texts in a step. Defaults to `1024`.
        learning_rate: Float. Rate at the first step. It falls to 0 in half a cosine. Defaults to `1e-3`.
        controls: List of the controls above. Defaults to `None`, all of them.
        control_rows: Integer. Number of training sentences for `"random_weights"`. Defaults to `2000`.
        pieces: String. The vector of a word, as in `hidden_states`. Defaults to `"first"`.
        pooling: String. The vector of a text, as in `hidden_states`. Defaults to `"mean"`.

    Raises:
        ValueError: If an argument is out of range, or a control does not exist for the kind.

    Example:
    ```python
    vectors = keras_transfer.checkpoints.WordVectors(["cat", "dog", "runs", "sits"], np.eye(4))
    encoder = keras_transfer.encoders.WordVectorEncoder.from_vectors(vectors)
    sentences, tags = [["cat", "runs"], ["dog", "sits"]] * 5, [["NOUN", "VERB"]] * 10
    probe = keras_transfer.analysis.Probe(epochs=2, seeds=1, controls=["selectivity"])
    sweep = probe.sweep(encoder, (sentences, tags), preprocessor=keras_transfer.text.WordPreprocessor(vectors.words))
    print(sweep)
    ```

    Source: https://arxiv.org/abs/1909.03368 (control tasks), https://arxiv.org/abs/2003.12298 (description length),
    https://arxiv.org/abs/1905.05950 (the mix)
    """

    kind: str = "token"
    _: dataclasses.KW_ONLY
    hidden_dim: int | None = None
    layers: Sequence | None = None
    scalar_mix: bool = True
    seeds: int = 3
    epochs: int = 10
    batch_size: int = 1024
    learning_rate: float = 1e-3
    controls: Sequence | None = None
    control_rows: int = 2000
    pieces: str = "first"
    pooling: str = "mean"

    def __post_init__(self):
        known = CONTROLS[self.kind]
        unknown = [name for name in self.controls or () if name not in known]
        expect(
            not unknown, f"`controls` of a probe of the kind {self.kind!r} must be some of {known}.", controls=unknown
        )

    def sweep(
        self,
        model: keras.Model,
        train: tuple,
        validation: tuple | None = None,
        test: tuple | None = None,
        *,
        preprocessor: Any = None,
        folder: Any = None,
        against: Any = None,
        verbose: str | int = "auto",
    ) -> "LayerSweep":
        """Trains the probes of all layers, and returns their scores.

        The hidden states are computed once and stored. Only classes that occur in the training data can be answered.

        Args:
            model: A task, or an encoder.
            train: Tuple `(sentences, labels)`: for `"token"`, lists of words and lists of labels, such as a part of
                `load_universal_dependencies`; for `"sentence"`, texts (or a tuple of two columns) and labels. Labels
                are names or integers.
            validation: The same, for choosing the best epoch. Defaults to `None`, a tenth of the training sentences.
            test: The same, for the scores. Defaults to `None`, the validation data.
            preprocessor: The preprocessor of the encoder. Defaults to `None`, that of the task.
            folder: String or path. Folder for the hidden states, which a later call reuses. Defaults to `None`.
            against: Another encoder to probe on the same data, such as word vectors, or a tuple of it and its
                preprocessor. Defaults to `None`.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

        Returns:
            `LayerSweep`.

        Raises:
            ValueError: If texts and labels differ in number, if there is only one class, or if the encoder has no
                hidden states or no preprocessor.
        """
        parts = {
            name: part_of(self.kind, data, name)
            for name, data in (("train", train), ("validation", validation), ("test", test))
            if data is not None
        }
        options = {"folder": folder, "verbose": verbose}
        found = _Sweep(self, parts, subject_of(model, preprocessor), **options).run()
        if against is not None:
            other, own = against if isinstance(against, tuple) else (against, None)
            plain = dataclasses.replace(self, controls=(), scalar_mix=False, layers=None)
            options["folder"] = None if folder is None else pathlib.Path(folder) / "against"
            found.against = _Sweep(plain, parts, subject_of(other, own), **options).run()
        return found


@dataclasses.dataclass
class _Part:
    """Sentences or texts with labels.

    Attributes:
        x: List of sentences or texts, or a tuple of two lists of texts.
        keys: List of what a baseline without a model looks up, for each item.
        labels: List of strings, the label of each item.
        sentences: Integer array [items].
    """

    x: Any
    keys: list
    labels: list
    sentences: np.ndarray

    @property
    def count(self):
        """Integer. Number of sentences or texts."""
        return len(self.x[0] if isinstance(self.x, tuple) else self.x)

    def texts(self, chosen):
        """Returns some of the sentences or texts."""
        if isinstance(self.x, tuple):
            return tuple([column[place] for place in chosen] for column in self.x)
        return [self.x[place] for place in chosen]


def part_of(kind, data, name):
    """Returns what a user has passed as a `_Part`, or raises a `ValueError`."""
    what = "sentences" if kind == "token" else "texts"
    fits = isinstance(data, (tuple, list)) and len(data) == 2 and is_sentences(data[0]) == (kind == "token")
    expect(fits, f"`{name}` must be a tuple of {what} and labels for a probe of the kind {kind!r}.", **{name: data})
    x, labels = data
    if kind == "token":
        x, labels = to_sentences(x), [list(own) for own in labels]
        counts, sizes = [len(words) for words in x], [len(own) for own in labels]
        keys, flat = [word for words in x for word in words], [label for own in labels for label in own]
    else:
        columns, flat = to_columns(x), list(labels)
        x = tuple(map(list, columns)) if isinstance(columns, tuple) else columns.tolist()
        keys = list(zip(*columns)) if isinstance(columns, tuple) else x
        counts, sizes = [1] * len(keys), [1] * len(flat)
    rule = f"`{name}` must have labels for each of its {what}."
    expect(len(sizes) == len(counts), rule, **{what: len(counts), "labels": len(sizes)})
    place = next((i for i, (count, size) in enumerate(zip(counts, sizes)) if count != size), 0)
    rule = f"Each sentence of `{name}` must have as many labels as words."
    expect(counts[place] == sizes[place], rule, sentence=place, words=counts[place], labels=sizes[place])
    names_in(flat)  # Raises an error for other labels.
    return _Part(x, keys, [str(label) for label in flat], np.repeat(np.arange(len(counts)), counts))


class _Sweep:
    """The data of a sweep, and the steps that make the columns of its table."""

    def __init__(self, probe, parts, subject, folder, verbose):
        self.probe, self.parts, self.folder, self.verbose = probe, parts, folder, verbose
        self.encoder, self.preprocessor = subject
        self.classes = names_in(parts["train"].labels)
        expect(len(self.classes) > 1, "`train` must have labels of at least two classes.", classes=self.classes)
        self.controls = CONTROLS[probe.kind] if probe.controls is None else tuple(probe.controls)
        self.seeds = list(range(probe.seeds))
        self.options = {name: getattr(probe, name) for name in ("epochs", "batch_size", "learning_rate")}

    def run(self):
        """Returns the `LayerSweep`."""
        items = self._items()
        asked, widths = items["test"], list(items["train"].states.widths.values())
        mixes = self.probe.scalar_mix and len(set(widths)) == 1 < len(widths)
        count, has_control = items["train"].labels.shape[1], "selectivity" in self.controls
        sizes: dict[str, Any] = {"classes": len(self.classes), "hidden_dim": self.probe.hidden_dim, "mixes": mixes}
        bank, single = (ProbeBank(widths, members, **sizes) for members in (count, 1))
        real = {name: dataclasses.replace(own, labels=own.labels[:, :1]) for name, own in items.items()}
        some = {name: own.of_some_sentences(self._rows(name)) for name, own in real.items()}
        step = self._bar(items["train"], real["train"], some["train"])
        statistics = items["train"].statistics()
        train(bank, items["train"], items["validation"], statistics, self._members(), **self.options, step=step)
        layers = [*items["train"].states.names, *([MIX] if mixes else [])]
        found = answers(bank, asked, self.probe.batch_size)
        sweep = LayerSweep(layers, self.classes, asked, found, len(self.seeds), has_control, "test" in self.parts)
        if mixes:
            mix = keras.ops.softmax(keras.ops.cast(bank.mix["logits"], "float32"))
            sweep.mix = keras.ops.convert_to_numpy(mix)[: len(self.seeds)]
        if "description_length" in self.controls:
            sweep._add_code(code_lengths(single, real["train"], real["validation"], statistics, self.options, step))
        if "random_weights" in self.controls:
            sweep._add_random(*self._random(single, some, step))
        if "word_types" in self.controls:
            known = items["train"].labels[:, 0].tolist()
            guessed = frequent_labels(items["train"].keys.tolist(), known, asked.keys.tolist())
            sweep._add_word_types(np.array(guessed) == asked.labels[:, 0])
        return sweep

    def _items(self):
        """Returns the `Items` of the parts `"train"`, `"validation"` and `"test"`."""
        states = {name: self._states(self.encoder, part.x, name) for name, part in self.parts.items()}
        numbers, found, labels = {}, {}, self._labels()
        for name, part in self.parts.items():
            keys = np.array([numbers.setdefault(key, len(numbers)) for key in part.keys])
            places = np.arange(len(part.labels))
            found[name] = Items(states[name], places, labels[name], part.sentences, keys, part.texts)
        if "validation" not in found:
            held_out = np.random.default_rng(0).random(self.parts["train"].count) < _HELD_OUT
            held_out[[0, -1]] = False, True  # Neither part is empty.
            whole, mask = found["train"], held_out[found["train"].sentences]
            found |= {"train": whole.some(~mask), "validation": whole.some(mask)}
        found.setdefault("test", found["validation"])
        return found

    def _labels(self):
        """Returns the labels of the members of each part: the real ones, and those of the control tasks."""
        known = {name: place for place, name in enumerate(self.classes)}
        real = [np.array([known.get(label, -1) for label in part.labels]) for part in self.parts.values()]
        columns = [np.concatenate(real)] * len(self.seeds)
        if "selectivity" in self.controls:
            words = [key for part in self.parts.values() for key in part.keys]
            frequencies = np.bincount(real[0], minlength=len(self.classes)) / len(real[0])
            options = {"num_classes": len(self.classes), "probabilities": frequencies}
            columns += [control_labels(words, **options, seed=seed) for seed in self.seeds]
        ends = np.cumsum([len(labels) for labels in real])[:-1]
        return dict(zip(self.parts, np.split(np.stack(columns, axis=1), ends)))

    def _members(self):
        """Returns the seed of each member of the bank."""
        return self.seeds * (2 if "selectivity" in self.controls else 1)

    def _states(self, encoder, x, name, layers=None):
        """Returns the `StoredStates` of one part."""
        probe, folder = self.probe, None if self.folder is None else pathlib.Path(self.folder) / name
        options: dict[str, Any] = {"preprocessor": self.preprocessor, "pieces": probe.pieces, "verbose": self.verbose}
        if probe.kind == "sentence":
            options["pooling"] = probe.pooling
        return hidden_states(encoder, x, layers=layers or probe.layers, folder=folder, **options)

    def _rows(self, name):
        """Returns how many sentences of a part the random encoder reads."""
        return self.probe.control_rows if name == "train" else self.probe.control_rows // 2

    def _random(self, bank, some, step):
        """Returns what the probes of the encoder, and those of one with random weights, answer for the same items."""
        untrained, found = random_weights(self.encoder), []
        if untrained is None:
            return None, None, some["test"]

        def encode(name):
            return lambda texts: self._states(untrained, texts, f"random_{name}", some["train"].states.names)

        both = some, {name: own.of(encode(name)) for name, own in some.items()}
        for items in both:
            train(
                bank, items["train"], items["validation"], items["train"].statistics(), [0], **self.options, step=step
            )
            found.append(answers(bank, items["test"], self.probe.batch_size))
        return *found, some["test"]

    def _bar(self, *items):
        """Returns a function that advances a progress bar by a step of training."""
        epochs, batch_size = self.probe.epochs, self.probe.batch_size
        total = steps_of(len(items[0]), epochs, batch_size)
        total += code_steps(items[1], self.options) if "description_length" in self.controls else 0
        total += 2 * steps_of(len(items[2]), epochs, batch_size) if "random_weights" in self.controls else 0
        bar = keras.utils.Progbar(total, verbose=1 if self.verbose == "auto" else self.verbose, unit_name="step")
        return lambda: bar.add(1)


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
        self._sentences = np.unique(items.sentences, return_inverse=True)[1]
        self._unknown = int((items.labels[:, 0] < 0).sum())
        self._hits = found["hits"][..., :seeds].mean(axis=-1)
        by_seed = found["hits"][..., :seeds].mean(axis=0)
        low, high = self._interval(self._hits)
        self.rows = [
            {"layer": layer, "score": float(own.mean()), "low": float(low[i]), "high": float(high[i])}
            | {"seeds_std": float(own.std(ddof=1)) if seeds > 1 else None}
            for i, (layer, own) in enumerate(zip(layers, by_seed))
        ]
        if has_control:
            control = found["hits"][..., seeds:].mean(axis=(0, 2))
            self._add(control=control, selectivity=by_seed.mean(axis=1) - control)

    def _interval(self, hits, sentences=None):
        return bootstrap_interval(hits, self._sentences if sentences is None else sentences)

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
        first, second = (each["hits"][..., 0] for each in (trained, random))
        low, high = self._interval(first - second, np.unique(items.sentences, return_inverse=True)[1])
        own = {"subset": first.mean(axis=0), "random": second.mean(axis=0)}
        self._add(**own, gain=own["subset"] - own["random"], gain_low=low, gain_high=high)

    def _add_word_types(self, hits):
        self.word_types = float(hits.mean())

    @property
    def best(self) -> str:
        """String. The layer with the highest score, apart from the mix."""
        return max((row for row in self.rows if row["layer"] != MIX), key=lambda row: row["score"])["layer"]

    @property
    def center_of_gravity(self) -> float | None:
        """Float. The mean of the numbers of the layers, from 0, weighted by the mix. `None` without a mix."""
        return None if self.mix is None else float(self.mix.mean(axis=0) @ np.arange(self.mix.shape[1]))

    def _place(self, layer):
        one_of(*self.layers).check("layer", layer)
        return self.layers.index(layer)

    def predictions(self, layer: str) -> list[str]:
        """Returns the answers of the first probe of a layer.

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
            ValueError: If there is no such layer.
        """
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
        same = self.classes == other.classes and np.array_equal(self._items.labels[:, 0], other._items.labels[:, 0])
        expect(same, "Both sweeps must have the same test labels.", items=(len(self._items), len(other._items)))
        shared = [layer for layer in self.layers if layer in other.layers]
        expect(shared, "Both sweeps must have a layer in common.", layers=(self.layers, other.layers))
        first, second = (each._hits[:, [each._place(layer) for layer in shared]] for each in (self, other))
        columns = first.mean(axis=0), second.mean(axis=0), (first - second).mean(axis=0)
        columns += tuple(self._interval(first - second))
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
        axes.set(xlabel="layer", ylabel="accuracy")
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
        sentences = self._sentences.max() + 1
        notes = [
            f"Accuracy on {items:,} labels of {sentences:,} texts of the {part} data, {len(self.classes)} classes."
        ]
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
