"""Labels by name: strings in `fit` and `evaluate`, and names as the answer."""

import keras
import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.data.label_names import names_in
from keras_transfer.losses import SparseCategoricalFocalCrossentropy
from keras_transfer.tasks import TextClassifier, TokenClassifier
from keras_transfer.tasks.class_labels import check_class_labels
from keras_transfer.tasks.keras_losses import NAMED_LOSSES
from keras_transfer.text import batches
from tests.helpers import logged, save_and_load
from tests.tasks.tiny import WORDS, classifier, encoder, examples, of_words, preprocessor

NAMES = ["bad", "good"]


@pytest.fixture
def model():
    model = of_words(WORDS, label_names=NAMES, dropout=0.0)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return model


def columns(labels):
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    names = [NAMES[label] for label in labels]
    yield names
    yield tuple(names)
    yield np.array(names)
    yield np.array(names, object)
    yield pandas.Series(names)
    yield pandas.Series(names, dtype="category")
    yield pyarrow.array(names)


def test_names_in_every_kind_of_column_are_their_positions(model):
    for column in columns([1, 0, 1]):
        np.testing.assert_array_equal(model.labels.encode(column), [1, 0, 1])
    for numbers in ([1, 0], np.array([1, 0]), np.eye(2)):
        assert model.labels.encode(numbers) is numbers


def test_names_train_and_evaluate_as_their_positions_do(model):
    texts, labels = examples(32)
    names = [NAMES[label] for label in labels]
    start = model.get_weights()
    by_number = model.fit(texts, labels, shuffle=False, verbose=0, validation_data=(texts, labels)).history
    numbered = model.evaluate(texts, labels, verbose=0)
    model.set_weights(start)
    by_name = model.fit(texts, names, shuffle=False, verbose=0, validation_data=(texts, names)).history
    assert by_name == by_number and model.evaluate(texts, names, verbose=0) == numbered


def test_one_batch_and_a_split_take_names_too(model):
    texts, labels = examples(8)
    names = [NAMES[label] for label in labels]
    assert model.test_on_batch(texts, names) == model.test_on_batch(texts, labels)
    history = model.fit(texts, names, validation_split=0.5, verbose=0).history
    assert "val_loss" in history
    _, encoded = model.dataset(texts, names, batch_size=8)[0]
    np.testing.assert_array_equal(encoded, labels)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["good", "god"], r"names in `label_names`.*Did you mean 'good'\? Received: 'god' at position 1"),
        (["good", 1], "Received: 1 at position 1"),
        (["good", None], "Received: None at position 1"),
        ([["good"], ["bad"]], r"Received: \['good'\] at position 0"),
        (["good"], "Received: 1 labels, 2 texts"),
    ],
)
def test_other_labels_are_one_clear_error(model, labels, message):
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=message):
            call(["a", "b"], labels, verbose=0)


def test_names_that_occur_become_the_names_of_the_classes():
    assert names_in(["b", "a", "b"]) == ["a", "b"] and names_in(np.array(["b", "a"])) == ["a", "b"]
    assert names_in([0, 2, 1]) == ["0", "1", "2"] and names_in([["x"], [], ["y", "x"]]) == ["x", "y"]
    with pytest.raises(ValueError, match="all names or all integers. Received: 1 of type int at position 1"):
        names_in(["a", 1])
    with pytest.raises(ValueError, match=r"zeros and ones.*Received: shape=\(2, 2\)"):
        names_in(np.eye(2, dtype=int))


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        (
            [1.0, 0.0],
            r"A column of integers .* and convert the others with `labels.astype\(int\)`.* 1.0",
        ),
        ([1.5, 0.0], "For measurements, use a `TextRegressor`.* Received: 1.5"),
        ([True, False], r"Convert booleans to names with `labels.astype\(str\)`. Received: True"),
        ([np.True_], r"Convert booleans to names with `labels.astype\(str\)`"),
        (["a", None], r"Leave out rows without a label, such as with `table.dropna\(subset=\[...\]\)`. Received: None"),
        (["a", float("nan")], "Leave out rows without a label.* Received: nan"),
    ],
)
def test_a_column_that_is_no_column_of_names_gets_an_advice(labels, advice):
    with pytest.raises(ValueError, match=f"all names or all integers. {advice}"):
        names_in(labels)


@pytest.mark.parametrize(
    ("labels", "advice"),
    [([1.5, 0.0], "For measurements, use a `TextReg"), ([np.nan, 0.0], "Leave out rows without a")],
)
def test_fractions_and_missing_values_are_no_classes(labels, advice):
    with pytest.raises(ValueError, match=f"Labels must be integers from 0 to 1. {advice}"):
        check_class_labels(labels, 2)


def test_names_that_differ_in_case_or_look_missing_get_a_warning(caplog):
    assert names_in(["Yes", "yes", "NULL"]) == ["NULL", "Yes", "yes"]
    assert "The class 'NULL' looks like a missing value" in caplog.text
    assert "The classes 'Yes' and 'yes' differ only in case" in caplog.text


def test_of_many_names_that_differ_in_case_a_few_are_named(caplog):
    names_in([name for word in "abcdefghijklmnopqrst" for name in (word, word.upper())] * 2)
    [message] = logged(caplog)
    assert "The classes 'A' and 'a', 'B' and 'b', 'C' and 'c', and 17 more groups, differ only" in message


def test_from_pretrained_takes_the_names_from_a_column(tmp_path):
    encoder().save_pretrained(tmp_path / "encoder", preprocessor())
    model = TextClassifier.from_pretrained(tmp_path / "encoder", labels=["sad", "fun", "sad"])
    assert model.label_names == ["fun", "sad"] and model.num_classes == 2
    tagger = TokenClassifier.from_pretrained(tmp_path / "encoder", labels=[["N", "V"], ["N"]])
    assert tagger.label_names == ["N", "V"]
    with pytest.raises(ValueError, match="`labels` cannot be used with label_names"):
        TextClassifier.from_pretrained(tmp_path / "encoder", labels=["a", "b"], label_names=["a", "b"])


def test_a_column_of_labels_never_renames_or_reorders_the_labels_of_a_head(tmp_path):
    for names in (["no", "maybe", "yes"], None):
        folder = tmp_path / str(names)
        model = TextClassifier(
            encoder(), num_classes=3, preprocessor=preprocessor(), pooling="pooled", label_names=names
        )
        model.save_pretrained(folder)
        if names:
            assert TextClassifier.from_pretrained(folder, labels=["yes", "no"]).label_names == names
            with pytest.raises(CheckpointError, match="names of all `labels`.*Received: \\['perhaps'\\]"):
                TextClassifier.from_pretrained(folder, labels=["yes", "perhaps"])
        else:
            with pytest.raises(CheckpointError, match="names of all `labels`"):
                TextClassifier.from_pretrained(folder, labels=["yes", "no"])
        assert TextClassifier.from_pretrained(folder, labels=["yes", "no"], head="new").label_names == ["no", "yes"]


def test_names_in_prepared_batches_are_an_error_that_says_how_to_convert_them(model):
    for labels in (["good", "bad"], [["good"], []]):
        with pytest.raises(ValueError, match=r"`model.labels.encode\(labels\)`"):
            model.fit(batches(["a", "b"], labels, preprocessor=model.preprocessor), verbose=0)


def test_answers_are_the_names_of_the_highest_probability_in_the_order_of_the_texts(model):
    texts, _ = examples(40)
    likely = model.predict_proba(texts)
    np.testing.assert_allclose(likely.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(likely, keras.ops.softmax(model.predict(texts, verbose=0)), atol=1e-6)
    assert model.predict_labels(texts) == [NAMES[best] for best in likely.argmax(1)]
    assert model.predict_labels("good") == model.predict_labels(["good"])
    assert model.predict_labels([]) == []


def test_balanced_classes_have_the_same_total_weight(model):
    labels = ["good"] * 6 + ["bad"] * 2
    assert model.labels.class_weight("balanced", labels) == {0: 2.0, 1: 8 / 12}
    assert classifier().labels.class_weight("balanced", np.eye(2)[[1, 1, 1, 0]]) == {0: 2.0, 1: 4 / 6}
    texts, start = [f"{'good' if label == 'good' else 'bad'} a" for label in labels], model.get_weights()
    model.fit(texts, labels, shuffle=False, class_weight="balanced", verbose=0)
    balanced = model.get_weights()
    model.set_weights(start)
    model.fit(texts, labels, shuffle=False, class_weight={"bad": 2.0, 1: 8 / 12}, verbose=0)
    for ours, theirs in zip(balanced, model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_balanced_weights_need_labels_in_memory(model):
    import tensorflow as tf

    stream = tf.data.Dataset.from_tensor_slices((["a", "b"], [0, 1])).batch(2)
    with pytest.raises(ValueError, match="requires labels in memory. Received: a dataset"):
        model.fit(stream, class_weight="balanced", verbose=0)


def test_a_loss_by_name_is_the_only_one_that_is_created(model, monkeypatch):
    monkeypatch.setitem(NAMED_LOSSES, "label_smoothing", None)
    model.compile("sgd", loss="focal")
    assert isinstance(model.loss, SparseCategoricalFocalCrossentropy)


@pytest.mark.parametrize("loss", ["focal", "label_smoothing"])
def test_losses_by_name_train(model, loss):
    model.compile(keras.optimizers.SGD(0.1), loss=loss, run_eagerly=True)
    before = model.get_layer("logits").kernel.numpy()
    model.fit(["good", "bad"], ["good", "bad"], verbose=0)
    assert (model.get_layer("logits").kernel.numpy() != before).all()
    assert save_and_load(model).loss.get_config() == model.loss.get_config()
    with pytest.raises(
        ValueError, match=r"integers from 0 to 1, one for each text. Received: float64 of shape \(2, 2\)"
    ):
        model.fit(["good", "bad"], np.eye(2), verbose=0)
    with pytest.raises(ValueError, match="`loss` expects integer labels, but the metric expects one-hot labels"):
        model.compile("sgd", loss=loss, metrics=[keras.metrics.CategoricalAccuracy()])


def test_names_that_differ_only_by_their_unicode_form_are_an_error():
    with pytest.raises(ValueError, match=r"more than their Unicode form.*Received: 'caf\\xe9' and 'cafe\\u0301'"):
        of_words(WORDS, label_names=["caf\u00e9", "bar", "cafe\u0301"])


def test_names_must_differ_by_more_than_spaces():
    with pytest.raises(ValueError, match="must not differ only in the spaces.*Received: 'bad' and 'bad '"):
        names_in(["good", "bad ", "bad"])
