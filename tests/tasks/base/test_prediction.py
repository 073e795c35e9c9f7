"""Outputs that differ in length are predicted batch by batch, each as long as its longest text."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import TransformerEncoder
from keras_transfer.tasks import CausalLM, SpanExtractor, TextClassifier, TextEmbedder, source
from keras_transfer.text import batches
from tests.tasks.tagging.taggers import tagger
from tests.tasks.tiny import classifier, encoder, of_vectors, preprocessor

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
@pytest.mark.report("The answer for a text depends on the other texts in its batch.", "transformers#24725")
def test_each_sentence_has_the_logits_that_it_has_alone(eagerly):
    model = tagger()
    together = model.predict(SENTENCES, batch_size=3, verbose=0)
    assert [logits.shape for logits in together] == [(len(sentence), 3) for sentence in SENTENCES]
    for sentence, logits in zip(SENTENCES[:4], together):
        np.testing.assert_allclose(logits, model.predict([sentence], verbose=0)[0], atol=1e-5)


def test_batches_are_padded_to_their_longest_sentence_and_no_further(eagerly, lengths):
    tagger().predict(SENTENCES, batch_size=1, verbose=0)
    assert sorted(lengths) == [len(sentence) + 2 for sentence in sorted(SENTENCES, key=len)]


@pytest.fixture
def rows(monkeypatch):
    """The numbers of rows that were predicted."""
    found, predict = [], keras.Model.predict_step

    def recorded(self, data):
        found.append(len(keras.tree.flatten(data)[0]))
        return predict(self, data)

    monkeypatch.setattr(keras.Model, "predict_step", recorded)
    return found


def test_a_text_that_occurs_several_times_is_computed_once(eagerly, rows):
    model, texts = classifier(), ["a b", "good", "a b", "c", "good", "a b"]
    pairs = (texts, texts[::-1])
    for x, different in ((texts, 3), (np.array(texts), 3), (pairs, len(set(zip(*pairs))))):
        rows.clear()
        np.testing.assert_allclose(model.predict(x, verbose=0), model(model.preprocessor(x)), atol=1e-5)
        assert sum(rows) == different


@pytest.mark.parametrize(
    "make, compiled, chosen",
    [(classifier, False, [4, 67]), (of_vectors, False, [32, 39]), (classifier, True, [32, 32, 7])],
)
def test_a_long_text_is_among_few_short_ones_unless_steps_are_compiled_or_the_user_asks_for_it(
    make, compiled, chosen, eagerly, rows, monkeypatch
):
    monkeypatch.setattr(source, "compiles_each_length", lambda: compiled)
    model, texts = make(), [f"{a} {b}" for a in "abcdefghij" for b in "abcdefg"] + [" ".join("abcdefghij" * 3)]
    for size, expected in ((None, chosen), (60, [60, 11])):
        rows.clear()
        found = model.predict(texts, batch_size=size, verbose=0)
        assert sorted(rows) == sorted(expected)
        np.testing.assert_allclose(found, model(model.preprocessor(texts)), atol=1e-5)


def test_sentences_that_occur_several_times_have_their_logits_each_time(eagerly):
    model, sentences = tagger(), [["a", "b"], ["good"], ["a", "b"]]
    found = model.predict(sentences, verbose=0)
    assert [len(logits) for logits in found] == [2, 1, 2]
    np.testing.assert_array_equal(found[0], found[2])


def test_a_subclass_changes_the_outputs_of_repeated_texts_once(eagerly):
    class Doubled(TextClassifier):
        def predict(self, x, *args, **kwargs):
            return 2 * super().predict(x, *args, **kwargs)

    model = Doubled(encoder(), num_classes=2, preprocessor=preprocessor())
    once = model.predict(["a b"], verbose=0)
    np.testing.assert_allclose(model.predict(["a b", "a b"], verbose=0), np.repeat(once, 2, axis=0), rtol=1e-5)


def test_a_language_model_gives_each_text_the_logits_that_it_has_alone(eagerly):
    compare_with_single_texts(language_model())


def test_it_does_so_if_keras_takes_several_steps_at_a_time():
    model = language_model()
    model.compile(steps_per_execution=2)
    compare_with_single_texts(model)


def language_model():
    return CausalLM(encoder(TransformerEncoder, norm="pre", causal=True), preprocessor())


def compare_with_single_texts(model):
    texts = [" ".join("abcdefghij"[:length]) for length in (3, 9, 1, 5, 7)]
    for text, logits in zip(texts, model.predict(texts, batch_size=2, verbose=0), strict=True):
        [alone] = model.predict([text], verbose=0)
        np.testing.assert_allclose(logits, alone, atol=1e-5)


@pytest.mark.report("Scores of answers in several contexts cannot be compared.", "bert#783")
def test_answers_do_not_depend_on_the_other_contexts(eagerly):
    model = SpanExtractor(encoder(), preprocessor())
    contexts = [" ".join("abcdefghij"[:length]) for length in (3, 9, 1, 5)]
    together = model.answer(["bad"] * 4, contexts, batch_size=1)
    for context, found in zip(contexts, together, strict=True):
        alone = model.answer("bad", context)
        assert (found["text"], found["start"]) == (alone["text"], alone["start"])
        assert found["score"] == pytest.approx(alone["score"], abs=1e-5)


def test_a_callback_that_stops_is_an_error_and_the_next_prediction_is_whole(eagerly):
    class Stops(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            self.model.stop_predicting = True

    model = tagger()
    for data in (SENTENCES, SENTENCES[:1]):
        with pytest.raises(RuntimeError, match="a result for each row, but a callback stopped it"):
            model.predict(data, batch_size=2, verbose=0, callbacks=[Stops()])
    assert [len(logits) for logits in model.predict(SENTENCES, verbose=0)] == [len(words) for words in SENTENCES]


def test_callbacks_are_called_for_each_batch_and_there_is_one_progress_bar(eagerly, capsys):
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


def test_tensorflow_tunes_no_pipeline_of_a_task(eagerly, tuned):
    """It would wait for up to a minute at the end of an epoch."""
    model = of_vectors()
    model.compile("sgd")
    data = ["good a", "bad b", "a b c"], [0, 1, 1]
    model.fit(*data, validation_data=data, verbose=0)
    assert tuned[:2] == [False, False]
    tuned.clear()
    model.evaluate(*data, verbose=0)
    assert tuned == [False]
    model.predict(data[0], verbose=0)  # It needs no pipeline.
    assert tuned == [False]


def test_texts_and_rows_of_several_texts_are_predicted_by_one_compiled_model():
    model = TextEmbedder(encoder(), preprocessor())
    texts = ["a b", "good c d", "e"]
    vectors = model.predict(texts, verbose=0)
    rows = model.predict((texts, texts[::-1]), verbose=0)
    np.testing.assert_allclose(rows, np.stack([vectors, vectors[::-1]], axis=1), atol=1e-5)
    np.testing.assert_allclose(model.predict(texts, verbose=0), vectors, atol=1e-5)


def test_the_rows_of_a_part_of_the_batches_are_predicted_and_evaluated_and_no_others(eagerly):
    model, texts = classifier(), ["a b c d e f", "a", "a b c d", "b c"]
    model.compile("sgd")
    data = batches(texts, [0, 1, 1, 0], preprocessor=model.preprocessor, batch_size=1, shuffle=False)
    expected = model.predict(texts, verbose=0)
    for part, rows in ((data.shard(1, 2), [1, 3]), (data.take(2), [0, 1])):
        assert part.order.tolist() == rows
        np.testing.assert_allclose(model.predict(part, verbose=0), expected[rows], atol=1e-5)
        loss = model.evaluate([texts[row] for row in rows], [[0, 1, 1, 0][row] for row in rows], verbose=0)
        assert model.evaluate(part, verbose=0) == pytest.approx(loss, rel=1e-4)
