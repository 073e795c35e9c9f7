"""Isotropy and self-similarity have the values of Ethayarajh's formulas; pictures have the principal axes."""

import itertools

import numpy as np
import pytest

from keras_transfer.analysis import hidden_states, isotropy, scatter
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.text import WordPreprocessor
from tests.errors import check_errors
from tests.tasks import tiny

SENTENCES = [["a", "b", "c"], ["b", "a", "good"], ["d", "a"], [], ["b", "e", "a", "a"]]


def measured(table, sentences, **options):
    """The row of the only layer of an encoder that gives words these vectors."""
    encoder = WordVectorEncoder.from_vectors(WordVectors(list(table), np.array(list(table.values()), "float32")))
    found = isotropy(encoder, sentences, preprocessor=WordPreprocessor(list(table)), verbose=0, **options)
    return found.rows[0]


def cosines(vectors):
    return [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in itertools.combinations(vectors, 2)]


def test_one_direction_has_a_mean_cosine_of_1_and_orthogonal_words_of_0():
    sentences = [["a"], ["b"], ["c"]]
    assert measured({"a": [1, 2], "b": [2, 4], "c": [3, 6]}, sentences)["random_cosine"] == pytest.approx(1)
    row = measured({"a": [1, 0, 0], "b": [0, 2, 0], "c": [0, 0, 3]}, sentences)
    assert row["random_cosine"] == pytest.approx(0) and np.isnan(row["self_similarity"])
    assert row["intra_sentence"] == pytest.approx(1)


def test_a_word_without_context_is_the_same_in_all_sentences():
    row = measured({"a": [1, 0], "b": [0, 2]}, [["a", "b"], ["b"], ["b", "a"]], least=2)
    assert row["self_similarity"] == pytest.approx(1) and row["explained_variance"] == pytest.approx(1)
    expected = (2 * (1 / np.sqrt(5) + 2 / np.sqrt(5)) / 2 + 1) / 3
    assert row["intra_sentence"] == pytest.approx(expected)
    assert row["self_similarity_adjusted"] == pytest.approx(1 - row["random_cosine"])


@pytest.mark.core
def test_the_measures_of_each_layer_are_those_of_the_paper():
    encoder, preprocessor = tiny.encoder(num_layers=2, initializer_range=0.5), tiny.preprocessor()
    found = isotropy(encoder, SENTENCES, least=3, preprocessor=preprocessor, verbose=0)
    sentences = [each for each in SENTENCES if each]
    states = hidden_states(encoder, sentences, preprocessor=preprocessor, dtype=None, verbose=0)
    assert [row["layer"] for row in found.rows] == ["embeddings", "block_0", "block_1"]
    for row in found.rows:
        vectors = states.flat(slice(None))[row["layer"]].astype("float64")
        words = [word for sentence in sentences for word in sentence]
        occurrences = [vectors[[place for place, each in enumerate(words) if each == word]] for word in "ab"]
        assert row["self_similarity"] == pytest.approx(np.mean([np.mean(cosines(each)) for each in occurrences]))
        sizes = [np.linalg.svd(each)[1] ** 2 for each in occurrences]
        assert row["explained_variance"] == pytest.approx(np.mean([each[0] / each.sum() for each in sizes]))
        within = []
        for index in range(len(sentences)):
            own = states.sentence(index)[row["layer"]].astype("float64")
            within.append(np.mean([cosines([each, own.mean(axis=0)]) for each in own]))
        assert row["intra_sentence"] == pytest.approx(np.mean(within))
        assert -1 <= row["random_cosine"] <= 1
        assert row["intra_sentence_adjusted"] == pytest.approx(row["intra_sentence"] - row["random_cosine"])
    assert "2 words in enough sentences, 4 random words." in str(found)


def test_random_words_are_drawn_from_a_sentence_each():
    sentences = [["a"] * 50, ["b"], ["b"]]
    row = measured({"a": [1, 0], "b": [0, 1]}, sentences)
    assert row["random_cosine"] == pytest.approx(1 / 3)  # Of the pairs, only that of "b" and "b" is alike.


def test_a_picture_has_the_principal_axes_and_a_marker_for_each_label():
    pytest.importorskip("matplotlib", reason="draws pictures: pip install 'keras_transfer[plots]'")
    vectors = np.array([[0, 0, 1], [4, 0, 1], [8, 2, 1], [12, 2, 1]])
    axes = scatter(vectors, ["x", "y", "x", "y"], texts=["$a", "<b>", "c", "d"]).axes[0]
    points = np.concatenate([each.get_offsets() for each in axes.collections])[[0, 2, 1, 3]]
    centered = vectors - vectors.mean(axis=0)
    np.testing.assert_allclose(
        np.linalg.norm(points[:, None] - points, axis=-1), np.linalg.norm(centered[:, None] - centered, axis=-1)
    )
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["x", "y"]
    assert axes.get_xlabel().endswith("of the variance") and axes.texts[0].get_text() == "$a"


def test_labels_of_any_number_and_text_differ():
    pytest.importorskip("matplotlib", reason="draws pictures: pip install 'keras_transfer[plots]'")
    figure = scatter(np.arange(28).reshape(14, 2) ** 2, [rf"${i}\frac$" for i in range(14)])
    marks = {(*each.get_facecolor()[0], len(each.get_paths()[0])) for each in figure.axes[0].collections}
    assert len(marks) > 12 and figure._repr_png_()


def test_t_sne_keeps_groups_together():
    pytest.importorskip("matplotlib", reason="draws pictures: pip install 'keras_transfer[plots]'")
    pytest.importorskip("sklearn", reason="t-SNE: pip install scikit-learn")
    vectors = np.random.default_rng(0).normal(size=(20, 5)) + np.repeat([[0], [20]], 10, axis=0)
    axes = scatter(vectors, [0] * 10 + [1] * 10, method="tsne").axes[0]
    first, second = (each.get_offsets() for each in axes.collections)
    gap = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
    assert gap > 2 * max(np.linalg.norm(each - each.mean(axis=0), axis=1).max() for each in (first, second)) / 2


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: isotropy(None, [["a"], []]), "at least two sentences with words. Received: sentences=1"),
    (lambda: isotropy(None, ["A text.", "Two"]), "A sentence must be a list of words. Received: 'A text.'"),
    (lambda: scatter(np.ones(3)), "[points, dim], with at least three points. Received: vectors=(3,)"),
    (lambda: scatter(np.full((3, 2), np.nan)), "`vectors` must be finite numbers"),
    (lambda: scatter(np.ones((3, 2)), ["a"]), "Each of the 3 vectors must have a label and a text. Received: labels=1"),
)
