#!/usr/bin/env bash
# keras 3.15.1, jax 0.10.2: with gradient_accumulation_steps, the gradients of the last batches of a `fit`, which do not
# fill a step, stay in the optimizer and take part in the next `fit`, whatever its data are. A run of fewer batches than
# accumulation steps changes nothing, and then changes the run after it. A second `fit` whose own gradients are all zero
# moves the weight.
#
# Output seen, a weight of 0, SGD(1.0, gradient_accumulation_steps=4), batches of one row:
#   after 3 batches with a gradient of -16: 0.0
#   after a second fit of 3 batches with a gradient of 0: 12.0
#   the second fit alone: 0.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
KERAS_BACKEND=jax PYTHONPATH="$folder/packages" python3 - <<'PYTHON'
import keras
import numpy as np


def compiled():
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), dense])
    model.compile(keras.optimizers.SGD(1.0, gradient_accumulation_steps=4), "mse")
    return model


def fitted(model, target):
    model.fit(np.ones((3, 1)), np.full((3, 1), target), batch_size=1, verbose=0)
    return float(model.get_weights()[0].item())


model = compiled()
found = [fitted(model, 8.0), fitted(model, 0.0), fitted(compiled(), 0.0)]
print("after 3 batches with a gradient of -16:", found[0])
print("after a second fit of 3 batches with a gradient of 0:", found[1])
print("the second fit alone:", found[2])
assert found == [0.0, 12.0, 0.0]
PYTHON
