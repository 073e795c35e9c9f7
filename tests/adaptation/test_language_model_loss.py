"""A language-model loss beside that of a task: its value, its weight, what it trains, and what it leaves alone."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.adaptation import freeze, with_language_model_loss
from keras_transfer.encoders import AWDLSTMEncoder, BertEncoder, TransformerEncoder
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks import CausalLM, MultipleChoice, TextClassifier
from tests.errors import check_errors

IDS = np.array([[3, 4, 5, 6], [7, 8, 0, 0]])
INPUTS = {"token_ids": IDS, "padding_mask": (IDS > 0).astype("int32")}
LABELS = np.array([0, 1])


def encoder(cls=TransformerEncoder, **options):
    if cls is AWDLSTMEncoder:
        return cls(12, num_layers=1, embedding_dim=8, units=8)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "dropout": 0.0}
    return cls(12, **sizes, **(options if cls is BertEncoder else {"causal": True, **options}))


def classifier(cls=TransformerEncoder, **options):
    keras.utils.set_random_seed(0)
    return TextClassifier(encoder(cls, **options), num_classes=2, dropout=0.0)


def next_token_loss(task):
    """The mean over the real next tokens of minus the log of their probability, in NumPy."""
    vectors = ops.convert_to_numpy(task.encoder(INPUTS)["sequence_output"]).astype("float64")
    table = ops.convert_to_numpy(task.encoder.token_embedding.embeddings).astype("float64")
    scores = vectors @ table.T
    logs = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    rows = [(0, 0), (0, 1), (0, 2), (1, 0)]
    return -np.mean([logs[row, column, IDS[row, column + 1]] for row, column in rows])


@pytest.mark.core
def test_the_loss_of_a_step_has_the_weighted_one_of_the_next_tokens_and_that_of_evaluate_has_not(eagerly):
    task = classifier()
    both = with_language_model_loss(task, weight=np.float32(0.25))
    both.compile(keras.optimizers.SGD(0.0))
    alone = both.evaluate(INPUTS, LABELS, verbose=0)[0]
    found = both.fit(INPUTS, LABELS, verbose=0).history["loss"][0]
    np.testing.assert_allclose(found, alone + 0.25 * next_token_loss(task), rtol=1e-5)


@pytest.mark.parametrize("weight", [0.25, np.float32(0.25)])
def test_a_fixed_weight_is_a_float_of_python(weight):
    found = with_language_model_loss(classifier(), weight).get_layer("language_model_loss").weight
    assert (type(found), found) == (float, 0.25)


def test_the_weight_may_follow_a_schedule_of_training_steps():
    task = classifier()
    halves = keras.optimizers.schedules.ExponentialDecay(1.0, decay_steps=1, decay_rate=0.5)
    both = with_language_model_loss(task, weight=halves)
    both.compile(keras.optimizers.SGD(0.0))
    alone = both.evaluate(INPUTS, LABELS, verbose=0)[0]
    losses = both.fit(INPUTS, LABELS, epochs=3, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, alone + np.array([1, 0.5, 0.25]) * next_token_loss(task), rtol=1e-5)


def test_without_weight_it_trains_as_the_task_does_and_with_it_the_embeddings_of_other_tokens_move_too(eagerly):
    tables = []
    for weight in (None, 0.0, 0.5):
        task = classifier()
        trained = task if weight is None else with_language_model_loss(task, weight)
        trained.compile(keras.optimizers.SGD(0.1))
        trained.fit(INPUTS, LABELS, verbose=0)
        tables.append(ops.convert_to_numpy(task.encoder.token_embedding.embeddings))
    unused = np.setdiff1d(np.arange(12), IDS)
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-7)
    np.testing.assert_array_equal(tables[0][unused], tables[1][unused])
    assert (tables[2][unused] != tables[1][unused]).any(axis=1).all()


def test_frozen_weights_stay_and_the_task_has_those_that_were_trained(eagerly):
    task = classifier()
    both = with_language_model_loss(task)
    freeze(both, below="head")
    before = [ops.convert_to_numpy(weight) for weight in task.encoder.weights]
    kernel = ops.convert_to_numpy(task.get_layer("logits").kernel)
    both.compile(FusedAdamW(0.1))
    both.fit(INPUTS, LABELS, verbose=0)
    for weight, old in zip(task.encoder.weights, before, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(weight), old)
    assert (ops.convert_to_numpy(task.get_layer("logits").kernel) != kernel).all()
    np.testing.assert_array_equal(task.predict(INPUTS, verbose=0), both.predict(INPUTS, verbose=0))


def test_a_saved_file_has_the_task_alone(tmp_path, eagerly):
    decay = keras.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5)
    both = with_language_model_loss(classifier(), decay)
    both.compile(FusedAdamW(0.1))
    both.fit(INPUTS, LABELS, verbose=0)
    both.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(INPUTS, verbose=0), both.predict(INPUTS, verbose=0), atol=1e-6)
    assert "language_model_loss" not in [layer.name for layer in loaded.layers]
    with_language_model_loss(loaded).compile("adamw")


@pytest.mark.parametrize("task", ["recurrent", "choices"])
def test_recurrent_encoders_and_rows_of_several_texts_have_the_loss_too(task, eagerly):
    if task == "recurrent":
        both, inputs = with_language_model_loss(classifier(AWDLSTMEncoder)), INPUTS
    else:
        both = with_language_model_loss(MultipleChoice(encoder(), dropout=0.0))
        inputs = {name: np.stack([rows, rows[::-1]], axis=1) for name, rows in INPUTS.items()}
    both.compile(keras.optimizers.SGD(0.0))
    with_loss = both.train_on_batch(inputs, LABELS, return_dict=True)["loss"]
    assert with_loss > both.evaluate(inputs, LABELS, verbose=0, return_dict=True)["loss"] + 0.5


@pytest.mark.core
def test_outputs_keep_their_dtype_and_values_in_half_precision(eagerly):
    task = classifier(dtype="mixed_bfloat16")
    both = with_language_model_loss(task)
    found, expected = both.predict(INPUTS, verbose=0), task.predict(INPUTS, verbose=0)
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, expected)
    both.compile(FusedAdamW(0.01))
    assert np.isfinite(both.fit(INPUTS, LABELS, verbose=0).history["loss"]).all()


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: with_language_model_loss(CausalLM(encoder())), "its texts already. Received: task=<CausalLM"),
    (lambda: twice(), "`task` already has a language-model loss ... Received: task=<TextClassifier"),
    (lambda: with_language_model_loss(classifier(BertEncoder)), "Received: BertEncoder"),
)


def twice():
    return with_language_model_loss(with_language_model_loss(classifier()))
