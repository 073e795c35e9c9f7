"""`WordPreprocessor`: one id per word, computed in the graph, the same wherever it runs."""

import keras
import numpy as np
import pytest

from keras_transfer.text import WordPreprocessor, batches
from tests.errors import check_errors
from tests.helpers import save_and_load

tf = pytest.importorskip("tensorflow")

VOCABULARY = ["the", "film", ".", "US", "us", "don", "n't", "Zoë", "été", "a b", "x\u2028y"]


def make(**options):
    return WordPreprocessor(VOCABULARY, **{"sequence_length": 6, **options})


def ids(preprocessor, text):
    output = preprocessor([text])
    return output["token_ids"].numpy()[0, : output["padding_mask"].numpy().sum()].tolist()


def test_texts_become_padded_ids_with_a_mask():
    outputs = make()(["the film .", "", "film " * 9])
    assert outputs["token_ids"].dtype == outputs["padding_mask"].dtype == "int32"
    np.testing.assert_array_equal(outputs["token_ids"], [[2, 3, 4, 0, 0, 0], [0] * 6, [3] * 6])
    np.testing.assert_array_equal(outputs["padding_mask"], [[1, 1, 1, 0, 0, 0], [0] * 6, [1] * 6])


def test_words_are_split_at_white_space_and_punctuation_or_at_white_space_only():
    text = "The\u00a0film,\u3000don't\t(n't)\u2014\u201cUS\u201d $5."
    words = [
        "The",
        "film",
        ",",
        "don",
        "'",
        "t",
        "(",
        "n",
        "'",
        "t",
        ")",
        "\u2014",
        "\u201c",
        "US",
        "\u201d",
        "$",
        "5",
        ".",
    ]
    assert WordPreprocessor().words([text]) == [words]
    assert WordPreprocessor(split="whitespace").words([text, "", "  a "]) == [
        ["The", "film,", "don't", "(n't)\u2014\u201cUS\u201d", "$5."],
        [],
        ["a"],
    ]
    assert ids(make(split="whitespace"), "do n't . film.") == [1, 8, 4, 1]


def test_an_exact_match_takes_precedence_over_the_first_that_differs_only_in_case():
    assert ids(make(), "US us Us THE ZOË zoë") == [5, 6, 5, 2, 9, 9]
    assert ids(make(case_folding=False), "US us Us THE ZOË") == [5, 6, 1, 1, 1]
    assert ids(make(lowercase=True), "US us Us ÉTÉ") == [6, 6, 6, 10]
    assert ids(make(lowercase=True, case_folding=False), "THE ZOË") == [2, 1]  # "zoë" is not "Zoë"


def test_case_folding_equals_that_of_python_except_for_recent_letters():
    from keras_transfer.text.word_preprocessor import _fold

    letters = [chr(code) for code in range(0x21, 0x1F000) if chr(code).casefold() != chr(code)]
    folded = _fold(tf.constant(letters)).numpy()
    expected = _fold(tf.constant([letter.casefold() for letter in letters])).numpy()
    different = [letter for letter, one, other in zip(letters, folded, expected) if one != other]
    assert all(ord(letter) > 0x2C00 for letter in different) and len(different) < 60
    assert len(letters) > 1400
    # It does not merge letters that Python distinguishes.
    together = {}
    for letter, one in zip(letters, folded):
        together.setdefault(one, set()).add(letter.casefold())
    assert [group for group in together.values() if len(group) > 1] == []
    assert ids(WordPreprocessor(["straße", "ΟΔΟΣ", "i"], 8), "STRASSE οδος οδοσ I ı İ") == [2, 3, 3, 4, 1, 1]


def test_ids_are_correct_with_a_large_vocabulary_and_for_unknown_words():
    vocabulary = [f"word{i}" for i in range(20_000)]
    preprocessor = WordPreprocessor(vocabulary, 20_000)
    expected = np.arange(2, 20_002)
    np.testing.assert_array_equal(preprocessor(" ".join(vocabulary))["token_ids"], expected)
    np.testing.assert_array_equal(preprocessor(" ".join(vocabulary).upper())["token_ids"], expected)
    others = " ".join(f"other{i}" for i in range(20_000))
    np.testing.assert_array_equal(preprocessor(others)["token_ids"], np.ones(20_000))


def test_a_call_can_set_another_length():
    preprocessor = make()
    assert preprocessor(["the film", "."], sequence_length="longest")["token_ids"].shape == (2, 2)
    assert preprocessor(["the " * 9], sequence_length="longest")["token_ids"].shape == (1, 6)
    assert preprocessor(["the " * 9], sequence_length=8)["padding_mask"].numpy().sum() == 8
    assert preprocessor(["", ""], sequence_length="longest")["token_ids"].shape == (2, 1)
    assert preprocessor("the film")["token_ids"].shape == (6,)
    empty = tf.constant([], tf.string)
    assert preprocessor(empty)["token_ids"].shape == (0, 6)
    assert preprocessor(empty, sequence_length="longest")["token_ids"].shape == (0, 1)


def test_bytes_that_are_not_utf8_are_an_unknown_word():
    assert ids(make(), tf.constant(b"the caf\xe9 film").numpy().decode("latin-1")) == [2, 1, 3]
    np.testing.assert_array_equal(make()(tf.constant([b"the \xff film"]))["token_ids"], [[2, 1, 3, 0, 0, 0]])


def test_it_runs_in_tf_data_and_in_a_function():
    preprocessor, texts = make(), ["The film.", "us", "Zoë ?"]
    expected = preprocessor(texts)["token_ids"]
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(3).map(make())
    np.testing.assert_array_equal(next(iter(dataset))["token_ids"], expected)
    np.testing.assert_array_equal(tf.function(lambda t: make()(t))(tf.constant(texts))["token_ids"], expected)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="strings in a model need TensorFlow")
def test_in_a_functional_model_it_survives_keras_files():
    preprocessor = make(lowercase=True, split="whitespace", case_folding=False, name="words")
    inputs = keras.Input((), dtype="string")
    model = keras.Model(inputs, preprocessor(inputs))
    texts = tf.constant(["The film", "ÉTÉ x\u2028y us"])
    expected = preprocessor(texts)["token_ids"]
    np.testing.assert_array_equal(model(texts)["token_ids"], expected)
    same = save_and_load(model)
    np.testing.assert_array_equal(same(texts)["token_ids"], expected)
    assert same.layers[-1].get_config() == preprocessor.get_config()
    assert same.layers[-1].vocabulary == VOCABULARY


def test_batches_can_use_it():
    data = batches(
        ["the film", "us " * 9, ""], [0, 1, 0], preprocessor=make(sequence_length=16), batch_size=3, shuffle=False
    )
    inputs, labels = data[0]
    assert inputs["token_ids"].shape == (3, 9) and sorted(labels) == [0, 0, 1]
    assert inputs["padding_mask"].sum() == 11


def test_the_vocabulary_can_be_a_file(tmp_path):
    (tmp_path / "words.txt").write_bytes("the\nx\u2028y\n".encode())
    for path in (tmp_path / "words.txt", str(tmp_path / "words.txt")):
        preprocessor = WordPreprocessor(path)
        assert preprocessor.vocabulary == ["the", "x\u2028y"]
    assert preprocessor.vocabulary_size == 4
    assert preprocessor.token_to_id("the") == 2 and preprocessor.token_to_id("cat") is None


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: WordPreprocessor(["a", "b", "a"]), "duplicates. Received: duplicates=['a']"),
    (lambda: WordPreprocessor(["a", "b\n"]), "without line breaks. Received: wrong=['b\\n']"),
    (lambda: WordPreprocessor(["a", ""]), "no empty strings. Received: tokens=['a', '']"),
    (lambda: WordPreprocessor([]), "at least one word ... Received: tokens=[]"),
    (lambda: make()((["a"], ["b"])), "does not support pairs of texts. Received: a pair"),
    (lambda: make()([1, 2]), "Texts must be strings"),
    (lambda: make()(keras.Input((3,), dtype="string")), "Received: shape"),
)
