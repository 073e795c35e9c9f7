"""BERT's normalization of text in the TensorFlow graph, exactly as in Hugging Face `tokenizers`."""

from keras_transfer.core.lazy import tf
from keras_transfer.text.preprocessor import import_tensorflow_text
from keras_transfer.text.strings.code_points import SETS, class_of, codes_of

# Replaces every word that must become the unknown token. U+FFFD in the text itself is removed first, so it has no other
# meaning. In a vocabulary it never matches, as in Hugging Face's tokenizers.
UNKNOWN = "\ufffd"

# Longer words become the unknown token.
MAX_WORD_LENGTH = 100


# Characters that are removed: control, format and private-use characters, and U+FFFD.
_REMOVED = class_of(
    "0-8 B-C E-1F 7F-9F AD 600-605 61C 6DD 70F 180E 200B-200F 202A-202E 2060-2064 2066-206F "
    "E000-F8FF FEFF FFF9-FFFB FFFD 110BD 1BCA0-1BCA3 1D173-1D17A E0001 E0020-E007F F0000-FFFFD "
    "100000-10FFFD"
)

# Ideographs, each of which is a word. Hugging Face leaves out 2B820-2B91F.
_IDEOGRAPHS = class_of("3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F")

# In texts and vocabularies, private-use characters stand in for newer ones, because these are letters in all tables,
# and other private-use characters were removed before.
_FIRST_STAND_IN = 0xF0000
_STAND_INS = {code: _FIRST_STAND_IN + index for index, code in enumerate(codes_of(SETS["newer"]))}

# Capital letters that only Hugging Face lowercases, by the distance of their lower-case letters.
_CAPITALS = {
    0x1: "1C89 A7C0 A7CC A7CE A7D0 A7D2 A7D4 A7D6 A7D8 A7DA",
    0x1B: "16EA0-16EB8",
    0x20: "10D50-10D65",
    0x27: "10570-1057A 1057C-1058A 1058C-10592 10594-10595",
    0x30: "2C2F",
    0x264 - 0xA7CB: "A7CB",
    0x19B - 0xA7DC: "A7DC",
}
_LOWERED = {code: code + distance for distance, ranges in _CAPITALS.items() for code in codes_of(ranges)}

# Punctuation characters, each of which is a word: all of ASCII but letters and digits, and two that newer tables have
# moved to other categories.
_PUNCTUATION = r"!-/:-@\[-`{-~\pP" + class_of("166D 111C9")

# Nonspacing marks, as in Unicode 8 for the two that have changed since.
_ACCENT = r"[^\P{Mn}\x{111C9}]|\x{1734}"

# Marks, as in the tables of Unicode 9 that `StripAccents` of Hugging Face uses.
MARK = rf"[^\PM{class_of(SETS['newer_marks'])}]|[{class_of('1CF2-1CF3')}]"

# ASCII without control characters and long words, which only needs lowercasing.
_LETTERS = f"[0-9A-Za-z]{{0,{MAX_WORD_LENGTH}}}"
_PLAIN = rf"{_LETTERS}(?:[\t\n\r -/:-@\[-`{{-~]{_LETTERS})*"


def normalize(texts, lowercase, strip_accents, limit_words=True):
    """Returns texts [batch] in which white space separates the words of BERT.

    As `BertNormalizer` and `BertPreTokenizer` of Hugging Face `tokenizers`, it removes control characters, separates
    ideographs and punctuation, decomposes characters and removes accents, and lowercases each letter by itself (a final
    sigma becomes a plain one). Words of more than 100 characters become U+FFFD. Other characters stand in for those
    that TensorFlow treats differently: see `replace_newer`.

    Source: https://github.com/google-research/bert (`tokenization.py`, `BasicTokenizer`) and
    https://github.com/huggingface/tokenizers (`normalizers/bert.rs`, `pre_tokenizers/bert.rs`).
    """
    # Nearly all English is plain. Checking that costs a tenth of normalizing it.
    rare = tf.where(~tf.strings.regex_full_match(texts, _PLAIN))
    if rare.shape[0] != 0:  # In a graph, it is unknown. Otherwise, even operations on no texts take milliseconds.
        normalized = _normalize_rare(tf.gather_nd(texts, rare), lowercase, strip_accents, limit_words)
        texts = tf.tensor_scatter_nd_update(texts, rare, normalized)
    return tf.strings.lower(texts) if lowercase else texts


def normalize_characters(texts, lowercase, strip_accents):
    """Returns texts with the same words as `normalize` does, and what became of each character.

    Each character is normalized by itself, so that its place in the result is known. Long words are kept. What became
    of them are two ragged tensors [batch, None]: the number of bytes of each character in the result, and whether it is
    an accent that was removed.
    """
    codes = tf.strings.unicode_decode(checked_utf8(texts), "UTF-8")
    distinct, index = tf.unique(codes.values)
    characters = tf.strings.unicode_encode(distinct[:, None], "UTF-8")
    normalized = _normalize_rare(characters, lowercase, strip_accents, limit_words=False)
    widths = tf.strings.length(normalized)
    accents = (widths == 0) & tf.strings.regex_full_match(characters, r"\pM")
    parts, widths, accents = (codes.with_values(tf.gather(column, index)) for column in (normalized, widths, accents))
    return tf.strings.reduce_join(parts, axis=-1), widths, accents


def _normalize_rare(texts, lowercase, strip_accents, limit_words):
    replace = tf.strings.regex_replace
    texts = checked_utf8(texts)
    texts = replace(texts, f"[{_REMOVED}]", "")
    texts = _translate(texts, {**_STAND_INS, **_LOWERED} if lowercase else _STAND_INS)
    if strip_accents:
        texts = replace(import_tensorflow_text().normalize_utf8(texts, "NFD"), _ACCENT, "")
    if lowercase:
        texts = _lower(texts)
    texts = replace(texts, f"[{_PUNCTUATION}{_IDEOGRAPHS}]", r" \0 ")
    return replace(texts, rf"[^\s\pZ]{{{MAX_WORD_LENGTH + 1},}}", UNKNOWN) if limit_words else texts


def lower(texts):
    """Returns texts [batch] in lower case, each letter by itself: a final sigma becomes a plain one."""
    # TensorFlow drops what follows a NUL. As in Hugging Face's tokenizers, it becomes an unknown character.
    return _lower(_translate(tf.strings.regex_replace(texts, r"\x00", "\U0010fffd"), _LOWERED))


def _lower(texts):
    return tf.strings.lower(tf.strings.regex_replace(texts, "\u03a3", "\u03c3"), encoding="utf-8")


def replace_newer(token):
    """Returns a token of a vocabulary as it appears in normalized texts."""
    return token if token.isascii() else token.translate(_STAND_INS)


def is_reachable(token):
    """Returns whether a word of a normalized text can contain a token of a vocabulary."""
    fits = token.split() == [token] and len(token.removeprefix("##")) <= MAX_WORD_LENGTH
    return fits and UNKNOWN not in token and "\x00" not in token and max(token) < chr(_FIRST_STAND_IN)


def _translate(texts, table):
    """Replaces characters of texts according to a dict of code points, like `str.translate`."""
    old, new = zip(*sorted(table.items()))
    rare = tf.where(tf.strings.regex_full_match(texts, "(?s:.*)[" + "".join(map(chr, old)) + "](?s:.*)"))
    if rare.shape[0] == 0:
        return texts
    codes = tf.strings.unicode_decode(tf.gather_nd(texts, rare), "UTF-8")
    place = tf.minimum(tf.searchsorted(old, codes.values), len(old) - 1)
    codes = codes.with_values(tf.where(tf.gather(old, place) == codes.values, tf.gather(new, place), codes.values))
    return tf.tensor_scatter_nd_update(texts, rare, tf.strings.unicode_encode(codes, "UTF-8"))


def checked_utf8(texts):
    """Returns texts [batch], or raises an `InvalidArgumentError` if one of them is not UTF-8."""
    others = tf.boolean_mask(texts, ~tf.strings.regex_full_match(texts, r"[\x00-\x7f]*"))
    valid = tf.strings.unicode_transcode(others, "UTF-8", "UTF-8", errors="ignore")
    wrong = valid != others
    message = "Texts must be UTF-8. Decode them where they are read. Received (without the invalid bytes):"
    check = tf.debugging.Assert(~tf.reduce_any(wrong), [message, valid[wrong][:1]])
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(texts)
