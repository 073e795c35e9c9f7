"""NumPy's numbers are accepted where a number is, and stored as Python's, which JSON can contain."""

import json

import numpy as np
import pytest

from keras_transfer import adaptation, analysis, metrics, objectives, text
from keras_transfer.checkpoints import WordVectors
from keras_transfer.generation.constraints import Constraints
from keras_transfer.training.averaging import NonMonotonicTrigger
from keras_transfer.training.generation_metrics import GenerationMetrics
from keras_transfer.training.groups import select_groups
from keras_transfer.training.training_checkpoint import TrainingCheckpoint


def layer_groups():
    from tests.tasks.tiny import encoder

    return adaptation.layer_groups(encoder())


def report(**options):
    return str(analysis.ClassificationReport([0, 1], [[2, 0], [0, 2]], **options))


@pytest.mark.parametrize(
    "make",
    [
        lambda two, half: metrics.HitsAtK(two).get_config(),
        lambda two, half: metrics.PearsonCorrelation(two).get_config(),
        lambda two, half: metrics.ExpectedCalibrationError(two).get_config(),
        lambda two, half: metrics.Bleu(max_ngram_order=two).get_config(),
        lambda two, half: metrics.Chrf(char_order=two, word_order=two, beta=two).get_config(),
        lambda two, half: objectives.SpanPrediction(block_length=two).get_config(),
        lambda two, half: adaptation.LoRA(rank=two, alpha=half + half, dropout=half).get_config(),
        lambda two, half: adaptation.Houlsby(two).get_config(),
        lambda two, half: text.Packing(segments=[two - two, two]).segments,
        lambda two, half: NonMonotonicTrigger(two).patience,
        lambda two, half: GenerationMetrics(["a"], ["b"], metrics.Chrf(), batch_size=two, limit=two).limit,
        lambda two, half: Constraints(no_repeat_ngram=two, min_length=two).min_length,
        lambda two, half: TrainingCheckpoint("a", save_every=two, keep=two).get_config(),
        lambda two, half: WordVectors(["a", "b"], [[1, 0], [0, 1]]).nearest("a", two),
        lambda two, half: report(num_examples=two, resamples=two),
        lambda two, half: select_groups(layer_groups(), two)[0].name,
    ],
)
def test_a_number_of_numpy_is_the_number_of_python(make):
    assert json.dumps(make(np.int64(2), np.float32(0.5))) == json.dumps(make(2, 0.5))
