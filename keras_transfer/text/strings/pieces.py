"""Ragged ids as the input of a generator, and ids as text, in the TensorFlow graph."""

from keras_transfer.core.lazy import tf


def align_ragged_right(ids, start, max_length):
    """Returns the last ids of texts, int32 [batch, length], zeros on the left, and the place of each text's first id.

    The length is at least 1, and the place of a text without ids is `length`.

    Args:
        start: List of integers, ids that are put before each text.
        max_length: Integer. Number of ids that a text keeps, including those of `start`.
    """
    ids = ids[:, -(max_length - len(start)) :]
    if start:
        ids = tf.concat([tf.tile([start], [ids.nrows(out_type=tf.int32), 1]), ids], axis=1)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    length = tf.maximum(tf.reduce_max(lengths, keepdims=False), 1)
    first = length - lengths
    place = tf.range(length)[None] - first[:, None]
    dense = ids.to_tensor(shape=tf.stack([-1, length]))
    return tf.where(place >= 0, tf.gather(dense, tf.maximum(place, 0), batch_dims=1), 0), first


def take_pieces(ids, kept, pieces):
    """Returns the `kept` ids [batch, length] as texts, a string tensor [batch], given the bytes that each id adds."""
    with tf.init_scope():
        table = tf.constant(pieces)
    return join_pieces(tf.where(kept, tf.gather(table, ids), ""))


def without_first_space(texts):
    """Returns a string tensor without the space that each text may begin with."""
    return tf.strings.regex_replace(texts, "^ ", "")


def join_pieces(pieces):
    """Returns pieces of UTF-8, a string tensor or ragged tensor [..., None], as texts [...].

    Bytes that are not UTF-8 become U+FFFD.
    """
    joined = tf.strings.reduce_join(pieces, axis=-1)
    return tf.strings.unicode_transcode(joined, "UTF-8", "UTF-8", errors="replace")
