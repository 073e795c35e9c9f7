"""The compiled normalization of SentencePiece as Hugging Face applies it: to each grapheme cluster, in the graph."""

import functools

import numpy as np

from keras_transfer.text.strings.string_table import look_up, make_table
from keras_transfer.text.tensorflow import constants, tf
from keras_transfer.text.tokenizers.sentencepiece_model import normalized

# The kinds of characters that decide where a grapheme cluster ends, as in Hugging Face's tables: those that belong to
# the character before them, those that belong to no other, and those that belong to the character behind them. They
# were found by comparing all code points. The rules for emoji, Hangul and Indic conjuncts are left out: they only make
# clusters of more than `_LONGEST` bytes.
_EXTENDING = """
    300-36F 483-489 591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 610-61A 64B-65F 670 6D6-6DC 6DF-6E4 6E7-6E8
    6EA-6ED 711 730-74A 7A6-7B0 7EB-7F3 7FD 816-819 81B-823 825-827 829-82D 859-85B 897-89F
    8CA-8E1 8E3-903 93A-93C 93E-94F 951-957 962-963 981-983 9BC 9BE-9C4 9C7-9C8 9CB-9CD 9D7
    9E2-9E3 9FE A01-A03 A3C A3E-A42 A47-A48 A4B-A4D A51 A70-A71 A75 A81-A83 ABC ABE-AC5 AC7-AC9
    ACB-ACD AE2-AE3 AFA-AFF B01-B03 B3C B3E-B44 B47-B48 B4B-B4D B55-B57 B62-B63 B82 BBE-BC2
    BC6-BC8 BCA-BCD BD7 C00-C04 C3C C3E-C44 C46-C48 C4A-C4D C55-C56 C62-C63 C81-C83 CBC CBE-CC4
    CC6-CC8 CCA-CCD CD5-CD6 CE2-CE3 CF3 D00-D03 D3B-D3C D3E-D44 D46-D48 D4A-D4D D57 D62-D63
    D81-D83 DCA DCF-DD4 DD6 DD8-DDF DF2-DF3 E31 E33-E3A E47-E4E EB1 EB3-EBC EC8-ECE F18-F19 F35
    F37 F39 F3E-F3F F71-F84 F86-F87 F8D-F97 F99-FBC FC6 102D-1037 1039-103E 1056-1059 105E-1060
    1071-1074 1082 1084-1086 108D 109D 135D-135F 1712-1715 1732-1734 1752-1753 1772-1773
    17B4-17D3 17DD 180B-180D 180F 1885-1886 18A9 1920-192B 1930-193B 1A17-1A1B 1A55-1A5E 1A60
    1A62 1A65-1A7C 1A7F 1AB0-1ADD 1AE0-1AEB 1B00-1B04 1B34-1B44 1B6B-1B73 1B80-1B82 1BA1-1BAD
    1BE6-1BF3 1C24-1C37 1CD0-1CD2 1CD4-1CE8 1CED 1CF4 1CF7-1CF9 1DC0-1DFF 200C-200D 20D0-20F0
    2CEF-2CF1 2D7F 2DE0-2DFF 302A-302F 3099-309A A66F-A672 A674-A67D A69E-A69F A6F0-A6F1 A802
    A806 A80B A823-A827 A82C A880-A881 A8B4-A8C5 A8E0-A8F1 A8FF A926-A92D A947-A953 A980-A983
    A9B3-A9C0 A9E5 AA29-AA36 AA43 AA4C-AA4D AA7C AAB0 AAB2-AAB4 AAB7-AAB8 AABE-AABF AAC1
    AAEB-AAEF AAF5-AAF6 ABE3-ABEA ABEC-ABED FB1E FE00-FE0F FE20-FE2F FF9E-FF9F 101FD 102E0
    10376-1037A 10A01-10A03 10A05-10A06 10A0C-10A0F 10A38-10A3A 10A3F 10AE5-10AE6 10D24-10D27
    10D69-10D6D 10EAB-10EAC 10EFA-10EFF 10F46-10F50 10F82-10F85 11000-11002 11038-11046 11070
    11073-11074 1107F-11082 110B0-110BA 110C2 11100-11102 11127-11134 11145-11146 11173
    11180-11182 111B3-111C0 111C9-111CC 111CE-111CF 1122C-11237 1123E 11241 112DF-112EA
    11300-11303 1133B-1133C 1133E-11344 11347-11348 1134B-1134D 11357 11362-11363 11366-1136C
    11370-11374 113B8-113C0 113C2 113C5 113C7-113CA 113CC-113D0 113D2 113E1-113E2 11435-11446
    1145E 114B0-114C3 115AF-115B5 115B8-115C0 115DC-115DD 11630-11640 116AB-116B7 1171D-1171F
    11722-1172B 1182C-1183A 11930-11935 11937-11938 1193B-1193E 11940 11942-11943 119D1-119D7
    119DA-119E0 119E4 11A01-11A0A 11A33-11A39 11A3B-11A3E 11A47 11A51-11A5B 11A8A-11A99
    11B60-11B67 11C2F-11C36 11C38-11C3F 11C92-11CA7 11CA9-11CB6 11D31-11D36 11D3A 11D3C-11D3D
    11D3F-11D45 11D47 11D8A-11D8E 11D90-11D91 11D93-11D97 11EF3-11EF6 11F00-11F01 11F03
    11F34-11F3A 11F3E-11F42 11F5A 13440 13447-13455 1611E-1612F 16AF0-16AF4 16B30-16B36 16F4F
    16F51-16F87 16F8F-16F92 16FE4 16FF0-16FF1 1BC9D-1BC9E 1CF00-1CF2D 1CF30-1CF46 1D165-1D169
    1D16D-1D172 1D17B-1D182 1D185-1D18B 1D1AA-1D1AD 1D242-1D244 1DA00-1DA36 1DA3B-1DA6C 1DA75
    1DA84 1DA9B-1DA9F 1DAA1-1DAAF 1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A
    1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5
    1E8D0-1E8D6 1E944-1E94A 1F3FB-1F3FF E0020-E007F E0100-E01EF
"""
_CONTROL = """
    0-1F 7F-9F AD 61C 180E 200B 200E-200F 2028-202E 2060-206F FEFF FFF0-FFFB 13430-1343F
    1BCA0-1BCA3 1D173-1D17A E0000-E001F E0080-E00FF E01F0-E0FFF
"""
_PREPENDED = """
    600-605 6DD 70F 890-891 8E2 D4E 110BD 110CD 111C2-111C3 113D1 1193F 11941 11A84-11A89 11D46
    11F02
"""
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
    ranges = [
        (*(int(code, 16) for code in span.split("-")), kind)
        for kind, spans in ((_EXTENDING_KIND, _EXTENDING), (_CONTROL_KIND, _CONTROL), (_PREPENDED_KIND, _PREPENDED))
        for span in spans.split()
    ]
    for first, *last, kind in sorted(ranges):
        kinds |= {first: kind, (last or [first])[0] + 1: _OTHER_KIND}
    return np.array([*kinds], "int32"), np.array([*kinds.values()], "int32")


@functools.cache
def _pattern():
    """Returns the pattern of texts with a cluster of several characters."""
    inside = "".join(
        "-".join(rf"\x{{{code}}}" for code in span.split("-")) for span in (_EXTENDING + _PREPENDED).split()
    )
    return rf"(?s:.*)(?:[{inside}]|\r\n)(?s:.*)"
