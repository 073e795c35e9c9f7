"""Labels of other schemes and spans of characters become BIO labels of the words that a tagger sees."""

import pytest

from keras_transfer.datasets import label_spans, read_conll, to_bio
from keras_transfer.metrics import entities
from tests.errors import check_errors
from tests.helpers import logged

BIO = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-LOC", "I-LOC"]
SCHEMES = {
    "BIO": BIO,
    "IOB1": ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-LOC", "I-LOC"],
    "BIOES": ["B-PER", "E-PER", "O", "S-LOC", "B-LOC", "I-LOC", "E-LOC"],
    "BILOU": ["B-PER", "L-PER", "O", "U-LOC", "B-LOC", "I-LOC", "L-LOC"],
    "BMES": ["B-PER", "E-PER", "O", "S-LOC", "B-LOC", "M-LOC", "E-LOC"],
    "BMEWO": ["B-PER", "E-PER", "O", "W-LOC", "B-LOC", "M-LOC", "E-LOC"],
    "IOE": ["I-PER", "I-PER", "O", "E-LOC", "I-LOC", "I-LOC", "I-LOC"],
}


@pytest.mark.parametrize("name", SCHEMES)
def test_labels_of_every_scheme_become_bio_labels(name):
    assert to_bio([SCHEMES[name], []]) == [BIO, []]


def test_numbers_and_prefixes_without_a_type_become_bio_labels():
    assert to_bio([[2, 2, 0, 1]], label_names=["O", "B-PER", "I-PER"]) == [["B-PER", "I-PER", "O", "B-PER"]]
    assert to_bio([["B", "L", "U"]]) == [["B", "I", "B"]]


test_labels_that_cannot_be_converted_are_one_error = check_errors(
    (lambda: to_bio([["O"], [3]]), "require `label_names`, their names in order. Received: 3 in sentence 1"),
    (lambda: to_bio([[3]], label_names=["O", "B-X"]), "positions in ['O', 'B-X']. Received: 3 in sentence 0"),
    (lambda: to_bio([["LOC"]]), "Labels must be O, or B, I, E or S ... Received: label='LOC'"),
    (lambda: to_bio([[None]]), "Labels must be names or integers. Received: label=None, number=0"),
)


def test_a_file_in_another_scheme_gets_a_warning_and_keeps_its_labels(tmp_path, caplog):
    for name, labels in SCHEMES.items():
        caplog.clear()
        (tmp_path / "a.conll").write_text("".join(f"w {label}\n" for label in labels))
        assert read_conll(tmp_path / "a.conll").labels == [labels]
        warned = logged(caplog, "datasets.to_bio(labels)")
        assert len(warned) == (name not in ("BIO", "BIOES")), name


@pytest.mark.report(
    "Spans of an annotation tool and words of the tokenizer do not match.", "transformers#33579", "pii-guardrail#40"
)
def test_spans_of_characters_become_the_labels_of_the_words_that_a_tagger_sees():
    texts = ["Ada  (née Byron) moved to\nNew York.", "Nobody.", "Zoë 🎉 O'Neil"]
    spans = [
        [(6, 15, "PER"), {"start": 0, "end": 3, "label": "PER"}, [26, 34, "LOC"]],
        [],
        [{"start": 6, "end": 12, "labels": ["PER"]}],
    ]
    words, labels = label_spans(texts, spans)
    assert words[0] == ["Ada", "(", "née", "Byron", ")", "moved", "to", "New", "York", "."]
    assert labels[0] == ["B-PER", "O", "B-PER", "I-PER", "O", "O", "O", "B-LOC", "I-LOC", "O"]
    assert (words[1], labels[1]) == (["Nobody", "."], ["O", "O"])
    assert (words[2], labels[2]) == (["Zoë", "🎉", "O", "'", "Neil"], ["O", "O", "B-PER", "I-PER", "I-PER"])
    assert entities(labels[0]) == [("PER", 0, 1), ("PER", 2, 4), ("LOC", 7, 9)]


def test_the_split_is_that_of_the_preprocessor():
    text, spans = "in O'Neil, Ohio", [[(3, 9, "PER")]]
    assert label_spans([text], spans, split="punctuation").labels == [["O", "B-PER", "I-PER", "I-PER", "O", "O"]]


def test_a_span_inside_a_word_gets_the_whole_word_and_one_warning_counts_them(caplog):
    labels = label_spans(["a 10km run", "x-ray now "], [[(2, 4, "NUM")], [(6, 10, "TIME")]]).labels
    assert labels == [["O", "B-NUM", "O"], ["O", "O", "O", "B-TIME"]]  # White space around a span is no part of it.
    [message] = caplog.messages
    assert (
        message.startswith("Spans that begin or end inside a word get the whole word: 1.")
        and "'10' in '10km' of text 0" in message
    )


test_a_mistake_in_a_span_is_one_error = check_errors(
    (lambda: label_spans(["a"], []), "`spans` must have one list for each text. Received: spans=0, texts=1"),
    (lambda: label_spans(["a b"], [[(0, 9, "X")]]), "0 <= start < end <= 3 ... Received: text 0, span (0, 9, 'X')"),
    (lambda: label_spans(["a b"], [[{"begin": 0}]]), "A span must be (start, end, label)"),
    (lambda: label_spans(["a  b"], [[(1, 3, "X")]]), "A span must contain at least one word. Received: text 0"),
    (
        lambda: label_spans(["ab"], [[(0, 1, "X"), (1, 2, "Y")]]),
        "A span must contain words of its own ... Received: text 0, span (1, 2, 'Y') of 'ab'",
    ),
)
