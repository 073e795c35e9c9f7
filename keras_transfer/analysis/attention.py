"""The attention weights that a Transformer computes for some texts, as arrays, statistics, matrices and pictures."""

import dataclasses
import pathlib
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.analysis import page
from keras_transfer.analysis.attention_view import heads_view, model_view
from keras_transfer.analysis.result import PlottedResult
from keras_transfer.analysis.stored_states import check_one_row
from keras_transfer.core.arrays import to_numpy
from keras_transfer.core.expect import NotApplicableError, expect, one_of
from keras_transfer.core.plots import BLUE, new_axes
from keras_transfer.data import preprocess_words
from keras_transfer.encoders import Encoder, check_ids, select_inputs
from keras_transfer.tasks import SpanExtractor, Task
from keras_transfer.text import is_sentences, to_sentences

_AXES = {"encoder": ("tokens", "tokens"), "decoder": ("read", "read"), "cross": ("written", "tokens")}
_MEASURES = ("entropy", "distance", "first", "previous", "next", "self", "separators")
_VIEWS = {"heads": heads_view, "model": model_view}


class HeadStatistics(PlottedResult):
    """What each head of self-attention does on average, which `AttentionWeights.statistics` returns.

    `plot()` draws the entropy of all heads by layer.

    Attributes:
        rows: List of dicts, one for each `layer` and `head`: the mean `entropy` of the weights of a token in bits, the
            mean `distance` to what it reads in tokens, and the mean weights of the `first` token, the `previous` and
            the `next` one, the token itself (`self`), and all other special tokens (`separators`), or `None`.
    """

    title = "Attention heads"
    index = ("layer", "head")
    columns = {"layer": "", "head": "", **dict.fromkeys(_MEASURES, ".3g")}

    def __init__(self, rows, tokens, texts):
        self.rows = rows
        self.notes = [f"Means over {tokens:,} tokens of {texts:,} texts. entropy in bits, distance in tokens."]

    def _draw(self, axes):
        layers = [row["layer"] for row in self.rows]
        axes.plot(layers, [row["entropy"] for row in self.rows], "o", markersize=5, alpha=0.6, color=BLUE)
        axes.set(xlabel="layer", ylabel="entropy of each head in bits", xticks=sorted(set(layers)), ylim=(0, None))


@dataclasses.dataclass(repr=False)
class AttentionWeights:
    """The attention weights for some texts, which `attention_weights` returns.

    Attributes:
        encoder: List with an array `[rows, heads, queries, keys]` for each block. The weights of a query sum to 1, and
            padding has none. A prefix or a prompt adds its keys at the beginning.
        decoder: The same for the decoder of an encoder-decoder, whose queries see only earlier keys, or `None`.
        cross: The same for cross-attention, with queries of the decoder and keys of the encoder, or `None`.
        tokens: List of lists of strings. The tokens of each row, without padding; ids if there is no vocabulary.
        read: List of lists of strings. The input tokens of the decoder, or `None`.
        written: List of lists of strings. The token that the decoder predicts after each of these, or `None`.
        separators: List of lists of integers. The positions of special tokens but the first, or `None` if unknown.
    """

    encoder: list
    decoder: list | None = None
    cross: list | None = None
    tokens: list | None = None
    read: list | None = None
    written: list | None = None
    separators: list | None = None

    def __repr__(self):
        kinds = {kind: getattr(self, kind) for kind in _AXES if getattr(self, kind) is not None}
        shown = ", ".join(f"{kind}: {len(layers)} of {list(layers[0].shape)}" for kind, layers in kinds.items())
        return f"AttentionWeights({shown}; tokens: {' '.join(self.tokens[0]):.80})"

    def _repr_html_(self):
        return self._view("model", None, 0)

    def matrix(self, kind: str | None = None, *, row: int = 0, layer: int = -1, head: int | None = None) -> np.ndarray:
        """Returns the weights of one row as a matrix without padding.

        Args:
            kind: String, `"encoder"`, `"decoder"` or `"cross"`. Defaults to `None`, `"cross"` if any, or `"encoder"`.
            row: Integer. The row. Defaults to `0`.
            layer: Integer. The block, from 0 for the first. Defaults to `-1`, the last.
            head: Integer. The head. Defaults to `None`, the mean of all heads.

        Returns:
            Float array `[queries, keys]`.

        Raises:
            ValueError: If there is no such kind, row, layer or head.
        """
        return self._matrix(kind, row, layer, head)[0]

    def plot(self, kind: str | None = None, *, row: int = 0, layer: int = -1, head: int | None = None) -> Any:
        """Plots the matrix of one row: a query, or for `"cross"` the token predicted there, in each line.

        Args:
            kind: String, `"encoder"`, `"decoder"` or `"cross"`. Defaults to `None`, `"cross"` if any, or `"encoder"`.
            row: Integer. The row. Defaults to `0`.
            layer: Integer. The block, from 0 for the first. Defaults to `-1`, the last.
            head: Integer. The head. Defaults to `None`, the mean of all heads.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If there is no such kind, row, layer or head.
        """
        matrix, queries, keys = self._matrix(kind, row, layer, head)
        axes = new_axes(1.6 + 0.36 * len(keys), 1.2 + 0.3 * len(queries))
        image = axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(keys)), keys, rotation=90, parse_math=False)
        axes.set_yticks(range(len(queries)), queries, parse_math=False)
        axes.xaxis.tick_top()
        axes.figure.colorbar(image, ax=axes)
        return axes.figure

    def statistics(self, kind: str = "encoder") -> HeadStatistics:
        """Returns what each head of self-attention does on average over all tokens of all rows.

        A few dozen texts are enough. Keys that adapters add count for the entropy only.

        Args:
            kind: String, `"encoder"` or `"decoder"`. Defaults to `"encoder"`.

        Returns:
            `HeadStatistics`.

        Raises:
            ValueError: If there is no such kind.

        Source: Clark et al. 2019, section 3. https://arxiv.org/abs/1906.04341
        """
        kind, rows = self._kind(kind, without="cross"), []
        counts = [len(tokens) for tokens in getattr(self, _AXES[kind][0])]
        special = None if kind == "decoder" else self.separators
        total, pairs = sum(counts), sum(counts) - len(counts)
        known = [total, total, total, pairs, pairs, total, 0 if special is None else total]  # For each measure.
        for layer in range(len(getattr(self, kind))):
            weights = [self._heads(kind, row, layer)[0] for row in range(len(counts))]
            sums = sum(map(_sums, weights, counts, special or [[]] * len(counts)))
            for head, values in enumerate(sums.tolist()):
                means = [value / count if count else None for value, count in zip(values, known)]
                rows.append({"layer": layer, "head": head, **dict(zip(_MEASURES, means))})
        return HeadStatistics(rows, total, len(counts))

    def rollout(self, row: int = 0, *, kind: str = "encoder") -> np.ndarray:
        """Returns how much of each token's input would reach each vector if attention were all that mixes.

        The mean over heads is mixed with the identity, and multiplied by the result of the layer below. Values, norms
        and feed-forward networks are left out, so that this is a rough estimate.

        Args:
            row: Integer. The row. Defaults to `0`.
            kind: String, `"encoder"` or `"decoder"`. Defaults to `"encoder"`.

        Returns:
            Float array `[layers, tokens, tokens]`: a vector in each line, an input in each column.

        Raises:
            ValueError: If there is no such row or kind.

        Source: Abnar and Zuidema 2020. https://arxiv.org/abs/2005.00928
        """
        kind = self._kind(kind, without="cross")
        found = []
        for layer in range(len(getattr(self, kind))):
            matrix, queries, _ = self._matrix(kind, row, layer, None)
            matrix = np.asarray(matrix[:, -len(queries) :], "float64")  # Without the keys of a prefix.
            matrix = 0.5 * np.eye(len(matrix)) + 0.5 * matrix
            matrix /= matrix.sum(axis=1, keepdims=True)
            found.append(matrix @ found[-1] if found else matrix)
        return np.stack(found)

    def to_html(
        self, path: str | pathlib.Path, view: str = "heads", *, kind: str | None = None, row: int = 0
    ) -> pathlib.Path:
        """Writes the weights of all heads for one row as one HTML page, without scripts.

        Args:
            path: String or path. File to write. An existing file is replaced. Parent folders are created.
            view: String. `"heads"` draws a line from each token to those that it reads. `"model"` shows the matrices
                of all heads side by side. Defaults to `"heads"`.
            kind: String, `"encoder"`, `"decoder"` or `"cross"`. Defaults to `None`, `"cross"` if any, or `"encoder"`.
            row: Integer. The row. Defaults to `0`.

        Returns:
            `path` as a `pathlib.Path`.

        Raises:
            OSError: If the file cannot be written. It is then unchanged.
            ValueError: If `view` is unknown, or if there is no such kind or row.

        Source: Vig 2019, the two views of BertViz. https://arxiv.org/abs/1906.05714
        """
        one_of(*_VIEWS).check("view", view)
        return page.write(path, f"Attention: {self._kind(kind)}", self._view(view, kind, row))

    def _view(self, view, kind, row):
        """Returns the weights of all heads for one row as HTML."""
        kind = self._kind(kind)
        layers = [self._heads(kind, row, layer) for layer in range(len(getattr(self, kind)))]
        return _VIEWS[view]([weights for weights, *_ in layers], *layers[0][1:])

    def _kind(self, kind, without=None):
        """Returns the kind of attention that is meant."""
        kinds = [name for name in _AXES if getattr(self, name) is not None and name != without]
        if kind is None:
            return "cross" if "cross" in kinds else "encoder"
        one_of(*kinds).check("kind", kind)
        return kind

    def _matrix(self, kind, row, layer, head):
        """Returns the weights of one row, and the names of its queries and keys."""
        weights, *names = self._heads(self._kind(kind), row, layer)
        _check_place("head", len(weights), head)
        return weights.mean(axis=0) if head is None else weights[head], *names

    def _heads(self, kind, row, layer):
        """Returns the weights of all heads for one row, `[heads, queries, keys]`, and the names of queries and keys."""
        layers = getattr(self, kind)
        _check_place("row", len(self.tokens), row)
        _check_place("layer", len(layers), layer)
        weights, names = layers[layer][row], []
        for size, tokens in zip(weights.shape[1:], (getattr(self, name) for name in _AXES[kind])):
            added = size - max(map(len, tokens))  # Adapters such as a prefix add keys.
            names.append(["+"] * added + tokens[row])
        return weights[:, : len(names[0]), : len(names[1])], *names


def _check_place(name, count, place):
    rule = f"`{name}` must be from {-count} to {count - 1}."
    expect(place is None or -count <= place < count, rule, **{name: place})


def _sums(weights, count, separators):
    """Returns the sums over `count` tokens, the last queries and keys, of each of `_MEASURES`, `[heads, measures]`."""
    weights = np.asarray(weights[:, -count:], "float64")
    own, places = weights[..., -count:], np.arange(count)
    logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    distances = own * np.abs(places[:, None] - places)
    entropy, distance = -(weights * logs).sum(axis=(1, 2)), distances.sum(axis=(1, 2))
    neighbors = [np.trace(own, offset, axis1=1, axis2=2) for offset in (-1, 1, 0)]
    special = own[..., list(separators)].sum(axis=(1, 2))
    return np.stack([entropy, distance, own[..., 0].sum(axis=1), *neighbors, special], axis=1)


def attention_weights(model: keras.Model, x: Any, targets: Any = None, *, preprocessor: Any = None) -> AttentionWeights:
    """Returns the attention weights of all blocks and heads for a few texts.

    A text of 128 tokens in an encoder of 12 layers and 12 heads needs 9 MB. A weight shows how much of a token's vector
    a head uses. It does not explain why the model gives its answer.

    Args:
        model: A task with a Transformer of `keras_transfer.encoders`, or such an encoder.
        x: Texts or lists of words as for `model.predict`, or a dict of the inputs of the encoder. Texts of a pair that
            the encoder reads one by one are two rows. A `SpanExtractor` reads the beginning of each context.
        targets: List of strings. For a `Seq2SeqLM`, the target of each text, such as the result of `model.generate(x)`.
            Defaults to `None`, for other models.
        preprocessor: Preprocessor of an encoder. Defaults to `None`, that of the task `model`.

    Returns:
        `AttentionWeights`.

    Raises:
        ValueError: If the encoder has no such weights, if an input or `targets` are missing, or if a text has several
            windows.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    weights = keras_transfer.analysis.attention_weights(model, ["A fine film."])
    weights.matrix(layer=0, head=1)
    ```

    Source: Bahdanau et al. 2015, figure 3. https://arxiv.org/abs/1409.0473
    """
    encoder: Any = getattr(model, "encoder", model) if isinstance(model, Task) else model
    source = preprocessor or getattr(model, "preprocessor", None)
    has_weights = isinstance(encoder, Encoder) and type(encoder).attention_weights is not Encoder.attention_weights
    rule = "`model` must be a task with a Transformer of `keras_transfer.encoders`, or such an encoder."
    expect(has_weights, rule, error=NotApplicableError, encoder=encoder)
    if preprocessor is not None and not isinstance(model, Task) and not isinstance(x, dict):
        texts = [x] if isinstance(x, str) else x
        x = preprocess_words(to_sentences(x), preprocessor)[0] if is_sentences(x) else dict(preprocessor(texts))
    if isinstance(model, Task) and model.reader.accepts(x):
        inputs, written = _read(model, x, targets)
    else:
        expect(targets is None, "`targets` require texts and a `Seq2SeqLM`.", targets=targets)
        names = [*encoder.input]
        rule = f"`x` must be texts for a task with a preprocessor, or a dict of {names}, such as `preprocessor(texts)`."
        fits = isinstance(x, dict) and {*names} <= {*x}
        error = ValueError if preprocessor is None else NotApplicableError  # The inputs are those that it makes.
        expect(fits, rule, [*x] if isinstance(x, dict) else x, error=error)
        inputs, written = {name: to_numpy(value) for name, value in x.items()}, None
        check_ids(encoder, inputs)
    expect(len(inputs["token_ids"]), "`x` must have at least one row.", rows=0)
    check_one_row(source, inputs)
    masks = {name: mask != 0 for name, mask in inputs.items() if name in ("padding_mask", "decoder_padding_mask")}
    ends = {name: (mask * np.arange(1, mask.shape[1] + 1)).max(axis=1, initial=1) for name, mask in masks.items()}
    for name, values in inputs.items():  # Padding at the end of all rows is cut off.
        most = ends["decoder_padding_mask" if name.startswith("decoder_") else "padding_mask"].max()
        inputs[name] = values[:, :most, :most] if values.ndim == 3 else values[:, :most]
    tensors = {name: ops.convert_to_tensor(value) for name, value in select_inputs(inputs, encoder.input).items()}
    found = encoder.attention_weights(tensors)
    found = {kind: [ops.convert_to_numpy(weights) for weights in layers] for kind, layers in found.items()}
    named = {"tokens": _named(inputs["token_ids"], ends["padding_mask"], source)}
    named["separators"] = _separators(inputs["token_ids"], ends["padding_mask"], source)
    if "decoder_padding_mask" in ends:
        counts, target = ends["decoder_padding_mask"], getattr(model, "target_preprocessor", None) or source
        read = _named(inputs["decoder_token_ids"], counts, target)
        following = [[*row[1:], "?"] for row in read]  # The token after the last one is unknown.
        named |= {"read": read, "written": following if written is None else _named(written, counts, target)}
    elif "decoder" in found:  # Its input is the same text, shifted to the right by the start token.
        [[start]] = _named(np.array([[encoder.start_token]]), [1], source)
        named |= {"read": [[start, *row[:-1]] for row in named["tokens"]], "written": named["tokens"]}
    return AttentionWeights(**found, **named)


def inputs_of(task, x):
    """Returns the inputs of texts or sentences as arrays, in which the texts of a siamese task's pair are two rows."""
    inputs = preprocess_words(to_sentences(x), task.preprocessor)[0] if is_sentences(x) else task.reader.inputs(x)
    inputs = {name: np.array(value) for name, value in inputs.items()}
    if inputs["token_ids"].ndim > 2:
        inputs = {name: values.reshape(-1, *values.shape[2:]) for name, values in inputs.items()}
    return inputs


def _read(model, x, targets):
    """Returns the inputs of raw data as arrays, and the ids of targets or None."""
    if "decoder_token_ids" not in model.input:
        expect(targets is None, "`targets` require a `Seq2SeqLM`.", targets=targets)
        if isinstance(model, SpanExtractor):  # The beginning of each context.
            return {name: np.array(value) for name, value in model.preprocessor(x).items()}, None
        return inputs_of(model, x), None
    rule = "The decoder needs target texts. Pass `targets`, such as `model.generate(x)`."
    expect(targets is not None, rule, error=NotApplicableError, targets=None)
    x, targets = ([each] if isinstance(each, str) else each for each in (x, targets))
    if not len(x):
        return {"token_ids": []}, None
    data = model.dataset(x, targets, batch_size=len(x))
    inputs, ids, _ = data.pinned([(data.options.lengths[-1], np.arange(len(data.real)))])[0]
    return {name: np.array(value) for name, value in inputs.items()}, ids


def _named(ids, counts, preprocessor):
    """Returns the tokens of rows of ids without padding, as lists of strings."""
    vocabulary, first = getattr(preprocessor, "vocabulary", None), getattr(preprocessor, "first_id", 0)
    return [
        [str(token) if vocabulary is None else vocabulary[token - first] for token in row[:count].tolist()]
        for row, count in zip(ids, counts)
    ]


def _separators(ids, counts, preprocessor):
    """Returns the positions of special tokens of each row, without the first token, or None if none are known."""
    if not hasattr(preprocessor, "packing"):
        return None
    special = [preprocessor.token_to_id(token) for token in preprocessor.packing.special_tokens]
    return [(1 + np.flatnonzero(np.isin(row[1:count], special))).tolist() for row, count in zip(ids, counts)]
