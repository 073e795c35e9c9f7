"""Labels of the wrong kind, order or spelling are one clear error or a warning."""

import json

import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.data.label_names import names_in
from keras_transfer.tasks import TextClassifier
from tests.tasks.tagging.taggers import tagger
from tests.tasks.tiny import WORDS, encoder, of_words, preprocessor

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.fixture(scope="module")
def model():
    model = of_words(WORDS, label_names=["bad", "good"], dropout=0.0)
    model.compile("sgd", run_eagerly=True)
    return model


@pytest.mark.parametrize("labels", [{"good", "bad"}, iter(["good", "bad"])])
def test_labels_without_an_order_are_an_error(model, labels):
    for call in (model.fit, model.evaluate, model.train_on_batch):
        with pytest.raises(ValueError, match="`y` must be a list.*in the same order. Received: y of type"):
            call(["a", "b"], labels)
    with pytest.raises(ValueError, match="`y` must be a list"):
        model.fit(["a", "b"], labels, validation_split=0.5)
    with pytest.raises(ValueError, match="`sample_weight` must be a list"):
        model.fit(["a", "b"], ["good", "bad"], sample_weight={1.0, 2.0})


def test_a_column_of_names_may_be_a_set_or_an_iterator_but_no_dict():
    assert names_in({"b", "a"}) == names_in(iter("ab")) == ["a", "b"]
    with pytest.raises(ValueError, match="For a dict from numbers to names, pass `label_names="):
        names_in({0: "bad", 1: "good"})
    with pytest.raises(ValueError, match="at least two different names. For a dict, pass"):
        TextClassifier(encoder(), label_names={0: "bad", 1: "good"})


def test_names_that_differ_only_in_their_unicode_form_are_an_error_that_says_so():
    model = of_words(WORDS, label_names=[COMPOSED, "bar"], dropout=0.0)
    with pytest.raises(ValueError, match=r"'caf\\xe9' has the same characters in another Unicode normalization form"):
        model.labels.encode([DECOMPOSED])
    with pytest.raises(ValueError, match=r"more than their Unicode.*Received: 'cafe\\u0301' and 'caf\\xe9'"):
        names_in([COMPOSED, DECOMPOSED, "bar"])


def test_an_error_lists_at_most_ten_names():
    names = [f"name {number}" for number in range(30)]
    with pytest.raises(ValueError, match=r"'name 9', ... and 20 more\]. Did you mean 'name 1'"):
        of_words(WORDS, label_names=names).labels.encode(["nme 1"])


def test_a_checkpoint_with_equal_names_says_so_and_takes_others(tmp_path):
    folder = tmp_path / "saved"
    TextClassifier(encoder(), num_classes=3, preprocessor=preprocessor(), pooling="pooled").save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "bad", "1": "good", "2": "bad"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"Pass `label_names`, 3 .* Received: 'bad' for the labels \[0, 2\]"):
        TextClassifier.from_pretrained(folder)
    assert TextClassifier.from_pretrained(folder, label_names=["a", "b", "c"]).label_names == ["a", "b", "c"]


def test_the_texts_are_not_their_own_labels(model):
    pandas = pytest.importorskip("pandas")
    texts = ["good", "bad"]
    for x, y in ((texts, texts), (pandas.Series(texts, name="s"), pandas.Series(texts, name="s"))):
        with pytest.raises(ValueError, match="texts and the labels must be different columns"):
            model.fit(x, y, verbose=0)


def test_a_label_for_nearly_every_text_is_a_warning(caplog):
    names_in([f"text {number}" for number in range(20)])
    names_in(["good", "bad"] * 20)
    assert not caplog.text
    names_in([f"text {number}" for number in range(40)])
    assert "40 of 40 labels are different" in caplog.text


def test_texts_and_labels_with_other_indices_are_a_warning(model, caplog):
    pandas = pytest.importorskip("pandas")
    texts, labels = pandas.Series(["good", "bad"]), pandas.Series(["good", "bad"])
    model.evaluate(texts, labels, verbose=0)
    model.evaluate(texts, labels.tolist(), verbose=0)
    assert not caplog.text
    model.evaluate(texts, labels[::-1], verbose=0)
    assert "The indices of x and y differ" in caplog.text


def test_words_without_a_list_around_them_are_a_warning(caplog):
    words = tagger("vectors")
    words.predict_words(["good a", "bad"])
    words.predict_words([["good", "bad"]])
    assert not caplog.text
    assert [len(sentence) for sentence in words.predict_words(["good", "bad"])] == [1, 1]
    assert "pass `[words]`" in caplog.text
