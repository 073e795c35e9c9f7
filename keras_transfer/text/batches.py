"""Texts in memory as batches of ids, in a few fixed lengths, so that nothing is padded far and nothing recompiles."""

import keras
import numpy as np

from keras_transfer.text.inputs import to_columns
from keras_transfer.text.preprocessor import preprocess

MAX_LENGTHS = 6
STEP = 8  # lengths are multiples of it, so that two datasets often share them


class TextBatches(keras.utils.PyDataset):
    """A dataset that `fit`, `evaluate` and `predict` take; made by `batches`.

    Each item is `(inputs, labels, sample_weights)`, without labels `(inputs,)`. All batches have `batch_size` rows;
    the last one is filled up with rows of padding that have sample weight 0. Metrics must therefore be weighted
    (`weighted_metrics=` in a plain Keras `compile`; our tasks do that by themselves).

    Attributes:
        lengths: list of int, the sequence lengths that occur.
        order: int array, for each row of all batches in order the index of its text, or -1 for padding.
    """

    def __init__(self, inputs, labels, sample_weight, batch_size, lengths, shuffle, seed):
        super().__init__()
        self.inputs = inputs
        self.labels = labels
        self.sample_weight = sample_weight
        self.batch_size = batch_size
        self.shuffle = shuffle
        # Without a seed of its own it follows `keras.utils.set_random_seed`.
        self.random = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
        real = inputs["padding_mask"].sum(axis=1) if len(inputs["padding_mask"]) else np.zeros(0, int)
        longest = inputs["padding_mask"].shape[1]
        self.lengths = choose_lengths(real, longest) if lengths is None else sorted(lengths)
        self._bucket_of = np.searchsorted(self.lengths, real)
        self._plan()

    def _plan(self):
        """Deals the texts out to batches: full ones of each length; what is left over moves to the next length."""
        texts, left_over = [], np.zeros(0, int)
        for bucket in range(len(self.lengths)):
            here = np.flatnonzero(self._bucket_of == bucket)
            if self.shuffle:
                self.random.shuffle(here)
            here = np.concatenate([left_over, here])
            full = len(here) // self.batch_size * self.batch_size
            texts += [(self.lengths[bucket], rows) for rows in here[:full].reshape(-1, self.batch_size)]
            left_over = here[full:]
        if len(left_over):
            padding = np.full(self.batch_size - len(left_over), -1)
            texts.append((self.lengths[self._bucket_of[left_over].max()], np.concatenate([left_over, padding])))
        if self.shuffle:
            texts = [texts[i] for i in self.random.permutation(len(texts))]
        self._batches = _different_lengths_first(texts)

    @property
    def order(self):
        return np.concatenate([rows for _, rows in self._batches])

    @property
    def num_batches(self):
        return len(self._batches)

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        length, rows = self._batches[index]
        real = rows >= 0
        inputs = {key: np.where(real[:, None], ids[rows, :length], 0) for key, ids in self.inputs.items()}
        if self.labels is None:
            return (inputs,)
        weights = np.ones(len(rows), "float32") if self.sample_weight is None else self.sample_weight[rows]
        return inputs, self.labels[rows], np.where(real, weights, 0).astype("float32")

    def on_epoch_end(self):
        if self.shuffle:
            self._plan()

    def with_class_weight(self, class_weight):
        """Returns the same batches with each sample weight multiplied by its label's in the dict `class_weight`."""
        if self.labels is None:
            raise ValueError("class weights need labels. Received: batches without labels")
        if missing := sorted(set(np.unique(self.labels).tolist()) - set(class_weight)):
            raise ValueError(f"`class_weight` must name every label. Missing: {missing}. Received: {class_weight}")
        weights = np.array([class_weight[label] for label in self.labels.tolist()], "float32")
        weights = weights if self.sample_weight is None else weights * self.sample_weight
        same = object.__new__(type(self))
        same.__dict__.update(self.__dict__, sample_weight=weights)
        return same

    def restorer(self):
        """Returns a function that puts what `predict` gives for these batches into the order of the texts.

        It is made before `predict`, since another epoch deals the texts out anew.
        """
        rows = self.order
        at = np.argsort(rows, kind="stable")[np.count_nonzero(rows < 0) :]
        return lambda outputs: keras.tree.map_structure(lambda output: np.asarray(output)[at], outputs)


def batches(
    texts,
    labels=None,
    preprocessor=None,
    batch_size=32,
    shuffle=True,
    seed=None,
    sample_weight=None,
    lengths=None,
):
    """Turns texts and labels into a dataset for `fit`: preprocessed once, batched by length, shuffled every epoch.

    The number of batches is known (`len`), and their sequence lengths are at most six, chosen to waste the least
    padding, so that a compiled step is compiled at most six times.

    Args:
        texts: list, tuple, numpy array (object or `<U`) or pandas column of strings; for pairs of texts a tuple of
            two such.
        labels: [texts] ints, or what the loss takes; None for prediction.
        preprocessor: callable from texts to a dict of `token_ids`, `padding_mask` (and others), each [batch, length]:
            `model.preprocessor`, or KerasHub's.
        batch_size: int.
        shuffle: bool, whether batches are drawn anew each epoch.
        seed: int, for the same batches in every run.
        sample_weight: [texts] floats.
        lengths: list of at most six sequence lengths; None to choose them from the texts.

    Returns:
        A `TextBatches`.

    Raises:
        ValueError: there are no texts, some are not strings, or texts, labels and weights differ in number.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "where", "?"])
    train = keras_transfer.text.batches(["Who?", "Where?"], [0, 1], preprocessor, batch_size=2, seed=0)
    ```
    """
    if preprocessor is None:
        raise ValueError("`batches` needs a preprocessor, such as `model.preprocessor`. Received: None")
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}")
    texts = to_columns(texts)
    count = _count(texts)
    if count == 0:
        raise ValueError("there are no texts. Received: an empty dataset")
    labels = _column(labels, "labels", count)
    sample_weight = _column(sample_weight, "sample weights", count)
    inputs = _preprocess(texts, preprocessor)
    longest = int(inputs["padding_mask"].sum(axis=1).max())
    if lengths is not None and (len(lengths) > MAX_LENGTHS or max(lengths) < longest):
        raise ValueError(
            f"`lengths` must be at most {MAX_LENGTHS} and reach the longest text, of {longest} tokens. "
            f"Received: {lengths}"
        )
    return TextBatches(inputs, labels, sample_weight, batch_size, lengths, shuffle, seed)


def _preprocess(texts, preprocessor, chunk=4096):
    """Returns a dict of int32 arrays [texts, longest], padded as far as the longest text needs and no further."""
    chunks = []
    for start in range(0, _count(texts), chunk):
        part = slice(start, start + chunk)
        columns = tuple(t[part].tolist() for t in texts) if isinstance(texts, tuple) else texts[part].tolist()
        outputs = preprocess(preprocessor, columns)
        outputs = {key: np.asarray(value).astype("int32") for key, value in outputs.items()}  # [chunk, full length]
        longest = max(int(outputs["padding_mask"].sum(axis=1).max()), 1)
        longest = -(-longest // STEP) * STEP
        chunks.append({key: value[:, :longest] for key, value in outputs.items()})
    longest = max(chunk["padding_mask"].shape[1] for chunk in chunks)
    return {
        key: np.concatenate([np.pad(c[key], ((0, 0), (0, longest - c[key].shape[1]))) for c in chunks])
        for key in chunks[0]
    }


def choose_lengths(real, longest):
    """Returns at most six multiples of 8 (the last may be `longest`) that pad the texts the least.

    Args:
        real: int array, the number of real tokens of each text.
        longest: int, the largest length that the inputs have room for.

    Returns:
        Sorted list of int; the best split by dynamic programming over the candidates.
    """
    candidates = np.unique(np.minimum(-(-np.maximum(real, 1) // STEP) * STEP, longest))
    upto = np.concatenate([[0], np.searchsorted(np.sort(real), candidates, side="right")])
    # cost[k, j]: the fewest tokens with k lengths, the largest of which is candidate j - 1.
    size = len(candidates)
    cost = np.full((MAX_LENGTHS + 1, size + 1), np.inf)
    back = np.zeros((MAX_LENGTHS + 1, size + 1), int)
    cost[0, 0] = 0
    for k in range(1, MAX_LENGTHS + 1):
        for j in range(1, size + 1):
            options = cost[k - 1, :j] + (upto[j] - upto[:j]) * candidates[j - 1]
            back[k, j] = np.argmin(options)
            cost[k, j] = options[back[k, j]]
    k, j, chosen = int(np.argmin(cost[:, size])), size, []
    while j:
        chosen.append(int(candidates[j - 1]))
        k, j = k - 1, back[k, j]
    return chosen[::-1]


def _count(texts):
    return len(texts[0] if isinstance(texts, tuple) else texts)


def _column(values, name, count):
    if values is None:
        return None
    values = np.asarray(values)
    if len(values) != count:
        raise ValueError(f"there must be as many {name} as texts. Received: {len(values)} {name}, {count} texts")
    return values


def _different_lengths_first(texts):
    """Keras on TensorFlow reads off the first two batches which axes vary: they must differ in length if any do."""
    for i in range(1, len(texts)):
        if texts[i][0] != texts[0][0]:
            texts[1], texts[i] = texts[i], texts[1]
            break
    return texts
