"""The compiled normalization of SentencePiece as Hugging Face applies it: to each grapheme cluster, in the graph."""

import functools

import numpy as np

from keras_transfer.core.lazy import constants, tf
from keras_transfer.text.strings.code_points import SETS, class_of, spans_of
from keras_transfer.text.strings.string_table import look_up, make_table
from keras_transfer.text.tokenizers.sentencepiece_model import normalized

_OTHER_KIND, _EXTENDING_KIND, _CONTROL_KIND, _PREPENDED_KIND = range(4)
_LONGEST = 5  # bytes of the clusters that are looked up as a whole
_NO_LABEL = 0x80000000  # of a unit of the trie that no byte leads to


def apply_to_graphemes(texts, charsmap):
    """Returns texts [batch] in which short grapheme clusters are what Hugging Face's `Precompiled` makes of them.

    If a cluster has less than 6 bytes, the shortest of its beginnings that the compiled normalization contains decides:
    the cluster becomes what that beginning becomes, and the rest of it is dropped. Otherwise, each character is
    normalized by itself, which is left to `of_characters`.

    Source: https://github.com/huggingface/tokenizers (`normalizers/precompiled.rs`).
    """
    clustered = tf.strings.regex_full_match(texts, _pattern())
    return change_where(clustered, texts, lambda some: _apply_to_clustered(some, charsmap))


def change_where(condition, texts, change):
    """Returns texts [batch], of which a function changes those for which a condition [batch] is true."""

    def changed():
        places = tf.where(condition)
        return tf.tensor_scatter_nd_update(texts, places, change(tf.gather_nd(texts, places)))

    return tf.cond(tf.reduce_any(condition), changed, lambda: texts)


def _apply_to_clustered(texts, charsmap):
    characters, codes = tf.strings.unicode_split(texts, "UTF-8"), tf.strings.unicode_decode(texts, "UTF-8").values
    first, kind_of = _kinds()
    kinds = tf.gather(kind_of, tf.searchsorted(first, codes, side="right") - 1)
    # A text begins as if it followed a control character: with a cluster of its own.
    starts_text = tf.scatter_nd(
        characters.row_splits[:, None], tf.ones_like(characters.row_splits), [tf.size(codes) + 1]
    )
    starts_text = starts_text[:-1] > 0
    before = tf.where(starts_text, _CONTROL_KIND, tf.concat([[_CONTROL_KIND], kinds[:-1]], 0))
    joined = (kinds == _EXTENDING_KIND) & (before != _CONTROL_KIND)
    joined |= (kinds != _CONTROL_KIND) & (before == _PREPENDED_KIND)
    joined |= (codes == ord("\n")) & (tf.concat([[0], codes[:-1]], 0) == ord("\r")) & ~starts_text

    cluster = tf.cumsum(tf.cast(~joined, tf.int32)) - 1
    start = tf.where(~joined)[:, 0]
    count = tf.math.segment_sum(tf.ones_like(cluster), cluster)
    size = tf.math.segment_sum(tf.strings.length(characters.values), cluster)
    short = tf.where((count > 1) & (size <= _LONGEST))[:, 0]
    start, count = tf.gather(start, short), tf.gather(count, short)
    padded = tf.concat([characters.values, ["", ""]], 0)
    parts = [tf.where(place < count, tf.gather(padded, start + place), "") for place in range(3)]
    table, results = _short_keys(charsmap)
    index = tf.zeros_like(count)
    for length in (3, 2, 1):  # The shortest beginning decides.
        key = look_up(table, tf.strings.join(parts[:length]), 0)
        index = tf.where(key > 0, key, index)
    index = tf.gather(tf.scatter_nd(short[:, None], index, tf.shape(size, tf.int64)), cluster)
    result = tf.where(joined, "", tf.gather(results, index))
    characters = characters.with_values(tf.where(index > 0, result, characters.values))
    return tf.strings.reduce_join(characters, axis=-1)


@functools.lru_cache(maxsize=4)
def of_characters(charsmap):
    """Returns a compiled normalization, as bytes of the same size, without the keys of several characters."""
    return _walk(charsmap)[0]


@constants
def _short_keys(charsmap):
    """Returns the table of the keys of a compiled normalization that fit into a short cluster, and what they become.

    Index 0 stands for all other strings. Keys of one character stay, since `of_characters` contains them.
    """
    keys = [key.decode("utf-8") for key in _walk(charsmap)[1]]
    results = ["", *(key if len(key) == 1 else normalized(charsmap, key) for key in keys)]
    ids = tf.range(1, len(keys) + 1) if keys else tf.constant([0])
    return make_table(tf.constant(keys or [""]), ids), tf.constant(results)


@functools.lru_cache(maxsize=4)
def _walk(charsmap):
    """Returns a compiled normalization without its keys of several characters, and a list of its short keys."""
    size = int.from_bytes(charsmap[:4], "little")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    cut, keys, prefixes, labels = units.copy(), [], [b""], np.arange(1, 256)
    at = _offset(units[:1])
    for _ in range(_LONGEST):
        places = at[:, None] ^ labels
        inside = np.minimum(places, len(units) - 1)
        rows, columns = np.nonzero((places == inside) & (units[inside] & 0x800000FF == labels))
        behind_character = np.array([_is_character(prefix) for prefix in prefixes], bool)[rows]
        places = places[rows, columns]
        cut[places[behind_character]] = _NO_LABEL
        prefixes = [prefixes[row] + bytes([labels[column]]) for row, column in zip(rows, columns, strict=True)]
        at = places ^ _offset(units[places])
        keys += [prefix for prefix, unit in zip(prefixes, units[places], strict=True) if unit >> 8 & 1]
    return charsmap[:4] + cut.tobytes() + charsmap[4 + size :], keys


def _offset(units):
    return (units >> 10) << ((units & 0x200) >> 6)


def _is_character(data):
    return bool(data) and len(data) == 1 + sum(data[0] >= lead for lead in (0xC0, 0xE0, 0xF0))


@functools.cache
def _kinds():
    """Returns the first code points of ranges of characters of the same kind, and their kinds."""
    kinds = {0: _OTHER_KIND}
    names = {"extending": _EXTENDING_KIND, "control": _CONTROL_KIND, "prepended": _PREPENDED_KIND}
    for (first, last), kind in sorted((span, kind) for name, kind in names.items() for span in spans_of(SETS[name])):
        kinds |= {first: kind, last + 1: _OTHER_KIND}
    return np.array([*kinds], "int32"), np.array([*kinds.values()], "int32")


@functools.cache
def _pattern():
    """Returns the pattern of texts with a cluster of several characters."""
    inside = class_of(SETS["extending"] + SETS["prepended"])
    return rf"(?s:.*)(?:[{inside}]|\r\n)(?s:.*)"
