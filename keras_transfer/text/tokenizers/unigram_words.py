"""The words of SentencePiece's unigram models, in the graph: how texts are normalized, and where words end."""

import functools
import unicodedata

from keras_transfer.core.lazy import tf
from keras_transfer.text.preprocessor import import_tensorflow_text
from keras_transfer.text.strings.normalizer import MARK, lower
from keras_transfer.text.strings.splitting import CUT, split_at
from keras_transfer.text.tokenizers.graphemes import apply_to_graphemes, change_where
from keras_transfer.text.tokenizers.sentencepiece_model import SPACE, normalized

# All characters that Unicode calls white space, and those that SentencePiece's normalization may make a space of.
_WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_OTHERS = "\u200b\u200c\u200d\u200e\u200f\u2581\ufeff\ufffd\xad"
_CONTROLS = "".join(map(chr, [*range(1, 9), *range(0x0E, 0x20), *range(0x7F, 0x85), *range(0x86, 0xA0)]))


def _inside(characters):
    """Returns characters as the inside of an RE2 character class."""
    return "".join(rf"\x{{{ord(character):x}}}" for character in characters)


_UNKNOWN = "\U0010fffd"  # stands for white space inside of a word, which TensorFlow Text would remove
_ANY_SPACE = _inside(_WHITE_SPACE)


TWO_SPACES = " {2,}"
MODEL_STEP = "model"  # the compiled normalization
SIDES = ("strip_left", "strip_right")
SPACE_STEPS = {"collapse_spaces", "collapse_white_space", *SIDES}


def _replace(pattern, replacement):
    def step(texts):
        return tf.strings.regex_replace(texts, pattern, replacement)

    return step


def _form(name):
    return lambda texts: import_tensorflow_text().normalize_utf8(texts, name)


STEPS = {
    "quotes": _replace("``|''", '"'),
    **{name: _form(name) for name in ("NFC", "NFD", "NFKC", "NFKD")},
    "strip_accents": _replace(MARK, ""),
    "lowercase": lower,
    "collapse_spaces": _replace(TWO_SPACES, " "),
    "collapse_white_space": _replace(rf"[{_ANY_SPACE}]{{2,}}|[\n\r\t]", " "),
    "strip_left": _replace(f"^[{_ANY_SPACE}]+", ""),
    "strip_right": _replace(f"[{_ANY_SPACE}]+$", ""),
}


def normalize_spaces(texts, charsmap, graphemes):
    """Returns texts [batch] in which the spaces are those that a model's compiled normalization makes.

    Args:
        graphemes: Boolean. Whether it is applied to grapheme clusters. These are normalized, too.
    """
    return _change_rare(texts, lambda rare: _normalize_spaces(rare, charsmap, graphemes))


def _normalize_spaces(texts, charsmap, graphemes):
    if graphemes and charsmap:
        texts = apply_to_graphemes(texts, charsmap)
    for pattern, replacement in _replacements(charsmap):
        texts = tf.strings.regex_replace(texts, pattern, replacement)
    return texts


def split_words(texts, charsmap, graphemes):
    """Returns the words of texts [batch] between white space as a ragged tensor [batch, None].

    A word is without the U+2581 in front of it, which is a word of its own if nothing follows it.
    """
    replace = tf.strings.regex_replace

    def change(rare):
        rare = replace(_normalize_spaces(rare, charsmap, graphemes), _separators(charsmap), " ")
        rare = replace(rare, r"[\t\n\x0b\x0c\r]", _UNKNOWN)
        if normalized(charsmap, SPACE) != SPACE:
            return rare
        return replace(replace(rare, f"{SPACE}([^ {SPACE}])", r" \1"), SPACE, f" {SPACE} ")

    return tf.strings.split(_change_rare(texts, change))


def split_spaces(texts):
    """Returns the words of texts [batch] of `normalize_spaces` behind each single space, ragged [batch, None].

    A word is without the space in front of it, which becomes the word U+2581 if nothing follows it.
    """
    replace = tf.strings.regex_replace
    texts = replace(replace(texts, r"[\t\n\r]", _UNKNOWN), f"[ {SPACE}]([^ {SPACE}])", CUT + rb"\1")
    return split_at(CUT, replace(texts, f"[ {SPACE}]", CUT + SPACE.encode() + CUT))


def _change_rare(texts, change):
    """Returns texts [batch] of which a function changes those that are not printable ASCII, as most in English are."""
    return change_where(~tf.strings.regex_full_match(texts, "[ -~]*"), texts, change)


@functools.lru_cache(maxsize=4)
def _separators(charsmap):
    """Returns the pattern of the white space that the compiled normalization keeps."""
    return f"[{_inside(c for c in _WHITE_SPACE if normalized(charsmap, c) in (c, ' '))}]"


@functools.lru_cache(maxsize=4)
def _replacements(charsmap):
    """Returns patterns of characters whose normalization has a space or is empty, with what they become."""
    if not charsmap:
        return []
    composed = [chr(code) for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000]
    composed = [character for character in composed if " " in unicodedata.normalize("NFKC", character)]
    found = {}
    for character in dict.fromkeys([*_WHITE_SPACE, *_OTHERS, *_CONTROLS, *composed]):
        result = normalized(charsmap, character)
        if character != " " and (result == "" or " " in result):
            found.setdefault(result, []).append(character)
    return [(f"[{_inside(characters)}]", result) for result, characters in found.items()]
