"""Generators, which yield a batch once, and what a `tf.data.Dataset` declares, on all backends."""

import keras
import numpy as np
import pytest

from keras_transfer.tasks import MultipleChoice, TextClassifier, TextRegressor, TokenClassifier
from tests.tasks.loaders import Loader
from tests.tasks.tiny import classifier, encoder, examples, preprocessor

tf = pytest.importorskip("tensorflow")
TEXTS, LABELS = examples(12)
ROWS = {name: np.asarray(values) for name, values in preprocessor()(list(TEXTS)).items()}


def batches(count=3):
    """Yields batches of four rows, the same again after the third."""
    for number in range(count):
        rows = slice(4 * (number % 3), 4 * (number % 3) + 4)
        yield {name: values[rows] for name, values in ROWS.items()}, np.array(LABELS[rows])


def compiled(make=classifier, **options):
    keras.utils.set_random_seed(0)
    model = make()
    model.compile("sgd", run_eagerly=True, **options)
    return model


def of_tensors(*columns):
    return tf.data.Dataset.from_tensor_slices(columns).batch(4)


@pytest.mark.core
def test_every_batch_of_a_generator_is_read_once():
    whole, once, again = compiled(), compiled(), compiled()
    whole.fit(Loader([*batches()]), verbose=0)
    once.fit(batches(), verbose=0)
    again.fit(again.dataset(batches()), verbose=0)
    for other in (once, again):
        assert all(map(np.array_equal, whole.get_weights(), other.get_weights()))
    expected = whole.evaluate(Loader([*batches()]), verbose=0)
    assert whole.evaluate(batches(), verbose=0) == expected
    np.testing.assert_array_equal(whole.predict(batches(), verbose=0), whole.predict(ROWS, batch_size=4, verbose=0))


def test_a_generator_goes_on_in_the_next_run_and_the_next_validation():
    model, endless = compiled(), batches(10**6)
    for run in range(2):
        model.fit(endless, steps_per_epoch=2, epochs=2, verbose=0)
        assert int(model.optimizer.iterations) == 4 * (run + 1)
    history = model.fit(ROWS, LABELS, validation_data=endless, validation_steps=1, epochs=3, verbose=0).history
    assert len(history["val_loss"]) == 3


@pytest.mark.core
def test_a_loader_may_yield_arrays_in_the_order_of_the_inputs_as_data_in_memory():
    model = compiled()
    lists = [([x[name] for name in model.input], y) for x, y in batches()]
    model.fit(Loader(lists), verbose=0)
    named = compiled()
    named.fit(Loader([*batches()]), verbose=0)
    assert all(map(np.array_equal, model.get_weights(), named.get_weights()))


@pytest.mark.core
def test_metrics_know_the_number_of_outputs_that_a_dataset_declares():
    one_hot = np.eye(2, dtype="float32")[LABELS]
    loss, metrics = keras.losses.CategoricalCrossentropy(from_logits=True), [keras.metrics.F1Score(average="macro")]
    model = compiled(loss=loss, metrics=metrics)
    assert "f1_score" in model.fit(of_tensors(TEXTS, one_hot), verbose=0).history
    model = compiled(lambda: TextRegressor(encoder(), preprocessor(), num_targets=2), metrics=[keras.metrics.R2Score()])
    assert "r2_score" in model.fit(of_tensors(ROWS, one_hot), verbose=0).history


def test_class_weights_of_names_that_are_numbers_mean_the_same_as_in_memory():
    names, weights = [*"210"], []
    for data in ((TEXTS, [names[label] for label in LABELS]), None):
        model = compiled(lambda: TextClassifier(encoder(), preprocessor(), label_names=names))
        data = data or (Loader([(TEXTS, [names[label] for label in LABELS])]),)
        model.fit(*data, class_weight={"2": 5.0}, batch_size=None, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    assert all(np.allclose(one, other, atol=1e-6) for one, other in zip(*weights))


def test_words_and_choices_of_a_dataset_are_those_of_data_in_memory():
    rows, tags = [["a", "good"], ["b"], ["c", "d"]], [["O", "N"], ["O"], ["N", "N"]]
    model = TokenClassifier(encoder(), preprocessor(), label_names=["O", "N"])
    [item] = model.dataset(of_tensors(tf.ragged.constant(rows), tf.ragged.constant(tags)))
    [expected] = model.dataset(rows, tags)
    for ours, theirs in zip(keras.tree.flatten(item), keras.tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(ours[:, : theirs.shape[1]], theirs)  # JAX compiles few lengths.
    contexts, choices, labels = ["a", "b"], np.array([["good", "bad"], ["bad", "good"]]), [0, 1]
    model = MultipleChoice(encoder(), preprocessor())
    [item] = model.dataset(of_tensors((contexts, choices), labels))
    [expected] = model.dataset((contexts, choices), labels)
    for ours, theirs in zip(keras.tree.flatten(item), keras.tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(ours[..., : theirs.shape[-1]], theirs)


def test_the_length_of_an_endless_dataset_is_unknown():
    assert int(compiled().dataset(of_tensors(ROWS, LABELS).repeat()).cardinality()) == tf.data.UNKNOWN_CARDINALITY
