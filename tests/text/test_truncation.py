"""Texts that are truncated are counted, and a warning says once how many they are and what to do."""

import logging

import pytest

from keras_transfer.text import BertPreprocessor, ElmoPreprocessor, WordPreprocessor, batches, word_batches

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"]


@pytest.fixture
def warnings_of(caplog):
    """Returns a function that returns the warnings of a call of `batches`."""

    def warnings_of(function, *arguments, **options):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "keras_transfer"):
            function(*arguments, **options)
        return [record.getMessage() for record in caplog.records]

    return warnings_of


@pytest.mark.parametrize(
    ("make", "special"), [(BertPreprocessor, 2), (WordPreprocessor, 0), (lambda _, length: ElmoPreprocessor(length), 0)]
)
@pytest.mark.report("Long texts are truncated silently.", "transformers#456")
def test_truncated_texts_are_counted_and_a_text_that_just_fits_is_not(warnings_of, make, special):
    tokens = 8 - special
    fits, cut = " ".join("a" * tokens), " ".join("a" * (tokens + 1))
    assert warnings_of(batches, [fits, "a"], None, preprocessor=make(VOCABULARY, 8)) == []
    [message] = warnings_of(
        batches, [cut, fits, "a", cut + " b", cut, fits, "a"], None, preprocessor=make(VOCABULARY, 8)
    )
    assert message.startswith("3 of 7 texts (43%) reach the sequence length of 8 tokens and are truncated there.")
    assert "pass a larger `sequence_length` to the preprocessor or to `from_pretrained()`" in message


def test_truncated_pairs_are_counted(warnings_of):
    first, second = ["a b c", "a b", "a"], ["d e f", "d e f", "d"]
    [message] = warnings_of(batches, (first, second), [0, 1, 0], preprocessor=BertPreprocessor(VOCABULARY, 8))
    assert message.startswith("1 of 3 texts (33%)")


def test_the_warning_comes_once_for_each_preprocessor(warnings_of):
    preprocessor, texts = BertPreprocessor(VOCABULARY, 8), ["a b c d e f g h"]
    assert len(warnings_of(batches, texts, None, preprocessor=preprocessor)) == 1
    assert warnings_of(batches, texts, [1], preprocessor=preprocessor) == []
    assert len(warnings_of(batches, texts, None, preprocessor=BertPreprocessor(VOCABULARY, 8))) == 1


def test_texts_in_several_chunks_are_one_warning(warnings_of):
    texts = [*["a"] * 4096, "a b c d e f g h"]
    [message] = warnings_of(batches, texts, None, preprocessor=BertPreprocessor(VOCABULARY, 8))
    assert message.startswith("1 of 4097 texts (0%)")


def test_words_are_never_truncated_and_so_never_warned_about(warnings_of):
    assert warnings_of(word_batches, [["a"] * 20], [[0] * 20], preprocessor=BertPreprocessor(VOCABULARY, 8)) == []


def test_the_preprocessor_of_another_library_is_warned_about_too(warnings_of):
    class Other:
        """What a preprocessor of KerasHub returns: rows of a fixed length."""

        sequence_length = 8

        def __call__(self, texts):
            return BertPreprocessor(VOCABULARY, 8)(texts)

    assert warnings_of(batches, ["a"], None, preprocessor=Other()) == []
    [message] = warnings_of(batches, ["a", "a b c d e f g h"], None, preprocessor=Other())
    assert message.startswith("1 of 2 texts (50%)")
    assert warnings_of(batches, ["a b c d e f g h"], None, preprocessor=BertPreprocessor(VOCABULARY, 8).__call__) == []
