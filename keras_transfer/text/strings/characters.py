"""Maps the bytes of normalized texts back to the characters of the original texts, in the graph."""

from keras_transfer.core.lazy import tf


def utf8_widths(texts):
    """Returns the number of bytes of each character of texts [batch], an int32 ragged tensor [batch, None]."""
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    widths = 1 + sum(tf.cast(codes.values >= limit, tf.int32) for limit in (0x80, 0x800, 0x10000))
    return codes.with_values(widths)


def characters_of_bytes(widths, starts, ends):
    """Returns the first character of each token and the one after its last, two int64 tensors [tokens].

    A token without bytes has no characters: both are the same.

    Args:
        widths: Integer ragged tensor [batch, None]. The number of bytes that each character of a text became.
        starts, ends: Integer ragged tensors [batch, None]. The first byte of each token, and the position after its
            last byte.
    """
    behind = tf.cumsum(tf.cast(widths.values, tf.int64))  # among the bytes of all texts
    begins = tf.gather(tf.concat([[0], behind], 0), widths.row_splits)  # of the texts, and the end of the last one
    rows = starts.value_rowids()
    first_byte, first_character = tf.gather(begins, rows), tf.gather(widths.row_splits, rows)
    starts = tf.cast(starts.values, tf.int64)
    lengths = tf.cast(ends.values, tf.int64) - starts
    first = tf.searchsorted(behind, first_byte + starts, side="right", out_type=tf.int64)
    last = tf.searchsorted(behind, first_byte + starts + lengths - 1, side="right", out_type=tf.int64)
    first = tf.minimum(first, tf.gather(widths.row_splits, rows + 1)) - first_character
    return first, tf.where(lengths > 0, last + 1 - first_character, first)


def skip_characters(skipped, ends):
    """Moves the ends of tokens past the skipped characters that follow them. Returns an int64 tensor [tokens].

    Args:
        skipped: Boolean ragged tensor [batch, None]. Whether each character of a text is skipped.
        ends: Int64 ragged tensor [batch, None]. The position after the last character of each token.
    """
    kept = tf.where(~skipped.values)[:, 0]
    kept = tf.concat([kept, tf.shape(skipped.values, tf.int64)], 0)
    rows = ends.value_rowids()
    begin, limit = tf.gather(skipped.row_splits, rows), tf.gather(skipped.row_splits, rows + 1)
    place = begin + ends.values
    return tf.minimum(tf.gather(kept, tf.searchsorted(kept, place)), limit) - begin
