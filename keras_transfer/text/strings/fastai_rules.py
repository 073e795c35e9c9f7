"""The rules with which fastai 1 prepares texts, around a function of the user that splits them into words."""

import html
import re
from collections.abc import Callable, Sequence

from keras_transfer.core.expect import expect

BEGIN_TEXT, MARKED_SPACE = "xxbos", "\u2581"  # The latter stands for a space inside a token, as in fastai 2.

# What occurs in the raw texts of its corpora, in the order of the replacements.
_REPLACED = {
    **{"#39;": "'", "amp;": "&", "#146;": "'", "nbsp;": " ", "#36;": "$", "\\n": "\n", "quot;": "'", "<br />": "\n"},
    **{'\\"': '"', "<unk>": "xxunk", " @.@ ": ".", " @-@ ": "-", " @,@ ": ",", "\\": " \\ "},
}


def fastai_texts(texts: Sequence[str], split: Callable) -> list[str]:
    """Returns texts in the form that a `FastaiTokenizer` expects: the tokens of fastai 1, separated by spaces.

    The rules are fastai 1's: `xxbos` begins a text, `xxmaj` comes before a word with a capital letter and `xxup`
    before a word in capitals, `xxrep 4 !` stands for `!!!!`, and `xxwrep 4 the` for the same word four times in
    sequence. All words are in lower case. spaCy splits them, which is not a part of this library: `split` does it. This
    runs in Python, before the data is passed to a task. A space inside a token becomes `\u2581`.

    Args:
        texts: List of strings.
        split: Function from a string to a list of strings, its words. fastai's own is
            `lambda text: [token.text for token in nlp.tokenizer(text)]` with `nlp = spacy.blank("en")`.

    Returns:
        A list of strings.

    Raises:
        ValueError: If `texts` is a single string, or if `split` returns anything but strings.

    Example:
    ```python
    keras_transfer.text.fastai_texts(["The film was GREAT !!!!"], str.split)
    # ["xxbos xxmaj the film was xxup great xxrep 4 !"]
    ```

    Source: https://github.com/fastai/fastai1 (`fastai/text/transform.py`).
    """
    expect(not isinstance(texts, str), "`texts` must be a list of strings.", texts=texts)
    return [" ".join(_tokens(text, split)) for text in texts]


def _tokens(text, split):
    words = split(_prepared(f"{BEGIN_TEXT} {text}"))
    rule = "`split` must return a list of strings."
    expect(isinstance(words, list) and all(isinstance(word, str) for word in words), rule, words=words)
    return [token.replace(" ", MARKED_SPACE) for word in words for token in _marked(word)]


def _prepared(text):
    """Returns a text after the rules that fastai applies before it splits it."""
    for old, new in _REPLACED.items():
        text = text.replace(old, new)
    text = re.sub(" {2,}", " ", html.unescape(text))
    text = re.sub(r"(\S)\1{3,}", lambda found: f" xxrep {len(found[0])} {found[1]} ", text)
    # Four times the same word with the same characters after it. That at the very end may lack them.
    text = re.sub(r"(\b\w+\W+)\1{3,}", _repeated_words, text)
    return re.sub(" {2,}", " ", re.sub(r"([/#\n])", r" \1 ", text))


def _repeated_words(found):
    # fastai counts the white space between words, of which there may be none.
    repeated = found[0][len(found[1]) :]
    return f" xxwrep {len(repeated.split()) + 1} {found[1]} "


def _marked(word):
    """Returns a word in lower case, after the token that says how its letters were."""
    if word.isupper() and len(word) > 1:
        return ["xxup", word.lower()]
    if word and word[0].isupper() and word[1:].islower():
        return ["xxmaj", word.lower()]
    return [word.lower()] if word else []
