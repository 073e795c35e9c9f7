"""The attention weights that a Transformer computes for some texts, as arrays, matrices and pictures."""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.analysis import page
from keras_transfer.analysis.tables import Table
from keras_transfer.core.arrays import to_numpy
from keras_transfer.core.expect import expect, one_of
from keras_transfer.core.plots import new_axes
from keras_transfer.encoders import Encoder, check_ids, select_inputs
from keras_transfer.tasks import Task

_AXES = {"encoder": ("tokens", "tokens"), "decoder": ("read", "read"), "cross": ("written", "tokens")}


@dataclasses.dataclass(repr=False)
class AttentionWeights:
    """The attention weights for some texts, which `attention_weights` returns.

    Attributes:
        encoder: List with an array `[rows, heads, queries, keys]` for each block. The weights of a query sum to 1, and
            padding has none. Adapters with a prefix or a prompt add their keys at the beginning.
        decoder: The same for the decoder of an encoder-decoder, whose queries see only earlier keys, or `None`.
        cross: The same for cross-attention, with queries of the decoder and keys of the encoder, or `None`.
        tokens: List of lists of strings. The tokens of each row, without padding; ids if there is no vocabulary.
        read: List of lists of strings. The input tokens of the decoder, or `None`.
        written: List of lists of strings. The token that the decoder predicts after each of its input tokens, or
            `None`.

    Example:
    ```python
    encoder = keras_transfer.encoders.BertEncoder(20, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    inputs = {"token_ids": np.array([[2, 7, 3]]), "padding_mask": np.ones((1, 3), "int32")}
    weights = keras_transfer.analysis.attention_weights(encoder, {**inputs, "segment_ids": np.zeros((1, 3), "int32")})
    weights.matrix(layer=0, head=1)  # [3, 3], a query in each line
    ```
    """

    encoder: list
    decoder: list | None = None
    cross: list | None = None
    tokens: list | None = None
    read: list | None = None
    written: list | None = None

    def __repr__(self):
        kinds = {kind: getattr(self, kind) for kind in _AXES if getattr(self, kind) is not None}
        shown = ", ".join(f"{kind}: {len(layers)} of {list(layers[0].shape)}" for kind, layers in kinds.items())
        return f"AttentionWeights({shown}; tokens: {' '.join(self.tokens[0]):.80})"

    def _repr_html_(self):
        kind = self._kind(None)
        matrix, queries, keys = self._matrix(kind, 0, -1, None)
        colors = {
            (i, j + 1): f"background: rgba(0, 114, 178, {weight:.2f})"
            for i, weights in enumerate(matrix)
            for j, weight in enumerate(weights)
        }
        rows = [[query, *(f"{weight:.2f}" for weight in weights)] for query, weights in zip(queries, matrix)]
        note = f"Row 0, the last layer, and the mean of all heads. `plot` and `matrix` show the others. {self!r}"
        return page.section(Table(f"Attention: {kind}", ["", *keys], rows, note), colors=colors)

    def matrix(self, kind: str | None = None, *, row: int = 0, layer: int = -1, head: int | None = None) -> np.ndarray:
        """Returns the weights of one row as a matrix without padding.

        Args:
            kind: String, `"encoder"`, `"decoder"` or `"cross"`. Defaults to `None`, for `"cross"` in an
                encoder-decoder, or else `"encoder"`.
            row: Integer. The row. Defaults to `0`.
            layer: Integer. The block, from 0 for the first. Defaults to `-1`, the last.
            head: Integer. The head. Defaults to `None`, the mean of all heads.

        Returns:
            Float array `[queries, keys]`.

        Raises:
            ValueError: If there is no such kind, row, layer or head.
        """
        return self._matrix(self._kind(kind), row, layer, head)[0]

    def plot(self, kind: str | None = None, *, row: int = 0, layer: int = -1, head: int | None = None) -> Any:
        """Plots the matrix of one row: a query in each line, a key in each column.

        In a plot of cross-attention, each line is labeled with the token that the decoder predicts there.

        Args:
            kind: String, `"encoder"`, `"decoder"` or `"cross"`. Defaults to `None`, for `"cross"` in an
                encoder-decoder, or else `"encoder"`.
            row: Integer. The row. Defaults to `0`.
            layer: Integer. The block, from 0 for the first. Defaults to `-1`, the last.
            head: Integer. The head. Defaults to `None`, the mean of all heads.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If there is no such kind, row, layer or head.
        """
        kind = self._kind(kind)
        matrix, queries, keys = self._matrix(kind, row, layer, head)
        axes = new_axes(1.6 + 0.36 * len(keys), 1.2 + 0.3 * len(queries))
        image = axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(keys)), keys, rotation=90)
        axes.set_yticks(range(len(queries)), queries)
        axes.xaxis.tick_top()
        axes.figure.colorbar(image, ax=axes)
        return axes.figure

    def _kind(self, kind):
        kinds = [name for name in _AXES if getattr(self, name) is not None]
        if kind is None:
            return kinds[-1] if "cross" in kinds else "encoder"
        one_of(*kinds).check("kind", kind)
        return kind

    def _matrix(self, kind, row, layer, head):
        """Returns the weights of one row, and the names of its queries and keys."""
        layers = getattr(self, kind)
        counts = {"row": len(self.tokens), "layer": len(layers), "head": layers[0].shape[1]}
        for (name, count), value in zip(counts.items(), (row, layer, head)):
            rule = f"`{name}` must be from {-count} to {count - 1}."
            expect(value is None or -count <= value < count, rule, **{name: value})
        weights = layers[layer][row]
        weights = weights.mean(axis=0) if head is None else weights[head]
        names = []
        for axis, tokens in enumerate(_AXES[kind]):
            tokens, most = getattr(self, tokens), max(len(each) for each in getattr(self, tokens))
            added = weights.shape[axis] - most  # Adapters such as a prefix add keys.
            names.append(["+"] * added + tokens[row])
        return weights[: len(names[0]), : len(names[1])], *names


def attention_weights(model: keras.Model, x: Any, targets: Any = None) -> AttentionWeights:
    """Returns the attention weights of all blocks and heads for a few texts.

    The blocks run once more and keep their weights in memory: a text of 128 tokens in an encoder of 12 layers and 12
    heads needs 9 MB. A weight shows how much of a token's vector a head uses. It does not explain why the model gives
    its answer.

    Args:
        model: A task with a Transformer of `keras_transfer.encoders`, or such an encoder.
        x: Texts as for `model.predict`, if the task has a preprocessor. Otherwise a dict of the inputs of the encoder.
        targets: List of strings. For texts and a `Seq2SeqLM`, the target of each source, such as the result of
            `model.generate(x)`. Defaults to `None`, for other models.

    Returns:
        `AttentionWeights`.

    Raises:
        ValueError: If the encoder has no such weights, if an input is missing, or if texts need `targets` and there are
            none.

    Example:
    ```python
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"]
    encoder = keras_transfer.encoders.T5(7, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model = keras_transfer.tasks.Seq2SeqLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
    weights = keras_transfer.analysis.attention_weights(model, ["a b c"], model.generate(["a b c"], max_new_tokens=3))
    weights.cross[-1].shape  # (1, 2, tokens of the target, tokens of the source)
    weights.matrix("encoder", layer=0, head=1)
    ```

    Source: Bahdanau et al. 2015, figure 3. https://arxiv.org/abs/1409.0473
    """
    encoder: Any = getattr(model, "encoder", model) if isinstance(model, Task) else model
    has_weights = isinstance(encoder, Encoder) and type(encoder).attention_weights is not Encoder.attention_weights
    rule = "`model` must be a task with a Transformer of `keras_transfer.encoders`, or such an encoder."
    expect(has_weights, rule, encoder=encoder)
    raw = isinstance(model, Task) and model.reader.accepts(x)
    inputs, written = _read(model, x, targets) if raw else (_checked(encoder, x, targets), None)
    expect(len(inputs["token_ids"]), "`x` must have at least one row.", rows=0)
    masks = {name: mask != 0 for name, mask in inputs.items() if name in ("padding_mask", "decoder_padding_mask")}
    ends = {name: (mask * np.arange(1, mask.shape[1] + 1)).max(axis=1, initial=1) for name, mask in masks.items()}
    for name, values in inputs.items():  # Padding at the end of all rows is cut off.
        most = ends["decoder_padding_mask" if name.startswith("decoder_") else "padding_mask"].max()
        inputs[name] = values[:, :most, :most] if values.ndim == 3 else values[:, :most]
    tensors = {name: ops.convert_to_tensor(value) for name, value in select_inputs(inputs, encoder.input).items()}
    found = encoder.attention_weights(tensors)
    found = {kind: [ops.convert_to_numpy(weights) for weights in layers] for kind, layers in found.items()}
    source = getattr(model, "preprocessor", None)
    named = {"tokens": _named(inputs["token_ids"], ends["padding_mask"], source)}
    if "decoder_padding_mask" in ends:
        counts, target = ends["decoder_padding_mask"], getattr(model, "target_preprocessor", None) or source
        read = _named(inputs["decoder_token_ids"], counts, target)
        following = [[*row[1:], "?"] for row in read]  # The token after the last one is unknown.
        named |= {"read": read, "written": following if written is None else _named(written, counts, target)}
    elif "decoder" in found:  # Its input is the same text, shifted to the right by the start token.
        [[start]] = _named(np.array([[encoder.start_token]]), [1], source)
        named |= {"read": [[start, *row[:-1]] for row in named["tokens"]], "written": named["tokens"]}
    return AttentionWeights(**found, **named)


def _read(model, x, targets):
    """Returns the inputs of raw data as arrays, and the ids of targets or None."""
    if "decoder_token_ids" not in model.input:
        expect(targets is None, "`targets` require a `Seq2SeqLM`.", targets=targets)
        return {name: np.array(value) for name, value in model.reader.inputs(x).items()}, None
    rule = "The decoder needs target texts. Pass `targets`, such as `model.generate(x)`."
    expect(targets is not None, rule, targets=None)
    x, targets = ([each] if isinstance(each, str) else each for each in (x, targets))
    if not len(x):
        return {"token_ids": []}, None
    data = model.dataset(x, targets, batch_size=len(x))
    inputs, ids, _ = data.pinned([(data.options.lengths[-1], np.arange(len(data.real)))])[0]
    return {name: np.array(value) for name, value in inputs.items()}, ids


def _checked(encoder, x, targets):
    """Returns prepared inputs as arrays, or raises a `ValueError` if one is missing."""
    expect(targets is None, "`targets` require texts and a `Seq2SeqLM`.", targets=targets)
    if not isinstance(encoder.input, dict) or not isinstance(x, dict) or not set(encoder.input) <= set(x):
        wanted = list(encoder.input) if isinstance(encoder.input, dict) else "its inputs"
        raise ValueError(
            f"`x` must be texts for a task with a preprocessor, or a dict of {wanted}, such as `preprocessor(texts)`. "
            f"Received: {list(x) if isinstance(x, dict) else x!r:.100}"
        )
    inputs = {name: to_numpy(value) for name, value in x.items()}
    check_ids(encoder, inputs)
    return inputs


def _named(ids, counts, preprocessor):
    """Returns the tokens of rows of ids without padding, as lists of strings."""
    vocabulary = getattr(preprocessor, "vocabulary", None)
    return [
        [str(token) if vocabulary is None else vocabulary[token] for token in row[:count].tolist()]
        for row, count in zip(ids, counts)
    ]
