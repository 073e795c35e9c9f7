"""The targets of a `Seq2SeqLM`: texts that replace labels, or texts that an objective makes."""

from collections.abc import Mapping

from keras_transfer.arrays import to_array
from keras_transfer.batches import UNUSED, Batches
from keras_transfer.objectives.sequences import SequenceObjective
from keras_transfer.tasks.inputs import check_no_pairs, input_names_of, lacks_targets
from keras_transfer.tasks.language import NextTokens
from keras_transfer.tasks.sequence_to_sequence.noised_texts import with_noise
from keras_transfer.tasks.sequence_to_sequence.sequence_reader import check_real
from keras_transfer.text.base import is_text, to_columns

_DECODER = ("decoder_token_ids", "decoder_padding_mask")


class TargetTexts(NextTokens):
    """The texts that the model learns to write, which replace labels, or the ones that an objective makes.

    Args:
        count: Integer. Number of tokens that the model predicts.
        objective: `objectives.SequenceObjective`, or `None`. Defaults to `None`.
    """

    def __init__(self, count, objective=None):
        super().__init__(count)
        self.objective = objective

    @property
    def objective(self):
        return self._objective

    @objective.setter
    def objective(self, objective):
        if objective is not None and not isinstance(objective, SequenceObjective):
            raise ValueError(
                "`objective` must make sources and targets, such as `objectives.SpanCorruption` or "
                f"`objectives.Denoising`. Received: objective={objective!r:.100}"
            )
        self._objective = objective

    @property
    def optional(self):
        return self.objective is not None

    @property
    def targets_of_streams(self):
        return self.objective is not None

    @property
    def made_inputs(self):
        if self.objective is None:
            return ()
        return (*_DECODER, "decoder_positions") if self.objective.with_positions else _DECODER

    def weight_of(self, x, y, sample_weight):
        return 1  # The task weights its losses, which are means over tokens of targets or of sources.

    def count_of(self, x, y, sample_weight):
        return super().weight_of(x, y, sample_weight)

    def encode(self, labels):
        if isinstance(labels, Mapping):
            raise ValueError(f"Targets must be one column of texts. Received: a dict with the keys {list(labels)}")
        if is_text(labels):
            return to_columns(labels)
        values = to_array(labels)
        self.check(values)
        if (values < 0).any():  # `check` allows the padding of our own batches.
            raise ValueError(
                "Targets of prepared inputs must not be negative. Pass `sample_weight`, 0 at padding. "
                f"Received: {values.min()}"
            )
        return values

    def check(self, labels, loss=None, inputs=None):
        if isinstance(labels, tuple):
            raise ValueError("Targets must be one column of texts. Received: a tuple of two")
        if is_text(labels):
            return
        values = to_array(labels)
        if values.ndim != 2 or values.dtype.kind not in "iu" or (values < UNUSED).any() or (values >= self.count).any():
            raise ValueError(
                "Targets must be texts, one for each source, or, for prepared inputs, integers [batch, length] from 0 "
                f"to {self.count - 1}. Received: {values.dtype} of shape {values.shape}"
            )

    def targets(self, data, task):
        check_no_pairs(data, type(task).__name__)
        if isinstance(data, Batches) and data.contents.prepare is not None:
            return data
        if self.objective is not None:
            if lacks_targets(data, self.made_inputs):
                return with_noise(data, self.objective, task)
            self._check_complete(data)
        if not isinstance(data, Batches):
            return data
        if data.labels is None and data.contents.kind == "texts":
            raise ValueError(
                "Raw text requires targets, or an `objective` that makes them: `fit(sources, targets)`. "
                "Received: y=None"
            )
        if data.labels is None:
            return data
        if data.labels.dtype == object:
            raise ValueError("Prepared inputs need prepared targets, integers [batch, length]. Received: texts")
        _check_prepared(data.inputs, data.labels)
        weights = data.sample_weight
        if "decoder_padding_mask" in data.inputs and (weights is None or weights.ndim == 1):
            mask = data.inputs["decoder_padding_mask"].astype("float32")
            data = data.replace(sample_weight=mask if weights is None else mask * weights[:, None])
        return data

    def _check_complete(self, data):
        """Raises a `ValueError` if data has decoder inputs or targets, but not both."""
        names = input_names_of(data)
        found = [name for name in _DECODER if name in (names or ())]
        if names is not None and (len(found) < len(_DECODER) or lacks_targets(data)):
            raise ValueError(
                "The objective makes inputs of the decoder and targets of data that has neither. Prepared data must "
                f"have `{'`, `'.join(_DECODER)}` and targets, or none of them. "
                f"Received: the inputs {names}, and {'no ' if lacks_targets(data) else ''}targets"
            )


def _check_prepared(inputs, targets):
    """Raises a `ValueError` if a row has only padding, or if targets and decoder inputs differ in length."""
    check_real(inputs)
    length = inputs["decoder_token_ids"].shape[1]
    if targets.shape[1] != length:
        raise ValueError(
            f"Targets must be as long as `decoder_token_ids`, which have {length} places. "
            f"Received: targets of shape {targets.shape}"
        )
