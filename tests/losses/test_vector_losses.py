"""Losses of vectors equal their definitions in NumPy, which are those of sentence-transformers."""

import keras
import numpy as np
import pytest

from keras_transfer.losses import (
    ContrastiveLoss,
    CosineSimilarityLoss,
    MarginMSELoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    TripletLoss,
)
from tests.errors import check_errors
from tests.helpers import EAGER


def vectors(parts, rows=5, dim=6):
    """Random vectors [rows, parts, dim] of different lengths."""
    random = np.random.default_rng(0)
    return (random.normal(size=(rows, parts, dim)) * random.uniform(0.5, 3, (rows, parts, 1))).astype("float32")


def unit(values):
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def cosine(values, first=0, second=1):
    return (unit(values[:, first]) * unit(values[:, second])).sum(-1)


def cross_entropy(scores):
    """The cross-entropy of each row, whose right column is its own number."""
    return np.log(np.exp(scores).sum(1)) - np.diagonal(scores)


def ranking(values, scale, symmetric=False):
    anchors, candidates = unit(values[:, 0]), unit(values[:, 1:]).swapaxes(0, 1).reshape(-1, values.shape[-1])
    scores = scale * anchors @ candidates.T
    if symmetric:
        return (cross_entropy(scores) + cross_entropy(scores[:, : len(values)].T)) / 2
    return cross_entropy(scores)


def distance(first, second, kind):
    if kind == "cosine":
        return 1 - (unit(first) * unit(second)).sum(-1)
    return np.linalg.norm(first - second + 1e-6, axis=-1)


def value(loss, values, labels=None, weights=None):
    labels = np.zeros(len(values), "float32") if labels is None else np.asarray(labels, "float32")
    return float(loss(labels, values, sample_weight=weights))


@pytest.mark.core
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("parts", "scale"), [(2, 20.0), (3, 20.0), (4, 3.0)])
def test_ranking_is_the_cross_entropy_of_the_right_candidate_among_those_of_all_rows(parts, scale, symmetric):
    values = vectors(parts)
    loss = MultipleNegativesRankingLoss(scale=scale, symmetric=symmetric)
    assert value(loss, values) == pytest.approx(ranking(values, scale, symmetric).mean(), rel=1e-5)


@pytest.mark.parametrize("kind", ["euclidean", "cosine"])
@pytest.mark.parametrize("margin", [0.0, 5.0])
def test_a_triplet_has_no_loss_if_the_negative_is_farther_by_the_margin(kind, margin):
    values = vectors(3)
    near, far = distance(values[:, 0], values[:, 1], kind), distance(values[:, 0], values[:, 2], kind)
    expected = np.maximum(near - far + margin, 0)
    assert margin or 0 < (expected == 0).sum() < len(expected)
    assert value(TripletLoss(distance=kind, margin=margin), values) == pytest.approx(expected.mean(), rel=1e-5)


@pytest.mark.core
@pytest.mark.parametrize(("kind", "margin"), [("cosine", 0.5), ("euclidean", 4.0)])
def test_contrastive_loss_pulls_pairs_of_label_1_together_and_pushes_others_up_to_the_margin(kind, margin):
    values, labels = vectors(2), np.array([0, 1, 0, 1, 0])
    distances = distance(values[:, 0], values[:, 1], kind)
    expected = np.where(labels == 1, distances**2, np.maximum(margin - distances, 0) ** 2) / 2
    assert value(ContrastiveLoss(distance=kind, margin=margin), values, labels) == pytest.approx(
        expected.mean(), rel=1e-5
    )


def test_cosine_similarity_loss_is_the_squared_error_of_the_cosine():
    values, labels = vectors(2), np.linspace(-1, 1, 5)
    expected = ((cosine(values) - labels) ** 2).mean()
    assert value(CosineSimilarityLoss(), values, labels) == pytest.approx(expected, rel=1e-5)


@pytest.mark.report(
    "The Matryoshka loss fails around some losses.", "sentence-transformers#3538", "sentence-transformers#3880"
)
def test_matryoshka_is_the_weighted_sum_over_the_beginnings_of_the_vectors():
    values, labels = vectors(2), np.linspace(-1, 1, 5)
    loss = MatryoshkaLoss(CosineSimilarityLoss(), [6, 3, 2], weights=[1.0, 0.5, 2.0])
    each = [((cosine(values[..., :size]) - labels) ** 2).mean() for size in (6, 3, 2)]
    assert value(loss, values, labels) == pytest.approx(np.dot(each, [1.0, 0.5, 2.0]), rel=1e-5)
    loss = MatryoshkaLoss(MultipleNegativesRankingLoss(), [6, 2])
    expected = ranking(values, 20.0).mean() + ranking(values[..., :2], 20.0).mean()
    assert value(loss, values) == pytest.approx(expected, rel=1e-5)
    # The beginnings have length 1 for a loss of lengths, too.
    values = vectors(3)
    expected = TripletLoss(margin=1.0)(np.zeros(5), unit(values[..., :4]))
    assert value(MatryoshkaLoss(TripletLoss(margin=1.0), [4]), values) == pytest.approx(float(expected), rel=1e-5)


def test_a_row_counts_as_its_sample_weight_says():
    values, weights = vectors(2), np.array([1, 0, 2, 0, 0.5], "float32")
    expected = (ranking(values, 20.0) * weights).sum() / 5
    assert value(MultipleNegativesRankingLoss(), values, weights=weights) == pytest.approx(expected, rel=1e-5)


@pytest.mark.core
@pytest.mark.parametrize(
    "loss",
    [
        MultipleNegativesRankingLoss(symmetric=True),
        CosineSimilarityLoss(),
        ContrastiveLoss(distance="euclidean", margin=2.0),
        MatryoshkaLoss(ContrastiveLoss(), [4, 2], weights=[1.0, 0.5]),
    ],
    ids=lambda loss: loss.name,
)
def test_a_loss_survives_its_config_and_has_finite_gradients_for_vectors_of_zeros(loss):
    loss = keras.losses.deserialize(keras.losses.serialize(loss))
    assert keras.losses.serialize(loss) == keras.losses.serialize(
        keras.losses.deserialize(keras.losses.serialize(loss))
    )
    model = keras.Sequential([keras.Input((2, 3)), keras.layers.Dense(4, kernel_initializer="zeros")])
    model.compile("sgd", loss, run_eagerly=EAGER)
    model.train_on_batch(np.ones((2, 2, 3), "float32"), np.array([0.0, 1.0]))
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_matryoshka_computes_in_the_dtype_of_its_loss_unless_it_has_its_own_also_after_loading():
    for loss, expected in (
        (MatryoshkaLoss(CosineSimilarityLoss(), [2]), "float32"),
        (MatryoshkaLoss(CosineSimilarityLoss(dtype="float16"), [2]), "float16"),
        (MatryoshkaLoss(CosineSimilarityLoss(dtype="float16"), [2], dtype="float32"), "float32"),
        (CosineSimilarityLoss(dtype="float16"), "float16"),
    ):
        for each in (loss, keras.losses.deserialize(keras.losses.serialize(loss))):
            assert keras.backend.standardize_dtype(each(np.zeros(5), vectors(2)).dtype) == expected


test_arguments_that_cannot_be_meant_are_errors = check_errors(
    (lambda: MatryoshkaLoss(TripletLoss(reduction="sum"), [2]), "not of its `loss`. ... loss_reduction='sum'"),
    (lambda: MatryoshkaLoss(TripletLoss(), [2, 2]), "`dims` must be different ... Received: dims=[2, 2]"),
    (
        lambda: MatryoshkaLoss(TripletLoss(), [4, 2], weights=[1]),
        "a number for each of the 2 dims. Received: weights=[1]",
    ),
)


test_labels_outside_the_range_of_a_cosine_are_an_error = check_errors(
    ([0.5, 1.01], "must be between -1 and 1. Received: 1.01 at position 1"),
    ([-1.01, 0.5], "must be between -1 and 1. Received: -1.01 at position 0"),
    call=lambda labels: CosineSimilarityLoss().check_labels(np.array(labels)),
)


test_vectors_of_another_shape_are_an_error = check_errors(
    ((MultipleNegativesRankingLoss(), (5, 6)), "takes rows of at least 2 texts ... outputs of shape (5, 6)"),
    ((MultipleNegativesRankingLoss(), (5, 1, 6)), "takes rows of at least 2 texts ... outputs of shape (5, 1, 6)"),
    ((TripletLoss(), (5, 2, 6)), "`TripletLoss` takes rows of 3 texts ... outputs of shape (5, 2, 6)"),
    ((CosineSimilarityLoss(), (5, 3, 6)), "`CosineSimilarityLoss` takes rows of 2 texts ... shape (5, 3, 6)"),
    ((MatryoshkaLoss(CosineSimilarityLoss(), [8, 2]), (5, 2, 6)), "at most the size of the vectors, 6. ... =[8, 2]"),
    ((MatryoshkaLoss(TripletLoss(), [2]), (5, 2, 6)), "`TripletLoss` takes rows of 3 texts"),
    call=lambda loss, shape: loss(np.zeros(5), np.ones(shape, "float32")),
)


@pytest.mark.parity
def test_losses_equal_those_of_sentence_transformers():
    torch = pytest.importorskip("torch")
    reason = "compares with sentence-transformers on torch: run `make test-parity`"
    theirs = pytest.importorskip("sentence_transformers.losses", reason=reason, exc_type=ImportError)
    pairs, triplets = vectors(2), vectors(3)
    labels = np.array([0, 1, 0, 1, 0], "float32")
    for ours, loss, values in (
        (MultipleNegativesRankingLoss(), theirs.MultipleNegativesRankingLoss(None), triplets),
        (MultipleNegativesRankingLoss(symmetric=True), theirs.MultipleNegativesSymmetricRankingLoss(None), pairs),
        (MultipleNegativesRankingLoss(symmetric=True), theirs.MultipleNegativesSymmetricRankingLoss(None), triplets),
        (TripletLoss(), theirs.TripletLoss(None), triplets),
        (ContrastiveLoss(), theirs.ContrastiveLoss(None), pairs),
        (CosineSimilarityLoss(), theirs.CosineSimilarityLoss(None), pairs),
        (MarginMSELoss(), theirs.MarginMSELoss(None), triplets),
    ):
        parts = [torch.tensor(values[:, part]) for part in range(values.shape[1])]
        expected = float(loss.compute_loss_from_embeddings(parts, torch.tensor(labels)))
        assert value(ours, values, labels) == pytest.approx(expected, rel=1e-5), type(loss).__name__


@pytest.mark.core
def test_margins_of_dot_products_learn_from_those_of_a_teacher():
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    values, labels = vectors(3), np.array([2.0, -1.0, 0.5, 3.0, 0.0], "float32")
    query, positive, negative = (torch.tensor(values[:, part]) for part in range(3))
    margins = (query * positive).sum(-1) - (query * negative).sum(-1)
    expected = torch.nn.functional.mse_loss(margins, torch.tensor(labels))
    assert value(MarginMSELoss(), values, labels) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.core
@pytest.mark.parametrize("symmetric", [False, True])
def test_equal_texts_are_no_negatives_of_each_other(symmetric):
    values = vectors(3, rows=4)
    # Rows 0 and 1 have equal positives, 0 and 2 equal anchors, and the hard negative of 3 is the anchor of 1.
    texts = np.array([[0, 1, 2], [3, 1, 4], [0, 5, 6], [7, 8, 3]])
    anchors, candidates = unit(values[:, 0]), unit(values[:, 1:]).swapaxes(0, 1).reshape(8, -1)
    scores = 5 * anchors @ candidates.T
    for row, left_out in enumerate([[1, 2], [0, 7], [0], []]):
        scores[row, left_out] = -1e9
    expected = cross_entropy(scores)
    if symmetric:
        expected = (expected + cross_entropy(scores[:, :4].T)) / 2
    loss = MultipleNegativesRankingLoss(scale=5.0, symmetric=symmetric)
    np.testing.assert_allclose(loss(texts, values), expected.mean(), rtol=1e-4)
    matryoshka = MatryoshkaLoss(loss, [6])
    np.testing.assert_allclose(matryoshka(texts, values), expected.mean(), rtol=1e-4)


def test_without_equal_texts_their_numbers_change_no_loss():
    values, loss = vectors(3), MultipleNegativesRankingLoss()
    np.testing.assert_allclose(loss(np.arange(15).reshape(5, 3), values), loss(np.zeros(5), values), rtol=1e-6)
