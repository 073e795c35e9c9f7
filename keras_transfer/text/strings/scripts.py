"""The scripts that characters belong to."""

import unicodedata


def script_of(character):
    """Returns the first word of the name of a letter or vowel sign, such as `"LATIN"` or `"CJK"`, or None."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    word = unicodedata.name(character, "UNKNOWN").split()[0]
    return None if word == "COMBINING" else word


def scripts_of(tokens):
    """Returns a set of the scripts of all characters of tokens, and None for characters that belong to none."""
    return {None, *map(script_of, {character for token in tokens for character in token})}
