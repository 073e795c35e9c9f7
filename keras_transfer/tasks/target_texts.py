"""The targets of a `Seq2SeqLM`: texts that replace labels, or texts that an objective makes."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_transfer.core.arrays import as_column, check_numbers, to_numpy
from keras_transfer.core.expect import expect
from keras_transfer.core.names import listed
from keras_transfer.data import UNUSED, Batches, Contents, preprocess_texts, real_lengths
from keras_transfer.objectives import SequenceObjective
from keras_transfer.tasks.checks import check_sizes
from keras_transfer.tasks.in_context import check_different, written_labels
from keras_transfer.tasks.labels import check_integers
from keras_transfer.tasks.reader import Reader, check_no_pairs
from keras_transfer.tasks.token_targets import NextTokens, TokenTargets
from keras_transfer.text import TokenPreprocessor, check_batch_size, is_text, to_columns, to_list

log = logging.getLogger("keras_transfer")


def check_target_preprocessor(encoder, preprocessor, target_preprocessor):
    """Raises a `ValueError` unless targets are tokenized as the decoder expects."""
    rows = [half.token_embedding.input_dim for half in (encoder.encoder, encoder.decoder)]
    if target_preprocessor is not None:
        is_known = isinstance(target_preprocessor, TokenPreprocessor)
        rule = "`target_preprocessor` must be a `TokenPreprocessor`."
        expect(is_known, rule, target_preprocessor=target_preprocessor)
        check_sizes(target_preprocessor, encoder, rows[1], "target_preprocessor")
    elif preprocessor is not None and rows[0] != rows[1]:
        raise ValueError(
            "The two halves have different vocabularies. Pass the preprocessor of the decoder as "
            "`target_preprocessor`. Received: target_preprocessor=None, for "
            f"{rows[0]} tokens of the encoder and {rows[1]} of the decoder"
        )


def check_real(inputs):
    """Raises a `ValueError` if a row of prepared inputs has only padding."""
    for name, what in (("padding_mask", "source"), ("decoder_padding_mask", "target")):
        if name in inputs:
            _check_lengths(to_numpy(inputs[name]).sum(axis=1), what)


def _check_lengths(real, what, texts=None, special=0):
    """Raises a `ValueError` if a row has no tokens besides some special ones."""
    if len(empty := np.flatnonzero(real <= special)):
        found = "only special tokens" if special else "only padding"
        received = found if texts is None else repr(texts[empty[0]])
        raise ValueError(f"Each {what} must have at least one token. Received: {received} at position {empty[0]}")


class SequenceReader(Reader):
    """Accepts source texts and adds a prefix to each. With target texts, they become inputs of both halves.

    Args:
        target_preprocessor: `text.TokenPreprocessor` of the targets, or `None` for that of the sources.
    """

    takes_pairs = False
    instead_of_call = "a dict with `decoder_token_ids`, or `generate(sources)` for texts"
    makes = ("decoder_token_ids", "decoder_padding_mask", "decoder_positions")

    def __init__(self, preprocessor, prefix, start_id, target_preprocessor=None, with_positions=False):
        super().__init__(preprocessor, "`generate(sources)` for texts, or `score(sources, targets)`")
        self.prefix, self.start_id, self.target_preprocessor = prefix, start_id, target_preprocessor
        self.with_positions = with_positions

    def check(self, x, method):
        super().check(x, method)
        if method.startswith("predict") and isinstance(x, Mapping):
            check_real(x)

    def columns(self, x):
        texts = to_columns(x)
        if isinstance(texts, tuple):
            raise ValueError(
                "Sources must be one column of texts. Targets are the second argument, `fit(sources, targets)`, or "
                "made by an objective. Received: a tuple of two as the first argument"
            )
        return texts

    def batches(self, columns, y, sample_weight=None, **options):
        self.require()
        if y is None:  # The labels have an objective, or raise an error.
            return super().batches(columns, None, sample_weight=sample_weight, **options)
        count = len(columns)
        y, sample_weight = as_column(y, "targets", count), as_column(sample_weight, "sample weights", count)
        rule = "`sample_weight` must have one weight for each pair of texts."
        expect(sample_weight is None or np.ndim(sample_weight) == 1, rule, shape=np.shape(sample_weight))
        check_batch_size(self.preprocessor, options["batch_size"], count, False)
        self.check_tokenizer()
        inputs = self.sources(columns)
        _check_lengths(real_lengths(inputs), "source", columns)
        ids, real = self._targets(y)
        contents = Contents(prepare=self._item, real_labels=real)
        return Batches.of(inputs, ids, sample_weight, contents, **options)

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
        _check_lengths(real, "target", texts)
        if known:
            _warn_of_targets(own, texts, real)
        return np.where(found["padding_mask"] == 1, found["token_ids"], UNUSED), real

    def _item(self, columns, random):
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


_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.


class TargetTexts(NextTokens):
    """The texts that the model learns to write, which replace labels, or the ones that an objective makes."""

    needs_objective, reads = False, SequenceObjective.made_inputs

    def __init__(self, count, objective=None):
        TokenTargets.__init__(self, count, objective)

    @property
    def optional(self):
        return self.objective is not None

    @property
    def made_inputs(self):
        return () if self.objective is None else self.objective.made_inputs

    def encode(self, labels):
        if isinstance(labels, Mapping):
            raise ValueError(f"Targets must be one column of texts. Received: a dict with the keys {list(labels)}")
        if is_text(labels):
            return to_columns(labels)
        self.check(labels)
        # `check` allows the padding of our own batches.
        return check_integers(
            labels, "Targets of prepared inputs must not be negative. Pass `sample_weight`, 0 at padding."
        )

    def check(self, labels, loss=None):
        if isinstance(labels, tuple):
            raise ValueError("Targets must be one column of texts. Received: a tuple of two")
        if is_text(labels):
            return
        check_integers(
            labels,
            "Targets must be texts, one for each source, or, for prepared inputs, integers [batch, length] from 0 to "
            f"{self.count - 1}.",
            *(self.count, UNUSED),
        )

    def weight_of(self, x, y, sample_weight):
        return 1  # The task weights its losses, which are means over tokens of targets or of sources.

    def draws(self, task):
        _check_objective(task.reader, self.objective)
        draw, names = super().draws(task), task.encoder.encoder.input

        def make(columns, random):
            inputs, targets, weights = draw(columns, random)
            inputs = {name: np.zeros_like(inputs["token_ids"]) for name in names} | inputs
            given = "decoder_token_ids" in inputs
            return (inputs, targets, weights) if given else task.reader.item(inputs, targets, weights)

        return make

    def targets(self, data, task):
        check_no_pairs(data, type(task).__name__)
        found = TokenTargets.targets(self, data, task) if self.optional else data
        if found is not data:
            _check_lengths(data.real, "text", special=task.preprocessor.num_special_tokens)
        if found.contents.prepare is not None:
            return found
        rule = "Raw text requires targets, or an `objective` that makes them: `fit(sources, targets)`."
        if data.kind == "texts":
            expect(data.labels is not None, rule, y=None)
        if data.labels is None:
            return data
        if data.labels.dtype == object:
            raise ValueError("Prepared inputs need prepared targets, integers [batch, length]. Received: texts")
        check_real(data.inputs)
        length = data.inputs["decoder_token_ids"].shape[1]
        rule = f"Targets must be as long as `decoder_token_ids`, which have {length} places."
        expect(data.labels.shape[1] == length, rule, shape=data.labels.shape)
        weights = data.sample_weight
        if "decoder_padding_mask" in data.inputs and (weights is None or weights.ndim == 1):
            mask = data.inputs["decoder_padding_mask"].astype("float32")
            data = data.replace(sample_weight=mask if weights is None else mask * weights[:, None])
        return data


def _check_objective(reader, objective):
    """Raises a `ValueError` unless a reader tokenizes a text as a source and as a target in the same way."""
    preprocessor, own, name = reader.preprocessor, reader.target_preprocessor, type(objective).__name__
    is_known = isinstance(preprocessor, TokenPreprocessor)
    expect(is_known, "An objective requires a `text.TokenPreprocessor`.", preprocessor=preprocessor)
    rule = "An objective makes sources without a prefix. Create the task without `prefix` to pretrain it."
    expect(not reader.prefix, rule, prefix=reader.prefix)
    if "decoder_positions" in objective.made_inputs and not reader.with_positions:
        raise ValueError(
            f"`{name}` passes positions to the decoder. Create an encoder with absolute positions, such as `Bart`, and "
            '`further_inputs=["decoder_positions"]`. Received: an encoder without this input'
        )
    tokenizer = preprocessor.tokenizer
    if tokenizer.has_own_targets or (own is not None and not _same(tokenizer, own.tokenizer)):
        raise ValueError(
            "An objective makes sources and targets of the same tokens, so both must have one tokenizer. Train this "
            "model with pairs of texts: `fit(sources, targets)`. "
            f"Received: objective={name} for a model whose targets are tokenized differently from its sources"
        )
    reader.check_tokenizer()
    if own is not None and own.packing != preprocessor.packing:
        raise ValueError(
            "An objective makes sources and targets of the same texts, so both must have one language and the same "
            "special tokens: `from_pretrained(..., source_language=..., target_language=...)` with one language. "
            f"Received: objective={name}, {preprocessor.packing} for sources and {own.packing} for targets"
        )


def _same(tokenizer, other):
    """Returns whether two tokenizers return the same ids."""
    if tokenizer is other:
        return True
    same = type(tokenizer) is type(other) and tokenizer.get_config() == other.get_config()
    return same and tokenizer.vocabulary == other.vocabulary


class LabelsAsTargets(_Task):
    """A mixin for `Seq2SeqLM` that chooses the most likely one of given targets."""

    def classify(self, texts: Any, label_names: Sequence[str] | dict[Any, str], *, batch_size: int = 8) -> list[Any]:
        """Returns the label that the model would most likely write for each text.

        This is "rank classification" (Sanh et al. 2022): the answer is always one of the labels. The likelihood of a
        label is the product over its tokens, so long labels are less likely in a model that was not trained with these
        labels.

        Args:
            texts: A string or a list of strings, the sources. The model adds its prefix.
            label_names: List of strings, or a dict from labels to the strings that the model writes for them.
            batch_size: Integer. Number of rows in a batch. Each text is a row for each label. Defaults to `8`.

        Returns:
            List of labels, one for each text.

        Raises:
            ValueError: If there are fewer than two different labels, or if the task has no preprocessor.

        Example:
        ```python
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad"]
        encoder = keras_transfer.encoders.T5(9, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
        preprocessor = keras_transfer.text.BertPreprocessor(vocabulary)
        model = keras_transfer.tasks.Seq2SeqLM(encoder, preprocessor, prefix="sentiment: ")
        model.classify(["The film was good"], {"positive": "good", "negative": "bad"})
        ```

        Source: https://arxiv.org/abs/2110.08207, section 5
        """
        names = [*written_labels(label_names)]
        scores = check_numbers(self.label_log_likelihoods(texts, label_names, batch_size=batch_size))
        return [names[best] for best in scores.argmax(axis=1)]

    def label_log_likelihoods(
        self, texts: Any, label_names: Sequence[str] | dict[Any, str], *, batch_size: int = 8
    ) -> np.ndarray:
        """Returns the log-likelihood of each label as the target of each text.

        Args:
            texts: A string or a list of strings, the sources. The model adds its prefix.
            label_names: List of strings, or a dict from labels to the strings that the model writes for them.
            batch_size: Integer. Number of rows in a batch. Each text is a row for each label. Defaults to `8`.

        Returns:
            Float64 array `[texts, labels]`.

        Raises:
            ValueError: If there are fewer than two different labels, or if the task has no preprocessor.
        """
        texts, words = to_list(texts), [*written_labels(label_names).values()]
        self.reader.require()
        own = self.target_preprocessor or self.preprocessor
        check_different(words, np.asarray(own(words)["token_ids"]))
        sources = [text for text in texts for _ in words]
        return self.score(sources, words * len(texts), batch_size=batch_size).reshape(len(texts), len(words))
