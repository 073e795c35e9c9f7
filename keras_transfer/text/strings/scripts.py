"""The scripts that characters belong to, and the words of texts in all scripts."""

import re
import unicodedata

# Thai to Lao, Myanmar, Khmer, kana, and the ideographs of Chinese and Japanese.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def script_of(character):
    """Returns the first word of the name of a letter or vowel sign, such as `"LATIN"` or `"CJK"`, or None."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    word = unicodedata.name(character, "UNKNOWN").split()[0]
    return None if word == "COMBINING" else word


def scripts_of(tokens):
    """Returns a set of the scripts of all characters of tokens, and None for characters that belong to none."""
    return {None, *map(script_of, {character for token in tokens for character in token})}


def count_words(text):
    """Returns the number of words of a text, split at white space.

    Scripts that put no spaces between words, such as those of Chinese, Japanese and Thai, have a word per character.
    """
    return len(_WITHOUT_SPACES.sub(r" \g<0> ", text).split())
