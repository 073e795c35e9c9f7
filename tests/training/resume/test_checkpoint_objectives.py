"""`TrainingCheckpoint`: the metrics of tasks that make their targets cover the whole epoch in which a run resumes."""

import shutil

import keras
import numpy as np
import pytest

from keras_transfer.encoders import TransformerEncoder
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import BertPretraining, CausalLM, MaskedLM
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.tasks import tiny

TEXTS = ["a b c", "d e f", "f g h i j a b", "c d e f g h i j"]
LABELS = np.array([0, 1, 0, 1])


def masked():
    return MaskedLM(tiny.encoder(), tiny.preprocessor(), objective=TokenMasking(0.5))


def causal():
    return CausalLM(tiny.encoder(TransformerEncoder, causal=True), tiny.preprocessor())


def pairs():
    return BertPretraining(tiny.encoder(), tiny.preprocessor(), objective=TokenMasking(0.5))


@pytest.mark.parametrize(
    ("make", "data", "names"),
    [
        (masked, (TEXTS,), {"accuracy"}),
        (causal, (TEXTS,), {"perplexity"}),
        (pairs, ((TEXTS, TEXTS[::-1]), LABELS), {"masked_tokens_accuracy", "segment_pair_accuracy"}),
    ],
)
def test_a_run_that_resumes_in_an_epoch_has_the_metrics_of_the_whole_epoch(make, data, names, tmp_path):
    def go(folder):
        keras.utils.set_random_seed(0)
        model = make()
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        np.random.seed(None)  # so that only the checkpoint contains the seed of the batches
        checkpoint = TrainingCheckpoint(tmp_path / folder, save_every=1, keep=9)
        return model.fit(*data, batch_size=2, verbose=0, callbacks=[checkpoint]).history

    whole = go("whole")
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "whole" / "epoch-0000-batch-000001.safetensors", tmp_path / "again")
    assert go("again") == whole and names <= set(whole)
