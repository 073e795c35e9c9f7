"""NT-ASGD: the mean of the weights against NumPy, when it begins, in files and in resumed runs."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.callbacks import NonMonotonicTrigger, TrainingCheckpoint
from keras_transfer.optimizers import NTASGD
from tests.errors import check_errors
from tests.helpers import EAGER, save_and_load

X, Y = np.random.default_rng(0).normal(size=(2, 8, 3)).astype("float32")


class Plain(keras.optimizers.SGD):
    """SGD of which Keras does not make torch's own, which rounds differently."""


def make(optimizer=None):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
    model.compile(NTASGD(0.1) if optimizer is None else optimizer, "mse", run_eagerly=EAGER)
    model.optimizer.build(model.trainable_variables)
    return model


def weights(model):
    return numpy_of(model.layers[0].kernel)


@pytest.mark.core
def test_the_mean_is_that_of_the_weights_after_each_step_since_it_began():
    model, plain, seen = make(), make(Plain(0.1)), []
    for step in range(6):
        if step == 2:
            model.optimizer.begin_averaging(model.trainable_variables)
        for each in (model, plain):
            each.train_on_batch(X, Y)
        np.testing.assert_array_equal(weights(model), weights(plain))
        seen.append(weights(plain).astype("float64"))
    again = save_and_load(model)
    for each in (model, again):
        each.optimizer.finalize_variable_values(each.trainable_variables)
        np.testing.assert_allclose(weights(each), np.mean(seen[2:], axis=0), atol=1e-6)
    plain = make()
    plain.optimizer.finalize_variable_values(plain.trainable_variables)
    np.testing.assert_array_equal(weights(plain), weights(make()))


def test_it_begins_when_a_value_is_worse_than_the_best_one_before_the_last_ones():
    values = np.random.default_rng(1).normal(size=40) - np.arange(40) * 0.15
    for patience in (1, 2, 5):
        model, trigger, before, began = make(), NonMonotonicTrigger(patience), [], False
        trigger.set_model(model)
        trigger.on_train_begin()
        for epoch, value in enumerate(values):
            trigger.on_epoch_end(epoch, {"val_loss": value})
            began = began or (len(before) > patience and value > min(before[:-patience]))  # of Salesforce's awd-lstm-lm
            before.append(value)
            assert model.optimizer.averages_weights == began
        assert began


class Rising(keras.callbacks.Callback):
    """Makes the validation worse in each epoch, and keeps the weights that it sees."""

    def on_train_begin(self, logs=None):
        self.seen = []

    def on_test_batch_begin(self, batch, logs=None):
        self.seen.append(weights(self.model))

    def on_epoch_end(self, epoch, logs=None):
        logs["val_loss"] = float(epoch)


@pytest.mark.core
def test_validation_sees_the_means_and_a_resumed_run_reaches_the_same_ones(tmp_path):
    class Steps(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if hasattr(self.model, "jax_state_sync"):
                self.model.jax_state_sync()
            steps.append(weights(self.model))

    steps, model = [], make()
    trigger, rising = NonMonotonicTrigger(1), Rising()
    options = {"validation_data": (X, Y), "shuffle": False, "batch_size": 4, "validation_batch_size": 8, "verbose": 0}
    model.fit(X, Y, epochs=5, callbacks=[rising, trigger, Steps()], **options)
    # The third value is the first that is worse than one at least two epochs before it.
    for epoch, seen in enumerate(rising.seen):
        expected = steps[2 * epoch + 1] if epoch < 3 else np.mean(steps[6 : 2 * epoch + 2], axis=0)
        np.testing.assert_allclose(seen, expected, atol=1e-6)
    np.testing.assert_allclose(weights(model), np.mean(steps[6:], axis=0), atol=1e-6)

    for epochs in (4, 5):
        again, callbacks = make(), [Rising(), NonMonotonicTrigger(1)]
        checkpoint = TrainingCheckpoint(tmp_path / "run", callbacks=callbacks)
        again.fit(X, Y, epochs=epochs, callbacks=[*callbacks, checkpoint], **options)
    np.testing.assert_array_equal(weights(again), weights(model))


def fit(model, **options):
    model.fit(X, Y, callbacks=[NonMonotonicTrigger()], verbose=0, **options)


test_mistakes_are_clear_errors = check_errors(
    (lambda: NTASGD(use_ema=True), "`use_ema` must be False"),
    (lambda: fit(make("sgd")), "requires `compile(NTASGD(...))` ... Received: an optimizer of type SGD"),
    (lambda: fit(make()), "Pass `validation_data` to `fit()` ... Received: monitor='val_loss'"),
)
