"""Properties of packing: rows as plain Python packs and truncates them, at any length, and with any special tokens."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transfer.text import BertPreprocessor, Packing, WindowPreprocessor, WordPieceTokenizer
from tests.properties import texts

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

SPECIAL = ["[PAD]", "<s>", "</s>", "[SEP]", "[CLS]", "[UNK]"]
VOCABULARY = [*SPECIAL, *"abcdefghij"]
TOKENIZER = WordPieceTokenizer(VOCABULARY)
added = st.lists(st.sampled_from(SPECIAL[1:5]), max_size=2)
packings = st.builds(
    Packing,
    start=added,
    between=added,
    end=added,
    segments=st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
ids = st.lists(st.integers(6, 15), max_size=9)


def kept(lengths, room):
    """Returns how many ids of each text are kept, as removing one after another from the longer text does."""
    if len(lengths) == 1:
        return [min(lengths[0], room)]
    first, second = lengths
    while first + second > room:
        if first > second:
            first -= 1
        elif second > first:
            second -= 1
        elif (room % 2) and first + second - 1 == room:
            first -= 1
        else:
            first, second = first - 1, second - (first + second - 1 > room)
    return [first, second]


def packed(columns, packing, length):
    """Returns the ids and segments of a row without its padding."""
    of = {token: index for index, token in enumerate(VOCABULARY)}
    special = len(packing.start) + len(packing.between) * (len(columns) - 1) + len(packing.end)
    counts = kept([len(column) for column in columns], length - special)
    row = [of[token] for token in packing.start]
    segments = [0 if packing.segments is None else packing.segments[0]] * len(row)
    for number, (column, count) in enumerate(zip(columns, counts)):
        after = packing.end if number == len(columns) - 1 else packing.between
        part = [*column[:count], *(of[token] for token in after)]
        row += part
        segments += [0 if packing.segments is None else packing.segments[number]] * len(part)
    return row, segments


pairs = st.lists(st.tuples(ids, ids), min_size=1, max_size=4)


@given(rows=pairs, packing=packings, more=st.integers(0, 14), pair=st.booleans())
def test_rows_are_packed_as_plain_python_packs_them(rows, packing, more, pair):
    length = packing.min_length + more
    columns = [[row[number] for row in rows] for number in range(1 + pair)]
    ragged = [tf.ragged.constant(column, tf.int32, ragged_rank=1) for column in columns]
    found = {name: value.numpy() for name, value in packing.pack(ragged, TOKENIZER, length, length).items()}
    assert [*found] == [*packing.features]
    for place, row in enumerate(zip(*columns)):
        expected, segments = packed(row, packing, length)
        padding = length - len(expected)
        assert found["token_ids"][place].tolist() == expected + [0] * padding
        assert found["padding_mask"][place].tolist() == [1] * len(expected) + [0] * padding
        if packing.segments is not None:
            assert found["segment_ids"][place].tolist() == segments + [0] * padding
    longest = {name: value.numpy() for name, value in packing.pack(ragged, TOKENIZER, length).items()}
    width = longest["token_ids"].shape[1]
    assert width == found["padding_mask"].sum(axis=1).max()
    for name in found:
        np.testing.assert_array_equal(longest[name], found[name][:, :width])


@given(packing=packings)
def test_a_config_of_json_makes_the_same_packing(packing):
    assert Packing.from_config(json.loads(json.dumps(packing.get_config()))) == packing


@given(rows=st.lists(texts, min_size=1, max_size=3), length=st.integers(4, 12))
def test_a_longer_row_begins_with_the_same_ids_and_masks_count_them(rows, length):
    preprocessor = BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "a", "##a"], 200)
    whole, short = preprocessor(rows), preprocessor(rows, sequence_length=length)
    found = zip(*(values.numpy() for values in (whole["token_ids"], short["token_ids"], short["padding_mask"])))
    for long_ids, ids, mask in found:
        count = int(mask.sum())
        assert mask.tolist() == [1] * count + [0] * (length - count)
        assert ids[: count - 1].tolist() == long_ids[: count - 1].tolist() and ids[count - 1] == 3
        assert not ids[count:].any()


@given(count=st.integers(0, 40), length=st.integers(6, 12), overlap=st.integers(0, 3))
def test_windows_are_parts_of_the_text_that_overlap_and_cover_it(count, length, overlap):
    names = [chr(0x4E00 + number) for number in range(count)]
    inner = BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *names], length)
    ids = WindowPreprocessor(inner, overlap=overlap)([" ".join(names)])["token_ids"].numpy()[0]
    windows = [ids[start : start + length].tolist() for start in range(0, len(ids), length)]
    parts = [[each - 5 for each in window if each > 4] for window in windows]
    assert sorted({each for part in parts for each in part}) == list(range(count))
    for before, part in itertools.pairwise(parts):
        assert part == list(range(part[0], part[-1] + 1)) and before[0] < part[0] <= before[-1] + 1 - overlap
