"""`fastai_texts` against the rules of fastai 1, and `FastaiTokenizer`, which refuses other texts."""

import json

import pytest

from keras_transfer.text import FastaiTokenizer, Packing, TokenPreprocessor, fastai_texts
from tests.errors import check_errors
from tests.samples import REFERENCES
from tests.tokenizing import run_tokenizer_test

tf = pytest.importorskip("tensorflow")

RULES = REFERENCES / "fastai_rules.json"
ITOS = ["xxunk", "xxpad", "xxbos", "xxmaj", "xxup", "the", "film", "\n", "a b", "xxfake", "\u00e9t\u00e9", "xxfake"]


def test_texts_have_the_tokens_of_fastai():
    texts, expected = zip(*json.loads(RULES.read_text()))
    assert fastai_texts(list(texts), str.split) == list(expected)
    # A token may be white space, or contain it.
    assert fastai_texts(["New\nYork"], lambda text: ["xxbos", "New York", "\n", " ", ""]) == [
        "xxbos new\u2581york \n \u2581"
    ]


def test_it_is_a_well_behaved_tokenizer_of_such_texts():
    texts = ["xxbos xxmaj the film", "xxbos", "xxbos \n a\u2581b", "xxbos xxup \u00e9t\u00e9 xxpads", "xxbos xxfake"]
    expected = [[2, 3, 5, 6], [2], [2, 7, 8], [2, 4, 10, 0], [2, 11]]
    run_tokenizer_test(FastaiTokenizer(ITOS), texts, Packing(pad="xxpad"), expected, texts[:3])


def test_raw_texts_are_refused_also_in_a_graph():
    preprocessor = TokenPreprocessor(FastaiTokenizer(ITOS), Packing(pad="xxpad"), 8)
    encode = tf.function(preprocessor, autograph=False)
    for texts in (["The film"], ["xxbos the", "the"], ["xxbosthe"], [""]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"begin with xxbos. `text.fastai_texts` makes "):
            encode(tf.constant(texts))


test_mistakes_are_clear_errors = check_errors(
    (lambda: fastai_texts("The film", str.split), "`texts` must be a list of strings. Received: texts='The film'"),
    (
        lambda: fastai_texts(["The film"], lambda text: text),
        "`split` must return a list of strings. Received: words='xxbos The film'",
    ),
)
