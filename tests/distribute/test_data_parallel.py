"""Two devices of `keras.distribution.DataParallel` on JAX train and predict like one."""

import keras
import numpy as np
import pytest

from keras_transfer.tasks import TextClassifier
from keras_transfer.text import batches
from tests.distribute.examples import examples, two_devices
from tests.tasks import tiny

pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(keras.backend.backend() != "jax", reason="keras.distribution.DataParallel is JAX's"),
]

TEXTS, LABELS = examples(64)


@pytest.fixture(scope="module")
def made():
    """The same classifier on one device and on two, and the weights that both start with."""
    one = tiny.for_replicas()
    with two_devices():
        two = tiny.for_replicas()
    assert len(two.weights[0].value.sharding.device_set) == 2
    return one, two, one.get_weights()


@pytest.fixture
def models(made):
    """Both models with their initial weights."""
    one, two, start = made
    for model in (one, two):
        model.set_weights(start)
    return one, two


def in_eights(model, count=64):
    return batches(TEXTS[:count], LABELS[:count], preprocessor=model.preprocessor, batch_size=8, shuffle=False)


def test_two_devices_train_like_one_for_16_steps(models):
    one, two = models
    start, steps = one.get_weights(), int(two.optimizer.iterations)
    one.fit(in_eights(one), epochs=2, verbose=0)
    with two_devices():
        two.fit(in_eights(two), epochs=2, verbose=0)
    assert int(two.optimizer.iterations) == steps + 16
    assert tiny.difference(two.get_weights(), one.get_weights()) < 1e-5
    assert tiny.difference(one.get_weights(), start) > 1e-2


def test_devices_train_and_predict_like_one_on_batches_that_they_cannot_split_evenly(models):
    one, two = models
    logits = one.predict(TEXTS[:15], batch_size=8, verbose=0)
    weights = np.linspace(0.5, 2.0, 15)
    expected = one.fit(in_eights(one, 15).replace(sample_weight=weights), verbose=0).history
    with two_devices():
        assert tiny.difference([two.predict(TEXTS[:15], batch_size=8, verbose=0)], [logits]) < 1e-6
        options = {"batch_size": 8, "shuffle": False, "verbose": 0}
        found = two.fit(TEXTS[:15], LABELS[:15], sample_weight=weights, **options).history
    assert found == {name: pytest.approx(values, abs=1e-6) for name, values in expected.items()}
    assert tiny.difference(two.get_weights(), one.get_weights()) < 1e-6


class Loader:
    """Batches of eight texts, of which the last is short."""

    def __iter__(self):
        return ((TEXTS[i : min(i + 8, 15)], LABELS[i : min(i + 8, 15)]) for i in (0, 8))


def test_devices_train_like_one_on_a_loader_whose_last_batch_is_short(models):
    one, two = models
    expected = one.fit(Loader(), verbose=0).history, one.evaluate(Loader(), verbose=0)
    with two_devices():
        found = two.fit(Loader(), verbose=0).history, two.evaluate(Loader(), verbose=0)
    assert found[0] == {name: pytest.approx(values, abs=1e-6) for name, values in expected[0].items()}
    assert found[1] == pytest.approx(expected[1], abs=1e-6)
    assert tiny.difference(two.get_weights(), one.get_weights()) < 1e-6


def test_evaluate_counts_each_text_once_if_devices_cannot_split_them_evenly(models):
    one, two = models
    for count in (16, 15, 1):
        expected = one.evaluate(TEXTS[:count], LABELS[:count], batch_size=8, verbose=0)
        with two_devices():
            found = two.evaluate(TEXTS[:count], LABELS[:count], batch_size=8, verbose=0)
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("count", [9, 15])
def test_validation_data_are_those_of_evaluate(models, count):
    _, two = models
    few = TEXTS[:count], LABELS[:count]
    with two_devices():
        history = two.fit(TEXTS[:8], LABELS[:8], batch_size=8, validation_data=few, epochs=2, verbose=0).history
        assert history["val_loss"][1] == pytest.approx(two.evaluate(*few, batch_size=8, verbose=0)[0], abs=1e-6)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_a_model_used_without_its_distribution_is_an_error(models, method):
    _, two = models
    data = [TEXTS[:8]] if method == "predict" else [TEXTS[:8], LABELS[:8]]
    with pytest.raises(ValueError, match="Received: devices=2$"):
        getattr(two, method)(*data, verbose=0)


def test_two_devices_learn_in_mixed_float16():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        with two_devices():
            encoder = tiny.encoder(initializer_range=0.2)
            model = TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(), pooling="mean")
            model.compile(keras.optimizers.Adam(0.02))
            losses = model.fit(in_eights(model), epochs=5, verbose=0).history["loss"]
            logits = model.predict(TEXTS[:8], verbose=0)
    finally:
        keras.config.set_dtype_policy("float32")
    assert losses[-1] < 0.5 * losses[0]
    assert type(model.optimizer).__name__ == "LossScaleOptimizer"
    assert model.get_layer("block_0").compute_dtype == "float16"
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert logits.dtype == "float32"
