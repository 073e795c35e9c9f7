"""The estimator works as those of scikit-learn do, and without scikit-learn."""

import pickle
import sys

import numpy as np
import pytest

from keras_transfer.adaptation import get_recipe
from keras_transfer.analysis import report
from keras_transfer.tasks import TextClassifier
from keras_transfer.wrappers import KerasTransferClassifier
from tests.tasks.tiny import of_words

TEXTS = ["a good film", "a fine film", "so good", "a bad film", "so bad", "a bore"]
LABELS = ["good", "good", "good", "bad", "bad", "bad"]


@pytest.fixture
def classifier(monkeypatch, eagerly):
    """An estimator over word vectors, which is loaded and trained in a moment."""
    words = sorted({word for text in TEXTS for word in text.split()})

    def build(source, sequence_length, head, **arguments):
        return of_words(words, **arguments)

    monkeypatch.setattr(TextClassifier, "from_pretrained", build)
    return KerasTransferClassifier(epochs=1, batch_size=3, random_state=0)


@pytest.fixture
def scikit_learn():
    return pytest.importorskip("sklearn", reason="needs scikit-learn: pip install scikit-learn")


def test_a_classifier_learns_and_answers_with_the_labels_it_was_given(small_minilm, eagerly):
    texts, labels = ["a a", "z z"] * 16, np.array([7, 3] * 16)
    recipe = get_recipe("feature_extraction", learning_rate=0.1)
    classifier = KerasTransferClassifier(small_minilm, recipe=recipe, epochs=8, batch_size=8, random_state=0)
    classifier.fit(texts, labels)
    assert classifier.classes_.tolist() == [3, 7] and classifier.model_.label_names == ["3", "7"]
    assert classifier.predict(["z z", "a a"]).tolist() == [3, 7]
    probabilities = classifier.predict_proba(["z z", "a a", "q"])
    assert probabilities.shape == (3, 2) and probabilities.sum(axis=1) == pytest.approx(np.ones(3))
    assert classifier.score(texts, labels) == 1 and len(classifier.history_["loss"]) == 8
    assert classifier.score(["z z", "z z"], [3, 7], sample_weight=[3, 1]) == 0.75
    assert recipe.epochs == "auto"
    found = report(classifier, texts, labels, resamples=2)
    assert found.metrics["accuracy"].value == 1 and list(found.classes) == ["3", "7"]
    found = report(classifier, texts, labels, label_names=["last", "first"], resamples=2)
    assert found.metrics["accuracy"].value == 1 and list(found.classes) == ["last", "first"]


def test_the_same_random_state_gives_the_same_model(classifier):
    first = classifier.fit(TEXTS, LABELS).predict_proba(TEXTS)
    np.testing.assert_array_equal(classifier.fit(TEXTS, LABELS).predict_proba(TEXTS), first)
    assert (classifier.set_params(random_state=1).fit(TEXTS, LABELS).predict_proba(TEXTS) != first).any()


def test_sample_weights_change_what_is_learned(classifier):
    classifier.set_params(recipe=get_recipe("feature_extraction", learning_rate=0.1), epochs=4)
    first = classifier.fit(TEXTS, LABELS).predict_proba(TEXTS)
    weighted = classifier.fit(TEXTS, LABELS, sample_weight=[1, 1, 1, 0, 0, 0]).predict_proba(TEXTS)
    assert weighted[:, 1].mean() > first[:, 1].mean() + 0.1


def test_columns_of_tables_are_texts(classifier):
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    table = pandas.DataFrame({"text": TEXTS, "label": LABELS})
    expected = classifier.fit(TEXTS, LABELS).predict_proba(TEXTS)
    np.testing.assert_array_equal(
        classifier.fit(table["text"], table["label"]).predict_proba(table[["text"]]), expected
    )
    assert classifier.score(table["text"], table[["label"]]) == classifier.score(TEXTS, LABELS)


def test_two_columns_are_pairs_of_texts(small_minilm, eagerly):
    classifier = KerasTransferClassifier(small_minilm, epochs=1).fit(np.array([TEXTS, TEXTS[::-1]]).T, LABELS)
    first, other = classifier.predict_proba([("a film", "a bore"), ("a film", "good")])
    assert (first != other).any()
    with pytest.raises(ValueError, match="as many columns of texts as in `fit`, 2. Received: 1"):
        classifier.predict(["a film"])


def test_scores_require_a_label_of_the_same_type_for_each_text(classifier):
    classifier.fit(TEXTS, [0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match="must have a label.* Received: labels=1, predicted=6"):
        classifier.score(TEXTS, [0])
    with pytest.raises(ValueError, match="the same type as in `fit`, such as 0. Received: '0' at position 0"):
        classifier.score(TEXTS, list("000111"))


def test_numbers_of_numpy_are_numbers(classifier):
    classifier.random_state = np.int64(0)
    classifier.fit(TEXTS, [np.bool_(label == "good") for label in LABELS])
    assert classifier.classes_.tolist() == [False, True]


def test_it_has_no_answers_without_texts(classifier):
    classifier.fit(TEXTS, LABELS)
    assert classifier.predict([]).tolist() == [] and classifier.predict_proba([]).shape == (0, 2)


def test_a_clone_has_the_same_arguments_and_is_not_fitted(scikit_learn, classifier):
    from sklearn.base import clone, is_classifier

    classifier.recipe = get_recipe("bert", epochs=2)
    copy = clone(classifier.fit(TEXTS, LABELS))
    assert copy.get_params() == classifier.get_params() and not hasattr(copy, "model_")
    assert is_classifier(copy)
    assert repr(KerasTransferClassifier(epochs=2)) == "KerasTransferClassifier(epochs=2)"


def test_cross_validation_divides_texts_and_labels(scikit_learn, classifier):
    from sklearn.model_selection import cross_val_predict, cross_val_score

    scores = cross_val_score(classifier, TEXTS, LABELS, cv=2, error_score="raise")
    assert scores.shape == (2,) and ((scores >= 0) & (scores <= 1)).all()
    found = cross_val_predict(classifier, np.array(TEXTS), LABELS, cv=2, method="predict_proba")
    assert found.sum(axis=1) == pytest.approx(np.ones(6))


def test_a_grid_search_in_a_pipeline_sets_the_arguments(scikit_learn, classifier):
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = Pipeline([("lower", lower), ("classify", classifier)])
    search = GridSearchCV(pipeline, {"classify__learning_rate": [1e-4, 1e-3]}, cv=2, error_score="raise")
    search.fit([text.upper() for text in TEXTS], LABELS)
    assert search.best_params_["classify__learning_rate"] in (1e-4, 1e-3)
    assert set(search.predict(["GOOD", "BAD"])) <= {"bad", "good"} and search.classes_.tolist() == ["bad", "good"]


def test_a_fitted_classifier_can_be_pickled(classifier):
    classifier.fit(TEXTS, LABELS)
    copy = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_allclose(copy.predict_proba(TEXTS), classifier.predict_proba(TEXTS), atol=1e-6)


def test_without_scikit_learn_only_its_tags_are_missing(classifier, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.utils", None)
    classifier.fit(TEXTS, LABELS)
    assert 0 <= classifier.score(TEXTS, LABELS) <= 1
    with pytest.raises(ImportError, match=r"pip install 'scikit-learn>=1\.6'"):
        classifier.__sklearn_tags__()


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (TEXTS, ["good"] * 6, r"at least two different labels. Received: \['good'\]"),
        (TEXTS, [0, 1, 0, "1", 0, 1], "all of the same type.* Received: '1' at position 3, 0 at position 0"),
        (TEXTS, ["a", "b", None, "a", "b", "a"], "Received: None at position 2"),
        (TEXTS, [0, 1, float("nan"), 0, 1, 0], "Received: nan at position 2"),
        (TEXTS, np.eye(2)[[0, 1] * 3], r"one label for each text. Received: y=\(6, 2\)"),
        (TEXTS, LABELS[:4], "4 labels, 6 texts"),
        (
            TEXTS,
            [1.0, 2.5, 3.7] * 2,
            r"must be classes. For measurements, use a `TextRegressor`.* Received: \[2.5, 3.7\]",
        ),
        (TEXTS, ["a", "a ", "b"] * 2, "`y`: Names of classes must not differ only in the spaces around them"),
        ((TEXTS, TEXTS), LABELS, r"an array of shape \[rows, 2\].* Received: a tuple of 2 values"),
        (np.array([["a"] * 3] * 6), LABELS, "two for pairs. Received: 3 columns"),
        ([1.5] * 6, LABELS, "Texts must be strings"),
        (iter(TEXTS), LABELS, "neither a generator nor a sparse matrix. Received: X=a list_iterator"),
    ],
)
def test_invalid_data_are_errors(texts, labels, message, classifier):
    with pytest.raises(ValueError, match=message):
        classifier.fit(texts, labels)
    assert not hasattr(classifier, "model_")


def test_features_of_a_vectorizer_are_an_error(scikit_learn, classifier):
    from sklearn.feature_extraction.text import CountVectorizer

    with pytest.raises(ValueError, match="nor a sparse matrix.* Received: X=<Compressed Sparse Row"):
        classifier.fit(CountVectorizer().fit_transform(TEXTS), LABELS)


def test_invalid_arguments_are_errors(classifier):
    with pytest.raises(ValueError, match="Did you mean 'learning_rate'. Received: 'learning_rat'"):
        classifier.set_params(epochs=2, learning_rat=1)
    assert classifier.epochs == 1
    with pytest.raises(ValueError, match="`epochs` must be a positive integer"):
        classifier.set_params(epochs=0).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="was not fitted. Call `fit` before `predict`. Received: KerasTransferClass"):
        classifier.predict(TEXTS)
