#!/usr/bin/env bash
# keras 3.15.1: the second step of keras.optimizers.ScheduleFreeAdamW is wrong on torch, and right on JAX (jax 0.10.2,
# torch 2.13.0). `update_step` keeps `momentum.value` before it changes `momentum` in place. On torch this is the
# variable itself and not its old value, so that the averaged weight is computed from the new momentum. TensorFlow
# gives the same wrong value. The first step is right everywhere, so that a test of one step shows nothing.
#
# Output seen for a weight of 1.0, a rate of 0.1 and the gradients 1 and 2 (the paper's algorithm gives 0.83044):
#   jax 0.90000 0.83044
#   torch 0.90000 0.83676
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  keras==3.15.1 jax==0.10.2 torch==2.13.0 numpy
cat >"$folder/steps.py" <<'PYTHON'
import keras

weight, optimizer = keras.Variable(1.0), keras.optimizers.ScheduleFreeAdamW(0.1)
optimizer.build([weight])
found = []
for gradient in (1.0, 2.0):
    optimizer.apply([keras.ops.convert_to_tensor(gradient)], [weight])
    found.append(f"{float(keras.ops.convert_to_numpy(weight)):.5f}")
print(keras.backend.backend(), *found)
PYTHON
found=$(for backend in jax torch; do
  KERAS_BACKEND=$backend PYTHONPATH="$folder/packages" python3 "$folder/steps.py"
done)
echo "$found"
[ "$found" = $'jax 0.90000 0.83044\ntorch 0.90000 0.83676' ]
