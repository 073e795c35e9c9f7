"""The private names of Keras's trainer on JAX exist and have the expected meaning, as in `test_private_names.py`."""

import keras
import numpy as np
import pytest

from keras_transfer.keras_internals import trainer
from tests.keras_internals.test_private_names import model_of, values

pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(keras.backend.backend() != "jax", reason="is about JAX"),
]


def test_jax_state_is_synced_into_the_variables_unless_it_is_none():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile("sgd", "mse")
    seen = {}

    class See(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            kernel = model.layers[0].kernel
            if batch == 0:
                seen["kinds"] = sorted(model._jax_state)
                seen["trained"] = float(np.abs(np.asarray(model._jax_state["trainable_variables"][0])).max()) > 0
                model.jax_state_sync()
                seen["synced"] = float(np.abs(np.asarray(kernel)).max()) > 0
            if batch == 1:
                for kind, state in model._jax_state.items():
                    owner = model.optimizer if kind == "optimizer_variables" else model
                    for variable, value in zip(getattr(owner, kind.replace("optimizer_", "")), state, strict=True):
                        variable.assign(value)
                kernel.assign(np.full((2, 1), 7.0))
                model._jax_state = None
                model.jax_state_sync()
                seen["kept"] = np.asarray(kernel).tolist()

    assert getattr(model, "_jax_state", None) is None
    model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=4, verbose=0, callbacks=[See()])
    assert seen["trained"] and seen["synced"]
    assert seen["kinds"] == [
        "metrics_variables",
        "non_trainable_variables",
        "optimizer_variables",
        "trainable_variables",
    ]
    assert seen["kept"] == np.asarray(model.layers[0].kernel).tolist() == [[7.0], [7.0]]
    assert model._jax_state is None


def test_a_step_on_jax_takes_the_values_out_of_the_variables_and_keep_values_puts_them_back():
    model = model_of()
    model.optimizer.build(model.trainable_variables)
    before, restore = values(model.variables), trainer.keep_values(model)
    model._get_jax_state(trainable_variables=True, optimizer_variables=True, purge_model_variables=True)
    assert all(v._value is None for v in (*model.trainable_variables, *model.optimizer.variables))
    restore()
    assert all((a == b).all() for a, b in zip(values(model.variables), before, strict=True))


def test_jax_state_is_synced_only_if_keras_says_that_it_was_not():
    model = model_of()
    model._jax_state = {"trainable_variables": [np.full(v.shape, 7.0) for v in model.trainable_variables]}
    before = values(model.variables)
    for synced in (True, False):
        model._jax_state_synced = synced
        model.jax_state_sync()
        expected = before if synced else [np.full(v.shape, 7.0) for v in model.trainable_variables]
        assert all((a == b).all() for a, b in zip(values(model.trainable_variables), expected))
    assert model._jax_state_synced
