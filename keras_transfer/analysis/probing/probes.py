"""Probes: small classifiers that show in which layers of an encoder a property of words or texts can be read."""

import dataclasses
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis.probing.bank import EdgeBank, Items, ProbeBank, answers, steps_of, train
from keras_transfer.analysis.probing.controls import code_lengths, code_steps, control_labels, frequent_labels
from keras_transfer.analysis.probing.sweeps import MIX, LayerSweep
from keras_transfer.analysis.stored_states import (
    PIECES,
    POOLINGS,
    hidden_states,
    random_weights,
    subject_of,
)
from keras_transfer.core.expect import FLAG, POSITIVE, expect, expects, integer, list_of, one_of, optional
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
        kind: String, `"token"` for labels of words, `"sentence"` for labels of texts, or `"edge"` for labels of spans
            of words or of pairs of spans. Defaults to `"token"`.
        hidden_dim: Integer. Width of a hidden layer with ReLU, or for edges of the MLP. Defaults to `None`, linear
            probes, or for edges 256.
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
    https://arxiv.org/abs/1905.05950 (the mix), https://arxiv.org/abs/1905.06316 (edge probes, of which it has the
    model of jiant 1: a projection and a pooling by attention for each span, then an MLP with sigmoids)
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
    ) -> LayerSweep:
        """Trains the probes of all layers, and returns their scores.

        The hidden states are computed once and stored. Only classes that occur in the training data can be answered.

        Args:
            model: A task, or an encoder.
            train: Tuple `(sentences, labels)`: for `"token"`, lists of words and lists of labels, such as a part of
                `load_universal_dependencies`; for `"sentence"`, texts (or a tuple of two columns) and labels. Labels
                are names or integers. For `"edge"`, `(sentences, spans, labels)`: for each sentence a list of spans
                `(start, end)`, ends exclusive, or of pairs of spans, and a list with a label, or a list of labels, for
                each.
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
        labels: List of tuples of strings, the labels of each item.
        sentences: Integer array [items].
        spans: List of lists of `(start, end)`, for edges.
    """

    x: Any
    keys: list
    labels: list
    sentences: np.ndarray
    spans: list | None = None

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
    columns, of_words = _COLUMNS[kind], kind != "sentence"
    fits = isinstance(data, (tuple, list)) and len(data) == len(columns) and is_sentences(data[0]) == of_words
    rule = f"`{name}` must be a tuple of {', '.join(columns)} for a probe of the kind {kind!r}."
    expect(fits, rule, **{name: data})
    x, *others, labels = data
    x, spans, found = to_sentences(x) if of_words else to_columns(x), None, [list(own) for own in others]
    if of_words:
        labels = [list(own) for own in labels]
        keys, counts = [word for words in x for word in words], [len(words) for words in x]
    else:
        keys = list(zip(*x)) if isinstance(x, tuple) else x.tolist()
        x, labels = tuple(map(list, x)) if isinstance(x, tuple) else keys, [[label] for label in labels]
        counts = [1] * len(keys)
    rule = f"`{name}` must have as many {columns[-1]} as {columns[0]}."
    expect(len(labels) == len(counts), rule, **{columns[0]: len(counts), "labels": len(labels)})
    if kind == "edge":
        rule = f"`{name}` must have as many spans as sentences."
        expect(len(found[0]) == len(x), rule, sentences=len(x), spans=len(found[0]))
        spans = [_spans(own, words, place, name) for place, (own, words) in enumerate(zip(found[0], x))]
        counts = [len(own) for own in spans]
        keys = [tuple(tuple(words[s:e]) for s, e in edge) for words, own in zip(x, spans) for edge in own]
        spans = [edge for own in spans for edge in own]
        expect(
            len(set(map(len, spans))) <= 1, f"`{name}` must have pairs of spans, or single ones, not both.", spans=spans
        )
    place = next((i for i, (count, own) in enumerate(zip(counts, labels)) if count != len(own)), 0)
    rule = f"Each sentence of `{name}` must have as many labels as {'spans' if kind == 'edge' else 'words'}."
    expect(counts[place] == len(labels[place]), rule, sentence=place, expected=counts[place], labels=len(labels[place]))
    flat = [label for own in labels for label in own]
    flat = [tuple(own) if isinstance(own, (list, tuple)) and kind == "edge" else (own,) for own in flat]
    names_in([label for own in flat for label in own])  # Raises an error for other labels.
    flat = [tuple(str(label) for label in own) for own in flat]
    return _Part(x, keys, flat, np.repeat(np.arange(len(counts)), counts), spans)


def _spans(edges, words, place, name):
    """Returns the edges of a sentence as lists of `(start, end)`, one or two."""
    found = []
    for edge in edges:
        own = [tuple(span) for span in edge] if isinstance(edge[0], (list, tuple)) else [tuple(edge)]
        fits = all(len(span) == 2 and 0 <= span[0] < span[1] <= len(words) for span in own)
        rule = f"Spans of sentence {place} of `{name}` must be (start, end), in which 0 <= start < end <= {len(words)}."
        expect(fits, rule, span=edge)
        found.append(own)
    return found


class _Sweep:
    """The data of a sweep, and the steps that make the columns of its table."""

    def __init__(self, probe, parts, subject, folder, verbose):
        self.probe, self.parts, self.folder, self.verbose = probe, parts, folder, verbose
        self.encoder, self.preprocessor = subject
        self.classes = names_in([label for own in parts["train"].labels for label in own])
        expect(len(self.classes) > 1, "`train` must have labels of at least two classes.", classes=self.classes)
        self.controls = CONTROLS[probe.kind] if probe.controls is None else tuple(probe.controls)
        self.seeds = list(range(probe.seeds))
        self.options = {name: getattr(probe, name) for name in ("epochs", "batch_size", "learning_rate")}

    def run(self):
        """Returns the `LayerSweep`."""
        items = self._items()
        asked, widths = items["test"], list(items["train"].states.widths.values())
        mixes = self.probe.scalar_mix and len(set(widths)) == 1 < len(widths)
        has_control, real = "selectivity" in self.controls, items
        sizes: dict[str, Any] = {"classes": len(self.classes), "hidden_dim": self.probe.hidden_dim, "mixes": mixes}
        if self.probe.kind == "edge":
            sizes["spans"] = asked.places.shape[1]
        else:
            real = {name: dataclasses.replace(own, labels=own.labels[:, :1]) for name, own in items.items()}
        kind = EdgeBank if self.probe.kind == "edge" else ProbeBank
        bank, single = (kind(widths, members, **sizes) for members in (len(self._members()), 1))
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
            known = map(tuple, real["train"].labels.tolist())
            guessed = frequent_labels(items["train"].keys.tolist(), list(known), asked.keys.tolist())
            sweep._add_word_types(np.array(guessed), real["test"].labels)
        return sweep

    def _items(self):
        """Returns the `Items` of the parts `"train"`, `"validation"` and `"test"`."""
        states = {name: self._states(self.encoder, part.x, name) for name, part in self.parts.items()}
        numbers, found, labels = {}, {}, self._labels()
        for name, part in self.parts.items():
            keys = np.array([numbers.setdefault(key, len(numbers)) for key in part.keys])
            places = np.arange(len(part.labels)) if part.spans is None else _places(part, states[name])
            own = Items(states[name], places, labels[name], part.sentences, keys, part.texts)
            found[name] = own if part.spans is None else _whole(own, name)
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
        if self.probe.kind == "edge":
            found = {name: np.zeros((len(part.labels), len(known)), "int32") for name, part in self.parts.items()}
            for name, part in self.parts.items():
                for row, own in zip(found[name], part.labels):
                    row[[known[label] for label in own if label in known]] = 1
            return found
        real = [np.array([known.get(label, -1) for [label] in part.labels]) for part in self.parts.values()]
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


def _places(part, states):
    """Returns the places of the words of spans, [items, spans, width], negative where there is none."""
    width = max(end - start for edge in part.spans for start, end in edge)
    found = np.full((len(part.spans), len(part.spans[0]), width), -1)
    for place, (edge, sentence) in enumerate(zip(part.spans, part.sentences)):
        for number, (start, end) in enumerate(edge):
            found[place, number, : end - start] = states.starts[sentence] + np.arange(start, end)
    return found


def _whole(items, name):
    """Returns the items of sentences that are one row, with a warning about the others."""
    whole = items.states.whole[items.sentences]
    if not whole.all():
        count = len(np.unique(items.sentences[~whole]))
        log.warning("%d sentences of `%s` are too long for one row, and are left out.", count, name)
    return items.some(whole)
