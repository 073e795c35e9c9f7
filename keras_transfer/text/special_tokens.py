"""What special tokens mean by their names: codes of languages, and sentinels, which stand for corrupted spans."""

import re

_LANGUAGE = re.compile("[a-z]{2,3}_[A-Z]{2}|[a-z]{3}_[A-Z][a-z]{3}|__[a-z]{2,3}__|>>[^<>]+<<")
_SENTINEL = re.compile("\u2581?<extra_id_([0-9]+)>")  # with the mark of a space in mT5


def is_language_code(token):
    """Returns whether a special token looks like a language code, such as `de_DE` (mBART) and `>>deu<<` (Marian)."""
    return _LANGUAGE.fullmatch(token) is not None


def sentinels_in(tokens):
    """Returns the sentinels `<extra_id_0>`, `<extra_id_1>`, ... among tokens, in this order."""
    found = {int(match[1]): token for token in tokens if (match := _SENTINEL.fullmatch(token))}
    return [found[number] for number in sorted(found)]
