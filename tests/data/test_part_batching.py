"""Rows of several texts become batches in which each text is apart."""

import numpy as np

from keras_transfer.data.planning import put_apart
from keras_transfer.data.text_batching import with_placeholders
from keras_transfer.text import BertPreprocessor, ElmoPreprocessor, part_batches
from tests.errors import check_errors

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
PREPROCESSOR = BertPreprocessor(VOCABULARY, sequence_length=64)


def columns(count=3, rows=21):
    random = np.random.default_rng(0)
    return tuple(
        [" ".join(random.choice(list("abcdefghij"), size)) for size in random.integers(1, 20, rows)]
        for _ in range(count)
    )


def rows_of(dataset):
    """Each row of an epoch: its label, and the ids of its texts without padding."""
    found = []
    for inputs, labels in (dataset[i] for i in range(len(dataset))):
        for ids, mask, label in zip(inputs["token_ids"], inputs["padding_mask"], labels):
            found.append((int(label), *(tuple(text[real == 1].tolist()) for text, real in zip(ids, mask))))
    return sorted(found)


def test_every_row_has_its_texts_in_order_each_as_if_it_were_alone():
    texts = columns()
    dataset = part_batches(texts, np.arange(21), preprocessor=PREPROCESSOR, batch_size=4, seed=0)
    alone = [[(2, *row.numpy().tolist(), 3) for row in PREPROCESSOR.tokenize(column)] for column in texts]
    expected = [(i, *parts) for i, parts in enumerate(zip(*alone))]
    assert rows_of(dataset) == expected
    dataset.on_epoch_end()
    assert rows_of(dataset) == expected
    assert rows_of(dataset.few_lengths()) == expected
    assert len(dataset) == 6


def test_a_batch_is_as_long_as_the_longest_text_of_any_part():
    dataset = part_batches(columns(), np.arange(21), preprocessor=PREPROCESSOR, batch_size=4, seed=0)
    assert len(dataset) == 6
    for inputs, _ in (dataset[i] for i in range(len(dataset))):
        mask = inputs["padding_mask"]
        assert mask.shape == inputs["token_ids"].shape and mask.shape[1] == 3
        assert mask.shape[2] == mask.sum(2).max()


def test_parts_that_differ_in_length_by_far_share_one_length():
    [(inputs,)] = [part_batches((["a"], ["a b " * 20]), None, preprocessor=PREPROCESSOR)[0]]
    assert inputs["padding_mask"].sum(2).tolist() == [[3, 42]]


def test_batches_keep_the_order_of_the_rows_if_they_are_not_shuffled():
    dataset = part_batches(columns(), np.arange(21), preprocessor=PREPROCESSOR, batch_size=4, shuffle=False)
    assert np.concatenate([dataset[i][1] for i in range(len(dataset))]).tolist() == list(range(21))


def test_rows_have_a_label_for_each_of_several_heads():
    columns, labels = (["a", "b"], ["b", "a"]), {"topic": [0, 1], "length": [0.5, 1.5]}
    [(_, found)] = part_batches(columns, labels, preprocessor=PREPROCESSOR, shuffle=False)
    assert {name: values.tolist() for name, values in found.items()} == labels


def test_placeholders_are_the_labels_of_rows_without_any():
    dataset = part_batches(columns(), None, preprocessor=PREPROCESSOR, batch_size=21, sample_weight=np.arange(21.0))
    assert not dataset.has_labels
    filled = with_placeholders(dataset)
    _, labels, weights = filled[0]
    assert filled.has_labels and labels.tolist() == [0] * 21 and sorted(weights) == list(range(21))


def test_equal_texts_have_equal_numbers_and_are_in_different_batches_where_this_is_possible():
    firsts = [f"a {letter}" for letter in "bcdefghi"]
    texts = (firsts * 4, [f"{one} {two}" for one in "bcde" for two in "efghijab"])
    dataset = part_batches(texts, None, preprocessor=PREPROCESSOR, batch_size=4, seed=0)
    numbered = with_placeholders(dataset, texts=True)
    assert sorted(numbered.order) == list(range(32))
    for epoch in range(3):
        numbered.epoch = epoch
        for inputs, labels in (numbered[i] for i in range(8)):
            assert len(set(labels.ravel())) == 8
            rows = inputs["token_ids"].reshape(8, -1)
            assert len(np.unique(rows, axis=0)) == 8
    few = with_placeholders(part_batches((["a"] * 8, firsts), None, preprocessor=PREPROCESSOR), texts=True)
    assert sorted(few.order) == list(range(8))


def test_characters_of_words_have_their_own_axis_after_the_length():
    texts = (["a bc", "d"], ["e f g", "h"])
    inputs, _ = part_batches(texts, [0, 1], preprocessor=ElmoPreprocessor(sequence_length=8), shuffle=False)[0]
    assert inputs["character_ids"].shape == (2, 2, 3, 50)


test_columns_that_are_not_rows_of_texts_are_errors = check_errors(
    ((["a", "b"], None, {}), "must be a tuple of at least two columns. Received: x=['a', 'b']"),
    (((["a"],), None, {}), "must be a tuple of at least two columns. Received: x=(['a'],)"),
    (((["a", "b"], ["c"]), None, {}), "same number of texts. Received: counts=[2, 1]"),
    (((["a", "b"], ["c", None]), None, {}), "Texts must be strings, but 1 of 2 are not"),
    ((([], []), None, {}), "at least one text. Received: texts=[]"),
    (((["a"], ["b"]), None, {"drop_remainder": True}), "at least one full batch of 32 texts. Received: texts=1"),
    call=lambda texts, labels, options: part_batches(texts, labels, preprocessor=PREPROCESSOR, **options),
)


def test_rows_of_too_few_texts_stay_in_one_batch_each_and_are_not_tried_everywhere():
    reads, rows = [], np.random.default_rng(0).permutation(400)

    class Lengths(list):
        def __getitem__(self, row):
            reads.append(row)
            return super().__getitem__(row)

    texts, plan = np.arange(800).reshape(400, 2) % 6, [(8, part) for part in np.split(rows, 10)]
    found = put_apart(plan, texts, Lengths([8] * 400))
    assert sorted(np.concatenate([part for _, part in found])) == list(range(400))
    assert len(reads) < 20 * len(rows)  # One row of each batch, and not each row, looks at all others.
