"""Every file of word vectors that cannot be read, and every wrong argument, is one clear error."""

import gzip
import re

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError, WordVectors
from tests.checkpoints.test_word_vectors import VECTORS, WORDS, binary, glove, row
from tests.errors import check_errors

CASES = {
    "an empty file": (b"", "contains no word vectors. Received: an empty file"),
    "white space only": (b"\n\n", "contains no word vectors. Received: an empty file"),
    "too few numbers": (glove() + b"cat 1 2\n", r"line 6: A row must have a word and 3 numbers, as in line 1.*: 2"),
    "too many numbers": (glove() + b"cat 1 2 3 4\n", r"line 6: A row must have a word and 3 numbers.*Received: 4"),
    "an empty line": (glove() + b"\n" + row("cat", [1, 2, 3]), "line 6: A row must have a word and 3 numbers"),
    "no numbers": (b"the\nking\n", "line 1: A row must have a word and some numbers"),
    "a word for a number": (glove() + b"cat 1 two 3\n", r"line 6: The word must be followed by numbers.*two"),
    "no word": (glove() + b" 1 2 3\n", "line 6: The word is missing"),
    "wrong bytes": (glove() + b"caf\xe9 1 2 3\n", r"line 6: Words must be UTF-8. Received: b'caf\\xe9'"),
    "NaN": (glove() + b"cat 1 nan 3\n", "line 6: Numbers must be finite. Received: NaN or infinity for 'cat'"),
    "infinity": (glove() + b"cat 1 2 -inf\n", "line 6: Numbers must be finite"),
    "a number beyond float32": (glove() + b"cat 1 2 1e39\n", "line 6: Numbers must be finite"),
    "a header that says more words": (b"6 3\n" + glove(), "The header specifies 6 words.*Received: 5 rows"),
    "a header that says fewer words": (b"4 3\n" + glove(), "The header specifies 4 words.*Received: 5 rows"),
    "a header that says more numbers": (b"5 4\n" + glove(), "line 2: A row must have a word and 4 numbers, as in"),
    "a header that says fewer numbers": (b"5 2\n" + glove(), "line 2: A row must have a word and 2 numbers, as in"),
    "a header that says no numbers": (b"5 0\n" + glove(), "`embedding_dim` must be 0 as in the header, above 0"),
    "a header alone": (b"0 3\n", "must contain at least one word"),
    "a binary file cut in a vector": (binary()[:-3], r"row 5: The file ends in the middle of a row, .*Received"),
    "a binary file cut in a word": (
        binary() + b"ca",
        "row 6: The file ends in the middle of a row, .*Received: 2 bytes",
    ),
    "a binary file cut between rows": (binary(end=b"")[:-14], "The header specifies 5 words.*Received: 4 rows"),
    "a binary header that says more words": (binary().replace(b"5 3", b"9 3", 1), "specifies 9 words.*Received: 5"),
    "binary NaN": (binary(["a", "b"], np.array([[1, 2], [np.nan, 1]])), "row 2: Numbers must be finite"),
    "a zip archive": (b"PK\x03\x04rest", "Received: a zip archive. Unpack it first"),
    "a fastText model": (b"\xba\x16O/rest", "Received: a fastText model. Use its .vec file"),
    "an npy file": (b"\x93NUMPY rest", "Received: a numpy array without words.*from_arrays"),
    "a truncated gzip file": (gzip.compress(glove())[:-12], "truncated or not a gzip file"),
    "a gzip file of other bytes": (b"\x1f\x8b" + b"x" * 40, "truncated or not a gzip file"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_error_for_an_unreadable_file_says_why(tmp_path, case):
    content, message = CASES[case]
    (tmp_path / "vectors").write_bytes(content)
    with pytest.raises(CheckpointError) as error:
        WordVectors.load(tmp_path / "vectors")
    assert re.search(message, str(error.value), re.DOTALL), error.value
    assert "Received" in str(error.value) and str(tmp_path) in str(error.value)


def test_a_binary_header_with_a_wrong_dimension_is_an_error(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 20))
    for lie in (b"50 19", b"50 21", b"50 10"):
        content = binary([f"word{i}" for i in range(50)], values).replace(b"50 20", lie, 1)
        (tmp_path / "vectors").write_bytes(content)
        with pytest.raises(CheckpointError, match="Received"):
            WordVectors.load(tmp_path / "vectors", format="word2vec_binary")


def test_a_ragged_row_of_a_skipped_word_is_an_error_too(tmp_path):
    (tmp_path / "vectors").write_bytes(glove() + b"cat 1 2\n")
    with pytest.raises(CheckpointError, match="line 6"):
        WordVectors.load(tmp_path / "vectors", vocabulary=["the"])


def test_a_format_that_does_not_match_the_file_is_an_error(tmp_path):
    path = tmp_path / "vectors"
    path.write_bytes(glove())
    with pytest.raises(CheckpointError, match="line 1: A word2vec file must begin with the number of words"):
        WordVectors.load(path, format="word2vec")
    path.write_bytes(b"5 3\n" + glove())
    with pytest.raises(CheckpointError, match="line 2: .*If the file has a header, pass its `format`"):
        WordVectors.load(path, format="glove")
    with pytest.raises(CheckpointError, match="`embedding_dim` must be 3 as in the header.*Received: embedding_dim=4"):
        WordVectors.load(path, embedding_dim=4)
    with pytest.raises(ValueError, match=r"`format` must be one of \('auto', 'glove'.*Received: format='text'"):
        WordVectors.load(path, format="text")


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        WordVectors.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary": "king"}, "`vocabulary` must be a list of words. Received: vocabulary='king'"),
        ({"vocabulary": []}, r"must contain at least one word of `vocabulary`. Received: vocabulary=\[\]"),
        ({"vocabulary": ["king", "king"]}, r"duplicates. Received: duplicates=1, words=\['king'\]"),
        ({"vocabulary": ["king", 3]}, r"must contain non-empty strings.*Received: vocabulary=\[3\]"),
        ({"vocabulary": ["king", ""]}, "must contain non-empty strings"),
        ({"vocabulary": ["x", "y"]}, r"at least one word of `vocabulary`. Received: vocabulary=\['x', 'y'\]"),
        ({"unknown": "skip"}, "`unknown` must be one of .*Received: unknown='skip'"),
    ],
)
def test_an_invalid_argument_is_an_error(tmp_path, arguments, message):
    (tmp_path / "vectors").write_bytes(glove())
    with pytest.raises(ValueError, match=message):
        WordVectors.load(tmp_path / "vectors", **arguments)
    with pytest.raises(ValueError, match=message):
        WordVectors.from_arrays(WORDS, VECTORS, **arguments)


test_arrays_that_do_not_match_are_an_error = check_errors(
    ((WORDS[:4], VECTORS), "must contain numbers of shape ... Received: 4 words, float32 of shape (5, 3)"),
    ((WORDS, VECTORS[0]), "Received: 5 words, float32 of shape (3,)"),
    ((WORDS, VECTORS.astype(str)), "Received: 5 words, <U"),
    ((WORDS, np.where(VECTORS == 3, np.nan, VECTORS)), "row 1: Numbers must be finite ... 'king'"),
    error=CheckpointError,
    call=lambda words, vectors: WordVectors.from_arrays(words, vectors),
)


def test_a_file_that_is_not_an_npy_file_is_an_error(tmp_path):
    (tmp_path / "vectors.npy").write_bytes(b"the 1 2 3")
    with pytest.raises(CheckpointError, match="must be an .npy file of numbers"):
        WordVectors.from_arrays(["the"], tmp_path / "vectors.npy")


test_words_and_vectors_that_do_not_match_are_an_error = check_errors(
    ((["a", "a"], np.ones((2, 2))), "duplicates. Received: duplicates=1, words=['a']"),
    ((["a"], np.ones((2, 2))), "Received: words=1, vectors=(2, 2)"),
    ((["a"], np.ones((1, 0))), "Received: words=1, vectors=(1, 0)"),
    ((["a", "b"], [[1, 2], [np.inf, 1]]), "must be finite, without NaN and infinity. Received: words=['b']"),
    call=WordVectors,
)


def test_an_unknown_vector_of_another_width_is_an_error():
    with pytest.raises(ValueError, match=r"`unknown_vector` must be finite and of shape \(3,\)"):
        WordVectors(WORDS, VECTORS, unknown_vector=[1, 2])


def test_a_text_file_whose_first_word_has_a_control_character_is_not_taken_for_a_binary_one(tmp_path):
    vectors = WordVectors(["\x08", "a\x00b c"], [[1.0, -2.5], [0.1, 3e-9]])
    vectors.save(tmp_path / "v.vec")
    loaded = WordVectors.load(tmp_path / "v.vec")
    assert loaded.words == vectors.words
    np.testing.assert_array_equal(loaded.vectors, vectors.vectors)
