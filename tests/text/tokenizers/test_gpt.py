"""`GPTTokenizer`: the ids of Transformers, its files and the texts of ids."""

import pytest

from keras_transfer.text import GPTTokenizer, Packing
from tests.tokenizing import run_tokenizer_test

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

LETTERS = list("abcdefghijklmnopqrstuvwxyz.,!'0123\u00df\u65e5")
MERGES = [("t", "h"), ("th", "e</w>"), ("f", "i"), ("l", "m</w>"), ("fi", "lm</w>"), ("a", "a"), ("aa", "a</w>")]
VOCABULARY = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), "\n</w>", *map("".join, MERGES), "<unk>"]
HARD = [
    *("", " ", "The film!", "caf\u00e9 cafe\u0301", "a" * 9 + " " + "a" * 150, "\u65e5\u672c th\u65e5e", "don't"),
    *("<unk> the", "the</w>", "\u0130\u03a3", "x\u00a0y\u2003z\nthe", "\u00df\u1e9e STRASSE", "\U0001f600film"),
    *("a\x00b\x01c", "\u0c04a", "''the..film"),
]


@pytest.fixture(scope="module")
def tokenizer():
    return GPTTokenizer(VOCABULARY, MERGES)


def hugging_face(vocabulary, merges):
    tokenizers = pytest.importorskip("tokenizers")
    ids = {token: index for index, token in enumerate(vocabulary)}
    model = tokenizers.models.BPE(ids, merges, end_of_word_suffix="</w>", unk_token="<unk>", fuse_unk=False)
    theirs = tokenizers.Tokenizer(model)
    theirs.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return theirs


def test_it_is_a_well_behaved_tokenizer_with_the_ids_of_transformers(tokenizer):
    expected = [encoding.ids for encoding in hugging_face(VOCABULARY, MERGES).encode_batch(HARD)]
    run_tokenizer_test(tokenizer, HARD, Packing(pad="<unk>"), expected, ["the film"], old_model_type="openai-gpt")


def test_texts_of_ids_are_in_lower_case_with_spaces(tokenizer):
    assert tokenizer.detokenize(tokenizer.tokenize(["The FILM!", ""])).numpy().tolist() == [b"the film !", b""]
    assert tokenizer.word_pieces(tf.constant(["film", ""])).to_list()[1] == [tokenizer.unk_id]
    [ids] = tokenizer.tokenize(["the film"]).to_list()
    pieces = tokenizer.token_bytes()
    assert b"".join(pieces[index] for index in ids) == b"the film "
