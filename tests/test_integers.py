"""NumPy's numbers are accepted where a number is, and stored as Python's, which JSON can contain."""

import json

import numpy as np
import pytest

from keras_transfer import adaptation, analysis, metrics, objectives, text
from keras_transfer.checkpoints import WordVectors
from keras_transfer.generation.decoding.constraints import Constraints
from keras_transfer.groups.selection import select_groups
from keras_transfer.integers import check_integer
from keras_transfer.training.resume import TrainingCheckpoint
from keras_transfer.training.runs import GenerationMetrics, NonMonotonicTrigger
from tests.errors import check_errors

TWO = np.int64(2)


def layer_groups():
    from tests.tasks.tiny import encoder

    return adaptation.layer_groups(encoder())


@pytest.mark.parametrize(
    "make",
    [
        lambda: metrics.HitsAtK(TWO).get_config(),
        lambda: metrics.PearsonCorrelation(TWO).get_config(),
        lambda: metrics.ExpectedCalibrationError(TWO).get_config(),
        lambda: metrics.Bleu(max_ngram_order=TWO).get_config(),
        lambda: metrics.Chrf(char_order=TWO, word_order=TWO, beta=TWO).get_config(),
        lambda: objectives.SpanPrediction(block_length=TWO).get_config(),
        lambda: adaptation.LoRA(rank=TWO, alpha=np.float32(4), dropout=np.float32(0.5)).get_config(),
        lambda: adaptation.Houlsby(TWO).get_config(),
        lambda: text.Packing(segments=[np.int32(0), np.int32(1)]).segments,
        lambda: NonMonotonicTrigger(TWO).patience,
        lambda: GenerationMetrics(["a"], ["b"], metrics.Chrf(), batch_size=TWO, limit=TWO).limit,
        lambda: Constraints(no_repeat_ngram=TWO, min_length=TWO).min_length,
        lambda: TrainingCheckpoint("a", save_every=TWO, keep=TWO).get_config(),
        lambda: WordVectors(["a", "b"], [[1, 0], [0, 1]]).nearest("a", TWO),
        lambda: str(analysis.ClassificationReport([0, 1], [[2, 0], [0, 2]], num_examples=TWO, resamples=TWO)),
        lambda: select_groups(layer_groups(), TWO)[0].name,
        lambda: check_integer("size", TWO, 1),
    ],
)
def test_a_number_of_numpy_is_a_number(make):
    json.dumps(make())


test_what_is_no_integer_is_an_error = check_errors(
    (True, "`size` must be an integer of at least 1. Received: size=True"),
    (np.float64(2), "Received: size=np.float64(2.0)"),
    (np.int64(0), "Received: size=np.int64(0)"),
    call=lambda value: check_integer("size", value, 1),
)
