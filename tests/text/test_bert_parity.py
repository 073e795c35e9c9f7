"""`BertPreprocessor` gives the ids of Hugging Face `tokenizers` for all texts."""

import csv
import functools
import gzip
import json
import random

import pytest

from keras_transfer.text.bert_preprocessor import BertPreprocessor
from tests.samples import characters, sample
from tests.tokenizing import differing_ids

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
tokenizers = pytest.importorskip("tokenizers")

# A vocabulary for machines without the real data: letters of several scripts and a few words.
LETTERS = "abcdefghijklmnopqrstuvwxyzABCéßıσςжя日本한0123456789½²🤣\u0301"
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¿“”–…€₹∑，。"
WORDS = ["the", "film", "##ing", "mask", "cafe", "ΟΔΥ", "a b", " x", "\u00a0", "", "\ufffd", "##\ufffd", "##!"]
SMALL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *PUNCTUATION, *WORDS]
SMALL += [f"##{letter}" for letter in LETTERS]

VARIANTS = {
    "small": (None, True, None),
    "small cased": (None, False, None),
    "uncased": ("bert-base-uncased-vocab.txt", True, None),
    "cased": ("bert-base-cased-vocab.txt", False, None),
    "uncased, accents kept": ("bert-base-uncased-vocab.txt", True, False),
    "cased, accents stripped": ("bert-base-cased-vocab.txt", False, True),
}

HARD = {
    "nothing": ["", " ", "   \t\n\r ", "\x00", "\ufffd", "\u200b", "\u0301"],
    "whitespace": [
        *("a\tb\nc\r\nd", "a\u00a0b", "a\u3000b\u2003c\u2009d\u202fe\u1680f", "a\u2028b\u2029c"),
        "a b the a\u00a0b",
    ],
    "control characters": [*("a\x00b", "a\x01\x02b\x07", "a\x0bb\x0cc", "a\x1cb\x1fc", "a\x7fb\x80c\x85d", "a\ufffdb")],
    "invisible characters": [
        *("a\u200bb", "a\u200cb\u200dc", "a\u2060b", "\ufefffilm", "a\u00adb", "a\u202ab\u202cc"),
        *("a\u180eb", "\u061ca\u06ddb", "a\ufe0fb", "a\U000e0041b"),
    ],
    "accents": [
        *("café", "cafe\u0301", "CAFÉ", "naïve", "Ångström A\u030angstro\u0308m", "a\u0301\u0323"),
        *("e\u0323\u0301\u0327x", "ÀÈÌÒÙ àèìòù ĀĒĪ ąęį Đđ Łł Øø Ħħ", "Ж Я Й Ё", "Ϊ ΐ Ά", "ẛ̣ Ạ̊"),
        *("Ω Å K", "\u0344\u0340\u0f73", "\u1734x\u1714", "x\u302ey\u302f", "a\U00016ff0b"),
    ],
    "ligatures": ["ﬁlm ﬂat ﬃx", "ﬀ ﬆ ʼn", "ǅ ǆ Ǆ", "Ĳ ĳ"],
    "letters that change when lower-cased": [
        *("straße STRASSE ẞ", "İstanbul ISTANBUL ıI i̇", "ΟΔΥΣΣΕΥΣ Σ ΣΑΣ ας", "K Å Ω", "ᎠᏰ ꭰ")
    ],
    "East Asian": [
        *("日本語のテキスト", "私はfilmを見た。", "한국어 텍스트", "\u1112\u1161\u11ab"),
        *("ｶﾀｶﾅ カタカナ", "が か\u3099", "豈更車", "ＦＵＬＬ！"),
        *("\U0002f800\U0002f803", "\U0002b820\U0002b740 \U00030000"),
    ],
    "other scripts": [
        *("اَلْعَرَبِيَّةُ كتاب", "हिन्दी में लिखा क्षत्रिय", "ภาษาไทยเขียนติดกัน", "தமிழ் மொழி"),
        *("བོད་སྐད།", "שָׁלוֹם עוֹלָם", "አማርኛ።", "\u104aမြန်မာ", "Ⴀⴀ Აა"),
    ],
    "emoji": [
        *("😀 great🤣film", "👩\u200d👩\u200d👧\u200d👦 family", "👍🏽👍🏿"),
        *("❤\ufe0f 1\ufe0f\u20e3", "🇩🇪🇫🇷", "🫠🥹🪿", "🤣" * 100, "🤣" * 101),
    ],
    "numbers and symbols": [
        *("½ cup ¾ ⅓", "x² + y³ = z¹", "H₂O", "№ ℃ ™ ®", "①②③ Ⅳ ⅳ", "$5 €5 £5 ¥5 ₹5 ₿5 ¢"),
        *("∑ ∫ ∀x∈ℝ √2 ≠ ± × ÷", "𝓗𝓮𝓵𝓵𝓸 𝐀𝐁 𝟘𝟙", "1,234.56 3.14e-10"),
    ],
    "punctuation": [
        *("“quoted” ‘single’ «guillemets» „low“", "em—dash en–dash ‐ ‑ ‒ ―"),
        *("wait… what‽ ¿qué? ¡no!",),
        *("don't can’t", "a_b_c C++ C# F*", ":-) ^_^ <3 \\o/", "`a` ~b~ |c|", "!" * 150),
        *("\u037e \u1fef \u0387", "\u0f0b\u104a\u1362\u166d\U000111c9", "a\u061db\u2e4fc"),
        *("http://t.co/x?y=1&z=%20 me@mail.com #tag @user",),
    ],
    "text like special tokens": [
        *("[MASK]", "[CLS] the film [SEP]", "[UNK][PAD]", "[mask]", "[unused1]", "[unreachable68]"),
        *("##ing", "the ##ing", "films##s", "##", "##!"),
    ],
    "private and unassigned characters": [
        *("a\ue000b", "\uf8ff apple", "\U000f0000x\U0010fffdy", "a\u0378b", "\u0bfb\U0003fffdx"),
        *("a\ufdd0b\uffffc", "\u1c89 \ua7cb \ua7dc \u2c2f", "\u0898a\u08cab", "\U00011070a"),
    ],
    "long words": [
        *("a" * 100, "a" * 101, "a" * 99 + "-" + "b" * 101, "a" * 101 + " é", "Z" * 101),
        *("ж" * 50, "ж" * 51, "ж" * 100, "ж" * 101, "ж" * 51 + "!" + "я" * 60),
        *("é" * 100, "é" * 101),
        *("e\u0301" * 100, "e\u0301" * 101, "日" * 150, "a" * 100 + "\u200b" + "b", "İ" * 51),
    ],
    "long texts": [*("a" * 100_000, "the film " * 11_112, "é " * 50_000, "日" * 100_000, "!" * 100_000)],
}


@pytest.fixture(scope="module")
def different(request, data_dir):
    """Returns a function from texts to those whose ids differ, for one of the variants."""
    file, lowercase, strip_accents = VARIANTS[request.param]
    vocabulary = SMALL if file is None else (data_dir("vocabs") / file)
    ours = BertPreprocessor(vocabulary, lowercase=lowercase, strip_accents=strip_accents)
    # No added tokens, which would match in the raw text.
    ids = {token: index for index, token in enumerate(ours.vocabulary)}
    model = tokenizers.models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100)
    theirs = tokenizers.Tokenizer(model)
    theirs.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip_accents, lowercase=lowercase
    )
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()

    tokenize = tf.function(ours.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
    return functools.partial(differing_ids, tokenize, theirs)


all_variants = pytest.mark.parametrize("different", VARIANTS, indirect=True)
real_vocabularies = pytest.mark.parametrize("different", ["uncased", "cased"], indirect=True)


@all_variants
@pytest.mark.parametrize("kind", HARD)
def test_hard_texts_get_the_same_ids(kind, different):
    assert not different(HARD[kind])


@pytest.mark.slow
@real_vocabularies
def test_sentences_of_sst2_get_the_same_ids(different, data_dir):
    texts = []
    for split in ("train", "dev", "test"):
        with open(data_dir("glue/SST-2") / f"{split}.tsv", encoding="utf-8") as file:
            texts += [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=3)]
    assert len(texts) == 67_349 + 872 + 1_821
    assert not different(sample(texts, 5))


@real_vocabularies
def test_every_question_of_trec_gets_the_same_ids(different, data_dir):
    texts = []
    for file in ("train_5500.label", "TREC_10.label"):
        lines = (data_dir("trec6") / file).read_text("iso-8859-1").split("\n")[:-1]
        texts += [line.split(" ", 1)[1] for line in lines]
    assert len(texts) == 5_452 + 500
    assert not different(texts)


@real_vocabularies
def test_reviews_of_imdb_get_the_same_ids(different, data_dir):
    path = next(data_dir("imdb").glob("*test*"))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line, _ in zip(file, range(2_000), strict=False)]
    assert not different(sample(texts, 10))


@real_vocabularies
@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_characters_get_the_same_ids_inside_a_word_as_a_word_and_twice_in_a_row(step, different):
    assert not different([f"a{char}b {char} {char * 2}" for char in characters(step)])


@all_variants
def test_random_texts_get_the_same_ids(different):
    rng = random.Random(0)
    starts = [*range(0x20, 0x3000, 0x40), 0x4E00, 0xAC00, 0xD000, *range(0xE000, 0x20000, 0x100)]

    def text():
        start = rng.choice(starts)
        alphabet = [chr(start + i) for i in range(0x40)] + list("aei n.-\u0301\u0323\u05b0\u302e")
        return "".join(rng.choices(alphabet, k=rng.choice([1, 2, 5, 20, 101])))

    assert not different([text() for _ in range(5_000)])
