"""Tables from strings to ids in the graph, without a resource that Keras or TensorFlow must track."""

from typing import NamedTuple

from keras_transfer.core.lazy import tf


class StringTable(NamedTuple):
    """Strings in the order of their int64 hashes, with int32 ids. A SavedModel contains the table as constants."""

    hashes: object
    keys: object
    ids: object


def make_table(keys, ids):
    """Returns the table of string keys [strings] and their int32 ids [strings]. The first one of equal keys counts."""
    hashes = _hash(keys)
    order = tf.argsort(hashes, stable=True)
    return StringTable(tf.gather(hashes, order), tf.gather(keys, order), tf.gather(ids, order))


def look_up(table, words, default):
    """Returns the ids of words [words], or `default` for words that are not in the table."""
    at = tf.searchsorted(table.hashes, _hash(words))  # the first of equal ones
    at = tf.minimum(at, tf.size(table.hashes) - 1)
    return tf.where(tf.gather(table.keys, at) == words, tf.gather(table.ids, at), default)


def _hash(words):
    return tf.strings.to_hash_bucket_fast(words, 2**63 - 1)
