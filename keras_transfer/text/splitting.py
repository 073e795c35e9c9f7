"""How texts are split into words, in the graph."""

SPLITS = ("punctuation", "whitespace")

_SPACE = r"[\s\pZ\x{85}]+"
_PUNCTUATION = r"[!-/:-@\[-`{-~\pP]"  # all of ASCII but letters and digits


def check_split(split):
    """Raises a `ValueError` if `split` is unknown."""
    if split not in SPLITS:
        raise ValueError(f"Invalid value for argument `split`. Expected one of {SPLITS}. Received: split={split!r}")


def split_words(texts, split):
    """Returns the words of texts [batch] as a ragged tensor [batch, None]."""
    import tensorflow as tf

    if split == "punctuation":
        texts = tf.strings.regex_replace(texts, _PUNCTUATION, r" \0 ")
    return tf.strings.split(tf.strings.strip(tf.strings.regex_replace(texts, _SPACE, " ")))


def split_at(separator, texts):
    """Returns the parts of texts [batch] between separators, as a ragged tensor [batch, None] without empty strings."""
    import tensorflow as tf

    parts = tf.strings.split(texts, separator)
    kept = tf.where(parts.values != "")[:, 0]
    rows = tf.gather(parts.value_rowids(), kept)
    return tf.RaggedTensor.from_value_rowids(tf.gather(parts.values, kept), rows, parts.nrows(), validate=False)
