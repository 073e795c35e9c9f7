"""Properties of all tokenizers: the ids of the originals, of any batch and of any copy, offsets, and texts of ids."""

import functools
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transfer.text import (
    ByteBPETokenizer,
    FastaiTokenizer,
    GPTTokenizer,
    SentencePieceBPETokenizer,
    UnigramTokenizer,
    WordPieceTokenizer,
    fastai_texts,
)
from keras_transfer.text.tokenizer_files.formats import format_of
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from tests.properties import texts

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

SENTENCES = ["the film was long and the cafe was small", "a long film, the best film. ab c", "aa aaa the  the"] * 20
PIECES = [
    "the",
    "film",
    "##s",
    "cafe",
    "caf\u00e9",
    "a",
    "##a",
    "##aa",
    "12",
    "3",
    ",",
    "'",
    "\u65e5",
    "##\u672c",
    "\ufb01",
]
LETTERS = list("abcdefghijklmnopqrstuvwxyz.,!'0123\u00df\u65e5")


def train(**options):
    sentencepiece = pytest.importorskip("sentencepiece")
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=file, hard_vocab_limit=False, minloglevel=2, **options
    )
    return file.getvalue()


def word_pieces(**options):
    return WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES], **options)


def byte_pairs(**options):
    merges = [
        ("t", "h"),
        ("\u0120", "th"),
        ("th", "e"),
        ("\u0120th", "e"),
        ("a", "a"),
        ("aa", "aa"),
        ("\u0120", "\u0120"),
    ]
    merges += [("f", "i"), ("l", "m"), ("fi", "lm"), ("'", "s"), ("\u010a", "\u010a"), ("\u00c3", "\u00a9")]
    return ByteBPETokenizer(["<s>", "<unk>", *byte_characters(), *map("".join, merges)], merges, **options)


def gpt():
    merges = [("t", "h"), ("th", "e</w>"), ("f", "i"), ("l", "m</w>"), ("fi", "lm</w>"), ("a", "a"), ("aa", "a</w>")]
    ends = [f"{letter}</w>" for letter in LETTERS]
    return GPTTokenizer([*LETTERS, *ends, "\n</w>", *map("".join, merges), "<unk>"], merges)


@functools.cache
def model(name):
    options = {"model_type": "bpe", "normalization_rule_name": "identity", "vocab_size": 320, "byte_fallback": True}
    return train(
        **(options | {"remove_extra_whitespaces": False} if name == "SentencePiece BPE" else {"vocab_size": 60})
    )


MAKERS = {
    "WordPiece": word_pieces,
    "cased WordPiece": lambda: word_pieces(lowercase=False),
    "byte BPE": byte_pairs,
    "byte BPE of NFC": lambda: byte_pairs(normalization="NFC", add_prefix_space=True),
    "GPT": gpt,
    "Unigram": lambda: UnigramTokenizer(model("Unigram")),
    "SentencePiece BPE": lambda: SentencePieceBPETokenizer.from_model(model("SentencePiece BPE")),
}
ALL = pytest.mark.parametrize("name", MAKERS)
batches = st.lists(texts, min_size=1, max_size=5)


@functools.cache
def made(name):
    return MAKERS[name]()


@functools.cache
def graph(function):
    """Returns a function of texts as a graph, which is traced once."""
    return tf.function(function, [tf.TensorSpec([None], tf.string)], autograph=False)


@functools.cache
def texts_of(name):
    """Returns a function from ids to texts as a graph."""
    return tf.function(made(name).detokenize, [tf.RaggedTensorSpec([None, None], tf.int32)], autograph=False)


def ids_of(tokenizer, rows):
    return graph(tokenizer.tokenize)(tf.constant(rows, tf.string)).to_list()


def back(name, rows):
    """Returns the texts of the ids of texts."""
    ids = graph(made(name).tokenize)(tf.constant(rows, tf.string))
    return [text.decode() for text in texts_of(name)(ids).numpy()]


@functools.cache
def original(name):
    """Returns the ids of the original as a function. Hugging Face's has no special tokens, which texts would become."""
    if name in ("Unigram", "SentencePiece BPE"):
        return pytest.importorskip("sentencepiece").SentencePieceProcessor(model_proto=model(name)).encode
    tokenizers = pytest.importorskip("tokenizers")
    fast = {"version": "1.0", "post_processor": None, **format_of(made(name)).write(made(name)), "added_tokens": []}
    theirs = tokenizers.Tokenizer.from_str(json.dumps(fast))
    return lambda rows: [found.ids for found in theirs.encode_batch(rows, add_special_tokens=False)]


@ALL
@given(rows=batches)
def test_the_ids_are_those_of_the_original(name, rows):
    if name == "Unigram":  # Hugging Face splits at these spaces, which SentencePiece does not know.
        rows = [re.sub("[\x85\x0b\x1c\u2028]", " ", text) for text in rows]
    assert ids_of(made(name), rows) == original(name)(rows)


@ALL
@given(rows=batches)
def test_the_ids_of_a_text_do_not_depend_on_its_batch(name, rows):
    tokenizer = made(name)
    assert ids_of(tokenizer, rows) == [ids_of(tokenizer, [text])[0] for text in rows]


@ALL
@given(rows=batches)
def test_ids_are_in_the_vocabulary_and_texts_contain_no_special_token(name, rows):
    tokenizer = made(name)
    special = {tokenizer.mask_id, *map(tokenizer.token_to_id, tokenizer.special_tokens)} - {None, tokenizer.unk_id}
    for row in ids_of(tokenizer, rows):
        assert all(tokenizer.first_id <= index < tokenizer.vocabulary_size for index in row)
        assert special.isdisjoint(row)


@given(rows=batches)
def test_bytes_give_each_text_back(rows):
    assert back("byte BPE", rows) == rows


@given(rows=batches)
def test_pieces_with_bytes_give_texts_back(rows):
    assert back("SentencePiece BPE", rows) == [text.replace("\u2581", " ") for text in rows]


@ALL
@given(rows=batches)
def test_texts_of_known_ids_have_the_same_text_again(name, rows):
    tokenizer = made(name)
    once = back(name, rows)
    for row, first, second in zip(ids_of(tokenizer, rows), once, back(name, once)):
        assert tokenizer.unk_id in row or second == first


@given(rows=st.lists(texts, min_size=1, max_size=3))
def test_texts_of_fastai_are_tokens_that_its_tokenizer_splits_again(rows):
    made_texts = fastai_texts(rows, str.split)
    vocabulary = ["xxunk", "xxpad", "xxbos", *sorted({token for text in made_texts for token in text.split(" ")})]
    tokenizer = FastaiTokenizer(list(dict.fromkeys(vocabulary)))
    found = tokenizer.tokenize(made_texts).to_list()
    assert [" ".join(tokenizer.vocabulary[index] for index in row) for row in found] == made_texts
