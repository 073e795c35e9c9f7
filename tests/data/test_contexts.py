"""Long contexts become windows that lose no token, and answers become positions in them."""

import numpy as np
import pytest

from keras_transfer.data.span_batching import windows_in_memory
from keras_transfer.text import (
    BertPreprocessor,
    ByteBPETokenizer,
    ElmoPreprocessor,
    Packing,
    TokenPreprocessor,
    span_batches,
)
from tests.helpers import logged
from tests.text.tokenizers.test_byte_bpe import MERGES, ROBERTA, VOCABULARY

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij", "##x", "who", "cafe"]
CLS, SEP, A, WHO = 2, 3, 4, 15
LONG = "a b c d e f g h i j"


def preprocessor(sequence_length=9):
    return BertPreprocessor(WORDS, sequence_length=sequence_length)


# === Windows ===


def spans_of(windows, row):
    """The spans that a window contains, as their first and last token of the context."""
    places = np.flatnonzero(windows.starts[row] >= 0).tolist()
    offset = int(windows.first[row] - windows.position[row])
    return [(first + offset, last + offset) for first in places for last in places if first <= last]


def test_a_window_is_a_question_and_a_part_of_its_context():
    windows = windows_in_memory(preprocessor(), ["who", "who who"], [LONG, "a"], doc_stride=3)
    # 9 tokens, of which 3 are special and 1 is the question: 5 of the context.
    assert windows.inputs["token_ids"][:, :9].tolist() == [
        [CLS, WHO, SEP, A, A + 1, A + 2, A + 3, A + 4, SEP],
        [CLS, WHO, SEP, A + 3, A + 4, A + 5, A + 6, A + 7, SEP],
        [CLS, WHO, SEP, A + 6, A + 7, A + 8, A + 9, SEP, 0],
        [CLS, WHO, WHO, SEP, A, SEP, 0, 0, 0],
    ]
    assert windows.inputs["segment_ids"][0].tolist() == [0] * 3 + [1] * 6
    assert windows.inputs["answer_mask"].tolist() == [
        [1, 0, 0, 1, 1, 1, 1, 1, 0],
        [1, 0, 0, 1, 1, 1, 1, 1, 0],
        [1, 0, 0, 1, 1, 1, 1, 0, 0],
        [1, 0, 0, 0, 1, 0, 0, 0, 0],
    ]
    assert windows.example.tolist() == [0, 0, 0, 1]
    assert (windows.first.tolist(), windows.position.tolist()) == ([0, 3, 6, 0], [3, 3, 3, 4])
    assert windows.starts[1].tolist() == [-1, -1, -1, 6, 8, 10, 12, 14, -1]
    assert windows.ends[1].tolist() == [-1, -1, -1, 7, 9, 11, 13, 15, -1]


@pytest.mark.parametrize("stride", [1, 3, 100])
@pytest.mark.parametrize("size", [0, 5, 6, 23])
def test_windows_contain_each_token_and_each_span_of_half_a_window(stride, size):
    context = " ".join("a" * size)
    windows = windows_in_memory(preprocessor(), ["who"], [context], stride)
    starts = windows.starts[windows.starts >= 0]
    assert set(starts.tolist()) == set(range(0, 2 * size, 2))
    spans = [(first, last) for first in range(size) for last in range(first, min(first + 6 - min(stride, 3), size))]
    found = [span for row in range(len(windows.first)) for span in spans_of(windows, row)]
    assert set(found) >= set(spans)
    assert (windows.first == min(stride, 3) * np.arange(len(windows.first))).all()
    assert len(windows.first) == 1 + max(0, -(-(size - 5) // min(stride, 3)))


@pytest.mark.parametrize(("overlap", "first"), [(0, [0, 5]), (2, [0, 3, 6]), (4, [0, 1, 2, 3, 4, 5]), (5, [0, 3, 6])])
def test_windows_overlap_by_as_many_tokens_as_asked_or_by_half_if_fewer_fit(overlap, first):
    windows = windows_in_memory(preprocessor(), ["who"], [LONG], overlap=overlap)
    assert windows.first.tolist() == first
    ends = [int(row.max()) // 2 + 1 for row in windows.ends]
    assert ends == [min(start + 5, 10) for start in first]


def test_one_of_distance_and_overlap_is_given_and_the_distance_has_a_default():
    texts, far = (["who"], [LONG]), BertPreprocessor(WORDS, sequence_length=5)
    assert len(span_batches(texts, None, preprocessor=far).inputs["token_ids"]) == 10
    for options, message in (
        ({"doc_stride": 3, "overlap": 2}, "either `doc_stride`.*or `overlap`.*Received: doc_stride=3, overlap=2"),
        ({"overlap": -1}, "at least 0. Received: overlap=-1"),
        ({"overlap": True}, "at least 0. Received: overlap=True"),
        ({"doc_stride": 2.0}, "at least 1. Received: doc_stride=2.0"),
    ):
        with pytest.raises(ValueError, match=message):
            span_batches(texts, None, preprocessor=preprocessor(), **options)


def test_many_examples_are_tokenized_in_chunks_that_make_no_difference():
    questions, contexts = ["who", "who who", "", "a b"], [LONG, "a", LONG, "caf\u00e9 " * 7]
    at_once, in_chunks = (windows_in_memory(preprocessor(), questions, contexts, 3, chunk=chunk) for chunk in (100, 1))
    for ours, theirs in zip(tf.nest.flatten(at_once), tf.nest.flatten(in_chunks), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    part = at_once.of_examples(1, 3)
    assert part.example.tolist() == [0, *[1] * (len(part.example) - 1)] and len(part.starts) == len(part.example)
    assert len(part.inputs["token_ids"]) == len(part.example)


def test_other_packings_and_byte_pairs_work_the_same():
    roberta = TokenPreprocessor(ByteBPETokenizer(VOCABULARY, MERGES, add_prefix_space=True), ROBERTA, 10)
    windows = windows_in_memory(roberta, ["the"], ["the film the film the film"], doc_stride=2)
    texts = ["the film the film the film"[a:b] for a, b in zip(windows.starts[1], windows.ends[1]) if a >= 0]
    assert texts == ["the", "film", "the", "film", "the"][: len(texts)] and len(texts) > 1
    assert windows.position.tolist() == [4] * len(windows.position)
    assert "segment_ids" not in windows.inputs


def test_a_question_that_leaves_no_room_is_an_error_with_its_position():
    with pytest.raises(ValueError, match=r"within the 9 tokens of a row.*2 tokens too long, at position 1$"):
        windows_in_memory(preprocessor(), ["who", "who " * 7], ["a", "a"], 3, chunk=1)


def test_a_preprocessor_without_offsets_is_an_error():
    no_start = TokenPreprocessor(ByteBPETokenizer(VOCABULARY, MERGES), Packing(pad="<pad>"))
    for wrong, message in (
        (ElmoPreprocessor(), "must be a `BertPreprocessor`, or a `TokenPreprocessor`.*preprocessor=<ElmoPreprocessor"),
        (None, "Received: preprocessor=None"),
        (no_start, "must have a token in front of the question"),
    ):
        with pytest.raises(ValueError, match=message):
            span_batches((["who"], ["a"]), [None], preprocessor=wrong)


# === Answers ===


def labels(contexts, answers, stride=3, **options):
    data = span_batches(
        (["who"] * len(contexts), contexts),
        answers,
        preprocessor=preprocessor(),
        batch_size=100,
        shuffle=False,
        doc_stride=stride,
    )
    return data[0][1].tolist()


@pytest.mark.report(
    "Windows without the answer train as if it were cut off at their edge.",
    "bert#801",
    "transformers#441",
    "transformers#1020",
    "transformers#1282",
)
def test_the_labels_are_the_positions_of_the_answer_in_the_windows_that_contain_it():
    assert labels([LONG], [("d e", 6)]) == [[6, 7], [3, 4], [0, 0]]
    assert labels([LONG], [("e f", 8)]) == [[0, 0], [4, 5], [0, 0]]
    assert labels([LONG], [("a b c d e f", 0)]) == [[0, 0]] * 3  # longer than a window


@pytest.mark.parametrize("stride", [5, 128])
@pytest.mark.report("With a large stride, words of a context are in no window.", "transformers#2548")
def test_every_answer_of_half_a_window_is_whole_in_one_however_large_the_stride_is(stride):
    starts = range(0, len(LONG) - 4, 2)
    found = labels([LONG] * len(starts), [(LONG[start : start + 5], start) for start in starts], stride)
    assert sum(first > 0 for first, _ in found) >= len(starts)
    assert {last - first for first, last in found if first > 0} == {2}


def test_answers_that_fit_in_no_window_are_counted_in_a_warning(caplog):
    assert labels(["a b", LONG, "a"], [("a", 0), ("a b c d e f", 0), None])[1:4] == [[0, 0]] * 3
    [message] = logged(caplog)
    assert message.startswith("1 of 2 answers fit in no window, and count as no answer. The first is at position 1.")
    caplog.clear()
    labels(["a b", LONG], [("a", 0), ("e f", 8)])
    assert not caplog.records


def test_a_question_without_an_answer_has_the_first_token_as_its_label():
    for none in (None, [], {"text": [], "answer_start": []}):
        assert labels(["a b", "a"], [none, ("a", 0)]) == [[0, 0], [3, 3]]
    assert labels([""], [None]) == [[0, 0]]


@pytest.mark.parametrize(
    "answer",
    [
        ("b", 2),
        ["b", 2],
        [("b", 2), ("a", 0)],
        {"text": "b", "answer_start": 2},
        {"text": ["b", "a"], "answer_start": [2, 0]},
        {"text": np.array(["b", "a"], object), "answer_start": np.array([2, 0])},
    ],
)
def test_an_answer_may_be_written_as_in_the_files_of_squad(answer):
    assert labels(["a b c"], [answer]) == [[4, 4]]


def test_an_answer_covers_all_tokens_that_it_touches():
    context = "a caf\u00e9x, b"
    for text, expected in (("caf\u00e9x", [4, 5]), ("caf", [4, 4]), ("x", [5, 5]), ("f\u00e9x, b", [4, 7])):
        assert labels([context], [(text, context.index(text))]) == [expected]


def test_an_answer_that_is_not_in_its_context_is_an_error_with_its_position():
    for answer, message in (
        (("b", 0), r"Did you mean start=2\? Received: text='b', start=0, where the context has 'a', at position 1$"),
        (("z", 0), r"pass None. Received: text='z', start=0, where the context has 'a', at position 1$"),
        (("b", 30), r"Did you mean start=2\?.*where the context has '', at position 1$"),
        (("b", -1), "start=-1"),
        (("", 0), "must not be empty"),
        (("\u200b", 3), "must contain at least one token.*at position 1$"),
        ("b", r"must be `\(text, start\)`.*Received: 'b' at position 1$"),
        (("b", "2"), r"Received: \('b', '2'\) at position 1$"),
        ({"text": "b"}, r"Received: \{'text': 'b'\} at position 1$"),
    ):
        with pytest.raises(ValueError, match=message):
            labels(["a b", "a b\u200b"], [("a", 0), answer])


def test_the_position_of_a_wrong_answer_is_that_of_its_row_in_a_table():
    pandas = pytest.importorskip("pandas")
    answers = pandas.Series([("a", 0), ("\u200b", 3)], index=[7, 9])
    with pytest.raises(ValueError, match="at least one token.*at position 1$"):
        labels(["a b", "a b\u200b"], answers)


def test_columns_of_different_sizes_are_an_error():
    texts = (["who"], ["a b"])
    for function, message in (
        (lambda: span_batches((["who"], ["a", "b"]), None, preprocessor=preprocessor()), "Received: 1 and 2 texts"),
        (
            lambda: span_batches(["who"], None, preprocessor=preprocessor()),
            r"must be a tuple.*Received: x=\['who'\]",
        ),
        (
            lambda: span_batches(([], []), [], preprocessor=preprocessor()),
            "at least one question. Received: x=",
        ),
        (lambda: span_batches(texts, [None] * 2, preprocessor=preprocessor()), "Received: answers=2, questions=1"),
        (
            lambda: span_batches(texts, [None], preprocessor=preprocessor(), sample_weight=[1, 2]),
            r"Received: shape \(2,\) for 1",
        ),
        (lambda: span_batches(texts, None, preprocessor=preprocessor(), sample_weight=[1]), "requires `y`"),
    ):
        with pytest.raises(ValueError, match=message):
            function()


def test_each_window_has_the_weight_of_its_question():
    data = span_batches(
        (["who"] * 2, [LONG, "a"]),
        [None] * 2,
        preprocessor=preprocessor(),
        batch_size=9,
        shuffle=False,
        sample_weight=[2, 3],
        doc_stride=3,
    )
    assert data[0][2].tolist() == [[2, 2]] * 3 + [[3, 3]]


def test_a_seed_determines_the_batches():
    texts, answers = (["who"] * 8, [LONG[: 2 * size] for size in range(1, 9)]), [None] * 8
    one, two = (span_batches(texts, answers, preprocessor=preprocessor(), batch_size=2, seed=1) for _ in range(2))
    assert len(one) == len(two) >= 4
    for (ours, _), (theirs, _) in zip(one, two, strict=True):
        np.testing.assert_array_equal(ours["token_ids"], theirs["token_ids"])
