"""Each mistake with a task is one clear error before any training."""

import json

import keras
import numpy as np
import pytest

from keras_transfer.tasks import TextClassifier
from keras_transfer.text import BertPreprocessor, batches
from tests.tasks.tiny import VOCABULARY, classifier, encoder, preprocessor


@pytest.fixture(scope="module")
def model():
    """A compiled classifier. Calls that raise an error do not train it."""
    model = classifier()
    model.compile("sgd", run_eagerly=True)
    return model


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 2], r"from 0 to 1. Received: 2 at position 1"),
        (
            ["yes", "no"],
            r"names in `label_names`, \['0', '1'\]. .*`num_classes`.* Pass .* Received: 'yes' at position 0",
        ),
        ([0, None], "Received: None at position 1"),
        ([0.5, 1.0], "Received: 0.5 at position 0"),
        ([[0], [1, 1]], "Received: rows of different lengths"),
        ([0], "Received: 1 labels, 2 texts"),
        ([[1, 0], [0, 1]], r"shape \(2, 2\)"),
        (1, r"Received: int64 of shape \(\)"),
        (None, "requires labels. Received: y=None"),
    ],
)
def test_invalid_labels_are_one_clear_error_and_nothing_is_trained(model, labels, message):
    before = model.get_layer("logits").kernel.numpy()
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=message):
            call(["a", "b"], labels, verbose=0)
    np.testing.assert_array_equal(model.get_layer("logits").kernel.numpy(), before)


def test_batches_without_labels_are_an_error_except_in_predict(model):
    unlabelled = batches(["a", "b"], None, preprocessor=model.preprocessor)
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="requires labels. Received: y=None"):
            call(unlabelled, verbose=0)
    assert model.predict(unlabelled, verbose=0).shape == (2, 2)


def test_one_hot_labels_work_with_a_categorical_loss():
    model = classifier()
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile("sgd", loss=loss, metrics=[], run_eagerly=True)
    assert 0.5 < model.fit(["a", "b"], np.eye(2), verbose=0).history["loss"][0] < 1.0


def test_arguments_that_do_not_apply_are_errors_and_not_ignored(model):
    prepared = batches(["a", "b"], [0, 1], preprocessor=model.preprocessor)
    with pytest.raises(ValueError, match="must be None if `x` is a dataset.*Received: x of type Batches, and y"):
        model.fit(prepared, [0, 1], verbose=0)
    with pytest.raises(ValueError, match="Received: batch_size=0"):
        model.fit(["a"], [0], validation_data=(["b"], [1]), validation_batch_size=0, verbose=0)


def test_a_split_that_leaves_nothing_is_an_error_with_the_received_numbers(model):
    with pytest.raises(ValueError, match="Received: rows=2, labels=2, validation_split=0.999"):
        model.fit(["a", "b"], [0, 1], validation_split=0.999, verbose=0)
    with pytest.raises(ValueError, match="Received: rows=4, labels=2"):
        model.fit(["a", "b", "c", "d"], [0, 1], validation_split=0.5, verbose=0)


def test_raw_text_without_a_preprocessor_is_an_error():
    model = TextClassifier(encoder(), num_classes=2)
    model.compile("sgd")
    with pytest.raises(ValueError, match="Raw text requires a preprocessor"):
        model.fit(["a"], [0], verbose=0)


def test_an_unbatched_dataset_of_texts_is_an_error(model):
    import tensorflow as tf

    with pytest.raises(ValueError, match="must be batched"):
        model.fit(tf.data.Dataset.from_tensor_slices((["a"], [0])), verbose=0)
    with pytest.raises(ValueError, match="Labels must be names in `label_names`.* Received: b'b' at position 0"):
        model.fit(tf.data.Dataset.from_tensor_slices((["a"], ["b"])).batch(1), verbose=0)


def test_the_default_length_is_at_most_the_number_of_positions(tmp_path):
    model = TextClassifier(encoder(), num_classes=2, preprocessor=preprocessor(sequence_length=16))
    model.save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved" / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    del config["model_max_length"]
    path.write_text(json.dumps(config), "utf-8")
    assert TextClassifier.from_pretrained(tmp_path / "saved").preprocessor.sequence_length == 32
    with pytest.raises(ValueError, match="at most 32, .* Pass `sequence_length=32` to `from_pretrained`. Received"):
        TextClassifier.from_pretrained(tmp_path / "saved", sequence_length=64)


def test_a_preprocessor_that_does_not_fit_the_encoder_is_an_error():
    with pytest.raises(ValueError, match="at most 32, .* number of positions. .*Received: sequence_length=64"):
        TextClassifier(encoder(), num_classes=2, preprocessor=preprocessor(sequence_length=64))
    more = BertPreprocessor([*VOCABULARY, "more"], sequence_length=32)
    with pytest.raises(ValueError, match="which has 17 rows. .* Received: a vocabulary of 18 tokens"):
        TextClassifier(encoder(), num_classes=2, preprocessor=more)


def test_a_smaller_vocabulary_than_the_embedding_is_logged(caplog):
    TextClassifier(encoder(), num_classes=2, preprocessor=BertPreprocessor(VOCABULARY[:-1], sequence_length=32))
    assert "has 17 rows, but the preprocessor's vocabulary has 16 tokens" in caplog.text


def test_a_sequence_longer_than_the_position_table_is_an_error(model):
    ids = {name: np.ones((2, 40), "int32") for name in model.input}
    calls = (model, lambda x: model.fit(x, np.array([0, 1]), verbose=0), lambda x: model.predict(x, verbose=0))
    for call in calls:
        with pytest.raises(ValueError, match="at most 32 tokens, the size of the position table.*Received: tokens=40"):
            call(ids)


def test_a_model_that_is_not_compiled_is_an_error_before_its_data_are_read(model):
    model = TextClassifier(encoder(), num_classes=2, preprocessor=preprocessor())
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=f"Call `compile` before `{call.__name__}`"):
            call(None)


def test_training_without_an_optimizer_is_an_error_before_its_data_are_read(model):
    model = TextClassifier(encoder(), num_classes=2, preprocessor=preprocessor())
    model.compile(optimizer=None)
    for call in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match=f"`{call.__name__}` requires an optimizer.*with `optimizer=None`"):
            call(None)
    assert len(model.evaluate(["a", "b"], [0, 1], verbose=0)) == 2


def test_unknown_poolings_and_too_few_classes_are_errors():
    with pytest.raises(ValueError, match="Received: pooling='average'"):
        TextClassifier(encoder(), num_classes=2, pooling="average")
    with pytest.raises(ValueError, match="has no pooled output"):
        TextClassifier(encoder(pooler=False), num_classes=2, pooling="pooled")
    for classes in (1, None):
        with pytest.raises(ValueError, match=f"at least 2. .* Received: num_classes={classes}"):
            TextClassifier(encoder(), num_classes=classes)
    with pytest.raises(ValueError, match="`label_names` must have `num_classes` names, 3"):
        TextClassifier(encoder(), num_classes=3, label_names=["no", "yes"])
    with pytest.raises(ValueError, match="`hidden_norm=True` requires `hidden_activation`"):
        TextClassifier(encoder(), num_classes=2, hidden_norm=True)
    with pytest.raises(ValueError, match="must be a model. Use `from_pretrained.*Received: encoder='minilm-l6'"):
        TextClassifier("minilm-l6", num_classes=2)
    with pytest.raises(ValueError, match="Received: preprocessor='minilm-l6'"):
        TextClassifier(encoder(), num_classes=2, preprocessor="minilm-l6")
