"""The data of a `Seq2SeqLM`: source texts, and target texts as the inputs and the targets of the decoder."""

import logging
from collections.abc import Mapping

import numpy as np

from keras_transfer.core.arrays import as_column, to_numpy
from keras_transfer.core.names import listed
from keras_transfer.data import UNUSED, Batches, Contents, preprocess_texts, real_lengths
from keras_transfer.tasks.checks import check_sizes
from keras_transfer.tasks.reader import Reader
from keras_transfer.tasks.streams import lacks_labels, texts_of_stream
from keras_transfer.text import TokenPreprocessor, check_batch_size, to_columns

log = logging.getLogger("keras_transfer")


def check_target_preprocessor(encoder, preprocessor, target_preprocessor):
    """Raises a `ValueError` unless targets are tokenized as the decoder expects."""
    rows = [half.token_embedding.input_dim for half in (encoder.encoder, encoder.decoder)]
    if target_preprocessor is not None:
        if not isinstance(target_preprocessor, TokenPreprocessor):
            raise ValueError(
                "`target_preprocessor` must be a `TokenPreprocessor`. "
                f"Received: target_preprocessor={target_preprocessor!r:.100}"
            )
        positions = getattr(encoder, "max_sequence_length", None)
        check_sizes(target_preprocessor, positions, rows[1], "target_preprocessor")
    elif preprocessor is not None and rows[0] != rows[1]:
        raise ValueError(
            "The two halves have different vocabularies. Pass the preprocessor of the decoder as "
            "`target_preprocessor`. Received: target_preprocessor=None, for "
            f"{rows[0]} tokens of the encoder and {rows[1]} of the decoder"
        )


def check_real(inputs):
    """Raises a `ValueError` if a row of prepared inputs has only padding."""
    for name, what in (("padding_mask", "source"), ("decoder_padding_mask", "target")):
        if len(empty := np.flatnonzero(~to_numpy(inputs[name]).any(axis=1)) if name in inputs else ()):
            raise ValueError(f"Each {what} must have at least one token. Received: only padding at position {empty[0]}")


class SequenceReader(Reader):
    """Accepts source texts and adds a prefix to each. With target texts, they become inputs of both halves.

    Args:
        target_preprocessor: `text.TokenPreprocessor` of the targets, or `None` for that of the sources.
        labels: `TargetTexts`, which may have an objective that makes sources and targets.
    """

    takes_pairs = False
    makes = ("decoder_token_ids", "decoder_padding_mask", "decoder_positions")

    def __init__(self, preprocessor, prefix, start_id, target_preprocessor=None, with_positions=False, labels=None):
        super().__init__(preprocessor)
        self.prefix, self.start_id, self.target_preprocessor = prefix, start_id, target_preprocessor
        self.with_positions, self.labels = with_positions, labels

    @property
    def pretrains(self):
        """Boolean. Whether an objective makes sources and targets."""
        return self.labels is not None and self.labels.objective is not None

    @property
    def in_memory(self):
        if self.pretrains:
            return None
        return (
            "Texts for a `Seq2SeqLM` must be in memory: `fit(sources, targets)`. A `tf.data.Dataset` must contain "
            "`(inputs, targets, weights)`."
        )

    def stream(self, dataset):
        texts = texts_of_stream(dataset)
        if self.pretrains and texts and (len(texts) > 1 or not lacks_labels(dataset)):
            raise ValueError(
                "An objective makes a source and a target from each text, so a `tf.data.Dataset` or a loader must have "
                f"batches of single texts without labels. Received: batches of {dataset.element_spec}"
            )
        return super().stream(dataset)

    def check(self, x, method):
        if method.startswith("predict") and self.accepts(x):
            raise ValueError(
                f"`{method}` requires prepared inputs, with `decoder_token_ids`. Use `generate(sources)` for texts, or "
                f"`score(sources, targets)`. Received: {x!r:.100}"
            )
        if method.startswith("predict") and isinstance(x, Mapping):
            check_real(x)

    def advice(self):
        """Returns the end of a sentence that says how to predict texts."""
        return ", with `decoder_token_ids`. Use `generate(sources)` for texts"

    def columns(self, x):
        texts = to_columns(x)
        if isinstance(texts, tuple) and self.pretrains:
            raise ValueError(
                "An objective makes a source and a target from each text, so texts must be one column. "
                "Received: a tuple of two as the first argument"
            )
        if isinstance(texts, tuple):
            raise ValueError(
                "Sources must be one column of texts, and targets are the second argument: `fit(sources, targets)`. "
                "Received: a tuple of two as the first argument"
            )
        return texts

    def inputs(self, x):
        raise ValueError(
            "A `Seq2SeqLM` can be called on prepared inputs only, a dict with `decoder_token_ids`. Use "
            f"`generate(sources)` for texts. Received: {x!r:.100}"
        )

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        self.require()
        if y is None:  # The labels have an objective, or raise an error.
            return super().batches(columns, None, sample_weight, batch_size, shuffle)
        count = len(columns)
        y, sample_weight = as_column(y, "targets", count), as_column(sample_weight, "sample weights", count)
        if sample_weight is not None and np.ndim(sample_weight) != 1:
            raise ValueError(
                "`sample_weight` must have one weight for each pair of texts. "
                f"Received: weights of shape {np.shape(sample_weight)}"
            )
        check_batch_size(self.preprocessor, batch_size, count, False)
        self.check_tokenizer()
        inputs = self.sources(columns)
        if len(empty := np.flatnonzero(real_lengths(inputs) == 0)):
            raise ValueError(
                f"Each source must have at least one token. Received: {columns[empty[0]]!r} at position {empty[0]}"
            )
        ids, real = self._targets(y)
        contents = Contents(prepare=self._item, real_labels=real)
        return Batches.of(inputs, ids, sample_weight, contents, batch_size=batch_size, shuffle=shuffle)

    def sources(self, texts):
        """Returns the inputs of the encoder for source texts with the prefix, arrays `[rows, length]`."""
        texts = np.array([self.prefix + text for text in texts], object) if self.prefix else texts
        return preprocess_texts(texts, self.preprocessor)

    def check_tokenizer(self):
        """Raises a `ValueError` if targets would be tokenized as sources although the model expects something else."""
        tokenizer = getattr(self.preprocessor, "tokenizer", None)
        if self.target_preprocessor is not None or tokenizer is None:
            return
        if getattr(tokenizer, "has_own_targets", False):
            raise ValueError(
                "The targets of this model are tokenized differently from its sources. Create the task with "
                "`target_preprocessor=TokenPreprocessor.load(folder, target=True)`, or with `from_pretrained`, which "
                "loads it. Received: target_preprocessor=None"
            )
        if codes := getattr(tokenizer, "language_codes", None):
            raise ValueError(
                "Targets need a language. Create the task with `target_preprocessor=preprocessor.with_language(...)`, "
                "or pass `target_language` to `from_pretrained`. "
                f"Received: target_preprocessor=None, for a tokenizer with the languages {listed(codes)}"
            )

    def _targets(self, texts):
        """Returns the ids of target texts `[rows, length]`, padded with -1, and their lengths."""
        own = self.target_preprocessor or self.preprocessor
        known = isinstance(own, TokenPreprocessor)
        found = preprocess_texts(texts, own, warn=not known)
        real = real_lengths(found)
        if len(empty := np.flatnonzero(real == 0)):
            raise ValueError(
                f"Each target must have at least one token. Received: {texts[empty[0]]!r} at position {empty[0]}"
            )
        if known:
            _warn_of_targets(own, texts, real)
        return np.where(found["padding_mask"] == 1, found["token_ids"], UNUSED), real

    def _item(self, columns, length, random):
        inputs, ids, weights = columns
        return self.item(inputs, ids, ids != UNUSED, weights)

    def item(self, inputs, ids, used, weights=None):
        """Returns the inputs of both halves of the model, the targets and their weights, all `[rows, length]`.

        `used` is true or 1 at the tokens of a target, and `weights` are of rows.
        """
        targets = np.where(used, ids, 0)
        start = np.full((len(ids), 1), self.start_id, "int32")
        given = {
            "decoder_token_ids": np.concatenate([start, targets[:, :-1]], axis=1),
            "decoder_padding_mask": used.astype("int32"),
        }
        if self.with_positions:
            given["decoder_positions"] = np.broadcast_to(np.arange(ids.shape[1], dtype="int32"), ids.shape)
        weights = used if weights is None else used * np.asarray(weights)[:, None]
        return {**inputs, **given}, targets, weights.astype("float32")


def _warn_of_targets(preprocessor, texts, real):
    """Logs a warning of targets without tokens of their own, and one of targets that are too long."""
    special, length = preprocessor.num_special_tokens, preprocessor.sequence_length
    if len(empty := np.flatnonzero(real <= special)):
        log.warning(
            "%d of %d targets have no tokens but the special ones, such as %r at position %d. What is learned or "
            "scored for these is that nothing is written.",
            *(len(empty), len(texts), texts[empty[0]], empty[0]),
        )
    full = np.flatnonzero(real == length)
    if not len(full):
        return
    counts = preprocessor.tokenize([*texts[full]]).row_lengths().numpy()
    if longer := int((counts + special > length).sum()):
        log.warning(
            "%d of %d targets are longer than %d tokens, and only their %s is learned or scored. To use all of them, "
            "pass a larger `sequence_length` to the preprocessor or to `from_pretrained()`.",
            *(longer, len(texts), length, "end" if preprocessor.packing.truncation_side == "left" else "beginning"),
        )
