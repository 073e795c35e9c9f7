"""The words of GPT-2: letters, numbers or signs with the space before them, and runs of white space."""

import re

from keras_transfer.text.splitting import split_at

# A byte that no UTF-8 text contains, and that no pattern matches: it separates words.
CUT = b"\xff"

_SPACE = r"\s\x{0b}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_RUN = rf"[{_SPACE}]+[{_SPACE}][^{_SPACE}]"
_WORD = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?[^{_SPACE}\p{{L}}\p{{N}}]+|[{_SPACE}]+"


def split_gpt2(texts, add_prefix_space=False, whole=()):
    """Returns the words of texts as a ragged string tensor [batch, None]. Side by side, they are the text.

    Args:
        texts: String tensor [batch], UTF-8.
        add_prefix_space: Boolean. Whether a space is put before a text that does not begin with one. Defaults to
            `False`.
        whole: List of strings that are words wherever they occur; the longest counts. Defaults to none.

    Source: https://github.com/openai/gpt-2 (`encoder.py`). RE2 has no `(?!\\S)`, so the end of a run of white space is
    separated before.
    """
    import tensorflow as tf

    replace = tf.strings.regex_replace
    if whole:
        return _around(texts, add_prefix_space, whole)
    if add_prefix_space:
        texts = replace(texts, "^[^ ]", r" \0", replace_global=False)
    # The last character of a run of white space belongs to the word behind it. Few texts have such runs.
    rare = tf.where(tf.strings.regex_full_match(texts, f"(?s:.*){_RUN}(?s:.*)"))
    separated = replace(tf.gather_nd(texts, rare), f"([{_SPACE}]+)([{_SPACE}][^{_SPACE}])", rb"\1" + CUT + rb"\2")
    texts = tf.tensor_scatter_nd_update(texts, rare, separated)
    return split_at(CUT, replace(texts, _WORD, rb"\0" + CUT))


def _around(texts, add_prefix_space, whole):
    """Splits each part between the strings that stay whole like a text of its own."""
    import tensorflow as tf

    pattern = "|".join(re.escape(text) for text in sorted(whole, key=len, reverse=True))
    parts = split_at(CUT, tf.strings.regex_replace(texts, pattern, CUT + rb"\0" + CUT))
    is_whole = tf.strings.regex_full_match(parts.values, pattern)
    words = split_gpt2(tf.where(is_whole, "", parts.values), add_prefix_space)
    kept = tf.RaggedTensor.from_row_lengths(tf.boolean_mask(parts.values, is_whole), tf.cast(is_whole, tf.int64))
    words = tf.concat([words, kept], 1)
    return tf.RaggedTensor.from_row_splits(words.values, tf.gather(words.row_splits, parts.row_splits), validate=False)
