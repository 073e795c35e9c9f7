"""The hidden states of an encoder for words or texts, computed once for all layers, and stored."""

import random
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import (
    NotApplicableError,
    expect,
    expects,
    instance_of,
    integer,
    list_of,
    one_of,
    optional,
)
from keras_transfer.data import (
    Batches,
    Contents,
    Layout,
    StoredRows,
    fingerprint_of,
    preprocess_words,
    real_lengths,
    store_rows,
)
from keras_transfer.data import batches as text_batches
from keras_transfer.encoders import Encoder, encode, is_quantized, named_hidden_states, token_states
from keras_transfer.layers import SequencePooling, TakePositions
from keras_transfer.tasks import Task
from keras_transfer.text import PlainText, check_word_level, is_sentences, is_text, to_sentences

PIECES, POOLINGS = ("first", "last", "mean"), ("mean", "first", "max", "last")
_MEMORY = 2**30  # Bytes above which vectors are in temporary files.
_NEIGHBORS = 64  # Items that stay together when the order is shuffled, so that files are read in long pieces.
_LAYERS = list_of(instance_of((str, int), "a name or a number of a layer"), 1)


class StoredStates:
    """The vectors of each layer for all words of some sentences, or for some texts, which `hidden_states` returns.

    Attributes:
        names: List of strings. The layers from the lowest: `"embeddings"`, each block, and `"output"` if the encoder's
            output is not that of its last block.
        widths: Dict from names to integers, the number of dimensions.
        starts: Integer array `[sentences + 1]`. Position of the first word of each sentence among all words.
        whole: Boolean array `[sentences]`. Whether the encoder has read the sentence as one row.
    """

    def __init__(self, rows: dict[str, StoredRows], counts: Any, layout: Layout | None = None):
        self._rows, self.layout = rows, layout
        self.names, self.counts = list(rows), np.asarray(counts)
        self.widths = {name: column.shape[-1] for name, column in rows.items()}
        self.starts = np.concatenate([[0], np.cumsum(self.counts)])
        number = np.ones(len(self.counts)) if layout is None else np.bincount(layout.owner, minlength=len(self.counts))
        self.whole = number == 1

    def __len__(self):
        return int(self.starts[-1])

    def __repr__(self):
        kind = "texts" if self.layout is None else f"words of {len(self.counts)} sentences"
        return f"StoredStates({len(self)} {kind}, {self.names})"

    def column(self, name: str) -> np.ndarray:
        """Returns the vectors of a layer as they are stored.

        Args:
            name: String. Name of the layer.

        Returns:
            Array or memory map `[items, dim]` with an item for each word or text, in order.
        """
        return self._rows[name].values

    def flat(self, items: Any) -> dict[str, np.ndarray]:
        """Returns the vectors of some words or texts.

        Args:
            items: Integer array, list or slice. Their positions among all words or texts.

        Returns:
            Dict from the names of the layers to float32 arrays `[items, dim]`.
        """
        return {name: np.asarray(column.values[items], "float32") for name, column in self._rows.items()}

    def sentence(self, index: int) -> dict[str, np.ndarray]:
        """Returns the vectors of the words of a sentence.

        Args:
            index: Integer. The position of the sentence.

        Returns:
            Dict from the names of the layers to float32 arrays `[words, dim]`.
        """
        return self.flat(slice(self.starts[index], self.starts[index + 1]))


def blocks(total, count, seed=None, epoch=0):
    """Yields blocks `(items, weights)`, both `[count]`, of the numbers below `total`, in order or shuffled by a seed.

    Neighbors stay together. The weights are 1, and 0 for the numbers that fill the last block.
    """
    order = np.arange(total)
    if seed is not None:
        size = min(_NEIGHBORS, max(total // _NEIGHBORS, 1))
        pieces = np.random.default_rng([seed, epoch]).permutation(-(-total // size))
        order = (pieces[:, None] * size + np.arange(size)).ravel()
        order = order[order < total]
    for start in range(0, total, count):
        own = order[start : start + count]
        filled = np.resize(own, count)
        yield filled, (np.arange(count) < len(own)).astype("float32")


class PieceMeans(keras.layers.Layer):
    """The mean of the vectors `[batch, length, dim]` from each of some positions `[batch, places]` to another."""

    def call(self, inputs, positions, last):
        steps = ops.arange(ops.shape(inputs)[1], dtype="int32")[None, None]
        inside = ops.logical_and(steps >= positions[:, :, None], steps <= last[:, :, None])
        weights = ops.cast(inside, inputs.dtype)
        return ops.matmul(weights / ops.maximum(ops.sum(weights, axis=-1, keepdims=True), 1), inputs)

    def compute_output_spec(self, inputs, positions, last):
        return keras.KerasTensor((*positions.shape, inputs.shape[-1]), self.compute_dtype)


def subject_of(model, preprocessor=None):
    """Returns the encoder of a task, or an encoder, and the preprocessor for it."""
    is_task = isinstance(model, Task)
    encoder = model.encoder if is_task else model
    expect(isinstance(encoder, keras.Model), "`model` must be a task or an encoder.", model=model)
    preprocessor = preprocessor or (model.preprocessor if is_task else None)
    names = list(encoder.input) if isinstance(encoder.input, dict) else []
    if preprocessor is None and names == ["text"]:  # A TF Hub module.
        preprocessor = PlainText()
    rule = "An encoder does not hold its preprocessor. Pass `preprocessor`, or a task with one."
    expect(callable(preprocessor), rule, preprocessor=preprocessor)
    return encoder, preprocessor


def layers_of(encoder):
    """Returns the symbolic outputs of the layers of an encoder by name, and whether they have an axis of tokens."""
    encoded = encode(encoder)
    if encoded.sequence is None:
        return {"output": encoded.pooled}, False
    token_states(encoder)
    states = named_hidden_states(encoder)
    # The hidden states of some Transformers are those before the final norm.
    same = any(state is encoded.sequence for state in states.values())
    return states if same else {**states, "output": encoded.sequence}, True


def check_one_row(preprocessor, inputs):
    """Raises an error if a text has several windows, each of which an encoder reads alone."""
    window = getattr(preprocessor, "window_length", None)
    rule = "Hidden states and attention are those of one window. Pass shorter texts, or a model without `windows`."
    fits = window is None or real_lengths(inputs).max() <= window
    expect(fits, rule, error=NotApplicableError, window_length=window)


@expects(
    pieces=one_of(*PIECES),
    pooling=one_of(*POOLINGS),
    layers=optional(_LAYERS),
    dtype=one_of("float16", None),
    batch_size=integer(1),
)
def hidden_states(
    model: keras.Model,
    x: Any,
    *,
    preprocessor: Any = None,
    pieces: str = "first",
    pooling: str = "mean",
    layers: Sequence | None = None,
    folder: Any = None,
    dtype: str | None = "float16",
    batch_size: int = 32,
    verbose: str | int = "auto",
) -> StoredStates:
    """Runs an encoder once over sentences or texts, and returns the vectors of all of its layers.

    A sentence has one vector for each word in each layer, and a text has one. A sentence that is too long is read in
    overlapping rows, and each word has the vector of the row in which it has the most context.

    Args:
        model: A task, or an encoder.
        x: List of sentences, which are lists of words; or a list of texts, or for pairs a tuple of two.
        preprocessor: The preprocessor of the encoder. Defaults to `None`, that of the task.
        pieces: String. The vector of a word, that of its `"first"` or `"last"` piece, or the `"mean"` of all. Defaults
            to `"first"`.
        pooling: String. The vector of a text, `"mean"`, `"first"`, `"max"` or `"last"` over its tokens. Defaults to
            `"mean"`.
        layers: List of names of layers, or of their numbers, of which 0 is the lowest. Defaults to `None`, all.
        folder: String or path. Folder for the vectors, which a later call with the same model and data reuses, or
            completes if the earlier one was killed. Defaults to `None`, memory, or temporary files above 1 GiB.
        dtype: String. Dtype of the stored vectors, or `None` for that of the model. Defaults to `"float16"`.
        batch_size: Integer. Number of sentences in a batch. Defaults to `32`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        `StoredStates`.

    Raises:
        ValueError: If there is no preprocessor, if `x` is empty or neither sentences nor texts, if the encoder has no
            hidden states or no such layer, if a text has several windows, or if vectors exceed the range of float16.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    states = keras_transfer.analysis.hidden_states(model, [["A", "fine", "film"], ["Films"]])
    states.sentence(0)["block_0"]  # an array with a row for each word
    ```
    """
    encoder, preprocessor = subject_of(model, preprocessor)
    tensors, has_tokens = layers_of(encoder)
    if layers is not None:
        names = list(tensors)
        chosen = [names[n] if isinstance(n, int) and -len(names) <= n < len(names) else n for n in layers]
        unknown = [name for name in chosen if name not in tensors]
        expect(not unknown, f"`layers` must be some of {names}, or their numbers.", layers=unknown)
        tensors = {name: tensor for name, tensor in tensors.items() if name in chosen}
    own = encoder.input if isinstance(encoder.input, dict) else {tensor.name: tensor for tensor in encoder.inputs}
    rule = "`x` must be a list of sentences, which are lists of words, or of texts."
    expect(is_sentences(x) or is_text(x), rule, x=x)
    expect(len(x[0] if isinstance(x, tuple) else x) > 0, "`x` must not be empty.", x=x)
    if is_sentences(x):
        rule = "The encoder returns one vector for each text, and none for words. Pass texts."
        expect(has_tokens, rule, error=NotApplicableError, x=type(x))
        check_word_level(preprocessor)
        data, layout, counts, ends = _of_words(to_sentences(x), preprocessor, pieces, batch_size)
        names = [name for name in ("word_positions", "last_positions") if name in data.inputs]
        places = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        take: Any = (PieceMeans if pieces == "mean" else TakePositions)(dtype="float32")
        outputs = {name: take(tensor, *places.values()) for name, tensor in tensors.items()}
        inputs = {**own, **places}
    else:
        data = text_batches(x, preprocessor=preprocessor, batch_size=batch_size)
        check_one_row(preprocessor, data.inputs)
        counts, layout, ends, inputs = np.ones(len(data.real), int), None, None, own
        pool = SequencePooling(pooling, dtype="float32")
        masks = {"padding_mask": own["padding_mask"]} if "padding_mask" in own else {}
        outputs = {name: pool(state, **masks) if has_tokens else state for name, state in tensors.items()}
    lower = keras.Model(inputs, outputs, name="hidden_states")
    settings = {"encoder": encoder.get_config(), "pooling": pooling} if isinstance(encoder, Encoder) else None
    fingerprint = fingerprint_of(lower, settings)
    rows = store_rows(lower, data, fingerprint, folder, dtype, _MEMORY, verbose, ends)
    return StoredStates(rows, counts, layout)


def _of_words(sentences, preprocessor, pieces, batch_size):
    """Returns `Batches` with the places of words, the layout, and the numbers of words of sentences and of rows."""
    inputs, layout = preprocess_words(sentences, preprocessor)
    length, ends = inputs["padding_mask"].shape[1], np.bincount(layout.row, minlength=len(layout.owner))
    place = np.arange(len(layout.row)) - np.repeat(np.cumsum(ends) - ends, ends)
    columns = {"word_positions": layout.position}
    if pieces != "first":
        last = _last_pieces(sentences, preprocessor, layout, real_lengths(inputs))
        columns = {"word_positions": last} if pieces == "last" else {**columns, "last_positions": last}
    for name, values in columns.items():
        inputs[name] = np.full((len(ends), length), -1, "int32")
        inputs[name][layout.row, place] = values
    data = Batches.of(inputs, contents=Contents(layout), batch_size=batch_size)
    return data, layout, layout.counts, ends


def _last_pieces(sentences, preprocessor, layout, lengths):
    """Returns the position of the last piece of each word."""
    words = np.array([word for sentence in sentences for word in sentence], object)
    unique, which = np.unique(words, return_inverse=True)
    alone = preprocessor.encode_words([[word] for word in unique], "longest")
    sizes = real_lengths({"padding_mask": np.asarray(alone.inputs["padding_mask"])}) - preprocessor.num_special_tokens
    most = np.zeros(len(unique), int)
    np.maximum.at(most, np.asarray(alone.sentence), sizes)  # A word that is longer than a row has several.
    ends = lengths - (preprocessor.num_special_tokens - preprocessor.num_start_tokens)
    return np.minimum(layout.position + most[which], ends[layout.row]) - 1


def random_weights(encoder: keras.Model, seed: int = 0) -> keras.Model | None:
    """Returns an encoder of the same architecture with random initial weights, the control of a probe.

    Args:
        encoder: An `Encoder` or a KerasHub backbone.
        seed: Integer. Seed of the weights. Defaults to `0`.

    Returns:
        An encoder, or `None` for a TF Hub module or a quantized encoder, which have no initial weights.

    Example:
    ```python
    encoder = keras_transfer.encoders.BertEncoder(20, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    untrained = keras_transfer.analysis.random_weights(encoder)
    ```
    """
    if hasattr(encoder, "module") or is_quantized(encoder):
        return None
    before = random.getstate()
    random.seed(seed)  # Keras draws the seeds of initializers from this generator.
    try:
        return type(encoder).from_config(encoder.get_config())
    finally:
        random.setstate(before)
