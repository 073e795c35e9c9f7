"""Byte-pair encoding in the graph: all words of a batch are merged at once, as integers."""

from typing import NamedTuple

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.lazy import tf
from keras_transfer.text.strings.string_table import look_up, make_table

_NO_PAIR = 2**62


class PairTable(NamedTuple):
    """The merges of a byte-pair encoding, as constants of the graph.

    Attributes:
        keys: Int64 tensor [merges], sorted. A pair of ids is `first * size + second`.
        values: Int64 tensor [merges]. The rank of the merge and the id that it makes are `rank * size + id`.
        size: Integer, greater than all ids.
    """

    keys: object
    values: object
    size: int


def make_pairs(merges, ids, results=None):
    """Returns the `PairTable` of merges.

    Args:
        merges: List of pairs of tokens, in the order in which they are merged. If a pair occurs several times, the last
            one counts.
        results: List of the tokens that the pairs become. Defaults to the two tokens of each pair, concatenated.
    """
    results = results or [first + second for first, second in merges]
    missing = [
        pair for pair, result in zip(merges, results, strict=True) if not ids.keys() >= {pair[0], pair[1], result}
    ]
    rule = "The vocabulary must contain both tokens of each merge and what they become."
    expect(not missing, rule, missing=missing[:3])
    size = max(ids.values(), default=0) + 1
    table = {
        ids[first] * size + ids[second]: rank * size + ids[result]
        for rank, ((first, second), result) in enumerate(zip(merges, results, strict=True))
    }
    keys = np.array([-1, *table], "int64")  # a table is never empty
    values = np.array([_NO_PAIR, *table.values()], "int64")
    order = np.argsort(keys)
    return PairTable(tf.constant(keys[order]), tf.constant(values[order]), size)


def merge_pairs(table, symbols, rows, num_rows):
    """Merges the symbols of words until no pair is left in the table. Returns an int64 ragged tensor [words, None].

    In each round, every word merges all occurrences of its lowest-ranked pair, from left to right.

    Args:
        symbols: Int64 tensor [symbols], the ids of all words, one after the other.
        rows: Int64 tensor [symbols], sorted: the word of each symbol.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units", algorithm 1.
    """

    def pairs_of(symbols, rows):
        keys = symbols * table.size + tf.concat([symbols[1:], symbols[:1]], 0)
        at = tf.minimum(tf.searchsorted(table.keys, keys), tf.size(table.keys) - 1)
        known = tf.concat([rows[1:] == rows[:-1], tf.zeros_like(rows[:1], tf.bool)], 0)
        return tf.where(known & (tf.gather(table.keys, at) == keys), tf.gather(table.values, at), _NO_PAIR)

    def one_round(symbols, rows, pairs):
        lowest = tf.math.unsorted_segment_min(pairs, rows, num_rows)
        merged = (pairs < _NO_PAIR) & (pairs == tf.gather(lowest, rows))
        # In a run of overlapping pairs ("aaaa"), every second pair is merged.
        place = tf.range(tf.size(merged))
        previous = tf.concat([tf.zeros_like(merged[:1]), merged[:-1]], 0)
        begins = merged & ~previous
        begin = tf.gather(tf.concat([[0], tf.boolean_mask(place, begins)], 0), tf.cumsum(tf.cast(begins, tf.int32)))
        merged &= (place - begin) % 2 == 0
        symbols = tf.where(merged, pairs % table.size, symbols)
        kept = tf.where(~tf.concat([tf.zeros_like(merged[:1]), merged[:-1]], 0))[:, 0]
        symbols, rows = tf.gather(symbols, kept), tf.gather(rows, kept)
        return symbols, rows, pairs_of(symbols, rows)

    symbols, rows, _ = tf.while_loop(
        lambda symbols, rows, pairs: tf.reduce_any(pairs < _NO_PAIR),
        one_round,
        (symbols, rows, pairs_of(symbols, rows)),
        shape_invariants=(tf.TensorShape([None]),) * 3,
        parallel_iterations=1,
    )
    return tf.RaggedTensor.from_value_rowids(symbols, rows, nrows=num_rows, validate=False)


def make_whole(words, ids, merge, always=False):
    """Returns the table of the words that are tokens, without special tokens, whose bytes do not merge to the token.

    Args:
        merge: Function from words [words] to the int64 ids of their pieces, a ragged tensor [words, None].
        always: Boolean or booleans [words]. Whether the word is in the table even if its bytes do not merge to the
            token.
    """
    merged = merge(words)
    first = tf.gather(tf.concat([merged.values, [-1]], 0), merged.row_starts())
    own = always | ((merged.row_lengths() == 1) & (first == ids)).numpy()
    return make_table(tf.boolean_mask(words, own), tf.constant(ids[own], tf.int32))


def encode_words(words, whole, merge):
    """Returns the ids of words [words], an int32 ragged tensor [words, None].

    Words that are tokens are looked up. Every other distinct word is merged once.

    Args:
        merge: Function from words [words] to the int64 ids of their pieces, a ragged tensor [words, None].
    """
    known = look_up(whole, words, -1)
    rare = tf.where(known < 0)
    distinct, index = tf.unique(tf.gather_nd(words, rare))
    pieces = merge(distinct)
    values = tf.concat([known, tf.cast(pieces.values, tf.int32)], 0)
    count = tf.size(words)
    first = count + tf.cast(tf.gather(pieces.row_starts(), index), tf.int32)
    first = tf.tensor_scatter_nd_update(tf.range(count), rare, first)
    lengths = tf.cast(tf.gather(pieces.row_lengths(), index), tf.int32)
    lengths = tf.tensor_scatter_nd_update(tf.ones_like(known), rare, lengths)
    places = tf.ragged.range(first, first + lengths, row_splits_dtype=tf.int64)
    return places.with_values(tf.gather(values, places.values))
