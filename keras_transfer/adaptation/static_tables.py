"""Model2Vec: a sentence encoder becomes a table of token vectors, whose mean stands for a text."""

import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.adaptation.distillation import fingerprint_of_teacher
from keras_transfer.core.expect import POSITIVE, TEXT, expect, expects, instance_of, integer, list_of
from keras_transfer.data import store_rows
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.tasks import Head, Numbers, Task, TextEmbedder, TextReader
from keras_transfer.text import Packing, TokenPreprocessor, WordPieceTokenizer, to_columns
from keras_transfer.training import FusedAdamW

_BATCH = 256  # Number of tokens that the teacher encodes at once.
_TEXTS = 4096  # Number of texts that are tokenized at once.
_UNUSED = re.compile(r"\[unused\d+\]")  # Places for further tokens in the vocabulary of BERT.


@expects(
    teacher=instance_of(TextEmbedder, "a `TextEmbedder`, such as `TextEmbedder.from_pretrained('minilm-l6')`"),
    vocabulary=list_of(TEXT, 1),
    dim=integer(1),
    smoothing=POSITIVE,
    epochs=integer(0),
    learning_rate=POSITIVE,
)
def static_embeddings(
    teacher: TextEmbedder,
    texts: Any = None,
    *,
    vocabulary: Sequence[str] | None = None,
    dim: int = 256,
    smoothing: float = 1e-4,
    epochs: int = 0,
    batch_size: int = 32,
    learning_rate: float = 1e-3,
    folder: Any = None,
    verbose: str | int = "auto",
) -> TextEmbedder:
    """Distills a sentence encoder into a table of token vectors, and returns it as an embedder without attention.

    The teacher encodes each token of its vocabulary alone, as it encodes a text. A principal component analysis reduces
    these vectors to `dim` numbers, and each is multiplied by `smoothing / (smoothing + p)`, with the probability p of
    the token, so that frequent tokens count less. The vector of a text is the mean of the vectors of its tokens.

    The encoder of the result is a `WordVectorEncoder`, and its preprocessor has the tokenizer of the teacher. Pass both
    to any task: `TextClassifier(student.encoder, student.preprocessor, ...)`. A text then needs no matrix product
    but that of the head, so that a classifier trains in seconds, and answers more than ten thousand texts per second.

    With `epochs`, the table is then trained on `texts`, so that the mean of the vectors of a text has the direction of
    the teacher's vector of this text. The teacher encodes each text only once.

    Args:
        teacher: `TextEmbedder` with a `TokenPreprocessor`, such as a `BertPreprocessor`. It does not change.
        texts: List of strings. Texts of the domain, without labels, which determine the probabilities of tokens.
            Defaults to `None`, for Zipf's estimate from the rank of a token in the vocabulary.
        vocabulary: List of strings. Words that become tokens of their own, besides those of the teacher, whose
            tokenizer must be a `WordPieceTokenizer`. Defaults to `None`, the tokens of the teacher.
        dim: Integer. Width of the vectors, at most that of the teacher and the number of tokens. Defaults to `256`.
        smoothing: Float. A larger value takes less from frequent tokens. Defaults to `1e-4`.
        epochs: Integer. Number of epochs of training on `texts`. Defaults to `0`.
        batch_size: Integer. Number of texts per batch of this training. Defaults to `32`.
        learning_rate: Float. Learning rate of this training. Defaults to `1e-3`.
        folder: String or path. Folder in which the teacher's vectors of `texts` are stored, as in `cache_features`.
            Defaults to `None`, which keeps them in memory.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line per epoch). Defaults to `"auto"`.

    Returns:
        A `TextEmbedder`, which is not compiled.

    Raises:
        ValueError: If `teacher` is not such an embedder, if `dim` is larger than the width of its vectors or the number
            of tokens, if `vocabulary` is empty or has a word that the tokenizer does not keep whole, if `texts` are not
            strings or have no known token, or if `epochs` or `folder` are passed without `texts`.

    Example:
    ```python
    texts = keras_transfer.datasets.load_demo_questions().train.texts
    teacher = keras_transfer.tasks.TextEmbedder.from_pretrained("minilm-l6")
    student = keras_transfer.adaptation.static_embeddings(teacher, texts, dim=8)
    model = keras_transfer.tasks.TextClassifier(student.encoder, student.preprocessor, num_classes=6)
    ```

    Source: Tulkens and van Dongen 2024, "Model2Vec", https://github.com/MinishLab/model2vec; Arora et al. 2017, "A
    simple but tough-to-beat baseline for sentence embeddings".
    """
    source = teacher.preprocessor
    rule = "`teacher` must have a `TokenPreprocessor`, whose tokens can be encoded one by one."
    expect(isinstance(source, TokenPreprocessor), rule, preprocessor=source)
    if texts is None:
        expect(not epochs and folder is None, "`epochs` and `folder` require `texts`.", epochs=epochs, folder=folder)
    else:
        rule = "`texts` must be one column of texts, such as a list."
        expect(not isinstance(texts, tuple), rule, texts=texts)
        texts = to_columns(texts)
    tokenizer = source.tokenizer if vocabulary is None else _with_words(source, vocabulary)
    rows = _ordinary(source, tokenizer)
    most = min(len(rows), teacher.output.shape[-1])
    rule = f"`dim` must be at most {most}, the smaller of the width of the teacher and the number of tokens."
    expect(dim <= most, rule, dim=dim)

    packing = Packing(pad=source.packing.pad, truncation_side=source.packing.truncation_side)
    preprocessor = TokenPreprocessor(tokenizer, packing, source.sequence_length, split=source.split)
    weights = smoothing / (smoothing + _probabilities(tokenizer, texts, rows))
    vectors = token_vectors(teacher, tokenizer, rows, verbose)
    center, axes = principal_axes(vectors, dim)
    table = np.zeros((tokenizer.vocabulary_size, dim), "float32")
    table[rows] = (vectors - center) @ axes * weights[:, None]

    encoder = WordVectorEncoder(len(table), hidden_dim=dim, pooling="mean")
    encoder.token_embedding.set_weights([table])
    student = TextEmbedder(encoder, preprocessor, normalize=teacher.normalize)
    if epochs:
        fingerprint = fingerprint_of_teacher(teacher, teacher)
        found = store_rows(teacher, teacher.dataset(texts), fingerprint, folder, verbose=verbose)
        targets = np.asarray(found, "float64")
        targets = ((targets - targets.mean(axis=0)) @ axes).astype("float32")
        learner = Task(encoder, TextReader(preprocessor), Head(encoder.output["pooled_output"], Numbers(dim)))
        learner.compile(FusedAdamW(learning_rate, weight_decay=0.0), loss=keras.losses.CosineSimilarity(), metrics=None)
        known = np.flatnonzero(student.embed(texts).any(axis=1))  # The direction of zeros has no gradient.
        learner.fit(texts[known], targets[known], batch_size=batch_size, epochs=epochs, verbose=verbose)
    return student


def token_vectors(teacher, tokenizer, rows, verbose=0):
    """Returns the teacher's vectors [tokens, dim] of single tokens. A word that it lacks is encoded as its pieces."""
    source = teacher.preprocessor
    known = [[row] for row in rows if row < source.vocabulary_size]
    added = source.tokenize([tokenizer.vocabulary[row] for row in rows[len(known) :]]).to_list()
    inputs = source.encode_ids([*known, *added])
    return np.asarray(teacher.predict(inputs, batch_size=_BATCH, verbose=verbose), "float64")


def principal_axes(vectors, dim):
    """Returns the mean of vectors, and their first principal axes [width, dim], whose largest numbers are positive."""
    center = vectors.mean(axis=0)
    _, axes = np.linalg.eigh((vectors - center).T @ (vectors - center))  # In ascending order of the variance.
    axes = axes[:, ::-1][:, :dim]
    return center, axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dim)])


def _with_words(preprocessor, words):
    """Returns the tokenizer of a preprocessor with further words as tokens of their own."""
    tokenizer = preprocessor.tokenizer
    rule = "Words can only be added to a `WordPieceTokenizer`. Leave `vocabulary` out for the tokens of the teacher."
    expect(isinstance(tokenizer, WordPieceTokenizer), rule, tokenizer=tokenizer)
    added = [word for word in dict.fromkeys(words) if tokenizer.token_to_id(word) is None]
    larger = type(tokenizer)([*tokenizer.vocabulary, *added], **tokenizer.get_config())
    split = [word for word, ids in zip(added, larger.tokenize(added).to_list()) if ids != [larger.token_to_id(word)]]
    rule = "Each word of `vocabulary` must be one word for the tokenizer: lowercase if it is, without punctuation."
    expect(not split, rule, words=split[:3])
    return larger


def _ordinary(preprocessor, tokenizer):
    """Returns the ids [tokens] of the tokens that texts can have, in order."""
    special = {*preprocessor.special_ids, *map(tokenizer.token_to_id, tokenizer.special_tokens), tokenizer.eos_id}
    tokens = enumerate(tokenizer.vocabulary)
    return np.array([row for row, token in tokens if row not in special and not _UNUSED.fullmatch(token)])


def _probabilities(tokenizer, texts, rows):
    """Returns the probabilities [tokens] of tokens in texts or, for `None`, Zipf's estimate from their ranks."""
    if texts is None:
        counts = 1 / np.arange(1, len(rows) + 1)
    else:
        batches = [texts[start : start + _TEXTS] for start in range(0, len(texts), _TEXTS)]
        ids = [tokenizer.tokenize(batch).values.numpy() for batch in batches] or [np.zeros(0, int)]
        counts = np.bincount(np.concatenate(ids), minlength=tokenizer.vocabulary_size)[rows]
        expect(counts.any(), "`texts` must have at least one known token.", texts=len(texts))
    return counts / counts.sum()
