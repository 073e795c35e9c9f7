"""The structural probe computes what the authors' code computes, and finds trees that are in the vectors."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy.sparse.csgraph import shortest_path

from keras_transfer.analysis import StructuralProbe, StructuralSweep
from keras_transfer.analysis.probing.structural_probe import SquaredLengths, sentence_errors
from keras_transfer.analysis.probing.trees import spanning_tree, tree_depths, tree_distances
from keras_transfer.checkpoints import WordVectors
from keras_transfer.datasets import Trees, read_trees
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.text import WordPreprocessor
from tests.errors import check_errors
from tests.samples import REFERENCES
from tests.tasks.tiny import WORDS, classifier, two_blocks

KINDS = ["distance", "depth"]


@pytest.fixture(scope="module")
def authors():
    """What the authors' code computes."""
    return np.load(REFERENCES / "structural_probe.npz")


def sentences(authors, name, square=False):
    """Returns an array of the authors for each sentence, without padding."""
    return [
        values[:length, :length] if square else values[:length]
        for values, length in zip(authors[name], authors["lengths"])
    ]


# === Trees ===


def test_distances_and_depths_are_those_of_the_authors(authors):
    for heads, distances, depths in zip(
        sentences(authors, "heads"),
        sentences(authors, "distance_labels", square=True),
        sentences(authors, "depth_labels"),
    ):
        np.testing.assert_array_equal(tree_distances(heads), distances)
        np.testing.assert_array_equal(tree_depths(heads), depths)


def test_distances_are_those_of_a_graph(data_dir):
    trees = read_trees(data_dir("ud_english_ewt") / "en_ewt-ud-test.conllu")
    for heads in trees.heads[:50]:
        edges = np.zeros((len(heads), len(heads)))
        for word, head in enumerate(heads):
            if head:
                edges[word, head - 1] = 1
        np.testing.assert_array_equal(tree_distances(heads), shortest_path(edges, directed=False))


def test_spanning_trees_are_those_of_the_authors_also_with_equal_distances(authors):
    keep = sentences(authors, "keep")[1]
    for name, expected in (("distance_predicted", "edges_predicted"), ("distance_labels", "edges_gold")):
        found = spanning_tree(sentences(authors, name, square=True)[1], keep)
        assert found == [tuple(sorted(edge)) for edge in authors[expected].tolist()]
    assert len(found) == keep.sum() - 1 < len(keep) - 1


# === The probe ===


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_loss_and_gradient_are_those_of_the_authors(authors, kind):
    inputs = keras.Input((None, 6))
    layer = SquaredLengths(kind, rank=4, scales=[2.0])
    model = keras.Model(inputs, layer([inputs]))
    start = authors[f"{kind}_kernel"] / 2
    layer.set_weights([start])
    labels = authors[f"{kind}_labels"]
    found = model.predict_on_batch(authors["vectors"])
    np.testing.assert_allclose(found[:, 0], authors[f"{kind}_predicted"], atol=1e-5)
    model.compile(keras.optimizers.SGD(1.0), lambda *both: ops.sum(sentence_errors(*both), axis=1))
    loss = model.train_on_batch(authors["vectors"], labels)
    np.testing.assert_allclose(loss, authors[f"{kind}_loss"], rtol=1e-6)
    gradient = start - layer.get_weights()[0]  # That of vectors that are twice as long.
    np.testing.assert_allclose(gradient, authors[f"{kind}_gradient"] * 2, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_authors(authors, kind):
    heads = [own.tolist() for own in sentences(authors, "heads")]
    tags = [["NN" if kept else "," for kept in own] for own in sentences(authors, "keep")]
    words = [["w"] * len(own) for own in heads]
    predicted = [own[None] for own in sentences(authors, f"{kind}_predicted", square=kind == "distance")]
    sweep = StructuralSweep(kind, ["block_0"], Trees(words, heads, words, tags), predicted, (",",), "test")
    [row] = sweep.rows
    assert (
        row["uuas" if kind == "distance" else "root_accuracy"]
        == authors[{"distance": "uuas"}.get(kind, "root_accuracy")]
    )
    np.testing.assert_allclose(row["spearman"], authors[f"{kind}_spearman"], atol=1e-6)


def of_words(count=40):
    """Sentences of six of twelve words, whose trees are parts of one, and an encoder whose vectors lie in this tree."""
    above = [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]  # The governor of each word, from 1, as a heap.
    path = np.zeros((12, 12))
    for word, head in enumerate(above):
        path[word] = path[head - 1] if head else 0
        path[word, word] = head > 0
    random, words, heads = np.random.default_rng(0), [], []
    for _ in range(count):
        chosen = [0]
        while len(chosen) < 6:
            word = random.integers(1, 12)
            if word not in chosen and above[word] - 1 in chosen:
                chosen.append(int(word))
        chosen = random.permutation(chosen).tolist()
        words.append([WORDS[word] for word in chosen])
        heads.append([chosen.index(above[word] - 1) + 1 if above[word] else 0 for word in chosen])
    names = [["x"] * 6] * count
    mixed = path @ np.linalg.qr(random.normal(size=(12, 12)))[0]
    encoder = WordVectorEncoder.from_vectors(WordVectors(WORDS, mixed.astype("float32")))
    return encoder, WordPreprocessor(WORDS), Trees(words, heads, names, names)


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
def test_a_probe_finds_trees_that_are_in_the_vectors(kind):
    encoder, preprocessor, trees = of_words()
    probe = StructuralProbe(kind, rank=12, epochs=40, batch_size=8, learning_rate=0.05)
    sweep = probe.sweep(encoder, trees, test=trees, preprocessor=preprocessor, verbose=0)
    row = sweep.rows[-1]
    assert row[sweep.score] == 1.0 and row["low"] == row["high"] == 1.0
    assert row["spearman"] > 0.95
    of = tree_distances if kind == "distance" else tree_depths
    errors = [own[-1] - of(heads) for own, heads in zip(sweep.predictions, trees.heads)]
    assert np.abs(np.stack(errors)).mean() < 0.1


def of_tokens(count=24):
    """Sentences with random trees for the tiny encoders."""
    random = np.random.default_rng(0)
    words = [random.choice(WORDS, random.integers(2, 9)).tolist() for _ in range(count)]
    heads = [[0, *range(1, len(own))] for own in words]
    tags = [["PUNCT" if word == "a" else "X" for word in own] for own in words]
    return Trees(words, heads, tags, tags)


@pytest.mark.core
def test_probes_of_all_layers_are_what_they_are_alone():
    model, trees = two_blocks(), of_tokens()
    options = {"rank": 4, "epochs": 3, "batch_size": 8}
    together = StructuralProbe(**options).sweep(model, trees, verbose=0)
    alone = StructuralProbe(layers=[1], **options).sweep(model, trees, verbose=0)
    assert together.layers == ["embeddings", "block_0", "block_1"] and alone.layers == ["block_0"]
    for found, expected in zip(together.predictions, alone.predictions):
        np.testing.assert_allclose(found[1], expected[0], atol=1e-5)


def scored(kind="distance", part="validation", trees=None):
    """A sweep of random predictions for three layers."""
    random, trees = np.random.default_rng(0), trees or of_tokens()
    axes = 2 if kind == "distance" else 1
    predicted = [random.random((3, *[len(own)] * axes)) for own in trees.words]
    return StructuralSweep(kind, ["embeddings", "block_0", "output"], trees, predicted, ("PUNCT",), part)


def test_the_table_says_what_was_scored_and_what_joining_neighbors_scores():
    sweep = scored()
    text = str(sweep)
    assert text.splitlines()[0].split() == ["layer", "uuas", "95%", "interval", "spearman"]
    assert "24 sentences of the validation data" in text and "Pass `test`" in text
    assert "Joining each word with the next one scores 1.000." in text
    assert list(sweep.to_frame().columns) == ["uuas", "low", "high", "spearman"]
    text = str(scored("depth", part="test"))
    assert "root_accuracy" in text and not any(words in text for words in ("Pass `test`", "Joining"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_probe_that_predicts_the_same_for_all_words_has_no_rank_correlation(kind):
    single = ([["a"]], [[0]], [["root"]], [["X"]])  # It has no edge.
    trees = Trees(*(column + other for column, other in zip(of_tokens(), single)))
    predicted = [np.zeros((1, *[len(own)] * (2 if kind == "distance" else 1))) for own in trees.words]
    sweep = StructuralSweep(kind, ["block_0"], trees, predicted, (), "test")
    assert sweep.rows[0]["spearman"] == 0.0 and 1 not in sweep.by_length


def test_joining_neighbors_finds_the_edges_between_them():
    _, _, trees = of_words()
    predicted = [np.zeros((1, 6, 6))] * len(trees.words)
    edges = [abs(head - word) == 1 for heads in trees.heads for word, head in enumerate(heads, 1) if head]
    sweep = StructuralSweep("distance", ["block_0"], trees, predicted, (), "test")
    assert 0 < sweep.neighbors < 1 and sweep.neighbors == np.mean(edges)


def test_sentences_of_several_rows_are_left_out_with_a_warning(caplog):
    trees = of_tokens()
    both = Trees(*(first + second for first, second in zip(trees, LONG)))
    sweep = StructuralProbe(rank=2, epochs=1).sweep(classifier(), trees, trees, both, verbose=0)
    assert "1 of the sentences of `test` need several rows" in caplog.text
    assert len(sweep.predictions) == len(sweep.trees.words) == 24


def test_figures_show_layers_lengths_and_a_tree_with_any_words():
    pytest.importorskip("matplotlib")
    trees = of_tokens()
    trees.words[0][0] = "$x_$"
    sweep = scored(trees=trees)
    labels = [text.get_text() for text in sweep.plot_tree(0).axes[0].texts]
    assert labels == trees.words[0]
    assert len(sweep.plot().axes[0].lines) == 3
    lines = sweep.plot_spearman().axes[0].lines
    assert [*lines[0].get_xdata()] == sorted({len(own) for own in trees.words})
    for figure in (sweep.plot(), sweep.plot_spearman(), sweep.plot_tree(0)):
        assert figure._repr_png_()


TREES = of_tokens()
LONG = Trees([["a"] * 40], [[0, *range(1, 40)]], [["X"] * 40], [["X"] * 40])
ONE = Trees([["a", "b"]], [[2, 0]], [["x", "x"]], [["X", "X"]])
NO_TREES = [
    ([0, 0], "`validation`, sentence 0: A sentence must have one root ... Received: roots=[1, 2]"),
    ([2, 1], "`validation`, sentence 0: A sentence must have one root ... Received: roots=[]"),
    ([0, 2], "`validation`, sentence 0: ... without a cycle. Received: words=[2]"),
    ([0, 3], "`validation`, sentence 0: A head must be the number of a word ... 1 to 2 ... Received: head=3"),
]


def probe_without_numbers():
    model = two_blocks()
    model.encoder.set_weights([np.full_like(each, np.nan) for each in model.encoder.get_weights()])
    StructuralProbe(rank=2, epochs=1).sweep(model, TREES, verbose=0)


def probe_with(heads):
    StructuralProbe().sweep(classifier(), TREES, ONE._replace(heads=[heads]))


test_a_mistake_is_one_clear_error = check_errors(
    *((lambda heads=heads: probe_with(heads), message) for heads, message in NO_TREES),
    (lambda: StructuralProbe().sweep(classifier(), TREES.words), "`train` must be `datasets.Trees`"),
    (lambda: StructuralProbe().sweep(classifier(), Trees([], [], [], [])), "`train` must have at least one sentence"),
    (
        lambda: StructuralProbe().sweep(classifier(), TREES, ONE._replace(tags=[["X"]])),
        "`validation`, sentence 0: A sentence must have a head, a relation and a tag ... relations=2, tags=1",
    ),
    (
        lambda: StructuralProbe().sweep(classifier(), TREES, TREES, ONE._replace(heads=[])),
        "The columns of `test` must have the same length. Received: words=1, heads=0",
    ),
    (
        lambda: StructuralProbe().sweep(classifier(), TREES, ONE, skip=["X"]),
        "`skip` must leave at least two words of a sentence of `validation` ... most=0",
    ),
    (lambda: StructuralProbe().sweep(classifier(), ONE), "Pass `validation`, or at least two sentences in `train`."),
    (lambda: StructuralProbe().sweep(classifier(), TREES, LONG), "`validation` must have sentences ... as one row."),
    (probe_without_numbers, "The loss must be finite. ... Received: loss={'embeddings': nan"),
    (lambda: scored("depth").plot_tree(), "Trees require a probe of distances. Received: target='depth'"),
    (lambda: scored().plot_tree(layer="block_9"), "`layer` must be one of"),
    (lambda: scored().plot_tree(24), "`row` must be an integer from 0 to 23. Received: row=24"),
)
