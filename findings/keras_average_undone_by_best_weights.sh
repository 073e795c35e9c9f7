#!/usr/bin/env bash
# keras 3.15.1, jax 0.10.2: with `use_ema=True`, `fit` validates the raw weights of each epoch and puts the average
# into the model after the last one, so that the history says nothing about the model that remains. EarlyStopping with
# restore_best_weights then puts the raw weights of the best epoch over the average: the model is the one that would
# have remained without `use_ema`, although the average was computed in each step.
#
# Output seen, the last `val_loss` of the history and the loss of `evaluate` after `fit`:
#   use_ema=True 2.2e-05 1.5e-02
#   use_ema=True, EarlyStopping(restore_best_weights=True) 2.2e-05 2.2e-05
#   use_ema=False 2.2e-05 2.2e-05
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
KERAS_BACKEND=jax PYTHONPATH="$folder/packages" python3 - <<'PYTHON'
import keras
import numpy as np


def losses(use_ema, callbacks):
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), dense])
    model.compile(keras.optimizers.SGD(0.1, use_ema=use_ema, ema_momentum=0.9), "mse")
    ones = np.ones((8, 1))
    settings = {"batch_size": 1, "epochs": 3, "shuffle": False, "verbose": 0}
    history = model.fit(ones, ones, validation_data=(ones, ones), callbacks=callbacks, **settings).history
    return history["val_loss"][-1], model.evaluate(ones, ones, verbose=0)


averaged = losses(True, [])
undone = losses(True, [keras.callbacks.EarlyStopping(restore_best_weights=True)])
raw = losses(False, [])
print("use_ema=True", *(f"{loss:.1e}" for loss in averaged))
print("use_ema=True, EarlyStopping(restore_best_weights=True)", *(f"{loss:.1e}" for loss in undone))
print("use_ema=False", *(f"{loss:.1e}" for loss in raw))
assert averaged[1] > 100 * averaged[0]
assert np.allclose(undone, raw) and np.isclose(raw[0], averaged[0])
PYTHON
