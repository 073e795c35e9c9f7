"""Weights of rows that are not finite numbers, and models that return such numbers."""

import keras
import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.cli.models import TrainedModel
from keras_transfer.encoders import T5, TransformerEncoder
from keras_transfer.tasks import (
    BertPretraining,
    CausalLM,
    MaskedLM,
    Seq2SeqLM,
    TextEmbedder,
    TextRegressor,
)
from keras_transfer.text import batches, part_batches, span_batches, word_batches
from tests.helpers import EAGER
from tests.tasks.tiny import VOCABULARY, WORDS, encoder, of_vectors, of_words, preprocessor

TEXTS, LABELS = ["good", "bad a", "good b"], [1, 0, 1]
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def model():
    model = of_vectors()
    model.compile("sgd", run_eagerly=EAGER)
    return model


@pytest.fixture
def ids(model):
    return {name: np.array(values) for name, values in model.preprocessor(TEXTS).items()}


@pytest.mark.parametrize("wrong", [-INF, None])
def test_a_weight_of_a_text_is_a_finite_number(model, wrong):
    weights, before = [1.0, wrong, 2.0], model.get_weights()
    message = f"`sample_weight` must be finite numbers. Received: {wrong} at position 1"
    for call in (model.fit, model.evaluate, model.train_on_batch):
        with pytest.raises(ValueError, match=message):
            call(TEXTS, LABELS, sample_weight=weights)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_weight_is_not_negative(model):
    for call in (model.fit, model.evaluate, model.train_on_batch):
        with pytest.raises(ValueError, match="`sample_weight` must be at least 0. Received: -0.5 at position 1"):
            call(TEXTS, LABELS, sample_weight=[1.0, -0.5, 2.0])


def test_a_weight_in_a_table_column_is_a_finite_number(model):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="finite numbers. Received: nan at position 2"):
        model.fit(TEXTS, LABELS, sample_weight=pandas.Series([1, 2, None]), verbose=0)
    with pytest.raises(ValueError, match="`sample_weight` must be finite numbers. Received: an array of type"):
        model.fit(TEXTS, LABELS, sample_weight=["a", "b", "c"], verbose=0)


def test_a_weight_of_prepared_arrays_is_a_finite_number(model, ids):
    weights = np.array([1.0, NAN, 1.0])
    for call in (model.fit, model.evaluate, model.test_on_batch):
        with pytest.raises(ValueError, match="Received: nan at position 1"):
            call(ids, np.array(LABELS), sample_weight=weights)


@pytest.mark.core
def test_a_weight_in_a_dataset_or_from_a_generator_is_a_finite_number(model, ids):
    message = "in a batch of the dataset. .* Received: nan at position 1"
    weights = np.array([1.0, NAN, 1.0], "float32")
    with pytest.raises(ValueError, match=message):
        model.fit(((ids, np.array(LABELS), weights) for _ in range(2)), steps_per_epoch=2, verbose=0)
    tf = pytest.importorskip("tensorflow")
    with pytest.raises(ValueError, match=message):
        model.fit(tf.data.Dataset.from_tensor_slices((ids, LABELS, weights)).batch(3), verbose=0)


def test_each_kind_of_batches_takes_finite_weights_only(model):
    words, options = of_words(WORDS, num_classes=2).preprocessor, {"sample_weight": [1.0, NAN]}
    message = "`sample_weight` must be finite numbers. Received: nan at position 1"
    with pytest.raises(ValueError, match=message):
        batches(["a", "b"], [0, 1], preprocessor=words, **options)
    with pytest.raises(ValueError, match=message):
        part_batches((["a", "b"], ["c", "d"]), [0, 1], preprocessor=words, **options)
    with pytest.raises(ValueError, match=message):
        word_batches([["a"], ["b"]], [[0], [1]], preprocessor=words, **options)
    with pytest.raises(ValueError, match=message):
        span_batches((["a", "b"], ["c", "d"]), [("c", 0), ("d", 0)], preprocessor=preprocessor(), **options)


def test_weights_of_classes_are_finite_numbers(model):
    with pytest.raises(ValueError, match="finite weights of at least 0.*Received: class_weight={0: nan}"):
        model.fit(TEXTS, LABELS, class_weight={0: NAN}, verbose=0)
    with pytest.raises(ValueError, match="finite weights of at least 0.*Received: class_weight={0: -1.0}"):
        model.fit(TEXTS, LABELS, class_weight={0: -1.0}, verbose=0)
    with pytest.raises(ValueError, match="`class_weight` must be finite numbers. Received: inf"):
        word_batches([["a"]], [[0]], preprocessor=model.preprocessor, class_weight={0: INF})


@pytest.mark.core
def test_a_model_whose_training_diverged_does_not_answer(model):
    model.get_layer("logits").bias.assign([NAN, 0.0])
    for call in (model.predict_labels, model.predict_proba):
        with pytest.raises(ValueError, match="outputs of the model must be finite.*diverged.* at position 0"):
            call(TEXTS)


def causal(sampler="greedy"):
    return CausalLM(encoder(TransformerEncoder, causal=True), preprocessor(), max_length=8, sampler=sampler)


def writer():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8, "head_dim": 4}
    return Seq2SeqLM(T5(len(VOCABULARY), **sizes), preprocessor(), max_new_tokens=2)


ANSWERS = {
    "generate": (causal, lambda task: task.generate(["a b"])),
    "generate, beams": (lambda: causal("beam"), lambda task: task.generate(["a b"])),
    "generate targets": (writer, lambda task: task.generate(["a b"])),
    "score": (causal, lambda task: task.score(["a b"])),
    "score targets": (writer, lambda task: task.score(["a b"], ["b"])),
    "fill_mask": (lambda: MaskedLM(encoder(), preprocessor()), lambda task: task.fill_mask(["a [MASK]"])),
    "embed": (lambda: TextEmbedder(encoder(), preprocessor()), lambda task: task.embed(["a b"])),
    "score_pairs": (
        lambda: BertPretraining(encoder(), preprocessor()),
        lambda task: task.score_pairs((["a"], ["b"])),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_no_task_with_weights_that_are_not_numbers_answers(name, eagerly):
    make, answer = ANSWERS[name]
    task = make()
    for weight in task.encoder.weights:
        weight.assign(keras.ops.full(weight.shape, NAN))
    with pytest.raises(ValueError, match="outputs of the model must be finite.*diverged"):
        answer(task)


def test_the_command_writes_no_predictions_that_are_not_finite(model, tmp_path):
    for task in (model, TextRegressor(model.encoder, preprocessor=model.preprocessor)):
        task.get_layer("logits").kernel.assign(keras.ops.full(task.get_layer("logits").kernel.shape, NAN))
        task.save(tmp_path / "model.keras")
        with pytest.raises(ValueError, match="outputs of the model must be finite"):
            TrainedModel(tmp_path / "model.keras").predict(TEXTS)


def test_a_model_whose_weights_are_not_finite_is_not_exported(model, tmp_path):
    model.get_layer("logits").bias.assign([NAN, 0.0])
    with pytest.raises(ValueError, match="weights of the model must be finite.*Received: weight='logits/bias"):
        serving.export(model, tmp_path / "served")
    assert not list(tmp_path.iterdir())


def test_a_calibration_without_a_best_temperature_says_so(model, caplog):
    model.get_layer("logits").kernel.assign(keras.ops.zeros(model.get_layer("logits").kernel.shape))
    model.get_layer("logits").bias.assign([0.0, 9.0])
    assert model.calibrate(TEXTS, [1, 1, 1]).temperature == pytest.approx(0.05)
    assert "No temperature from 0.05 to 20.0 has the highest likelihood" in caplog.text
