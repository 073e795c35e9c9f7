"""Characters that are newer than Hugging Face's tables are letters, and have an id if the vocabulary holds them."""

import pytest

from keras_transfer.text import WordPieceTokenizer
from tests.samples import sample

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

# Marks, punctuation and an ideograph that Unicode has had since version 9, 9, 11, 10, 13 and 14.
NEWER = ["\u0c04", "\u08d4", "\U0001e944", "\U00011a3b", "\u2e52", "\U0002b820"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##a", "x", *NEWER, *(f"##{char}" for char in NEWER)]


def ids(texts, vocabulary=VOCABULARY, **options):
    tokens = WordPieceTokenizer(vocabulary, **options).tokenize(texts).to_list()
    return [[vocabulary[index] for index in row] for row in tokens]


@pytest.mark.parametrize("options", [{}, {"lowercase": False}, {"strip_accents": False}])
@pytest.mark.parametrize("char", NEWER)
def test_a_newer_character_is_a_letter_with_an_id(char, options):
    found = ids([char, f"a{char}a", f"x {char * 2}"], **options)
    assert found == [[char], ["a", f"##{char}", "##a"], ["x", char, f"##{char}"]]


def test_the_whole_word_of_a_newer_character_is_a_token():
    for char in NEWER:
        word = f"a{char}x"
        assert ids([f"x {word}"], [*VOCABULARY, word]) == [["x", word]]


def test_a_newer_character_that_the_vocabulary_lacks_makes_its_word_unknown():
    for char in NEWER:
        assert ids([f"a a{char} x"], VOCABULARY[:7]) == [["a", "[UNK]", "x"]]


def test_private_use_characters_are_removed_from_texts_and_found_in_no_token():
    vocabulary = [*VOCABULARY[:7], "\U000f0000", "a\U000f0001"]
    assert ids(["a\U000f0001 x\U000f0000", "\U000f0000"], vocabulary) == [["a", "x"], []]
    assert ids(["\u061d a\u07fd"], vocabulary) == [["[UNK]", "[UNK]"]]


def tokenizer_of_hugging_face(vocabulary, **options):
    tokenizers = pytest.importorskip("tokenizers")
    ids = {token: index for index, token in enumerate(vocabulary)}
    theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    theirs.normalizer = tokenizers.normalizers.BertNormalizer(**options)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return theirs


def different_characters(codes, lowercase, strip_accents):
    """Returns those whose ids differ from Hugging Face's with a vocabulary of all these characters."""
    characters = [chr(code) for code in codes if not 0xD800 <= code < 0xE000]
    letters = [char for char in characters if char.split() == [char]]
    vocabulary = list(dict.fromkeys(["[UNK]", *letters, *"ab\u0301\u0323"]))
    vocabulary += [f"##{char}" for char in vocabulary[1:]]
    texts = [f"a{char}b {char} {char}{char}\u0323{char}\u0301" for char in characters]
    options = {"lowercase": lowercase, "strip_accents": strip_accents}
    theirs = tokenizer_of_hugging_face(vocabulary, **options).encode_batch_fast(texts, add_special_tokens=False)
    ours = WordPieceTokenizer(vocabulary, **options).tokenize(tf.constant(texts)).to_list()
    return [hex(ord(char)) for char, mine, other in zip(characters, ours, theirs) if mine != other.ids]


VARIANTS = pytest.mark.parametrize(
    ("lowercase", "strip_accents"), [(True, None), (False, None), (True, False), (False, True)]
)


@VARIANTS
@pytest.mark.report(
    "Ids of emoji and newer characters differ from those of the checkpoint's tokenizer.",
    "transformers#14844",
    "transformers#2917",
    "tokenizers#115",
)
def test_newer_characters_get_the_ids_of_hugging_face(lowercase, strip_accents):
    from keras_transfer.text.strings.normalizer import _LOWERED, _STAND_INS

    special = {*_STAND_INS, *_LOWERED, *_LOWERED.values()}
    assert len(special) > 800
    assert different_characters([*range(0x20, 0x180), *sorted(special)], lowercase, strip_accents) == []


@pytest.mark.slow
@VARIANTS
def test_characters_get_the_ids_of_hugging_face(lowercase, strip_accents):
    codes = [
        *sample(range(0x20, 0x20000), 3),
        *range(0x2A6D0, 0x2A710),
        *range(0x2B730, 0x2B930),
        *range(0x2CEA0, 0x2CEC0),
    ]
    codes += [*range(0x2EBE0, 0x2EE80), *range(0x30000, 0x30010), *range(0xE0000, 0xE0200)]
    assert different_characters(codes, lowercase, strip_accents) == []


def test_pairs_of_newer_characters_and_accents_get_the_ids_of_hugging_face():
    theirs = tokenizer_of_hugging_face(VOCABULARY)
    texts = [f"{a}a{b} x{a}\u0301{b}" for a in NEWER for b in NEWER]
    expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert WordPieceTokenizer(VOCABULARY).tokenize(texts).to_list() == expected
