"""Outputs that differ in length are predicted batch by batch, each as long as its longest text."""

import keras
import numpy as np
import pytest

from tests.tasks.taggers import tagger

SENTENCES = [["the", "film"] * length + ["end"] for length in (9, 1, 5, 0, 7, 3, 8, 2, 6, 4)]


@pytest.fixture
def lengths(monkeypatch):
    """The lengths of the batches that a model has predicted one by one."""
    found, predict = [], keras.Model.predict_on_batch

    def recorded(self, x):
        found.append(x["token_ids"].shape[1])
        return predict(self, x)

    monkeypatch.setattr(keras.Model, "predict_on_batch", recorded)
    return found


@pytest.mark.core
def test_each_sentence_has_the_logits_that_it_has_alone(eagerly):
    model = tagger()
    together = model.predict(SENTENCES, batch_size=3, verbose=0)
    for sentence, logits in zip(SENTENCES, together):
        assert logits.shape == (len(sentence), 3)
        np.testing.assert_allclose(logits, model.predict([sentence], verbose=0)[0], atol=1e-5)


def test_batches_are_padded_to_their_longest_sentence_and_no_further(eagerly, lengths):
    tagger().predict(SENTENCES, batch_size=1, verbose=0)
    assert sorted(lengths) == [len(sentence) + 2 for sentence in sorted(SENTENCES, key=len)]


def test_callbacks_hear_of_each_batch_and_there_is_one_progress_bar(eagerly, capsys):
    class Calls(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.found = []

        def on_predict_begin(self, logs=None):
            self.found.append("begin")

        def on_predict_batch_end(self, batch, logs=None):
            self.found.append((batch, logs["outputs"].shape[0]))

        def on_predict_end(self, logs=None):
            self.found.append("end")

    calls = Calls()
    tagger().predict(SENTENCES, batch_size=4, verbose=2, callbacks=[calls])
    begin, *batches, end = calls.found
    assert (begin, end) == ("begin", "end") and [batch for batch, _ in batches] == [0, 1, 2]
    assert sorted(rows for _, rows in batches) == [2, 4, 4]
    assert capsys.readouterr().out.count("3/3") == 1
