"""`CharacterTokenizer`: each character is a token, its files and the texts of ids."""

import pytest

from keras_transfer.text import CharacterTokenizer, Packing
from tests.errors import check_errors
from tests.tokenizing import run_tokenizer_test

tf = pytest.importorskip("tensorflow")

VOCABULARY = ["[PAD]", "[UNK]", "<s>", *"abes <>\n\u00e9\u0301\U0001f600"]


def test_it_is_a_well_behaved_tokenizer():
    texts = ["a bé", "", "\n\n", "e\u0301\U0001f600z", "<s> [PAD]", "\u65e5"]
    ids = {token: index for index, token in enumerate(VOCABULARY)}
    expected = [[ids.get(character, 1) for character in text] for text in texts]
    tokenizer = CharacterTokenizer(VOCABULARY)
    run_tokenizer_test(tokenizer, texts, Packing(["<s>"], [], ["<s>"], "[PAD]"), expected, [texts[0], " a  b\n"])
    assert CharacterTokenizer(ids).vocabulary == VOCABULARY


test_mistakes_are_clear_errors = check_errors(
    (lambda: CharacterTokenizer(["a"]).tokenize(["a"]), "must contain the special tokens [UNK]"),
    (lambda: CharacterTokenizer(["a", "a"]), "must not contain duplicates"),
    (lambda: CharacterTokenizer({"a": 1}), "must be consecutive and start at 0"),
)
