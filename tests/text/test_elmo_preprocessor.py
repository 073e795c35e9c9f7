"""`ElmoPreprocessor`: the ids of the original's `UnicodeCharsVocabulary`, for words of every kind."""

import keras
import numpy as np
import pytest

from keras_transfer.text import ElmoPreprocessor
from tests.errors import check_errors

tf = pytest.importorskip("tensorflow")
WORDS = ["a", "", "x" * 60, "x" * 48, "x" * 47, "😀" * 20, "naïve", "<S>", "</S>", "<s>", "don't", "\u0000", "中文"]
WORDS += ["é" * 30]


def original(word, length=50):
    """The ids of the original code for a word, with the 1 that its batcher adds, written from its description."""
    letters = {"<S>": [256], "</S>": [257]}.get(word) or list(word.encode("utf-8"))[: length - 2]
    ids = [258, *letters, 259]
    return [i + 1 for i in ids + [260] * (length - len(ids))]


@pytest.mark.parametrize("length", [50, 6, 3])
def test_ids_equal_those_of_the_original(length):
    preprocessor = ElmoPreprocessor(max_characters=length)
    ids = preprocessor.characters(tf.constant(WORDS)).numpy()
    np.testing.assert_array_equal(ids, [original(word, length) for word in WORDS])


def test_texts_are_split_at_white_space_padded_and_truncated():
    inputs = ElmoPreprocessor(sequence_length=3)(["A  fine film .", "\tone\n", ""])
    expected = np.zeros((3, 3, 50), int)
    for row, words in enumerate((["A", "fine", "film"], ["one"], [])):
        for place, word in enumerate(words):
            expected[row, place] = original(word)
    np.testing.assert_array_equal(inputs["character_ids"], expected)
    np.testing.assert_array_equal(inputs["padding_mask"], [[1, 1, 1], [1, 0, 0], [0, 0, 0]])


def test_text_can_be_split_at_punctuation():
    typed = ElmoPreprocessor(split="punctuation")(["A film, long."], sequence_length="longest")
    apart = ElmoPreprocessor()(["A film , long ."], sequence_length="longest")
    np.testing.assert_array_equal(typed["character_ids"], apart["character_ids"])


def test_the_length_can_be_that_of_the_longest_text_of_a_batch():
    preprocessor = ElmoPreprocessor(sequence_length=9)
    assert preprocessor(["a b c", "d"], sequence_length="longest")["character_ids"].shape == (2, 3, 50)
    assert preprocessor(["a b c"], sequence_length=2)["padding_mask"].shape == (1, 2)
    assert preprocessor("a b c")["character_ids"].shape == (9, 50)


def test_it_works_in_tf_data_and_in_a_functional_model(tmp_path):
    preprocessor = ElmoPreprocessor(sequence_length=4)
    expected = preprocessor(["a b", "c"])["character_ids"]
    data = tf.data.Dataset.from_tensor_slices(["a b", "c"]).batch(2).map(preprocessor)
    np.testing.assert_array_equal(next(iter(data))["character_ids"], expected)
    text = keras.Input((), dtype="string")
    model = keras.Model(text, preprocessor(text))
    assert model.output["character_ids"].shape == (None, 4, 50)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(tf.constant(["a b", "c"]))["character_ids"], expected)


test_a_mistake_is_one_error = check_errors(
    (lambda: ElmoPreprocessor()((["a"], ["b"])), "does not support pairs of texts. Received: a pair"),
)
