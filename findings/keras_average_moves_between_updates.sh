#!/usr/bin/env bash
# keras 3.15.1, jax 0.10.2: with gradient_accumulation_steps=K and use_ema=True, the moving average moves after each batch
# and not after each update, so K times for one update, K - 1 of them towards weights that have not changed. The average
# of a run with accumulated gradients is another one than that of the same updates from large batches, though the
# weights are equal, and its effective momentum is about ema_momentum ** K.
#
# Output seen, a weight of 0 that each update increases by 1, three updates, ema_momentum=0.5:
#   one batch for each update: 2.25
#   four batches for each update: 2.46875
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
KERAS_BACKEND=jax PYTHONPATH="$folder/packages" python3 - <<'PYTHON'
import keras
import numpy as np


def average(batches, steps):
    """The average of the weight after a run, which Keras sets as the weight when `fit` ends."""
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), dense])
    sgd = keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5, gradient_accumulation_steps=steps)
    model.compile(sgd, lambda labels, outputs: -outputs)
    model.fit(np.ones((batches, 1)), np.ones((batches, 1)), batch_size=1, verbose=0)
    return float(model.get_weights()[0].item())


found = [average(3, None), average(12, 4)]
print("one batch for each update:", found[0])
print("four batches for each update:", found[1])
assert found == [2.25, 2.46875]
PYTHON
