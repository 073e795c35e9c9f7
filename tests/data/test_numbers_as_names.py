"""Labels that are numbers or booleans, of classes whose names are numbers or booleans too."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import few_shot
from keras_transfer.analysis import ClassificationReport, report
from keras_transfer.data.label_names import keys_as_positions, label_ids, names_in
from keras_transfer.text import word_batches
from tests.helpers import EAGER
from tests.tasks.tiny import WORDS, of_words

STARS = ["1", "2", "3", "4", "5"]


@pytest.fixture
def model():
    keras.utils.set_random_seed(0)
    model = of_words(WORDS, label_names=STARS, dropout=0.0)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER)
    return model


def test_integers_that_are_names_are_not_positions(model):
    for labels in ([1, 5], np.array([1, 5]), [1.0, 5.0], np.array([[1], [5]])):
        np.testing.assert_array_equal(np.ravel(model.labels.encode(labels)), [0, 4])
    assert model.evaluate(["a", "b"], [1, 5], verbose=0) == model.evaluate(["a", "b"], ["1", "5"], verbose=0)
    assert model.test_on_batch(["a", "b"], [1, 5]) == model.test_on_batch(["a", "b"], ["1", "5"])


def test_integers_that_can_only_be_positions_are_positions(model):
    labels = [0, 4, 1]
    assert model.labels.encode(labels) is labels


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 4], r"names in `label_names`, \['1', .*as strings, .*Received: 1 at position 0"),
        ([5, 0], "all be names .*or all be positions, from 0 to 4. Received: 0 at position 1"),
        ([1, 7], "Received: 7 at position 1"),
    ],
)
def test_integers_that_can_be_read_in_two_ways_or_in_none_are_an_error(model, labels, message):
    for call in (model.fit, model.evaluate, model.train_on_batch):
        with pytest.raises(ValueError, match=message):
            call(["a", "b"], labels)


def test_all_rows_of_a_validation_split_tell_whether_integers_are_names(model):
    start, texts, found = model.get_weights(), ["good", "bad", "a", "b", "c"], []
    for labels in ([1, 2, 5, 3, 4], [[1], [2], [5], [3], [4]], ["1", "2", "5", "3", "4"], [0, 1, 4, 2, 3]):
        model.set_weights(start)
        options = {"validation_split": 0.4, "shuffle": False, "verbose": 0}
        found.append(model.fit(texts, np.array(labels), **options).history)
    assert found[0] == found[1] == found[2] == found[3]


def test_booleans_are_read_by_name(model):
    named = of_words(WORDS, label_names=["True", "False"])
    np.testing.assert_array_equal(named.labels.encode([True, False]), [0, 1])
    np.testing.assert_array_equal(named.labels.encode(np.array([False])), [1])
    labels = [True, False]
    assert of_words(WORDS, num_classes=2).labels.encode(labels) is labels
    for names in (["yes", "no"], STARS):
        with pytest.raises(ValueError, match="must not be booleans, which are not among `label_names`"):
            of_words(WORDS, label_names=names).labels.encode(labels)


def test_numbers_as_keys_of_class_weight_are_read_as_labels_are(model):
    assert keys_as_positions({1: 2.0, 5: 1.0}, STARS) == [0, 4]
    assert keys_as_positions({"2": 2.0, 5: 1.0}, STARS) == [1, 4]
    assert keys_as_positions({0: 2.0, 1: 1.0}, STARS) == [0, 1]
    with pytest.raises(ValueError, match="keys of `class_weight`. Pass names of classes as strings. .*both names"):
        model.fit(["a", "b"], [1, 5], class_weight={1: 2.0}, verbose=0)
    texts = ["good", "bad", "a"]
    start = model.get_weights()
    model.fit(texts, [1, 1, 5], class_weight="balanced", shuffle=False, verbose=0)
    by_number = model.get_weights()
    model.set_weights(start)
    model.fit(texts, ["1", "1", "5"], class_weight="balanced", shuffle=False, verbose=0)
    for ours, theirs in zip(by_number, model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_integers_become_the_names_of_the_classes_that_occur():
    assert names_in([10, 9, 2]) == ["2", "9", "10"]
    assert names_in(np.array([10, 9, 2, 9])) == ["2", "9", "10"]


def test_integers_as_labels_of_words_are_read_as_those_of_texts_are():
    np.testing.assert_array_equal(label_ids([["a", "b"]], [[1, 3]], ["1", "2", "3"]), [0, 2])
    np.testing.assert_array_equal(label_ids([["a", "b"]], [[0, 1]], ["1", "2", "3"]), [0, 1])
    with pytest.raises(ValueError, match="both names .* and positions"):
        label_ids([["a", "b"]], [[1, 2]], ["1", "2", "3"])


def test_class_weights_of_words_are_read_as_their_labels_are():
    preprocessor = of_words(WORDS, num_classes=2).preprocessor
    options = {"label_names": ["1", "2", "3"], "class_weight": {1: 2.0, 3: 4.0}, "shuffle": False}
    _, _, weights = word_batches([["a", "b"]], [[1, 3]], preprocessor=preprocessor, **options)[0]
    np.testing.assert_array_equal(weights[0, :2], [2.0, 4.0])


def test_a_report_reads_labels_as_a_task_does():
    found = ClassificationReport([1, 5], np.eye(5)[[0, 4]], from_logits=False, label_names=STARS, resamples=10)
    np.testing.assert_array_equal(found.labels, [0, 4])


def test_a_report_reads_the_values_of_classes_of_scikit_learn_by_value():
    class Estimator:
        classes_ = np.array([1, 2, 3, 4, 5])

        def predict_proba(self, x):
            return np.eye(5)[[0, 3]]

    found = report(Estimator(), ["a", "b"], [1, 4], resamples=10)
    np.testing.assert_array_equal(found.labels, [0, 3])


def test_few_examples_may_have_numbers_as_names(model, monkeypatch):
    seen = []
    monkeypatch.setattr(few_shot, "fine_tune", lambda model, x, y, **options: seen.append(y))
    monkeypatch.setattr(few_shot.TextEmbedder, "fit", lambda *args, **options: None)
    few_shot.setfit(model, ["a", "b", "c", "d"], [1, 1, 5, 5], num_iterations=1)
    np.testing.assert_array_equal(model.labels.encode(seen[0]), [0, 0, 4, 4])
