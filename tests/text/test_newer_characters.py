"""Characters that are newer than Hugging Face's tables are letters, and have an id if the vocabulary holds them."""

import pytest

from keras_transfer.text import BertPreprocessor, WordPieceTokenizer

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


def test_a_saved_vocabulary_with_newer_characters_is_the_same(tmp_path):
    saved = BertPreprocessor(VOCABULARY, 8)
    saved.save(tmp_path)
    loaded = BertPreprocessor.load(tmp_path)
    assert loaded.vocabulary == VOCABULARY
    assert (loaded(["a\u0c04"])["token_ids"] == saved(["a\u0c04"])["token_ids"]).numpy().all()


def test_hugging_face_gives_the_same_ids():
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({token: index for index, token in enumerate(VOCABULARY)}, unk_token="[UNK]")
    )
    theirs.normalizer = tokenizers.normalizers.BertNormalizer()
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    texts = [f"{a}a{b} x{a}\u0301{b}" for a in NEWER for b in NEWER]
    expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert WordPieceTokenizer(VOCABULARY).tokenize(texts).to_list() == expected
