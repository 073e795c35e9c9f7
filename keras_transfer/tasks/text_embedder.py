"""Text embeddings: vectors of texts, search, and training on texts that belong together."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers, to_numpy
from keras_transfer.core.expect import expect, expects, integer, one_of
from keras_transfer.data import part_batches, to_parts, with_placeholders
from keras_transfer.distribute import replicas_of
from keras_transfer.encoders import select_inputs
from keras_transfer.losses import MultipleNegativesRankingLoss
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.heads import (
    check_encoder,
    checked_dense,
    make_dense,
    merge_parts,
    read_by,
    split_parts,
    text_vectors,
)
from keras_transfer.tasks.labels import Labels, as_numbers, flat_labels
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.reader import Reader, encode_texts
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.source import Rows
from keras_transfer.tasks.task import Signature, Task, of_part, texts_named
from keras_transfer.text import is_text, to_columns

QUERIES, CORPUS = 256, 16_384  # Numbers of vectors in a block, whose scores fit into the cache.
WIDTH = 64  # Number of scores in a group. Only groups with a high maximum are searched.
QUERY_PROMPTS = ("query",)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")


class EmbedderReader(Reader):
    """Accepts texts, or a tuple of columns of texts. The encoder processes the texts of a row separately."""

    def __init__(self, preprocessor, prompts, default_prompt_name):
        super().__init__(preprocessor)
        self.prompts, self.default_prompt_name = prompts, default_prompt_name

    @property
    def prompt(self):
        """String. The prompt in front of every text, or `""`."""
        return prompt_of(self.prompts, self.default_prompt_name, "default_prompt_name")

    def accepts(self, x):
        if isinstance(x, tuple) and len(x) > 1:
            return all(is_text(part) for part in x)
        return is_text(x)

    def check(self, x, method):
        learns = method != "dataset" and not method.startswith("predict")
        if learns and self.accepts(x) and not isinstance(x, tuple):
            raise ValueError(
                f"`{method}` expects rows of several texts: a tuple of columns, such as `(texts, similar_texts)`. "
                f"Received: {type(x).__name__} of one text per row"
            )

    def columns(self, x):
        return with_prompt(to_parts(x) if isinstance(x, tuple) else to_columns(x), self.prompt)

    def batch_of(self, parts):
        parts = super().batch_of(parts)
        return (parts,) if len(parts) > 1 and all(is_text(part) for part in parts) else parts

    def batches(self, columns, y, **options):
        if not isinstance(columns, tuple):
            return super().batches(columns, y, **options)
        return part_batches(columns, y, preprocessor=self.preprocessor, **options)

    def inputs(self, x):
        if isinstance(x, tuple):
            return self.in_one_batch(x)
        return super().inputs(self.columns(x) if self.prompt else x)

    def nothing(self, model, columns):
        outputs = super().nothing(model, columns)
        return np.stack([outputs] * len(columns), axis=1) if isinstance(columns, tuple) else outputs


class SimilarityLabels(Labels):
    """Numbers, one for each row, if the loss requires labels. The loss compares the vectors of a row."""

    one_of = False
    optional = True  # Some losses use no labels.

    def loss(self):
        return MultipleNegativesRankingLoss()

    def checked_loss(self, loss):
        loss = super().checked_loss(loss)
        is_of_keras = getattr(keras.losses.get(loss), "__module__", "").startswith("keras.")
        rule = "`loss` must compare the vectors of a row: `keras_transfer.losses.MultipleNegativesRankingLoss()`."
        expect(not is_of_keras, rule, loss=loss)
        return loss

    def check(self, labels, loss=None):
        if loss is not None and not getattr(loss, "takes_labels", True):
            raise ValueError(f"`{type(loss).__name__}` uses no labels. Leave out `y`. Received: labels")
        expected = "Labels must be numbers, one for each row"
        values = flat_labels(as_numbers(labels, expected))
        expect(values.ndim == 1, f"{expected}.", shape=values.shape)
        if hasattr(loss, "check_labels"):
            loss.check_labels(values)

    def targets(self, data, task):
        if data.kind != "parts":
            return data
        loss, (replicas, whole) = task.loss, replicas_of(task)  # On JAX, the loss sees the rows of all devices.
        parts = next(iter(data.inputs.values())).shape[1]  # More than two are hard negatives.
        needed = getattr(loss, "min_rows", 1) * (1 if whole else replicas) if parts == 2 else 1
        rule = (
            f"`{type(loss).__name__}` compares the texts of a row with those of the other rows of the batch, so that a "
            f"batch needs at least {needed} rows. Use a larger `batch_size` and more rows, or pass a third column of "
            "texts that do not belong to the first."
        )
        count = min(data.options.batch_size, len(data.order))
        expect(count >= needed, rule, rows=count)
        data = data.replace(min_rows=needed)
        if data.has_labels or getattr(loss, "takes_labels", True):
            return data
        return with_placeholders(data, texts=getattr(loss, "takes_texts", False))


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextEmbedder(Task):
    """A text embedder: an encoder, a pooling over the real tokens and, optionally, dense layers and a normalization.

    `from_pretrained` computes vectors as a sentence-transformers folder specifies, and `save_pretrained` writes a
    folder that sentence-transformers loads with the same embeddings. A folder with modules that a `TextEmbedder` does
    not support raises an error.

    `fit` and `evaluate` accept a tuple of columns of texts as `x`: two texts that belong together, possibly with a
    third that does not (`losses.MultipleNegativesRankingLoss`, `losses.TripletLoss`), or two texts with a label
    (`losses.ContrastiveLoss`, `losses.CosineSimilarityLoss`). The encoder processes each text separately, and the loss
    compares the vectors.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        preprocessor: Callable from texts to the encoder's inputs, or `None` for prepared ids. Defaults to `None`.
        pooling: String. `"pooled"` (the encoder's own pooled output) or a pooling of `layers.SequencePooling`, such as
            `"first"`, `"mean"` or `"max"`. Defaults to `None`: the pooling of the encoder's checkpoint, otherwise
            `"mean"` if the encoder returns token vectors, otherwise `"pooled"`.
        normalize: Boolean. Whether vectors are scaled to length 1. Defaults to `None`: the setting of the encoder's
            checkpoint, otherwise `False`.
        dense: List of dicts of `units`, `activation` and `use_bias`, the arguments of `keras.layers.Dense`: dense
            layers between the pooling and the normalization. A dict `{"layer_norm": True}` is a layer
            normalization. Defaults to `None`, for no layers.
        truncate_dim: Integer. Number of leading values to keep of each vector, after the normalization. Use it for a
            model that was trained with `losses.MatryoshkaLoss`. Defaults to `None`, for all of them.
        prompts: Dict from names to texts that are put in front of a text, such as `{"query": "query: ", "document":
            "passage: "}`. `embed` and `search` use them. Defaults to `None`, for none.
        default_prompt_name: String. Name of the prompt in front of every text without another prompt, also in `fit`,
            `predict` and exports. Defaults to `None`, for none.
        name: String. Name of the model. Defaults to `None`.

    Outputs:
        Vectors `[batch, dim]`, float32. `[batch, parts, dim]` for rows of several texts.

    Raises:
        ValueError: If `pooling` is unknown or not possible with the encoder, if `preprocessor` does not match the
            encoder, or if `dense`, `truncate_dim`, `prompts` or `default_prompt_name` is malformed.

    Example:
    ```python
    model = keras_transfer.tasks.TextEmbedder.from_pretrained("minilm-l6")
    corpus = ["A man plays a guitar.", "The stock market fell.", "A cat sleeps."]
    scores, indices = model.search(["Somebody makes music."], corpus, k=2)
    [corpus[index] for index in indices[0]]

    model.compile(keras_transfer.optimizers.FusedAdamW(2e-5))
    questions, answers = ["Who wrote Hamlet?", "Where is Oslo?"], ["Shakespeare wrote it.", "It is in Norway."]
    model.fit((questions, answers), batch_size=2)
    model.save_pretrained("embedder")
    ```

    Source: https://arxiv.org/abs/1908.10084
    """

    purpose = Purpose("sentence-similarity", "computes embeddings of texts", 'embed(["A text."])', "AutoModel")
    answers = ("embed", "similarity", "search")
    checkpoint_head = TaskHead(is_embedder=True)
    prompts = of_part("reader", "prompts")
    default_prompt_name = of_part("reader", "default_prompt_name")
    input_spec = None  # Otherwise, Keras would not allow the additional axis of rows of several texts.

    @expects(truncate_dim=integer(1))
    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        dense: list[dict[str, Any]] | None = None,
        truncate_dim: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        check_encoder(encoder)
        dense, prompts = checked_dense(dense), checked_prompts(prompts, default_prompt_name)
        layers = [make_dense(each, index) for index, each in enumerate(dense)]

        # === Functional model ===
        vectors, pooling, normalize = text_vectors(encoder, pooling, normalize, layers=layers)
        vectors = vectors if truncate_dim is None else vectors[:, :truncate_dim]
        reader = EmbedderReader(preprocessor, prompts, default_prompt_name)
        settings |= {"pooling": pooling, "normalize": normalize, "dense": dense}
        super().__init__(encoder, reader, Head(vectors, SimilarityLabels()), settings=settings, name=name)
        object.__setattr__(self, "dense_layers", layers)  # Keras has them already.

    @property
    def reads(self):
        """Tuple of strings. The encoder output that the head uses."""
        return read_by(self.pooling)

    # === Vectors ===

    @expects()
    def embed(
        self, texts: Any, *, batch_size: int | None = None, verbose: str | int = 0, prompt_name: str | None = None
    ) -> np.ndarray:
        """Returns the vector of each text, in the order of the texts.

        Args:
            texts: List, array or column of strings, or one string.
            batch_size: Integer. Number of texts per batch. Defaults to `None`, for 32, or as many as is fast.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `0`.
            prompt_name: String. Name of the prompt that is put in front of each text. Defaults to `None`, for the
                default prompt, if there is one.

        Returns:
            Float32 array `[texts, dim]`.

        Raises:
            ValueError: If `texts` is a tuple of columns or contains anything but strings, or if there is no such
                prompt.

        Example:
        ```python
        model = keras_transfer.tasks.TextEmbedder.from_pretrained("minilm-l6")
        model.embed(["What a film!", "What a bore."], verbose=0)
        ```
        """
        if isinstance(texts, tuple):
            raise ValueError(f"`texts` must be one column of texts, such as a list. Received: a tuple of {len(texts)}")
        data: Any = to_columns(texts)
        if prompt_name is not None and len(data):
            self.reader.require()
            data = Rows(with_prompt(data, prompt_of(self.prompts, prompt_name)))
        return check_numbers(np.asarray(self.predict(data, batch_size=batch_size, verbose=verbose), "float32"))

    @expects()
    def similarity(self, first: Any, second: Any, *, verbose: str | int = 0) -> np.ndarray:
        """Returns the cosine similarity of each text or vector in `first` to each one in `second`.

        Args:
            first: Texts as for `embed`, or an array `[first, dim]` of vectors.
            second: Texts as for `embed`, or an array `[second, dim]` of vectors.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `0`.

        Returns:
            Float32 array `[first, second]`.

        Raises:
            ValueError: If vectors are not finite or differ in size.

        Example:
        ```python
        model = keras_transfer.tasks.TextEmbedder.from_pretrained("minilm-l6")
        model.similarity("a film", ["a movie", "a bridge"], verbose=0)
        ```
        """
        first, second = _checked(first, "first"), _checked(second, "second")
        self._check_same_size({"first": first, "second": second})
        first, second = (self._directions(*values, verbose) for values in ((first, "first"), (second, "second")))
        return first @ second.T

    @expects(k=integer(1))
    def search(
        self, queries: Any, corpus: Any, *, k: int = 10, verbose: str | int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the texts of a corpus that are most similar to each query, by the cosine of their vectors.

        The search is exact. It compares blocks of queries with blocks of the corpus, which limits the memory for
        scores. If you search a corpus several times, embed it once and pass its vectors.

        If the embedder has prompts, the prompt `"query"` is put in front of queries, and the first one of `"document"`,
        `"passage"` and `"corpus"` in front of the texts of the corpus.

        Args:
            queries: Texts as for `embed`, or an array `[queries, dim]` of their vectors.
            corpus: Texts as for `embed`, or an array `[corpus, dim]` of their vectors.
            k: Integer. Number of texts to return for each query. Defaults to `10`.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `0`.

        Returns:
            Tuple of a float32 array `[queries, k]` of cosines, highest first, and an int64 array `[queries, k]` of
            indices into the corpus. If cosines are equal, the lower index comes first.

        Raises:
            ValueError: If `k` is not between 1 and the size of the corpus, or if vectors are not finite or differ in
                size.

        Example:
        ```python
        model = keras_transfer.tasks.TextEmbedder.from_pretrained("minilm-l6")
        corpus = model.embed(["a film", "a bridge", "a song"], verbose=0)
        scores, indices = model.search(["a movie"], corpus, k=2, verbose=0)
        ```
        """
        queries, corpus = _checked(queries, "queries"), _checked(corpus, "corpus")
        if len(corpus) == 0:
            raise ValueError("`corpus` must have at least one text. Received: no texts")
        expect(k <= len(corpus), f"`k` must be at most {len(corpus)}, the number of texts in the corpus.", k=k)
        self._check_same_size({"queries": queries, "corpus": corpus})
        queries = self._directions(queries, "queries", verbose, QUERY_PROMPTS)
        corpus = self._vectors(corpus, verbose, DOCUMENT_PROMPTS)
        return top_k(queries, corpus, int(k), _lengths(corpus, "corpus"))

    def _directions(self, values, name, verbose, prompt_names=()):
        """Returns texts or vectors as float32 vectors of length 1."""
        vectors = self._vectors(values, verbose, prompt_names)
        return vectors / _lengths(vectors, name)[:, None]

    def _vectors(self, values, verbose, prompt_names=()):
        prompt_name = next((name for name in prompt_names if name in self.prompts), None)
        return self.embed(values, verbose=verbose, prompt_name=prompt_name) if values.ndim == 1 else values

    def _check_same_size(self, columns):
        sizes = [self.output.shape[-1] if values.ndim == 1 else values.shape[1] for values in columns.values()]
        if sizes[0] != sizes[1]:
            names = " and ".join(f"`{name}`" for name in columns)
            raise ValueError(f"Vectors of {names} must have the same size. Received: {sizes[0]} and {sizes[1]}")

    def call(self, inputs, training=None, mask=None):
        inputs, parts = merge_parts(select_inputs(inputs, self.input), self.input)
        outputs = super().call(inputs, training=training, mask=mask)
        return outputs if parts is None else split_parts(outputs, parts)

    # === Export and config ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, since each text has its own vector. Defaults to `False`.

        Returns:
            Dict of `Signature`s: `"serving_default"`, from `text` to `embedding`; `"embed_NAME"`, the same with the
            prompt of that name; and `"tokens"`, from the encoder's inputs to `embedding`, unless the encoder accepts
            text.

        Raises:
            ValueError: If `pairs=True`.
        """

        def embed_with(prompt):
            def embed(text):
                return {"embedding": self(encode_texts(self, prompt + text if prompt else text), training=False)}

            return Signature(embed, texts_named("text"))

        def tokens(**inputs):
            return {"embedding": self(inputs, training=False)}

        with_prompts = {f"embed_{name}": embed_with(prompt) for name, prompt in self.prompts.items()}
        others = {name: Signature(tokens, found.inputs) for name, found in super().signatures(pairs).items()}
        return {"serving_default": embed_with(self.reader.prompt), **with_prompts, **others}


def _checked(values, name):
    """Returns texts as an array [texts], or vectors as a float32 array [texts, dim]."""
    if isinstance(values, tuple):
        raise ValueError(f"`{name}` must be one column of texts, such as a list. Received: a tuple of {len(values)}")
    if is_text(values):
        return to_columns(values)
    vectors = np.asarray(to_numpy(values), "float32")
    if vectors.ndim != 2:
        raise ValueError(f"`{name}` must be texts, or vectors of shape [texts, dim]. Received: shape {vectors.shape}")
    return vectors


def _lengths(vectors, name):
    """Returns the lengths [texts] of vectors, at least 1e-12, or raises a `ValueError` if they are not finite."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    [*wrong] = np.flatnonzero(~np.isfinite(lengths))
    if wrong:
        raise ValueError(
            f"`{name}` must be finite. Received: {vectors[wrong[0]]!r:.100} as the vector at position {wrong[0]}"
        )
    return np.maximum(lengths, 1e-12)


def top_k(queries, corpus, k, lengths=None):
    """Returns the `k` highest dot products of each query with a corpus, highest first, and their int64 indices.

    Args:
        queries: Float32 array [queries, dim].
        corpus: Float32 array [corpus, dim], of at least `k` vectors.
        lengths: Float32 array [corpus]. Positive numbers by which the products with each vector are divided.
    """
    scores, indices = np.full((len(queries), k), -np.inf, "float32"), np.zeros((len(queries), k), "int64")
    padded = -(-min(CORPUS, len(corpus)) // WIDTH) * WIDTH
    buffer = np.empty((min(QUERIES, len(queries)), padded), "float32")
    for first in range(0, len(corpus), CORPUS):
        part = corpus[first : first + CORPUS]
        for start in range(0, len(queries), QUERIES):
            rows = slice(start, start + QUERIES)
            table = buffer[: len(queries[rows])]
            np.matmul(queries[rows], part.T, out=table[:, : len(part)])
            if lengths is not None:
                table[:, : len(part)] /= lengths[first : first + CORPUS]
            table[:, len(part) :] = -np.inf
            column, score = _highest(table, min(k, len(part)))
            # Earlier scores have lower indices, so a stable sort keeps equal scores in the order of their indices.
            score = np.concatenate([scores[rows], score], axis=1)
            order = np.argsort(-score, axis=1, kind="stable")[:, :k]
            index = np.concatenate([indices[rows], column + first], axis=1)
            scores[rows], indices[rows] = (np.take_along_axis(found, order, axis=1) for found in (score, index))
    return scores, indices


def _highest(table, k):
    """Returns columns `[rows, k]` and values of the `k` highest scores of each row. Equal values keep the column order.

    The `k`-th highest maximum of the groups of a row is at most the `k`-th highest value of the row. Only groups whose
    maximum is not lower can contain one of the `k` highest values. All other groups are scanned just once.
    """
    rows, groups = len(table), table.shape[1] // WIDTH
    if k > groups:
        return _highest_of_all(table, k)
    grouped = table.reshape(rows, WIDTH, groups)  # Column `i * groups + j` belongs to group `j`.
    maxima = grouped.max(axis=1)
    lowest = np.partition(maxima, groups - k, axis=1)[:, groups - k]
    row, group = np.nonzero(maxima >= lowest[:, None])
    values = grouped[row, :, group]
    hits = values >= lowest[row, None]
    if np.count_nonzero(hits) > 8 * rows * k:  # Many values are equal.
        return _highest_of_all(table, k)
    hit, place = np.nonzero(hits)
    row, column, value = row[hit], place * groups + group[hit], values[hit, place]
    order = np.lexsort((column, -value, row))
    best = order[np.searchsorted(row[order], np.arange(rows))[:, None] + np.arange(k)]
    return column[best], value[best]


def _highest_of_all(table, k):
    """Returns what `_highest` returns, in the order of the columns, without groups."""
    rows, size = table.shape
    lowest = np.partition(table, size - k, axis=1)[:, size - k, None]
    higher, equal = table > lowest, table == lowest
    needed = k - higher.sum(axis=1, keepdims=True)
    kept = higher | (equal & (np.cumsum(equal, axis=1, dtype="int32") <= needed))
    column = np.nonzero(kept)[1].reshape(rows, k)
    return column, np.take_along_axis(table, column, axis=1)


def checked_prompts(prompts, default_name):
    """Returns prompts as a dict from names to texts."""
    prompts = {} if prompts is None else prompts
    rule = "`prompts` must be a dict from names to texts, such as {'query': 'query: '}."
    is_dict = isinstance(prompts, dict)
    expect(is_dict and all(isinstance(part, str) for pair in prompts.items() for part in pair), rule, prompts=prompts)
    prompt_of(prompts, default_name, "default_prompt_name")
    return dict(prompts)


def prompt_of(prompts, name, argument="prompt_name"):
    """Returns the prompt with a name, or `""` for `None`."""
    if name is None:
        return ""
    one_of(*sorted(prompts)).check(argument, name)
    return prompts[name]


def with_prompt(columns, prompt):
    """Returns an array of texts, or a tuple of such arrays, with a prompt in front of each text."""
    if not prompt:
        return columns
    if isinstance(columns, tuple):
        return tuple(with_prompt(column, prompt) for column in columns)
    prompted = np.empty(len(columns), object)
    prompted[:] = [prompt + text for text in columns]
    return prompted
