"""`BertPreprocessor`: ids equal Hugging Face's, packing, every way to call it, saving, errors."""

import csv
import gzip
import itertools
import json
import pathlib
import random
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_transfer.text.bert import BertPreprocessor

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyzéßıσςжя日本한0123456789½²🤣"
SMALL = [
    *SPECIALS,
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¿“”–…€₹∑，。",
    *("the", "film", "##s", "##ing", "mask", "cafe", "naive"),
]

# Each is what somebody types, pastes or crawls sooner or later.
HARD = [
    *("", " ", "   \t\n\r ", "the films", "THE Films!", "a\tb\nc\r\nd"),
    *("café", "cafe\u0301", "CAFÉ", "naïve", "Ångström A\u030angstro\u0308m", "e\u0323\u0301\u0327x"),
    *("ﬁlm ﬂat ﬃx", "straße STRASSE ẞ", "İstanbul ISTANBUL ıI", "ΟΔΥΣΣΕΥΣ Σ ΣΑΣ ας", "ǅ ǆ Ǆ"),
    *("日本語のテキスト", "私はfilmを見た。", "한국어 텍스트", "\u1112\u1161\u11ab", "ｶﾀｶﾅ カタカナ が か\u3099"),
    *("😀 great🤣film", "👩\u200d👩\u200d👧\u200d👦 family", "👍🏽👍🏿", "❤\ufe0f 1\ufe0f\u20e3", "🇩🇪🇫🇷", "🫠🥹🪿"),
    *("a\x00b", "\x00", "a\x01\x02b\x07", "a\x0bb\x0cc", "a\x1cb\x1fc", "a\x7fb\x80c\x85d", "a\ufffdb", "\ufffd"),
    *("a\u200bb", "a\u200cb\u200dc", "a\u2060b", "\ufefffilm", "a\u00adb", "a\u00a0b", "a\u202ab\u202cc"),
    *("a\u3000b\u2003c\u2009d\u202fe\u1680f", "a\u2028b\u2029c", "a\u180eb", "\u061ca\u06ddb"),
    *("½ cup ¾ ⅓", "x² + y³ = z¹", "H₂O", "№ ℃ ™ ®", "①②③ Ⅳ ⅳ", "ﬀ ﬆ ʼn"),
    *("[MASK]", "[CLS] the film [SEP]", "[UNK][PAD]", "[mask]", "##ing", "the ##ing", "films##s", "##"),
    *("ж" * 50, "ж" * 51, "ж" * 100, "ж" * 101, "ж" * 51 + "!" + "я" * 60, "é" * 100, "é" * 101),
    *("e\u0301" * 100, "e\u0301" * 101, "日" * 150, "🤣" * 100, "🤣" * 101, "!" * 150),
    *("a" * 100, "a" * 101, "a" * 99 + "-" + "b" * 101, "x " * 200, "a" * 101 + " é", "Z" * 101),
    *("a" * 100_000, "the film " * 11_112, "é " * 50_000, "日" * 100_000),
    *("اَلْعَرَبِيَّةُ كتاب", "हिन्दी में लिखा क्षत्रिय", "ภาษาไทยเขียนติดกัน", "தமிழ் மொழி", "བོད་སྐད།", "שָׁלוֹם עוֹלָם"),
    *("a\ue000b", "\uf8ff apple", "\U000f0000x\U0010fffdy", "a\u0378b", "\u0bfb\U0003fffdx", "a\ufdd0b\uffffc"),
    *("\u1c89 \ua7cb \ua7dc \u2c2f", "\u0898a\u08cab", "a\u061db\u2e4fc", "\U00011070a", "\U0002b820\U0002b740"),
    *("“quoted” ‘single’ «guillemets» „low“", "em—dash en–dash ‐ ‑ ‒ ―", "wait… what‽ ¿qué? ¡no!"),
    *("$5 €5 £5 ¥5 ₹5 ₿5 ¢", "∑ ∫ ∀x∈ℝ √2 ≠ ± × ÷", "𝓗𝓮𝓵𝓵𝓸 𝐀𝐁 𝟘𝟙", "a_b_c", "don't can’t", "C++ C# F*"),
    *("http://t.co/x?y=1&z=%20", "me@mail.com", "#tag @user", ":-) ^_^ <3 \\o/", "1,234.56 3.14e-10", "`a` ~b~ |c|"),
    *("\u037e \u1fef \u0387 \u2000", "\u0f0b\u104a\u1362\u166d\U000111c9", "\u1734x\u1714", "x\u302ey\u302f", "\u16ff0a"),
    *("ÀÈÌÒÙ àèìòù ĀĒĪ ąęį Đđ Łł Øø Ħħ", "Ж Я Й Ё", "Ϊ ΐ Ά", "ẛ̣ Ạ̊", "Ω Å K", "\u0344\u0340\u0f73"),
]  # fmt: skip

# Hugging Face's tokenizer and this one differ in none of the texts of this file.
EXCEPTIONS = {}

VARIANTS = {
    "uncased": ("bert-base-uncased-vocab.txt", True, None),
    "cased": ("bert-base-cased-vocab.txt", False, None),
    "uncased, accents kept": ("bert-base-uncased-vocab.txt", True, False),
    "cased, accents stripped": ("bert-base-cased-vocab.txt", False, True),
}


def hugging_face(vocabulary, lowercase=True, strip_accents=None):
    """Returns their tokenizer without added special tokens, which are matched in the raw text."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {token: index for index, token in enumerate(vocabulary)},
            unk_token="[UNK]",
            max_input_chars_per_word=100,
        )
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def differences(preprocessor, tokenizer, texts, size=20_000):
    """Returns the texts whose ids differ."""
    tokenize = tf.function(preprocessor.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
    found = []
    for batch in itertools.batched(texts, size) if sys.version_info >= (3, 12) else chunks(texts, size):
        ours = tokenize(tf.constant(list(batch)))
        splits, values = ours.row_splits.numpy(), ours.values.numpy().tolist()
        theirs = tokenizer.encode_batch_fast(list(batch), add_special_tokens=False)
        for row, (text, encoding) in enumerate(zip(batch, theirs, strict=True)):
            if values[splits[row] : splits[row + 1]] != encoding.ids and text not in EXCEPTIONS:
                found.append(text)
    return found
