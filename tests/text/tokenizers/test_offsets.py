"""Tokens know their characters in the original text, however it is normalized."""

import json

import pytest

from keras_transfer.text import BertPreprocessor, ByteBPETokenizer, GPTTokenizer, WordPieceTokenizer
from keras_transfer.text.tokenizers.bpe import read_merges, tokens_of
from tests.samples import characters, sample
from tests.text.test_bert_parity import HARD, SMALL, VARIANTS
from tests.text.tokenizers.test_byte_bpe import HARD as HARD_FOR_BYTES
from tests.text.tokenizers.test_byte_bpe import MERGES, VOCABULARY
from tests.tokenizing import differing_offsets

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

TOKENS = ["[UNK]", "the", "film", "##s", "cafe", "##!", "\u65e5", "\u672c", "i", "ss", ",", "don", "'", "t", "\u1112"]


def parts(tokenizer, text):
    """What each token stands for in the text."""
    _, [starts], [ends] = (rows.to_list() for rows in tokenizer.tokenize_with_offsets([text]))
    return [text[start:end] for start, end in zip(starts, ends)]


# === WordPiece ===


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  films", ["The", "film", "s"]),
        ("", []),
        (" \t ", []),
        ("the,film", ["the", ",", "film"]),
        ("Don't", ["Don", "'", "t"]),
        ("Caf\u00e9 the", ["Caf\u00e9", "the"]),
        ("Cafe\u0301 the", ["Cafe\u0301", "the"]),
        ("the\u65e5\u672cfilm", ["the", "\u65e5", "\u672c", "film"]),
        ("t\u200bhe\x00 film", ["t\u200bhe", "film"]),
        ("the\u200b film", ["the", "film"]),
        ("\u0301the", ["the"]),
        ("\u0130 \u1e9e", ["\u0130", "\u1e9e"]),
        ("the " + "x" * 101 + " film", ["the", "x" * 101, "film"]),
        ("the " + "\u00e9" * 101 + "\u0301, film", ["the", "\u00e9" * 101 + "\u0301", ",", "film"]),
        ("\ud55c film", ["\ud55c", "film"]),
        ("\U0001f600 film", ["\U0001f600", "film"]),
    ],
)
def test_each_token_has_the_characters_of_the_original_text(text, expected):
    assert parts(WordPieceTokenizer(TOKENS), text) == expected


def test_texts_of_a_batch_do_not_run_into_each_other():
    tokenizer = WordPieceTokenizer(TOKENS)
    ids, starts, ends = (
        rows.to_list() for rows in tokenizer.tokenize_with_offsets(["the", "", "\u0301cafe\u0301", "s"])
    )
    assert ids == [[1], [], [4], [0]]
    assert (starts, ends) == ([[0], [], [1], [0]], [[3], [], [6], [1]])


def test_a_kept_accent_is_a_character_like_all_others():
    tokenizer = WordPieceTokenizer(["[UNK]", "cafe", "##\u0301"], strip_accents=False)
    assert parts(tokenizer, "Cafe\u0301") == ["Cafe", "\u0301"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_ids_are_those_of_tokenize_for_hard_texts_and_all_characters(variant, data_dir):
    file, lowercase, strip_accents = VARIANTS[variant]
    vocabulary = SMALL if file is None else data_dir("vocabs") / file
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=lowercase, strip_accents=strip_accents)
    texts = [text[:2000] for texts in HARD.values() for text in texts]
    texts += [f"a{char}b {char} {char * 2}" for char in sample(characters(40), 10)]
    assert not differing_offsets(tokenizer, texts)


@pytest.mark.report(
    "Offsets are wrong after accents.", "transformers#35", "transformers#5490", "tokenizers#1011", "tokenizers#1663"
)
def test_the_offsets_are_those_of_hugging_face_but_for_removed_accents(data_dir):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = WordPieceTokenizer(data_dir("vocabs") / "bert-base-uncased-vocab.txt")
    theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece(tokenizer._ids, unk_token="[UNK]"))
    theirs.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    texts = contexts(data_dir)[::40]
    _, starts, ends = tokenizer.tokenize_with_offsets(texts)
    for text, first, last in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        if not any("\u0300" <= char <= "\u036f" for char in text):
            assert list(zip(first, last)) == theirs.encode(text, add_special_tokens=False).offsets


# === Byte-level BPE ===


@pytest.mark.parametrize(
    "options", [{}, {"add_prefix_space": True}, {"added_tokens": ["|x|", "   "]}, {"normalization": "NFC"}]
)
def test_the_bytes_of_a_token_are_its_characters_without_the_space_before_it(options):
    tokenizer = ByteBPETokenizer(VOCABULARY, MERGES, **options)
    assert parts(tokenizer, "the film") == ["the", "film"]
    assert parts(tokenizer, " the") == ["the"]
    assert parts(tokenizer, " thecaf\u00e9")[1:] == ["c", "a", "f", "\u00e9"]
    assert parts(tokenizer, " thex\u0301")[1:] == ["x", "\u0301", "\u0301"]  # The accent has two bytes.
    assert parts(tokenizer, " the\U0001f600!")[1:] == ["\U0001f600"] * 4 + ["!"]
    assert not differing_offsets(tokenizer, HARD_FOR_BYTES)


def test_a_space_that_is_put_before_each_part_between_added_tokens_is_no_character():
    tokenizer = ByteBPETokenizer(VOCABULARY, MERGES, add_prefix_space=True, added_tokens=["|x|"])
    texts = ["the|x|the|x| film|x||x|c", "", "|x|film", "the"]
    rows = [values.to_list() for values in tokenizer.tokenize_with_offsets(texts)[1:]]
    found = [[text[start:end] for start, end in zip(*bounds)] for text, *bounds in zip(texts, *rows)]
    found = [[part for part in parts if part] for parts in found]  # Some spaces are tokens of their own.
    assert found == [["the", "|x|", "the", "|x|", "film", "|x|", "|x|", "c"], [], ["|x|", "film"], ["the"]]
    assert not differing_offsets(tokenizer, HARD_FOR_BYTES)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_tokens_of_a_normalized_text_have_the_characters_of_the_original_text(form):
    tokenizer = ByteBPETokenizer(VOCABULARY, MERGES, normalization=form)
    for part in ("e\u0301", "\u00e9", "\u212b", "\ud55c", "\u1112\u1161\u11ab", "\ufb01"):
        text = f"the{part} film"
        _, [starts], [ends] = (rows.to_list() for rows in tokenizer.tokenize_with_offsets([text]))
        assert (text[: ends[0]], text[starts[1] : ends[-2]], text[starts[-1] :]) == ("the", part, "film")
    assert not differing_offsets(tokenizer, HARD_FOR_BYTES)


@pytest.mark.slow
def test_the_offsets_of_gpt2_are_those_of_hugging_face(data_dir):
    tokenizers = pytest.importorskip("tokenizers")
    folder = data_dir("vocabs") / "gpt2"
    [vocabulary], [merges] = folder.glob("encoder*.json"), folder.glob("vocab*.bpe")
    vocabulary, merges = tokens_of(json.loads(vocabulary.read_text("utf-8"))), read_merges(merges)
    ours = ByteBPETokenizer(vocabulary, merges)
    ids = {token: index for index, token in enumerate(vocabulary)}
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(ids, merges))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True)
    texts = contexts(data_dir)[::40]
    _, starts, ends = ours.tokenize_with_offsets(texts)
    for text, first, last in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        for found, expected in zip(zip(first, last), theirs.encode(text).offsets, strict=True):
            assert text[slice(*found)].isspace() or found == expected


def contexts(data_dir):
    """The paragraphs of SQuAD's dev set."""
    data = json.loads((data_dir("squad1.1") / "dev-v1.1.json").read_text("utf-8"))["data"]
    return [paragraph["context"] for article in data for paragraph in article["paragraphs"]]


# === Others ===


def test_a_tokenizer_without_offsets_is_an_error_that_says_which_have_them():
    with pytest.raises(
        ValueError,
        match="`WordPieceTokenizer`.*`ByteBPETokenizer`.* Received: tokenizer=a GPTTokenizer",
    ):
        GPTTokenizer().tokenize_with_offsets(["a"])


def test_texts_that_are_not_utf8_are_an_error():
    tokenizer = BertPreprocessor(SMALL).tokenizer
    with pytest.raises(tf.errors.InvalidArgumentError, match="Texts must be UTF-8"):
        tokenizer.tokenize_with_offsets(tf.constant([b"caf\xe9"]))
