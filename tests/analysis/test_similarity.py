"""CKA, SVCCA and PWCCA agree with the code of their authors; layers are compared within and between models."""

import keras
import numpy as np
import pytest

import keras_transfer.analysis.similarity as similarity
from keras_transfer.analysis import (
    LayerSimilarity,
    MovedLayers,
    hidden_states,
    layer_similarity,
    moved_layers,
    representation_similarity,
)
from keras_transfer.encoders import AlbertEncoder
from keras_transfer.tasks import TextClassifier, TextEmbedder
from keras_transfer.text import BertPreprocessor
from tests.errors import check_errors
from tests.samples import REFERENCES
from tests.tasks import tiny


@pytest.fixture(scope="module")
def reference():
    """Arrays, and what the authors' code finds in them: `tests/references/make_cca.py`."""
    with np.load(REFERENCES / "cca.npz") as file:
        return dict(file)


def random_arrays(rows=100, dims=10, other=7):
    random = np.random.default_rng(0)
    a = random.normal(size=(rows, dims))
    return a, a[:, :other] + random.normal(size=(rows, other))


def test_cka_has_the_values_that_the_authors_notebook_prints():
    np.random.seed(1337)
    a = np.random.randn(100, 10)
    b = np.random.randn(100, 10) + a
    found = [round(representation_similarity(a, b, method), 5) for method in ("cka", "rbf_cka", "debiased_cka")]
    assert found == [0.55761, 0.65483, 0.51346]


def test_cka_of_sums_in_parts_equals_that_of_gram_matrices(monkeypatch):
    monkeypatch.setattr(similarity, "_ROWS", 7)
    a, b = random_arrays()
    centering = np.eye(100) - 1 / 100
    first, second = (centering @ (each + 5) @ (each + 5).T @ centering for each in (a, b))
    expected = (first * second).sum() / np.sqrt((first**2).sum() * (second**2).sum())
    assert representation_similarity(a, b) == pytest.approx(expected, abs=1e-12)
    grams = [each @ each.T for each in (a, b)]
    for gram in grams:  # The U-centering of Szekely and Rizzo (2014).
        np.fill_diagonal(gram, 0)
        means = gram.sum(axis=0) / 98
        gram += gram.sum() / (99 * 98) - means - means[:, None]
        np.fill_diagonal(gram, 0)
    expected = (grams[0] * grams[1]).sum() / np.sqrt((grams[0] ** 2).sum() * (grams[1] ** 2).sum())
    assert representation_similarity(a, b, "debiased_cka") == pytest.approx(expected, abs=1e-12)


def test_rotations_leave_cka_at_1_and_debiased_cka_of_unrelated_vectors_is_near_0():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 60, 50))
    rotated = 3 * a @ np.linalg.qr(random.normal(size=(50, 50)))[0] + 1
    for method in ("cka", "rbf_cka", "debiased_cka"):
        assert representation_similarity(a, rotated, method) == pytest.approx(1)
    assert representation_similarity(a, b) > 0.4 and abs(representation_similarity(a, b, "debiased_cka")) < 0.05


def with_sizes(values, kept):
    """Returns vectors whose first principal axes are alike, and the others too short for SVCCA."""
    left, _, axes = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
    return left * np.where(np.arange(len(axes)) < kept, 1, 1e-3) @ axes


def test_svcca_is_the_mean_of_the_correlations_that_the_authors_code_finds(reference):
    a, b = reference["a"], reference["b"]
    for kept, expected in (((6, 8), "correlations"), ((4, 5), "few")):
        found = representation_similarity(*map(with_sizes, (a, b), kept), "svcca")
        assert found == pytest.approx(reference[expected].mean(), abs=1e-8)


def test_pwcca_weighs_the_correlations_by_the_directions_that_the_authors_code_finds(reference):
    a, b, directions = reference["a"], reference["b"], reference["directions"]
    weights = np.abs(directions @ (a - a.mean(axis=0))).sum(axis=1) / np.linalg.norm(directions, axis=1)
    expected = weights @ reference["correlations"] / weights.sum()
    assert representation_similarity(a, b, "pwcca") == pytest.approx(expected, abs=1e-8)
    assert representation_similarity(b, a, "pwcca") == pytest.approx(expected, abs=1e-8)
    assert representation_similarity(reference["white"], b, "pwcca") == pytest.approx(reference["weighted"], abs=1e-8)


def test_canonical_correlations_ignore_repeated_neurons_and_linear_maps():
    a, b = random_arrays()
    linear, doubled = np.random.default_rng(1).normal(size=(10, 10)), np.hstack([b, b])
    expected = representation_similarity(a, b, "pwcca")
    assert representation_similarity(a @ linear, doubled, "pwcca") == pytest.approx(expected, abs=1e-8)
    expected = representation_similarity(a, b, "svcca")
    assert representation_similarity(a, doubled, "svcca") == pytest.approx(expected, abs=1e-8)


def compared(a, b, method="cka"):
    return lambda: representation_similarity(a, b, method)


test_arrays_that_cannot_be_compared_are_errors = check_errors(
    (compared(np.ones((5, 2)), np.ones((6, 2))), "[rows, other dim] ... Received: a=(5, 2), b=(6, 2)"),
    (compared(np.eye(3), np.eye(3), "debiased_cka"), "at least 4 vectors. Received: vectors=3"),
    (compared(np.eye(5), np.full((5, 5), np.nan)), "must be finite numbers"),
    (compared(np.full((5, 2), 0.1), np.eye(5)), "The vectors must differ"),
    (compared(np.eye(5), np.full((5, 2), 0.1), "rbf_cka"), "The vectors must differ"),
    (compared(np.repeat(np.eye(2), [7, 1], axis=0), np.eye(8), "rbf_cka"), "More than half of the distances are 0."),
    (compared(*random_arrays(rows=10), "svcca"), "more vectors than dimensions ... vectors=10, dimensions=(10, 7)"),
    (compared(*random_arrays(), "cosine"), "`method` must be one of ('cka', 'debiased_cka',"),
)


def some_bert(seed=0, **options):
    keras.utils.set_random_seed(seed)
    return tiny.encoder(**{"num_layers": 2, "initializer_range": 0.5} | options)


def options(pieces=("a", "b", "c", "d")):
    preprocessor = BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *pieces], sequence_length=16)
    return {"preprocessor": preprocessor, "verbose": 0}


SENTENCES = [list("abcd"), list("dcbaabd"), list("ac"), list("bddbcaab"), list("ddcab")]


@pytest.mark.core
def test_the_layers_of_a_model_are_compared_as_their_vectors_are():
    encoder = some_bert()
    states = hidden_states(encoder, SENTENCES, **options()).flat(slice(None))
    found = layer_similarity(encoder, SENTENCES, **options())
    names = ["embeddings", "block_0", "block_1"]
    expected = [[representation_similarity(states[a], states[b]) for b in names] for a in names]
    np.testing.assert_allclose(found.matrix, expected, atol=1e-3)  # `states` are stored in float16.
    assert (
        [row["layer"] for row in found.rows] == names
        and (np.diagonal(found.matrix) == 1).all()
        and (found.matrix < 1).any()
    )
    assert found.rows[1] == {"layer": "block_0", **dict(zip(names, found.matrix[1]))}
    assert "cka of 26 vectors." in str(found)


def test_pwcca_has_the_weights_of_the_layer_in_the_line():
    sentences = np.random.default_rng(0).choice(list("abcd"), (9, 8)).tolist()
    encoder, states = some_bert(), hidden_states(some_bert(), sentences, dtype=None, **options())
    found = layer_similarity(encoder, sentences, method="pwcca", **options()).matrix
    for i, j in ((1, 2), (2, 1)):
        own = [states.column(states.names[place]) for place in (i, j)]
        assert found[i, j] == pytest.approx(representation_similarity(*own, "pwcca"), abs=1e-4)
    assert abs(found[1, 2] - found[2, 1]) > 1e-3


@pytest.mark.core
def test_the_layers_of_two_models_may_differ_in_number_width_and_tokenizer():
    other = TextEmbedder(some_bert(1, num_layers=1, hidden_dim=6), options("dcba")["preprocessor"])
    found = layer_similarity(some_bert(), SENTENCES, other, **options())
    assert found.matrix.shape == (3, 2) and [*found.rows[0]] == ["layer", "embeddings", "block_0"]
    debiased = layer_similarity(some_bert(), SENTENCES, other, method="debiased_cka", **options())
    assert (debiased.matrix < found.matrix).all()


@pytest.mark.core
def test_moved_layers_are_those_whose_weights_and_states_differ():
    before, after = some_bert(), some_bert()
    kernel = next(weight for weight in after.weights if "block_1" in weight.path and "kernel" in weight.path)
    kernel.assign(kernel * 2)
    found = moved_layers(before, after, SENTENCES, **options())
    rows = {row["group"]: row for row in found.rows}
    assert [rows[name]["weights"] for name in ("embeddings", "block_0")] == [0, 0]
    group = [keras.ops.convert_to_numpy(weight) for weight in before.weights if "block_1" in weight.path]
    own = next(keras.ops.convert_to_numpy(weight) for weight in before.weights if weight.path == kernel.path)
    expected = np.linalg.norm(own) / np.sqrt(sum(np.square(each).sum() for each in group))
    assert rows["block_1"]["weights"] == pytest.approx(expected, rel=1e-5)
    assert [rows[name]["states"] for name in ("embeddings", "block_0")] == pytest.approx([0, 0], abs=1e-6)
    assert rows["block_1"]["states"] > 1e-3 and found.left_out == []


def test_layers_without_weights_of_their_own_have_states():
    before, after = (some_bert(seed, cls=AlbertEncoder) for seed in range(2))
    rows = {row["group"]: row for row in moved_layers(before, after, SENTENCES, **options()).rows}
    assert [rows[name]["weights"] is None for name in ("embeddings", "block_0", "layer_0", "layer_1")] == [0, 0, 1, 1]
    assert rows["block_0"]["states"] is None and rows["layer_1"]["states"] > 0.01


def test_a_head_that_only_one_model_has_is_left_out():
    encoder = some_bert()
    model = TextClassifier(encoder, num_classes=3)
    found = moved_layers(encoder, model)
    assert found.left_out == ["head"] and all(row["states"] is None for row in found.rows)
    assert "Only in one of the models: head." in str(found)


def test_similarities_and_distances_have_pictures():
    pytest.importorskip("matplotlib", reason="draws pictures: pip install 'keras_transfer[plots]'")
    axes = LayerSimilarity(np.eye(2), ["a", "b"], ["c", "d"], "cka", 5).plot().axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["c", "d"]
    rows = [{"group": name, "kind": "block", "weights": 0.1, "states": None} for name in "ab"]
    (line,) = MovedLayers(rows, []).plot().axes[0].lines[:1]
    assert line.get_xdata().tolist() == [0.1, 0.1]


test_models_that_cannot_be_compared_are_errors = check_errors(
    (lambda: layer_similarity(some_bert(), SENTENCES), "Pass `preprocessor`"),
    (lambda: layer_similarity(some_bert(), SENTENCES[:2], method="svcca", **options()), "more vectors than dimensions"),
    (lambda: moved_layers(some_bert(), some_bert(num_layers=1, hidden_dim=4)), "must have layer groups in common"),
)
