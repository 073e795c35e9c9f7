"""Probes: small classifiers that show in which layers of an encoder a property of words or texts can be read."""

import dataclasses
import itertools
import logging
import pathlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis.probing.bank import EdgeBank, Items, ProbeBank, answers, schedule, train
from keras_transfer.analysis.probing.sweeps import MIX, LayerSweep
from keras_transfer.analysis.stored_states import PIECES, POOLINGS, hidden_states, random_weights, subject_of
from keras_transfer.core.expect import (
    POSITIVE,
    NotApplicableError,
    expect,
    expects,
    integer,
    list_of,
    one_of,
    optional,
    raising,
)
from keras_transfer.data import names_in
from keras_transfer.text import is_sentences, to_columns, to_sentences

log = logging.getLogger("keras_transfer")
CONTROLS = {
    "token": ("selectivity", "description_length", "random_weights", "word_types"),
    "sentence": ("description_length", "random_weights", "word_types"),
    "edge": ("random_weights", "word_types"),
}
_COLUMNS = {
    "token": ("sentences", "labels"),
    "sentence": ("texts", "labels"),
    "edge": ("sentences", "spans", "labels"),
}
_HELD_OUT = 0.1
_BATCH_SIZE = 1024  # Most words or texts in a step.
CONTROL_ROWS = 2000  # Training sentences that the encoder with random weights reads.
VALIDATION_ITEMS = 4096  # They choose the epoch of each probe of the online code.
# Fractions of the sentences that are coded one after the other (Voita and Titov 2020, section 3.2.2).
PORTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


@expects(
    kind=one_of(*CONTROLS),
    hidden_dim=optional(integer(1)),
    seeds=integer(1),
    epochs=integer(1),
    learning_rate=POSITIVE,
    controls=optional(list_of(one_of(*CONTROLS["token"]))),
    pieces=one_of(*PIECES),
    pooling=one_of(*POOLINGS),
)
@dataclasses.dataclass(frozen=True)
class Probe:
    """Probes all layers of an encoder at once for a property of words or texts.

    A probe is a small classifier on the frozen vectors of one layer. Its score says that a property *can be read* from
    that layer, not that the model uses it. Controls stand beside it:

    - `"selectivity"`: the score minus that in a control task, in which each word has one random class (Hewitt and Liang
      2019). A probe that remembers words has a high score in both.
    - `"description_length"`: the bits in which the labels can be sent if the vectors are known (Voita and Titov 2020).
    - `"random_weights"`: the same architecture with initial weights, on 2,000 training sentences and 1,000 others.
    - `"word_types"`: the most frequent label of each word, without a model.

    Vectors are scaled to mean 0 and variance 1, which a linear probe can undo, so that one learning rate fits all
    encoders. A last probe reads a learned weighted mean of all layers, if they have one width: the mix. All probes are
    trained together, and each is what it would be alone.

    Args:
        kind: String, `"token"` for labels of words, `"sentence"` for labels of texts, or `"edge"` for labels of spans
            of words or of pairs of spans. Defaults to `"token"`.
        hidden_dim: Integer. Width of a hidden layer with ReLU, or for edges of the MLP. Defaults to `None`, linear
            probes, or for edges 256.
        layers: List of names or numbers of layers, as in `hidden_states`. Defaults to `None`, all layers.
        seeds: Integer. Number of probes of each layer, with their own initial weights and control task. Defaults to
            `3`.
        epochs: Integer. Number of epochs, more of few data. Each probe keeps the weights of the epoch that is best on
            the validation data. Defaults to `5`.
        learning_rate: Float. Rate at the first step. It falls to 0 in half a cosine. Defaults to `3e-3`.
        controls: List of the controls above. Defaults to `None`, all of them.
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
    https://arxiv.org/abs/1905.05950 (the mix), https://arxiv.org/abs/1905.06316 (edge probes, as in jiant 1)
    """

    kind: str = "token"
    _: dataclasses.KW_ONLY
    hidden_dim: int | None = None
    layers: Sequence | None = None
    seeds: int = 3
    epochs: int = 5
    learning_rate: float = 3e-3
    controls: Sequence | None = None
    pieces: str = "first"
    pooling: str = "mean"

    def __post_init__(self):
        known = CONTROLS[self.kind]
        rule = f"`controls` of a probe of the kind {self.kind!r} must be some of {known}."
        expect({*(self.controls or ())} <= {*known}, rule, controls=self.controls)

    def sweep(
        self,
        model: keras.Model,
        train: tuple,
        validation: tuple | None = None,
        test: tuple | None = None,
        *,
        preprocessor: Any = None,
        folder: Any = None,
        verbose: str | int = "auto",
    ) -> LayerSweep:
        """Trains the probes of all layers, and returns their scores.

        Only classes of the training data, or for spans of all parts, can be answered.

        Args:
            model: A task, or an encoder.
            train: Tuple `(sentences, labels)`: for `"token"`, lists of words and of labels, such as a part of
                `load_universal_dependencies`; for `"sentence"`, texts (or a tuple of two columns) and labels. For
                `"edge"`, `(sentences, spans, labels)`: for each sentence a list of spans `(start, end)`, ends
                exclusive, or of pairs of spans, and for each of these a label, or a list of labels.
            validation: The same, for choosing the best epoch. Defaults to `None`, a tenth of the training sentences.
            test: The same, for the scores. Defaults to `None`, the validation data.
            preprocessor: The preprocessor of the encoder. Defaults to `None`, that of the task.
            folder: String or path. Folder for the hidden states, which a later call reuses. Defaults to `None`.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

        Returns:
            `LayerSweep`.

        Raises:
            ValueError: If texts and labels differ in number, if there is only one class, or if the encoder has no
                hidden states or no preprocessor.
        """
        given = {"train": train, "validation": validation, "test": test}
        parts = {name: part_of(self.kind, data, name) for name, data in given.items() if data is not None}
        return _Sweep(self, parts, subject_of(model, preprocessor), folder, verbose).run()


@dataclasses.dataclass
class Part:
    """Sentences or texts with labels."""

    x: Any  # a list of sentences or texts, or a tuple of two lists of texts
    keys: list  # what a baseline without a model looks up, for each item
    labels: list  # a tuple of strings for each item
    sentences: np.ndarray  # [items]
    spans: np.ndarray | None = None  # starts and ends [items, 1 or 2, 2], for edges

    @property
    def count(self):
        """Integer. Number of sentences or texts."""
        return len(self.x[0] if isinstance(self.x, tuple) else self.x)

    def some(self, chosen):
        """Returns the part with some of the sentences, given their numbers in order."""
        items, pair = np.flatnonzero(np.isin(self.sentences, chosen)), isinstance(self.x, tuple)
        x = [[column[i] for i in chosen] for column in (self.x if pair else [self.x])]
        keys, labels = ([each[i] for i in items] for each in (self.keys, self.labels))
        spans = None if self.spans is None else self.spans[items]
        return Part(tuple(x) if pair else x[0], keys, labels, np.searchsorted(chosen, self.sentences[items]), spans)


def part_of(kind, data, name):
    """Returns what a user has passed as a `Part`, or raises a `ValueError`."""
    columns, of_words = _COLUMNS[kind], kind != "sentence"
    fits = isinstance(data, (tuple, list)) and len(data) == len(columns) and is_sentences(data[0]) == of_words
    rule = f"`{name}` must be a tuple of {', '.join(columns)} for a probe of the kind {kind!r}."
    expect(fits, rule, **{name: data})
    x, labels, spans = to_sentences(data[0]) if of_words else to_columns(data[0]), list(data[-1]), None
    if of_words:
        keys, counts = [word for words in x for word in words], [len(words) for words in x]
    else:
        keys = list(zip(*x)) if isinstance(x, tuple) else x.tolist()
        x, labels = tuple(map(list, x)) if isinstance(x, tuple) else keys, [[label] for label in labels]
        counts = [1] * len(keys)
    for column, own in zip(columns[1:], data[1:]):
        rule = f"`{name}` must have as many {column} as {columns[0]}."
        expect(len(own) == len(counts), rule, **{columns[0]: len(counts), column: len(own)})
    if kind == "edge":
        of_sentences = [_edges(own, words, place, name) for place, (own, words) in enumerate(zip(data[1], x))]
        counts, spans = [len(own) for own in of_sentences], [edge for own in of_sentences for edge in own]
        keys = [tuple(tuple(words[s:e]) for s, e in edge) for words, own in zip(x, of_sentences) for edge in own]
        rule = f"`{name}` must have pairs of spans, or single ones, not both."
        expect(len(set(map(len, spans))) <= 1, rule, spans=spans)
        spans = np.array(spans, int)
    for place, (count, own) in enumerate(zip(counts, labels)):
        rule = f"Each sentence of `{name}` must have as many labels as {'spans' if kind == 'edge' else 'words'}."
        expect(len(own) == count, rule, sentence=place, expected=count, labels=len(own))
    flat = [label for own in labels for label in own]
    expect(flat, f"`{name}` must have labels.", error=NotApplicableError, labels=labels)
    flat = [tuple(own) if isinstance(own, (list, tuple)) and kind == "edge" else (own,) for own in flat]
    with raising("A probe predicts classes, which these labels are not.", ValueError, error=NotApplicableError):
        names_in([label for own in flat for label in own])
    flat = [tuple(str(label) for label in own) for own in flat]
    return Part(x, keys, flat, np.repeat(np.arange(len(counts)), counts), spans)


def _edges(edges, words, place, name):
    """Returns the edges of a sentence as lists of `(start, end)`, one or two."""
    rule = f"Spans of sentence {place} of `{name}` must be (start, end), in which 0 <= start < end <= {len(words)}."
    found = []
    for edge in edges:
        own = list(edge) if np.iterable(edge) and all(map(np.iterable, edge)) else [edge]
        fits = 1 <= len(own) <= 2 and all(
            np.shape(span) == (2,) and 0 <= span[0] < span[1] <= len(words) for span in own
        )
        expect(fits, rule, span=edge)
        found.append([tuple(map(int, span)) for span in own])
    return found


class _Sweep:
    """The data of a sweep, and the steps that make the columns of its table."""

    def __init__(self, probe, parts, subject, folder, verbose):
        self.probe, self.parts, self.folder, self.verbose = probe, parts, folder, verbose
        self.encoder, self.preprocessor = subject
        known = parts.values() if probe.kind == "edge" else [parts["train"]]  # Spans lack labels that are not trained.
        self.classes = names_in([label for part in known for own in part.labels for label in own])
        rule = "`train` must have labels of at least two classes."
        expect(len(self.classes) > 1, rule, error=NotApplicableError, classes=self.classes)
        kinds = {part.spans.shape[1] for part in parts.values() if part.spans is not None}
        expect(len(kinds) < 2, "All parts must have pairs of spans, or all single ones.", spans=kinds)
        self.controls = CONTROLS[probe.kind] if probe.controls is None else tuple(probe.controls)
        self.seeds = list(range(probe.seeds))
        keys = dict.fromkeys(key for part in parts.values() for key in part.keys)
        self.numbers = {key: number for number, key in enumerate(keys)}
        self.control = np.zeros((len(keys), 0), int)  # The class of each word in the control task of each seed.
        if "selectivity" in self.controls:
            labels = [self.classes.index(label) for [label] in parts["train"].labels]
            self.control = control_labels(len(keys), np.bincount(labels) / len(labels), self.seeds)
        if "validation" not in parts:
            labeled = np.unique(parts["train"].sentences)
            rule = "Without `validation`, `train` must have two sentences or texts at least, one of which is held out."
            expect(len(labeled) > 1, rule, error=NotApplicableError, count=len(labeled))
            held_out = np.random.default_rng(0).random(len(labeled)) < _HELD_OUT
            held_out[[0, -1]] = False, True  # Neither part is empty.
            train, validation = (parts["train"].some(labeled[chosen]) for chosen in (~held_out, held_out))
            parts |= {"train": train, "validation": validation}

    def run(self):
        """Returns the `LayerSweep`."""
        probe, items = self.probe, self._items(self.encoder, self.parts)
        names, widths = items["train"].states.names, list(items["train"].states.widths.values())
        mixes = len(set(widths)) == 1 < len(widths)
        sizes: dict[str, Any] = {"classes": len(self.classes), "hidden_dim": probe.hidden_dim, "mixes": mixes}
        if probe.kind == "edge":
            sizes["spans"] = items["train"].places.shape[1]
        seeds = self.seeds * (2 if "selectivity" in self.controls else 1)
        kind = EdgeBank if probe.kind == "edge" else ProbeBank
        bank, single = (kind(widths, members, **sizes) for members in (len(seeds), 1))
        some = {name: self._some_sentences(name) for name in items}
        subset = {name: own.some(np.isin(own.sentences, some[name])) for name, own in items.items()}
        untrained = random_weights(self.encoder) if "random_weights" in self.controls else None
        counts = [len(items["train"]), *([] if untrained is None else [len(subset["train"])] * 2)]
        counts += portions_of(items["train"])[1][:-1].tolist() if "description_length" in self.controls else []
        steps = sum(schedule(count, probe.epochs, _BATCH_SIZE)[-1] for count in counts)
        bar = keras.utils.Progbar(steps, verbose=1 if self.verbose == "auto" else self.verbose, unit_name="step")
        options = {"epochs": probe.epochs, "batch_size": _BATCH_SIZE, "learning_rate": probe.learning_rate}
        self.options, statistics = {**options, "step": lambda: bar.add(1)}, items["train"].statistics()
        train(bank, items["train"], items["validation"], statistics, seeds, **self.options)
        layers, part = [*names, *([MIX] if mixes else [])], "test" if "test" in self.parts else "validation"
        found = answers(bank, items["test"], _BATCH_SIZE)
        sweep = LayerSweep(layers, self.classes, items["test"], found, len(self.seeds), part)
        if mixes:
            mix = keras.ops.softmax(keras.ops.cast(bank.probes[-1]["mix_logits"], "float32"))
            sweep.mix = keras.ops.convert_to_numpy(mix)[: len(self.seeds)]
        if "description_length" in self.controls:
            bits = self._code_lengths(single, items, statistics)
            sweep._add(bits=bits, compression=len(items["train"]) * np.log2(single.classes) / bits)
        if untrained is not None:
            parts = {name: part.some(some[name]) for name, part in self.parts.items()}
            both = subset, self._items(untrained, parts, "random_", names)
            sweep._add_random(*(self._answers(single, own) for own in both), subset["test"])
        if "word_types" in self.controls:
            sweep.word_types = frequent_score(items["train"], items["test"])
        return sweep

    def _items(self, encoder, parts, prefix="", layers=None):
        """Returns the `Items` of the parts `"train"`, `"validation"` and `"test"`."""
        probe, found = self.probe, {}
        options: dict[str, Any] = {"preprocessor": self.preprocessor, "pieces": probe.pieces, "verbose": self.verbose}
        options |= {"layers": layers or probe.layers, "pooling": probe.pooling}
        for name, part in parts.items():
            folder = None if self.folder is None else pathlib.Path(self.folder) / f"{prefix}{name}"
            states = hidden_states(encoder, part.x, folder=folder, **options)
            keys = np.array([self.numbers[key] for key in part.keys])
            places = np.arange(len(keys))
            if part.spans is not None:
                steps = np.arange(max(2, np.diff(part.spans).max()))
                places = states.starts[part.sentences][:, None, None] + part.spans[..., :1] + steps
                places = np.where(steps < np.diff(part.spans), places, -1)
            found[name] = Items(states, places, self._labels(part, keys), part.sentences, keys)
            whole = states.whole[part.sentences]
            if part.spans is not None and not whole.all():
                count = len(np.unique(part.sentences[~whole]))
                log.warning("%d sentences of `%s` are too long for one row, and are left out.", count, name)
                found[name] = found[name].some(whole)
        return {**found, "test": found.get("test", found["validation"])}

    def _labels(self, part, keys):
        """Returns the labels of the members: the real ones, and those of the control tasks; for spans a multi-hot."""
        places = {name: place for place, name in enumerate(self.classes)}
        if part.spans is None:
            real = np.array([places.get(label, -1) for [label] in part.labels])
            return np.concatenate([np.repeat(real[:, None], len(self.seeds), axis=1), self.control[keys]], axis=1)
        found = np.zeros((len(part.labels), len(places)), "int32")
        for row, own in zip(found, part.labels):
            row[[places[label] for label in own]] = 1
        return found

    def _some_sentences(self, name):
        """Returns the numbers of the sentences of a part that the encoder with random weights reads."""
        part = self.parts.get(name, self.parts["validation"])
        count = CONTROL_ROWS // (1 if name == "train" else 2)
        return np.sort(np.random.default_rng(0).permutation(np.unique(part.sentences))[:count])

    def _code_lengths(self, bank, items, statistics):
        """Returns the bits of the labels of the training items in each layer, for a bank of one member."""
        train_items, ends = portions_of(items["train"])
        validation, losses = items["validation"].some(slice(VALIDATION_ITEMS)), [np.zeros(len(bank.probes))]
        for start, end in itertools.pairwise(ends):
            train(bank, train_items.some(slice(start)), validation, statistics, [0], **self.options)
            found = answers(bank, train_items.some(slice(start, end)), _BATCH_SIZE)
            losses.append(found["loss"][:, :, 0].sum(axis=0))
        return description_length(losses, ends[0], bank.classes)

    def _answers(self, bank, items):
        """Returns what new probes of a bank answer for the test items."""
        statistics = items["train"].statistics()
        train(bank, items["train"], items["validation"], statistics, [0], **self.options)
        return answers(bank, items["test"], _BATCH_SIZE)


def control_labels(count, probabilities, seeds):
    """Returns random classes [count, seeds] of the different words, the labels of the control task of each seed.

    A probe can only learn them by remembering words (Hewitt and Liang 2019). They are as frequent as the real labels.
    """
    draws = (np.random.default_rng(seed).choice(len(probabilities), count, p=probabilities) for seed in seeds)
    return np.stack([*draws], axis=1)


def portions_of(items):
    """Returns items in a random order of their sentences, and the numbers of items at which the portions end."""
    sentences, which = np.unique(items.sentences, return_inverse=True)
    rank = np.random.default_rng(0).permutation(len(sentences))[which]
    order = np.argsort(rank, kind="stable")
    cuts = np.unique(np.maximum((np.array(PORTIONS) * len(sentences)).round().astype(int), 1))
    return items.some(order), np.searchsorted(rank[order], cuts)


def description_length(losses, first, num_classes):
    """Returns the bits of labels in the online code (Voita and Titov 2020, section 2.2).

    The first portion is coded with equal probabilities, and each of the others by a probe that was trained on all
    portions before it, with losses in nats. (The authors' code adds its nats to the bits of the first portion.)
    """
    return first * np.log2(num_classes) + np.sum(losses, axis=0, dtype="float64") / np.log(2)


def frequent_score(items, asked):
    """Returns the score of the labels that the key of each item has most often among others, or that all have."""
    real = slice(None if items.of_spans else 1)  # The other columns are of control tasks, or equal.
    labels, counts = [*map(tuple, items.labels[:, real].tolist())], defaultdict(Counter)
    for key, label in zip(items.keys.tolist(), labels):
        counts[key][label] += 1
    [(other, _)] = Counter(labels).most_common(1)
    found = {key: own.most_common(1)[0][0] for key, own in counts.items()}
    guessed, wanted = np.array([found.get(key, other) for key in asked.keys.tolist()]), asked.labels[:, real]
    if items.of_spans:
        return float(2 * (guessed * wanted).sum() / (guessed.sum() + wanted.sum()))
    return float((guessed == wanted).mean())
