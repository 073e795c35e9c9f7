"""The words of GPT-2: letters, numbers or signs with the space before them, and runs of white space."""

from keras_transfer.text.strings.splitting import CUT, split_at
from keras_transfer.text.tensorflow import tf

_SPACE = r"\s\x{0b}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_RUN = rf"[{_SPACE}]+[{_SPACE}][^{_SPACE}]"
_WORD = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?[^{_SPACE}\p{{L}}\p{{N}}]+|[{_SPACE}]+"


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
    separated = replace(tf.gather_nd(texts, rare), f"([{_SPACE}]+)([{_SPACE}][^{_SPACE}])", rb"\1" + CUT + rb"\2")
    texts = tf.tensor_scatter_nd_update(texts, rare, separated)
    return split_at(CUT, replace(texts, _WORD, rb"\0" + CUT))
