import itertools

import keras
import numpy as np
import pytest

import keras_transfer as kt
from tests.tasks.tiny import classifier, examples, message

adapt = kt.adaptation


def expected_votes(accuracies, coverages, shares, scale):
    """Returns rows with all votes of functions, in the proportions that the generative model predicts."""
    classes, rows, labels = len(shares), [], []
    for label in range(classes):
        for votes in itertools.product(range(-1, classes), repeat=len(accuracies)):
            chance = shares[label]
            for vote, right, covers in zip(votes, accuracies, coverages):
                chance *= 1 - covers if vote < 0 else covers * (right if vote == label else (1 - right) / (classes - 1))
            count = round(chance * scale)
            assert abs(count - chance * scale) < 1e-6  # No row is a fraction.
            rows += [votes] * count
            labels += [label] * count
    return np.array(rows), np.array(labels)


@pytest.mark.parametrize(
    ("accuracies", "coverages", "shares", "scale"),
    [((0.9, 0.8, 0.6), (1, 1, 1), (0.5, 0.5), 1000), ((0.9, 0.75, 0.7, 0.8), (1, 1, 0.5, 1), (0.25, 0.75), 16000)],
)
def test_the_generative_model_finds_the_accuracies_without_labels(accuracies, coverages, shares, scale):
    votes, _ = expected_votes(accuracies, coverages, shares, scale)
    found = adapt.combine_votes(votes, len(shares), class_shares=shares, prior_votes=0)
    assert found.accuracies == pytest.approx(accuracies, abs=1e-5)
    assert found.coverages == pytest.approx(coverages)


def test_soft_labels_equal_the_enumerated_posterior():
    accuracies, shares = (0.9, 0.8, 0.6), (0.5, 0.5)
    votes, labels = expected_votes(accuracies, (1, 1, 1), shares, 1000)
    found = adapt.combine_votes(votes, 2, class_shares=shares, prior_votes=0)
    for pattern in itertools.product(range(2), repeat=3):
        rows = (votes == pattern).all(axis=1)
        assert found.probabilities[rows][0, 1] == pytest.approx(labels[rows].mean(), abs=1e-5)


def test_functions_without_common_texts_keep_the_expected_accuracy():
    votes = np.array([[0, -1], [-1, 1], [0, -1]])
    found = adapt.combine_votes(votes, 2)
    assert found.accuracies == pytest.approx([0.7, 0.7])
    assert found.probabilities[0] == pytest.approx([0.7, 0.3])


def test_a_majority_shares_a_row_between_classes_with_equally_many_votes():
    votes = np.array([[0, 0, 1], [0, 1, -1], [-1, -1, -1]])
    found = adapt.combine_votes(votes, 2, model="majority")
    assert found.probabilities.tolist() == [[1, 0], [0.5, 0.5], [0.5, 0.5]]
    assert found.known.tolist() == [True, True, False]
    assert found.conflicts == pytest.approx([2 / 3, 2 / 3, 1 / 3])


def test_a_function_that_always_abstains_has_no_accuracy():
    found = adapt.combine_votes(np.array([[0, -1, 0], [1, -1, 1]]), 2)
    assert np.isnan(found.accuracies[1]) and found.coverages.tolist() == [1, 0, 1]
    assert "nan" in str(found)


def test_a_good_function_counts_more_than_two_bad_ones():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 3000)

    def votes(accuracy):
        right = random.random(len(labels)) < accuracy
        return np.where(right, labels, (labels + random.integers(1, 3, len(labels))) % 3)

    found = np.stack([votes(accuracy) for accuracy in (0.95, 0.5, 0.5, 0.5)], axis=1)
    right = {
        model: (adapt.combine_votes(found, 3, model=model, prior_votes=0).probabilities.argmax(axis=1) == labels).mean()
        for model in ("generative", "majority")
    }
    assert right["generative"] > 0.93 > right["majority"] + 0.1


def test_a_classifier_learns_from_soft_labels():
    texts, labels = examples(64)
    names = ["bad", "good"]
    functions = [
        lambda text: "good" if "good" in text else None,
        lambda text: "bad" if "bad" in text else None,
        lambda text: "good" if text.startswith("a") else None,
    ]
    votes = adapt.apply_labeling_functions(functions, texts, names)
    weak = adapt.combine_votes(votes, 2, model="majority")
    model = classifier()
    model.compile(keras.optimizers.Adam(0.01), keras.losses.CategoricalCrossentropy(from_logits=True))
    rows = np.flatnonzero(weak.known)
    model.fit([texts[row] for row in rows], weak.probabilities[rows], epochs=10, verbose=0)
    assert (model.predict(texts, verbose=0).argmax(axis=1) == labels).mean() > 0.9


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (
            lambda: adapt.apply_labeling_functions([lambda text: "goood"], ["a"], ["bad", "good"]),
            "Did you mean 'good'?",
        ),
        (lambda: adapt.apply_labeling_functions([lambda text: 1], ["a"], ["bad", "good"]), "None or one of"),
        (lambda: adapt.apply_labeling_functions([lambda text: None], ["a"], ["bad", "good"]), "must not abstain"),
        (lambda: adapt.apply_labeling_functions([len], (["a"], ["b"]), ["bad", "good"]), "must be single texts"),
        (lambda: adapt.apply_labeling_functions([], ["a"], ["bad", "good"]), "`functions` must be"),
        (lambda: adapt.combine_votes(np.array([[2, 0]]), 2), "from -1 to 1"),
        (lambda: adapt.combine_votes(np.array([[-1, -1]]), 2), "must not abstain"),
        (lambda: adapt.combine_votes(np.array([[0, 1]]), 2, class_shares=[0.5, 0.6]), "whose sum is 1"),
    ],
)
def test_mistakes_are_errors(run, expected):
    assert expected in message(run)
