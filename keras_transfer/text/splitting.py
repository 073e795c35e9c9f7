"""How texts are split into words, in the graph."""

SPLITS = ("punctuation", "whitespace")

_SPACE = r"[\s\pZ\x{85}]+"
_PUNCTUATION = r"[!-/:-@\[-`{-~\pP]"  # of ASCII all but letters and digits


def check_split(split):
    """Raises a ValueError for a way to split texts that there is not."""
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}. Received: {split!r}")


def split_words(texts, split):
    """Returns the words of texts [batch], ragged [batch, None]."""
    import tensorflow as tf

    if split == "punctuation":
        texts = tf.strings.regex_replace(texts, _PUNCTUATION, r" \0 ")
    return tf.strings.split(tf.strings.strip(tf.strings.regex_replace(texts, _SPACE, " ")))
