"""The structural probe: how well a linear map of a layer's vectors gives the syntax tree of a sentence."""

import dataclasses
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.analysis.probing.trees import (
    TREES,
    check_trees,
    rank_correlations,
    spanning_tree,
    tree_depths,
    tree_distances,
    uuas,
)
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.significance import bootstrap_interval
from keras_transfer.analysis.stored_states import StoredStates, hidden_states
from keras_transfer.core.expect import POSITIVE, TEXT, expect, expects, integer, list_of, one_of
from keras_transfer.core.plots import BLUE, GREY, RED, STYLES, new_axes
from keras_transfer.data import UNUSED, Batches, Contents
from keras_transfer.datasets import Trees
from keras_transfer.keras_internals import trace_predict

log = logging.getLogger("keras_transfer")
_SPAN = 0.05  # The authors draw weights between this and its negative.
_DEVIATION, _SAMPLE = 0.25, 1000  # With this deviation of vectors, first distances have the size of those in trees.
_LENGTHS = range(5, 51)  # The authors average rank correlations over sentences of so many words.


class StructuralProbe:
    """Finds syntax trees in the vectors of each layer (Hewitt and Manning 2019).

    A matrix `B` of each layer is trained such that the squared length of `B (x - y)` is the number of edges between two
    words of the tree, or that of `B x` is the depth of a word. The score shows what a linear map can read from the
    vectors, and not what the model uses.

    All layers and seeds are trained at once, each as it would be alone. The vectors of a layer are multiplied by one
    number, which `B` can undo, such that one learning rate fits all encoders. The rate falls to 0 along a cosine, and
    each probe keeps the weights of the epoch with its lowest validation loss. (The authors divide the rate by 10
    whenever that loss stalls.)

    Args:
        target: String. `"distance"` or `"depth"`.
        rank: Integer. Number of rows of `B`, at most the number of dimensions. Defaults to `64`.
        epochs: Integer. Defaults to `20`.
        batch_size: Integer. Number of sentences in a batch. Defaults to `64`.
        learning_rate: Float. Learning rate of Adam in the beginning. Defaults to `1e-3`.
        seeds: Integer. Number of probes of each layer, which differ in their initial values. Defaults to `1`.
        layers: List of names of layers, or of their numbers, as for `hidden_states`. Defaults to `None`, all.

    Example:
    ```python
    trees = keras_transfer.datasets.Trees(
        [["Dogs", "bark"], ["They", "bark", "loudly"]] * 8,
        [[2, 0], [2, 0, 2]] * 8,
        [["nsubj", "root"], ["nsubj", "root", "advmod"]] * 8,
        [["NOUN", "VERB"], ["PRON", "VERB", "ADV"]] * 8,
    )
    vectors = keras_transfer.checkpoints.WordVectors(["dogs", "they", "bark", "loudly"], np.eye(4))
    encoder = keras_transfer.encoders.WordVectorEncoder.from_vectors(vectors)
    preprocessor = keras_transfer.text.WordPreprocessor(vectors.words)
    probe = keras_transfer.analysis.StructuralProbe(rank=2, epochs=3)
    print(probe.sweep(encoder, trees, preprocessor=preprocessor, verbose=0))
    ```

    Source: https://aclanthology.org/N19-1419
    """

    @expects(
        target=one_of("distance", "depth"),
        rank=integer(1),
        epochs=integer(1),
        batch_size=integer(1),
        learning_rate=POSITIVE,
        seeds=integer(1),
    )
    def __init__(
        self,
        target: str = "distance",
        *,
        rank: int = 64,
        epochs: int = 20,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        seeds: int = 1,
        layers: Sequence | None = None,
    ):
        self.target, self.rank, self.epochs, self.batch_size = target, rank, epochs, batch_size
        self.learning_rate, self.seeds, self.layers = learning_rate, seeds, layers

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
        dtype: str | None = "float16",
        verbose: str | int = "auto",
    ) -> "StructuralSweep":
        """Trains a probe for each layer, and scores it.

        Sentences that are too long for one row of inputs are left out, with a warning.

        Args:
            model: A task, or an encoder.
            train: `datasets.Trees` to train the probes.
            validation: `Trees` to choose the epoch. Defaults to `None`, a tenth of the sentences of `train`.
            test: `Trees` to score the probes. Defaults to `None`, the validation data.
            skip: List of strings. Tags of words that do not count in spanning trees, nor as the root. The authors leave
                out punctuation by its tags in the Penn Treebank, `"''"`, `","`, `"."`, `":"`, "``", `"-LRB-"` and
                `"-RRB-"`: replace `tags` of the trees by `read_conllu(path, field="xpos").labels`. Defaults to
                `("PUNCT",)`.
            preprocessor: The preprocessor of the encoder. Defaults to `None`, that of the task.
            folder: String or path. Folder for the vectors, as for `hidden_states`. Both targets can use the same one,
                and that of `Probe.sweep` on the same sentences. Defaults to `None`, memory or temporary files.
            dtype: String. Dtype of the stored vectors. Defaults to `"float16"`. With `None`, they keep the model's.
            verbose: `"auto"`, `0` (silent), `1` (progress bars) or `2` (lines). Defaults to `"auto"`.

        Returns:
            `StructuralSweep`.

        Raises:
            ValueError: If a sentence has no tree, or another number of heads or tags than words; if `rank` is above the
                number of dimensions; or if the encoder, its layers or words do not fit, as for `hidden_states`.
        """
        options: dict[str, Any] = {"preprocessor": preprocessor, "layers": self.layers, "dtype": dtype}
        given, parts = {"train": train, "validation": validation, "test": test}, {}
        given = {name: trees for name, trees in given.items() if trees is not None}
        for name, trees in given.items():
            check_trees(trees, name)
            tags = {tag for own in trees.tags for tag in own}
            expect(tags - set(skip), f"`skip` must leave some words of `{name}`.", skip=skip, tags=sorted(tags))
        for name, trees in given.items():
            path = None if folder is None else pathlib.Path(folder) / name
            states = hidden_states(model, trees.words, folder=path, verbose=verbose, **options)
            parts[name] = _Part(states, trees, self.target, np.flatnonzero(states.whole))
            left_out = int((~states.whole).sum())
            if left_out:
                log.warning("%d of the sentences of `%s` need several rows, and are left out.", left_out, name)
        whole = parts["train"]
        narrow = min(whole.states.widths.values())
        expect(self.rank <= narrow, f"`rank` must be at most the number of dimensions, {narrow}.", rank=self.rank)
        if validation is None:
            order = np.random.default_rng(0).permutation(whole.sentences)
            count = max(len(order) // 10, 1)
            parts["train"], parts["validation"] = (
                dataclasses.replace(whole, sentences=np.sort(own)) for own in (order[count:], order[:count])
            )
        empty = [name for name, part in parts.items() if not len(part.sentences)]
        expect(not empty, "Each part must have sentences that are read as one row.", without=empty)
        scored = "validation" if test is None else "test"
        batches = {name: part.batches(self.batch_size, name == "train") for name, part in parts.items()}
        bank = self._bank(parts["train"])
        self._train(bank, batches["train"], batches["validation"], verbose)
        part = parts[scored]
        found: list = [None] * len(part.sentences)
        for rows, _, predicted in _predict(bank, batches[scored]):
            for row, values in zip(rows, predicted):
                words = [slice(part.states.counts[part.sentences[row]])] * (values.ndim - 1)
                found[row] = values[(slice(None), *words)].reshape(-1, self.seeds, *(each.stop for each in words))
        own = Trees(*([column[sentence] for sentence in part.sentences] for column in part.trees))
        return StructuralSweep(self.target, whole.states.names, own, found, tuple(skip), scored)

    def _bank(self, part):
        """Returns a model from the vectors of all layers to the squared lengths that all probes predict."""
        states, inputs, outputs = part.states, {}, []
        for name, width in states.widths.items():
            values = states.column(name)
            inputs[name] = keras.Input((None, width), dtype=str(values.dtype), name=name)
            some = [values[states.starts[i] : states.starts[i + 1]] for i in part.sentences[:_SAMPLE]]
            deviation = np.sqrt(np.concatenate(some).astype("float32").var(axis=0).mean())
            scale = _DEVIATION / max(float(deviation), 1e-6)
            outputs.append(SquaredLengths(self.target, self.rank, self.seeds, scale)(inputs[name]))
        return keras.Model(inputs, ops.concatenate(outputs, axis=1), name="structural_probes")

    def _train(self, bank, train, validation, verbose):
        """Trains all probes, and leaves each with the weights of its best epoch."""
        rate = keras.optimizers.schedules.CosineDecay(self.learning_rate, self.epochs * len(train))
        loss, layers = TreeLoss(), [layer for layer in bank.layers if isinstance(layer, SquaredLengths)]
        bank.compile(keras.optimizers.Adam(rate), loss)
        least, best = np.full((len(layers), self.seeds), np.inf), [ops.convert_to_numpy(own.kernel) for own in layers]
        bar = keras.utils.Progbar(self.epochs, verbose=1 if verbose == "auto" else verbose, unit_name="epoch")
        for epoch in range(self.epochs):
            train.epoch = epoch
            bank.fit(train.for_keras(), epochs=1, shuffle=False, verbose=0)
            errors = [loss.of_probes(gold, predicted) for _, gold, predicted in _predict(bank, validation)]
            found = np.concatenate([ops.convert_to_numpy(each) for each in errors]).mean(axis=0).reshape(least.shape)
            for place, layer in enumerate(layers):
                better = (found < least)[place][:, None, None]
                best[place] = np.where(better, ops.convert_to_numpy(layer.kernel), best[place])
            least = np.minimum(least, found)
            bar.update(epoch + 1, [("validation_loss", found.mean())])
        for layer, kernel in zip(layers, best):
            layer.kernel.assign(kernel)


@dataclasses.dataclass
class _Part:
    """Sentences with their vectors and trees, of which some are used."""

    states: StoredStates
    trees: Trees
    target: str
    sentences: np.ndarray

    def batches(self, batch_size, shuffle):
        """Returns batches of vectors by layer, with the distances or depths of the words as labels."""
        of = tree_distances if self.target == "distance" else tree_depths
        gold = [of(self.trees.heads[sentence]) for sentence in self.sentences]
        counts = self.states.counts[self.sentences]

        def item(batch, random):
            inputs, rows, _ = batch
            words = (slice(inputs.pop("padding_mask").shape[1]),) * gold[0].ndim
            labels = np.full((len(rows), *(each.stop for each in words)), UNUSED, "float32")
            for place, row in enumerate(rows):
                own = gold[row][words]
                labels[(place, *map(slice, own.shape))] = own
            return inputs, labels

        inputs: dict[str, Any] = {name: _Vectors(self.states, name, self.sentences) for name in self.states.names}
        inputs["padding_mask"] = np.arange(counts.max()) < counts[:, None]
        options = {"batch_size": batch_size, "shuffle": shuffle, "seed": 0}
        data = Batches.of(inputs, np.arange(len(gold)), contents=Contents(prepare=item), **options)
        return data if shuffle else data.grouped()


class _Vectors:
    """The vectors of a layer for some sentences, a column of `Batches`."""

    ndim = 3

    def __init__(self, states, name, sentences):
        self.values, self.dtype = states.column(name), states.column(name).dtype
        self.starts, self.ends = states.starts[sentences], states.starts[sentences + 1]

    def __getitem__(self, key):
        rows, words = key
        found = np.zeros((len(rows), words.stop, self.values.shape[-1]), self.dtype)
        for place, row in enumerate(rows):
            own = self.values[self.starts[row] : self.ends[row]][words]
            found[place, : len(own)] = own
        return found


def _predict(bank, data):
    """Yields `(rows, gold, predicted)` for each batch."""
    for number, (_, rows) in enumerate(data.planned()):
        inputs, gold = data[number]
        if number == 0:
            trace_predict(bank, (inputs,))
        yield rows, gold, bank.predict_on_batch(inputs)


class SquaredLengths(keras.layers.Layer):
    """The squared lengths of vectors `[batch, words, dim]`, or of their differences, after each of some linear maps.

    Args:
        target: String, `"distance"` for `[batch, seeds, words, words]`, or `"depth"` for `[batch, seeds, words]`.
        scale: Float, by which the vectors are multiplied.
    """

    def __init__(self, target, rank, seeds, scale):
        super().__init__(dtype="float32")
        self.target, self.rank, self.seeds, self.scale = target, rank, seeds, scale

    def build(self, shape):
        drawn = [np.random.default_rng(i).uniform(-_SPAN, _SPAN, (shape[-1], self.rank)) for i in range(self.seeds)]
        self.kernel = self.add_weight((self.seeds, shape[-1], self.rank), name="kernel")
        self.kernel.assign(np.stack(drawn))

    def call(self, inputs):
        x = inputs * self.scale
        if self.target == "distance":  # Without what all words have in common, differences of products are exact.
            x = x - ops.mean(x, axis=1, keepdims=True)
        kernel = ops.reshape(ops.transpose(self.kernel, (1, 0, 2)), (-1, self.seeds * self.rank))
        x = ops.reshape(ops.matmul(x, kernel), (*ops.shape(x)[:2], self.seeds, self.rank))
        x = ops.transpose(x, (0, 2, 1, 3))
        lengths = ops.sum(x * x, axis=-1)
        if self.target == "depth":
            return lengths
        products = ops.matmul(x, ops.transpose(x, (0, 1, 3, 2)))
        return lengths[..., None] + lengths[..., None, :] - 2 * products

    def compute_output_spec(self, inputs):
        batch, words, _ = inputs.shape
        return keras.KerasTensor((batch, self.seeds, *[words] * (2 if self.target == "distance" else 1)), "float32")


class TreeLoss(keras.losses.Loss):
    """The mean absolute error of distances or depths in each sentence, averaged over sentences, summed over probes."""

    def of_probes(self, gold, predicted):
        """Returns the errors `[batch, probes]`, given labels, which are negative for padding, and predictions."""
        gold = ops.convert_to_tensor(gold)[:, None]
        used = ops.cast(gold >= 0, "float32")
        axes = tuple(range(2, len(gold.shape)))
        return ops.sum(ops.abs(predicted - gold) * used, axis=axes) / ops.sum(used, axis=axes)

    def call(self, y_true, y_pred):
        return ops.sum(self.of_probes(y_true, y_pred), axis=1)


class StructuralSweep(Result):
    """How well probes of each layer find syntax trees, which `StructuralProbe.sweep` returns.

    Args:
        target: String. `"distance"` or `"depth"`.
        layers: List of strings. The names of the layers.
        trees: `datasets.Trees` of the sentences that are scored.
        predictions: List of arrays `[layers, seeds, words, words]` or `[layers, seeds, words]`, one for each sentence.
        skip: Tuple of strings. Tags of words that do not count.
        part: String. `"test"`, or `"validation"` if the epochs were chosen on the same sentences.

    Attributes:
        rows: List of dicts, one for each layer. For distances, `uuas` is the share of the edges between words that the
            spanning tree of predicted distances has. For depths, `root_accuracy` is the share of sentences whose root
            is the word with the least predicted depth. `low` and `high` are the limits of its 95% interval, from a
            bootstrap over sentences, and `seeds_std` is its deviation between seeds, `None` for one seed. `spearman` is
            the rank correlation of predicted and true distances from each word, or of depths, averaged for sentences of
            each length and then over the lengths from 5 to 50, NaN without such sentences.
        best: String. The layer with the best score.
        neighbors: Float. The UUAS of joining each word with the next, or `None` for depths.
        by_length: Dict from numbers of words to the mean rank correlation of each layer, an array.
    """

    title, index = "Structural probe", ("layer",)

    def __init__(self, target, layers, trees, predictions, skip, part):
        self.target, self.layers, self.trees, self.predictions, self._part = target, layers, trees, predictions, part
        self.score = "uuas" if target == "distance" else "root_accuracy"
        self._keep = [np.array([tag not in skip for tag in tags]) for tags in trees.tags]
        of_sentence = self._edges_found if target == "distance" else self._root_found
        found = [of_sentence(sentence) for sentence in range(len(predictions))]
        right, totals = np.array([own for own, _ in found], float), np.array([total for _, total in found])
        scores = right.sum(axis=0) / totals.sum()  # [layers, seeds]
        shares = right.mean(axis=2) / np.maximum(totals, 1)[:, None]
        sentences = np.repeat(np.arange(len(totals)), totals)
        low, high = bootstrap_interval(shares[sentences], np.unique(sentences, return_inverse=True)[1])
        self.by_length = self._correlations()
        inside = [values for length, values in self.by_length.items() if length in _LENGTHS]
        spearman = np.mean(inside, axis=0) if inside else np.full(len(layers), np.nan)
        self.neighbors = None
        if target == "distance":
            steps = [np.abs(np.subtract.outer(np.arange(len(own)), np.arange(len(own)))) for own in trees.words]
            self.neighbors = uuas(steps, trees.heads, self._keep)
        self.rows = [
            {
                "layer": layer,
                self.score: float(scores[i].mean()),
                "low": float(low[i]),
                "high": float(high[i]),
                "seeds_std": float(scores[i].std(ddof=1)) if scores.shape[1] > 1 else None,
                "spearman": float(spearman[i]),
            }
            for i, layer in enumerate(layers)
        ]
        self.columns = {
            "layer": ("layer", ""),
            self.score: (self.score, ".3f"),
            "95% interval": (("low", "high"), ".3f"),
            "seeds std": ("seeds_std", ".3f"),
            "spearman": ("spearman", ".3f"),
        }
        self.best = max(self.rows, key=lambda row: row[self.score])["layer"]

    def _edges_found(self, sentence):
        """Returns the number of edges that each probe finds, [layers, seeds], and that of all."""
        keep, gold = self._keep[sentence], tree_distances(self.trees.heads[sentence])
        edges = set(spanning_tree(gold, keep))
        found = [[len(edges & set(spanning_tree(own, keep))) for own in seeds] for seeds in self.predictions[sentence]]
        return found, len(edges)

    def _root_found(self, sentence):
        """Returns whether each probe finds the root, [layers, seeds], and 1."""
        depths = self.predictions[sentence]
        if self._keep[sentence].any():
            depths = np.where(self._keep[sentence], depths, np.inf)
        return depths.argmin(axis=-1) == [*self.trees.heads[sentence]].index(0), 1

    def _correlations(self):
        of = tree_distances if self.target == "distance" else tree_depths
        found: dict = {}
        for heads, values in zip(self.trees.heads, self.predictions):
            gold, count = np.atleast_2d(of(heads)), len(heads)
            rows = rank_correlations(values.reshape(-1, count), np.tile(gold, (values.size // gold.size, 1)))
            found.setdefault(count, []).append(rows.reshape(len(self.layers), -1).mean(axis=1))
        return {count: np.mean(found[count], axis=0) for count in sorted(found)}

    def _notes(self):
        notes = [f"{len(self.predictions)} sentences of the {self._part} data. Best layer: {self.best}."]
        if self._part == "validation":
            notes.append("The epochs were chosen on the same sentences. Pass `test` for others.")
        if self.neighbors is not None:
            notes.append(f"Joining each word with the next one scores {self.neighbors:.3f}.")
        return notes

    def plot(self) -> Any:
        """Plots the score and the rank correlation of each layer.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes, places = new_axes(), range(len(self.rows))
        score, spearman, low, high = (
            [row[name] for row in self.rows] for name in (self.score, "spearman", "low", "high")
        )
        axes.fill_between(places, low, high, color=STYLES[0]["color"], alpha=0.2, linewidth=0)
        axes.plot(places, score, label="UUAS" if self.target == "distance" else "root accuracy", **STYLES[0])
        axes.plot(places, spearman, label="Spearman", **STYLES[1])
        if self.neighbors is not None:
            axes.axhline(self.neighbors, color=GREY, linewidth=1, label="each word joined with the next")
        axes.set_xticks(places, self.layers, rotation=30, ha="right")
        axes.figure.legend(frameon=False, loc="outside upper center", ncols=3)
        return axes.figure

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
        axes.set_xlabel("words")
        axes.set_ylabel("Spearman")
        axes.figure.legend(frameon=False, loc="outside upper center", ncols=3)
        return axes.figure

    def plot_tree(self, row: int = 0, layer: str | None = None) -> Any:
        """Plots the tree of a sentence above its words, and the spanning tree of predicted distances below.

        Args:
            row: Integer. The sentence. Defaults to `0`.
            layer: String. The layer. Defaults to `None`, the best one.

        Returns:
            A `matplotlib.figure.Figure`. Below the words, the edges of the tree are solid, and others are dashed.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If there is no such sentence or layer, or if the probes predict depths.
        """
        expect(self.target == "distance", "Trees require a probe of distances.", target=self.target)
        integer(0, len(self.predictions) - 1).check("row", row)
        layer = self.best if layer is None else one_of(*self.layers).check("layer", layer)
        words, keep = self.trees.words[row], self._keep[row]
        gold = spanning_tree(tree_distances(self.trees.heads[row]), keep)
        found = spanning_tree(self.predictions[row][self.layers.index(layer)][0], keep)
        ends = np.cumsum([0, *(len(word) + 2 for word in words)])
        centers = (ends[:-1] + ends[1:]) / 2
        axes = new_axes(max(0.11 * ends[-1], 4), 3.6)
        for edges, side in ((gold, 1), (found, -1)):
            for i, j in edges:
                angles = np.linspace(0, np.pi, 40)
                x = (centers[i] + centers[j]) / 2 + np.cos(angles) * (centers[j] - centers[i]) / 2
                right = (i, j) in gold
                axes.plot(
                    x, side * (0.6 + np.sin(angles) * (j - i)), "-" if right else "--", color=BLUE if right else RED
                )
        for word, center in zip(words, centers):
            axes.text(center, 0, word, ha="center", va="center", parse_math=False)
        axes.axis("off")
        axes.set_title(f"The tree above, {layer} below", parse_math=False)
        return axes.figure
