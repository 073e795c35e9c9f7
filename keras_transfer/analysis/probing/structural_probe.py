"""The structural probe: how well a linear map of a layer's vectors gives the syntax tree of a sentence."""

import dataclasses
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.analysis.probing.trees import TREES, check_trees, spanning_tree, tree_depths, tree_distances
from keras_transfer.analysis.result import PlottedResult
from keras_transfer.analysis.significance import bootstrap_interval, spearman
from keras_transfer.analysis.stored_states import hidden_states
from keras_transfer.core.expect import POSITIVE, TEXT, NotApplicableError, expect, expects, integer, list_of, one_of
from keras_transfer.core.plots import BLUE, GREY, RED, STYLES, draw_lines, new_axes
from keras_transfer.data import UNUSED, Batches, Contents
from keras_transfer.datasets import Trees
from keras_transfer.keras_internals import predict_batch

log = logging.getLogger("keras_transfer")
_SPAN = 0.05  # The authors draw weights between this and its negative.
_DEVIATION, _SAMPLE = 0.25, 16384  # With this deviation of vectors, first distances have the size of those in trees.
_LENGTHS = range(5, 51)  # The authors average rank correlations over sentences of so many words.
_GOLD = {"distance": tree_distances, "depth": tree_depths}


@expects(target=one_of(*_GOLD), rank=integer(1), epochs=integer(1), batch_size=integer(1), learning_rate=POSITIVE)
@dataclasses.dataclass(frozen=True)
class StructuralProbe:
    """Finds syntax trees in the vectors of each layer (Hewitt and Manning 2019).

    A matrix `B` of each layer is trained such that the squared length of `B (x - y)` is the number of edges between two
    words of the tree, or that of `B x` is the depth of a word. The score shows what a linear map can read from the
    vectors, and not what the model uses.

    All layers are trained at once, each as it would be alone, on vectors that are scaled by a number. The learning rate
    falls to 0 along a cosine, and each probe keeps the weights of its best epoch. (The authors' rate falls in steps.)

    Args:
        target: String. `"distance"` or `"depth"`.
        rank: Integer. Number of rows of `B`. Defaults to `64`.
        epochs: Integer. Defaults to `20`.
        batch_size: Integer. Number of sentences in a batch. Defaults to `64`.
        learning_rate: Float. Learning rate of Adam in the beginning. Defaults to `1e-3`.
        layers: List of names of layers, or of their numbers, as for `hidden_states`. Defaults to `None`, all.

    Example:
    ```python
    words, relations, tags = ["Dogs", "bark"], ["nsubj", "root"], ["NOUN", "VERB"]
    trees = keras_transfer.datasets.Trees([words] * 8, [[2, 0]] * 8, [relations] * 8, [tags] * 8)
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    print(keras_transfer.analysis.StructuralProbe(rank=2, epochs=3).sweep(model, trees, verbose=0))
    ```

    Source: https://aclanthology.org/N19-1419
    """

    target: str = "distance"
    _: dataclasses.KW_ONLY
    rank: int = 64
    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 1e-3
    layers: Sequence | None = None

    @expects(train=TREES, validation=TREES, test=TREES, skip=list_of(TEXT))
    def sweep(
        self,
        model: keras.Model,
        train: Trees,
        validation: Trees | None = None,
        test: Trees | None = None,
        *,
        skip: Sequence[str] = ("PUNCT",),
        preprocessor: Any = None,
        folder: Any = None,
        verbose: str | int = "auto",
    ) -> "StructuralSweep":
        """Trains a probe for each layer, and scores it.

        Sentences that are too long for one row of inputs are left out, with a warning.

        Args:
            model: A task, or an encoder.
            train: `datasets.Trees` to train the probes.
            validation: `Trees` to choose the epoch. Defaults to `None`, a tenth of the sentences of `train`.
            test: `Trees` to score the probes. Defaults to `None`, the validation data.
            skip: List of strings. Tags of words that do not count in spanning trees, nor as the root. Defaults to
                `("PUNCT",)`.
            preprocessor: The preprocessor of the encoder. Defaults to `None`, that of the task.
            folder: String or path. Folder for the vectors, as for `hidden_states`. Defaults to `None`.
            verbose: `"auto"`, `0` (silent), `1` (progress bars) or `2` (lines). Defaults to `"auto"`.

        Returns:
            `StructuralSweep`.

        Raises:
            ValueError: If a sentence has no tree, or another number of heads or tags than words; if no sentence has two
                words that count; or if the encoder, its layers or words do not fit, as for `hidden_states`.
        """
        given = {"train": train, "validation": validation, "test": test}
        given = {name: trees for name, trees in given.items() if trees is not None}
        for name, trees in given.items():
            check_trees(trees, name)
            most = max(sum(tag not in skip for tag in tags) for tags in trees.tags)
            rule = f"`skip` must leave at least two words of a sentence of `{name}`."
            expect(most > 1, rule, error=NotApplicableError, skip=skip, most=most)
        if validation is None:
            rule = "Pass `validation`, or at least two sentences in `train`."
            expect(len(train.words) > 1, rule, train, error=NotApplicableError)
            order = np.random.default_rng(0).permutation(len(train.words))
            held_out, rest = np.split(order, [max(len(order) // 10, 1)])
            given |= {"train": _some(train, np.sort(rest)), "validation": _some(train, np.sort(held_out))}
        parts, options = {}, {"preprocessor": preprocessor, "layers": self.layers, "verbose": verbose}
        for name, trees in given.items():
            path = None if folder is None else pathlib.Path(folder) / name
            states = hidden_states(model, trees.words, folder=path, **options)
            whole = np.flatnonzero(states.whole)
            rule = f"`{name}` must have sentences that are read as one row."
            expect(len(whole), rule, trees, error=NotApplicableError)
            if left_out := len(states.whole) - len(whole):
                log.warning("%d of the sentences of `%s` need several rows, and are left out.", left_out, name)
            trees = _some(trees, whole)
            gold = [_GOLD[self.target](heads) for heads in trees.heads]
            parts[name] = states, trees, _batches(states, whole, gold, self.batch_size, name == "train")
        states, _, data = parts["train"]
        probes = self._train(states, data, parts["validation"][-1], verbose)
        scored = "validation" if test is None else "test"
        _, trees, data = parts[scored]
        found: list = [None] * len(trees.words)
        for rows, _, predicted in _predict(probes, data):
            for row, values in zip(rows, predicted):
                found[row] = values[(slice(None), *[slice(len(trees.words[row]))] * (values.ndim - 1))]
        return StructuralSweep(self.target, states.names, trees, found, skip, scored)

    def _train(self, states, train, validation, verbose):
        """Returns a model from the vectors of all layers to what its probes predict, each at its best epoch."""
        inputs, scales = {}, []
        for name, width in states.widths.items():
            values = states.column(name)
            inputs[name] = keras.Input((None, width), dtype=str(values.dtype), name=name)
            deviation = np.sqrt(values[:_SAMPLE].astype("float32").var(axis=0).mean())
            scales.append(_DEVIATION / max(float(deviation), 1e-6))
        layer = SquaredLengths(self.target, self.rank, scales)
        probes = keras.Model(inputs, layer([*inputs.values()]), name="structural_probes")
        rate = keras.optimizers.schedules.CosineDecay(self.learning_rate, self.epochs * len(train))
        probes.compile(keras.optimizers.Adam(rate), lambda *both: ops.sum(sentence_errors(*both), axis=1))
        least, best = np.full(len(scales), np.inf), layer.get_weights()
        bar = keras.utils.Progbar(self.epochs, verbose=1 if verbose == "auto" else verbose, unit_name="epoch")
        for epoch in range(self.epochs):
            train.epoch = epoch
            probes.fit(train.for_keras(), epochs=1, shuffle=False, verbose=0)
            errors = [ops.convert_to_numpy(sentence_errors(*both)) for _, *both in _predict(probes, validation)]
            found = np.concatenate(errors).mean(axis=0)
            rule = "The loss must be finite. Lower `learning_rate`, unless the vectors of the model are not finite."
            expect(np.isfinite(found).all(), rule, loss=dict(zip(states.names, found.tolist())))
            pairs = zip(found < least, layer.get_weights(), best)
            best = [kernel if better else old for better, kernel, old in pairs]
            least = np.minimum(least, found)
            bar.update(epoch + 1, [("validation_loss", found.mean())])
        layer.set_weights(best)
        return probes


def _some(trees, sentences):
    """Returns some of the sentences of trees, given their numbers."""
    return Trees(*([column[sentence] for sentence in sentences] for column in trees))


def _batches(states, sentences, gold, batch_size, shuffle):
    """Returns batches of the vectors of some sentences by layer, with the distances or depths of words as labels."""
    starts, counts = states.starts[sentences][:, None], states.counts[sentences][:, None]

    def item(batch, random):
        inputs, rows, _ = batch
        words = np.arange(inputs["padding_mask"].shape[1])
        places = starts[rows] + np.minimum(words, counts[rows] - 1)  # Padding is the last word again.
        labels = np.full((len(rows), *[len(words)] * gold[0].ndim), UNUSED, "float32")
        for place, row in enumerate(rows):
            own = gold[row][(slice(len(words)),) * gold[row].ndim]
            labels[(place, *map(slice, own.shape))] = own
        return {name: states.column(name)[places] for name in states.names}, labels

    mask = np.arange(counts.max()) < counts
    options = {"batch_size": batch_size, "shuffle": shuffle, "seed": 0, "contents": Contents(prepare=item)}
    data = Batches.of({"padding_mask": mask}, np.arange(len(gold)), **options)
    return data if shuffle else data.grouped()


def _predict(probes, data):
    """Yields `(rows, gold, predicted)` for each batch."""
    for number, (_, rows) in enumerate(data.planned()):
        inputs, gold = data[number]
        yield rows, gold, predict_batch(probes, inputs)


class SquaredLengths(keras.layers.Layer):
    """The squared lengths of the vectors of each layer after a linear map, or those of all differences.

    The vectors have the shape `[batch, words, dim]`, and the result `[batch, layers, words]`, or one axis more.
    """

    def __init__(self, target, rank, scales):
        super().__init__(dtype="float32")
        self.target, self.rank, self.scales = target, rank, scales

    def build(self, shapes):
        start = keras.initializers.RandomUniform(-_SPAN, _SPAN, seed=0)
        self.kernels = [
            self.add_weight((shape[-1], self.rank), start, name=f"kernel_{place}") for place, shape in enumerate(shapes)
        ]

    def call(self, inputs):
        found = []
        for x, scale, kernel in zip(inputs, self.scales, self.kernels):
            if self.target == "distance":  # Without what all words have in common, differences of products are exact.
                x = x - ops.mean(x, axis=1, keepdims=True)
            x = ops.matmul(x * scale, kernel)
            lengths = ops.sum(x * x, axis=-1)
            if self.target == "distance":
                products = ops.matmul(x, ops.swapaxes(x, 1, 2))
                lengths = lengths[:, :, None] + lengths[:, None] - 2 * products
            found.append(lengths)
        return ops.stack(found, axis=1)


def sentence_errors(gold, predicted):
    """Returns the mean absolute error of each probe in each sentence, `[batch, layers]`; gold padding is -1."""
    gold, predicted = ops.convert_to_tensor(gold)[:, None], ops.convert_to_tensor(predicted)
    used, axes = ops.cast(gold >= 0, "float32"), tuple(range(2, len(gold.shape)))
    return ops.sum(ops.abs(predicted - gold) * used, axis=axes) / ops.sum(used, axis=axes)


class StructuralSweep(PlottedResult):
    """How well probes of each layer find syntax trees, which `StructuralProbe.sweep` returns.

    `plot()` draws the score and the rank correlation of each layer.

    Attributes:
        rows: List of dicts, one for each layer. For distances, `uuas` is the share of the edges between words that the
            spanning tree of predicted distances has. For depths, `root_accuracy` is the share of sentences whose root
            has the least predicted depth. `low` to `high` is its 95% bootstrap interval over sentences. `spearman` is
            the rank correlation of predicted and true distances from each word, or of depths, averaged for sentences
            of each length and then over the lengths from 5 to 50.
        best: String. The layer with the best score.
        neighbors: Float. The UUAS of joining each word with the next, or `None` for depths.
        by_length: Dict from numbers of words, from 2, to the mean rank correlation of each layer, an array.
        trees: `datasets.Trees` of the sentences that were scored.
        predictions: List of arrays `[layers, words, words]` or, for depths, `[layers, words]`, one for each sentence.
    """

    title, index = "Structural probe", ("layer",)

    def __init__(self, target, layers, trees, predictions, skip, part):
        self.target, self.layers, self.trees, self.predictions = target, layers, trees, predictions
        self.score = "uuas" if target == "distance" else "root_accuracy"
        self._keep = [np.array([tag not in skip for tag in tags]) for tags in trees.tags]
        of_sentence = self._edges_found if target == "distance" else self._root_found
        found = [of_sentence(sentence) for sentence in range(len(predictions))]
        right, totals = (np.array(each) for each in zip(*((own, total) for own, total in found if total)))
        shares, right = right.sum(axis=0) / totals.sum(), right[:, -len(layers) :]
        low, high = bootstrap_interval(right, weights=totals)
        self.by_length = self._correlations()
        inside = [values for length, values in self.by_length.items() if length in _LENGTHS]
        correlations = np.mean(inside, axis=0) if inside else np.full(len(layers), np.nan)
        values = np.stack([shares[-len(layers) :], low, high, correlations], axis=1).tolist()
        names = (self.score, "low", "high", "spearman")
        self.rows = [{"layer": layer, **dict(zip(names, own))} for layer, own in zip(layers, values)]
        self.columns = {"layer": "", self.score: ".3f", "95% interval": (("low", "high"), ".3f"), "spearman": ".3f"}
        self.best = max(self.rows, key=lambda row: row[self.score])["layer"]
        self.neighbors = float(shares[0]) if target == "distance" else None
        self.notes = [f"{len(predictions)} sentences of the {part} data. Best layer: {self.best}."]
        if part == "validation":
            self.notes.append("The epochs were chosen on the same sentences. Pass `test` for others.")
        if target == "distance":
            self.notes.append(f"Joining each word with the next one scores {self.neighbors:.3f}.")

    def _edges_found(self, sentence):
        """Returns the number of edges that joining neighbors and each layer's probe find, and that of all."""
        keep, places = self._keep[sentence], np.arange(len(self._keep[sentence]))
        gold, steps = tree_distances(self.trees.heads[sentence]), np.abs(np.subtract.outer(places, places))
        edges, *found = (set(spanning_tree(own, keep)) for own in (gold, steps, *self.predictions[sentence]))
        return [len(edges & own) for own in found], len(edges)

    def _root_found(self, sentence):
        """Returns whether each layer's probe finds the root, and 1."""
        depths = self.predictions[sentence]
        if self._keep[sentence].any():
            depths = np.where(self._keep[sentence], depths, np.inf)
        return depths.argmin(axis=-1) == [*self.trees.heads[sentence]].index(0), 1

    def _correlations(self):
        found: dict = {}
        for heads, values in zip(self.trees.heads, self.predictions):
            if (count := len(heads)) > 1:
                rows, gold = values.reshape(-1, count), _GOLD[self.target](heads).reshape(-1, count)
                own = np.nan_to_num(spearman(rows, np.tile(gold, (len(values), 1))))
                found.setdefault(count, []).append(own.reshape(len(values), -1).mean(axis=1))
        return {count: np.mean(found[count], axis=0) for count in sorted(found)}

    def _draw(self, axes):
        places = range(len(self.rows))
        draw_lines(axes, places, self.rows, {self.score: self.score.replace("_", " "), "spearman": "Spearman"})
        if self.neighbors is not None:
            axes.axhline(self.neighbors, color=GREY, linewidth=1, label="each word joined with the next")
        axes.set_xticks(places, self.layers, rotation=30, ha="right")
        axes.figure.legend(frameon=False, loc="outside upper center", ncols=3)

    def plot_spearman(self) -> Any:
        """Plots the rank correlation of the lowest, the best and the highest layer by the length of the sentence.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes = new_axes()
        for number, layer in enumerate(dict.fromkeys([self.layers[0], self.best, self.layers[-1]])):
            values = [correlations[self.layers.index(layer)] for correlations in self.by_length.values()]
            axes.plot([*self.by_length], values, label=layer, **STYLES[number])
        axes.set(xlabel="words", ylabel="Spearman")
        axes.figure.legend(frameon=False, loc="outside upper center", ncols=3)
        return axes.figure

    def plot_tree(self, row: int = 0, layer: str | None = None) -> Any:
        """Plots the tree of a sentence above its words, and the spanning tree of predicted distances below.

        Args:
            row: Integer. The sentence. Defaults to `0`.
            layer: String. The layer. Defaults to `None`, the best one.

        Returns:
            A `matplotlib.figure.Figure`, in which edges that are not those of the tree are dashed.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If there is no such sentence or layer, or if the probes predict depths.
        """
        expect(self.target == "distance", "Trees require a probe of distances.", target=self.target)
        integer(0, len(self.predictions) - 1).check("row", row)
        layer = self.best if layer is None else one_of(*self.layers).check("layer", layer)
        words, keep = self.trees.words[row], self._keep[row]
        gold = spanning_tree(tree_distances(self.trees.heads[row]), keep)
        found = spanning_tree(self.predictions[row][self.layers.index(layer)], keep)
        ends = np.cumsum([0, *(len(word) + 2 for word in words)])
        centers = (ends[:-1] + ends[1:]) / 2
        axes, angles = new_axes(max(0.11 * ends[-1], 4), 3.6), np.linspace(0, np.pi, 40)
        for edges, side in ((gold, 1), (found, -1)):
            for i, j in edges:
                x = (centers[i] + centers[j]) / 2 + np.cos(angles) * (centers[j] - centers[i]) / 2
                line, color = ("-", BLUE) if (i, j) in gold else ("--", RED)
                axes.plot(x, side * (0.6 + np.sin(angles) * (j - i)), line, color=color)
        for word, center in zip(words, centers):
            axes.text(center, 0, word, ha="center", va="center", parse_math=False)
        axes.axis("off")
        axes.set_title(f"The tree above, {layer} below", parse_math=False)
        return axes.figure
