"""Splits texts into words, in the graph."""

import re

from keras_transfer.core.lazy import tf

SPLITS = ("punctuation", "whitespace")

# This byte separates words. No UTF-8 text contains it, and no pattern matches it.
CUT = b"\xff"

_SPACE = r"[\s\pZ\x{85}]+"
_PUNCTUATION = r"[!-/:-@\[-`{-~\pP]"  # all of ASCII but letters and digits

# The words of GPT-2: letters, numbers or signs with the space before them, and runs of white space.
_GPT2_SPACE = r"\s\x{0b}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_RUN = rf"[{_GPT2_SPACE}]+[{_GPT2_SPACE}][^{_GPT2_SPACE}]"
_WORD = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?[^{_GPT2_SPACE}\p{{L}}\p{{N}}]+|[{_GPT2_SPACE}]+"


def split_words(texts, split):
    """Returns the words of texts [batch] as a ragged tensor [batch, None]."""
    if split == "punctuation":
        texts = tf.strings.regex_replace(texts, _PUNCTUATION, r" \0 ")
    return tf.strings.split(tf.strings.strip(tf.strings.regex_replace(texts, _SPACE, " ")))


def split_at(separator, texts):
    """Returns the parts of texts [batch] between separators, as a ragged tensor [batch, None] without empty strings."""
    parts = tf.strings.split(texts, separator)
    kept = tf.where(parts.values != "")[:, 0]
    rows = tf.gather(parts.value_rowids(), kept)
    return tf.RaggedTensor.from_value_rowids(tf.gather(parts.values, kept), rows, parts.nrows(), validate=False)


def split_around(texts, whole, split):
    """Returns the words of texts [batch] as a ragged tensor [batch, None], in which some strings stay whole.

    Args:
        whole: List of strings that are words wherever they occur. The longest match wins.
        split: Function from the parts between these strings [parts] to their words, a ragged tensor [parts, None]. It
            splits each part like a text of its own.
    """
    if not whole:
        return split(texts)
    pattern = "|".join(re.escape(text) for text in sorted(whole, key=len, reverse=True))
    parts = split_at(CUT, tf.strings.regex_replace(texts, pattern, CUT + rb"\0" + CUT))
    is_whole = tf.strings.regex_full_match(parts.values, pattern)
    words = split(tf.where(is_whole, "", parts.values))
    kept = tf.RaggedTensor.from_row_lengths(tf.boolean_mask(parts.values, is_whole), tf.cast(is_whole, tf.int64))
    words = tf.concat([words, kept], 1)
    return tf.RaggedTensor.from_row_splits(words.values, tf.gather(words.row_splits, parts.row_splits), validate=False)


def put_space_before(texts):
    """Returns texts [batch] with a space before those that do not begin with one, except for empty ones."""
    return tf.strings.regex_replace(texts, "^[^ ]", r" \0", replace_global=False)


def split_gpt2(texts, add_prefix_space=False):
    """Returns the words of texts as a ragged string tensor [batch, None]. Concatenated, they are the text.

    Source: https://github.com/openai/gpt-2 (`encoder.py`). RE2 has no `(?!\\S)`, so the end of a run of white space is
    separated in advance.
    """
    replace = tf.strings.regex_replace
    if add_prefix_space:
        texts = put_space_before(texts)
    # The last character of a run of white space belongs to the word after it. Few texts have such runs.
    rare = tf.where(tf.strings.regex_full_match(texts, f"(?s:.*){_RUN}(?s:.*)"))
    separated = replace(
        tf.gather_nd(texts, rare), f"([{_GPT2_SPACE}]+)([{_GPT2_SPACE}][^{_GPT2_SPACE}])", rb"\1" + CUT + rb"\2"
    )
    texts = tf.tensor_scatter_nd_update(texts, rare, separated)
    return split_at(CUT, replace(texts, _WORD, rb"\0" + CUT))
