"""Batches of sentences and labels in memory: every word has its label once, and data that do not match are an error."""

import numpy as np
import pytest

from keras_transfer.tasks.data_methods import by_length
from keras_transfer.text import WordPreprocessor, word_batches

pytest.importorskip("tensorflow")
NAMES = ["DET", "NOUN", "VERB"]
SENTENCES = [["the", "film", "ends"], ["film"], [], ["the", "film"] * 10]
TAGS = [["DET", "NOUN", "VERB"], ["NOUN"], [], ["DET", "NOUN"] * 10]


def preprocessor(length=32):
    return WordPreprocessor(["the", "film", "ends"], sequence_length=length)


@pytest.mark.parametrize("length", [32, 7])
@pytest.mark.report(
    "Words beyond the maximum length have no label.",
    "transformers#2882",
    "transformers#18050",
    "masakhane-ner#16",
    "simpletransformers#1129",
)
def test_every_word_has_its_label_once(length):
    data = word_batches(SENTENCES, TAGS, preprocessor=preprocessor(length), batch_size=2, seed=0, label_names=NAMES)
    pairs = []
    for inputs, labels in (data[i] for i in range(len(data))):
        assert labels.shape == inputs["token_ids"].shape == inputs["padding_mask"].shape
        assert (labels[inputs["padding_mask"] == 0] == -1).all()
        pairs += list(zip(inputs["token_ids"][labels >= 0].tolist(), labels[labels >= 0].tolist()))
    assert sorted(pairs) == sorted([(2, 0), (3, 1), (4, 2), (3, 1)] + [(2, 0), (3, 1)] * 10)


def test_labels_can_be_numbers_with_or_without_names():
    tags = [[0, 1, 2], [1], [], [0, 1] * 10]
    for options in ({}, {"label_names": NAMES}):
        data = word_batches(SENTENCES, tags, preprocessor=preprocessor(), shuffle=False, **options)
        np.testing.assert_array_equal(
            data.labels, word_batches(SENTENCES, TAGS, preprocessor=preprocessor(), label_names=NAMES).labels
        )


def test_each_row_of_a_sentence_has_its_weight():
    data = word_batches(
        SENTENCES, TAGS, preprocessor=preprocessor(8), label_names=NAMES, sample_weight=[1.0, 2.0, 3.0, 4.0]
    )
    _, labels, weights = data[0]
    assert weights.shape == labels.shape and (weights == weights[:, :1]).all()
    assert sorted(data.sample_weight[:, 0].tolist()) == [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]


@pytest.mark.parametrize("weights", [{"NOUN": 3.0, "VERB": 0.5}, {1: 3.0, 2: 0.5}])
def test_each_word_has_the_weight_of_its_label(weights):
    data = word_batches(SENTENCES, TAGS, preprocessor=preprocessor(), label_names=NAMES, class_weight=weights)
    of = {label: set(data.sample_weight[data.labels == label].tolist()) for label in range(3)}
    assert of == {0: {1.0}, 1: {3.0}, 2: {0.5}}
    options = {"label_names": NAMES, "class_weight": weights, "sample_weight": [2.0] * 4}
    both = word_batches(SENTENCES, TAGS, preprocessor=preprocessor(), **options)
    np.testing.assert_array_equal(both.sample_weight[both.labels >= 0], 2 * data.sample_weight[data.labels >= 0])


def test_rows_of_similar_length_form_a_batch_and_the_order_follows_the_seed():
    random = np.random.default_rng(0)
    sentences = [["film"] * count for count in random.integers(0, 60, 200)]
    made = [
        word_batches(sentences, None, preprocessor=preprocessor(64), batch_size=8, shuffle=True, seed=seed)
        for seed in (1, 1, 2)
    ]
    masks = [made[0][i][0]["padding_mask"] for i in range(25)]
    assert all(mask.shape[1] == max(mask.sum(1).max(), 1) and np.ptp(mask.sum(1)) < 6 for mask in masks)
    assert made[0].order.tolist() == made[1].order.tolist() != made[2].order.tolist()


def test_the_batches_of_one_length_are_few_datasets_that_contain_every_word_once():
    sentences = [["film"] * count for count in np.random.default_rng(0).integers(0, 60, 200)]
    data = word_batches(sentences, None, preprocessor=preprocessor(64), batch_size=8).grouped()
    parts = list(by_length(data))
    assert len(data.options.lengths) > 6 >= len(parts) > 1
    found = [data.contents.layout.positions(row) for part in parts for row in part.order]
    assert sum(map(len, found)) == sum(map(len, sentences))
    assert sorted(np.concatenate([part.order for part in parts])) == list(range(len(data.real)))


def test_sentences_and_labels_can_be_columns_or_arrays():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"words": SENTENCES, "tags": TAGS})
    expected = word_batches(SENTENCES, TAGS, preprocessor=preprocessor(), label_names=NAMES).labels
    np.testing.assert_array_equal(
        word_batches(table["words"], table["tags"], preprocessor=preprocessor(), label_names=NAMES).labels, expected
    )
    arrays = [np.array(tags) for tags in [[0, 1, 2], [1], np.zeros(0, int), [0, 1] * 10]]
    np.testing.assert_array_equal(word_batches(SENTENCES, arrays, preprocessor=preprocessor()).labels, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": TAGS[:3]}, "one list for each sentence. Received: labels=3, sentences=4"),
        (
            {"y": [["DET", "NOUN"], *TAGS[1:]]},
            "one label for each word. Received: 3 words, .* and 2 labels, .* in sentence 0",
        ),
        ({"y": [*TAGS[:2], ["NOUN"], TAGS[3]]}, "Received: 0 words, .* and 1 labels, .* in sentence 2"),
        (
            {"y": [["DET", "NUON", "VERB"], *TAGS[1:]]},
            "one of .*, or its index. Received: 'NUON' for 'film' in sentence 0",
        ),
        ({"y": [[0, 3, 1], *TAGS[1:]]}, "Received: 3 for 'film' in sentence 0"),
        ({"y": [[0, None, 1], *TAGS[1:]]}, "Received: None for 'film' in sentence 0"),
        ({"label_names": None}, r"integers of at least 0 \(names require `label_names`\). Received: 'DET' for 'the'"),
        ({"x": []}, "`x` must contain at least one sentence"),
        ({"x": ["the film", "a"]}, "A sentence must be a list of words. Received: 'the film' at position 0"),
        ({"preprocessor": None}, "a preprocessor that takes words: .* Received: preprocessor=None"),
        ({"sample_weight": [1.0]}, r"one weight for each sentence.* Received: shape \(1,\) for 4 sentences"),
        ({"sample_weight": [[1.0, 2.0], [3.0], [], [1.0]]}, "one weight for each sentence.* Received: shape lists"),
        ({"y": None, "sample_weight": [1.0] * 4}, "`sample_weight` and `class_weight` require `y`"),
        (
            {"class_weight": {"NUON": 2.0}},
            r"The keys of `class_weight` must be.* Received: class_weight=\['NUON'\]",
        ),
        ({"label_names": ["DET", "DET"]}, "at least two different names"),
    ],
)
def test_data_that_do_not_match_are_an_error(change, message):
    given = {"x": SENTENCES, "y": TAGS, "preprocessor": preprocessor(), "label_names": NAMES}
    with pytest.raises(ValueError, match=message):
        word_batches(**{**given, **change})
