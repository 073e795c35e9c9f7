"""Tokenizes texts in which the user has masked words, and finds the masked positions."""

import re


def masked_ids(tokenizer, texts):
    """Returns the ids of texts. The mask token in a text becomes its id. Other special tokens are ordinary text.

    The texts between mask tokens are tokenized separately. White space in front of a mask token belongs to it.

    Args:
        tokenizer: `Tokenizer` with a mask token.
        texts: String tensor of shape [batch].

    Returns:
        An int32 `tf.RaggedTensor` [batch, None].
    """
    import tensorflow as tf

    mask = tokenizer.mask_token
    texts = tf.strings.regex_replace(texts, r"\s*" + re.escape(mask), mask.replace("\\", "\\\\"))
    parts = tf.strings.split(texts, mask)
    ids = tokenizer.tokenize(parts.values)
    starts = tf.boolean_mask(parts.row_starts(), parts.row_lengths() > 0)[:, None]
    first = tf.scatter_nd(starts, tf.ones_like(starts[:, 0]), tf.shape(parts.values, tf.int64))
    behind = 1 - first  # Each part but the first of a text follows a mask token.
    marks = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(behind)], tokenizer.mask_id), behind)
    return parts.with_values(tf.concat([marks, tf.cast(ids, tf.int32)], axis=1)).merge_dims(1, 2)


def mask_positions(token_ids, mask_id):
    """Returns the positions of the mask token in each row, int32 [batch, places], padded with -1."""
    import tensorflow as tf

    where = tf.broadcast_to(tf.range(tf.shape(token_ids)[1])[None], tf.shape(token_ids))
    positions = tf.ragged.boolean_mask(where, token_ids == mask_id).to_tensor(-1)
    return tf.pad(positions, [[0, 0], [0, tf.maximum(1 - tf.shape(positions)[1], 0)]], constant_values=-1)
