#!/usr/bin/env bash
# keras 3.15.1, jax 0.10.2: "accuracy" (SparseCategoricalAccuracy) casts integer labels and predicted classes to the
# type of the outputs. bfloat16 has no odd numbers above 256, so that with outputs in bfloat16, also under
# mixed_bfloat16, a prediction of class 257 is right for the label 256. With keras.config.set_floatx("bfloat16"), the
# labels of the loss are cast, too: a model of 300 classes or tokens is trained for class 256 where the label is 257.
# Nothing warns. With float16 the limit is 2,048.
#
# Output seen for logits that are 9 for class 257 and 0 for the other 299:
#   floatx float32, policy float32: label 256: loss 9.04, accuracy 0; label 257: loss 0.04, accuracy 1; ...
#   floatx float32, policy mixed_bfloat16: label 256: loss 9.04, accuracy 1; label 257: loss 0.04, accuracy 1; ...
#   floatx bfloat16, policy bfloat16: label 256: loss 9.06, accuracy 1; label 257: loss 9.06, accuracy 1; ...
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
KERAS_BACKEND=jax PYTHONPATH="$folder/packages" python3 - <<'PYTHON'
import keras
import numpy as np

logits = np.zeros((1, 300), "float32")
logits[0, 257] = 9


def scores(label):
    model = keras.Sequential([keras.Input((300,)), keras.layers.Activation("linear")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, metrics=["accuracy"])
    found = model.evaluate(logits, np.array([[label]]), verbose=0, return_dict=True)
    return f"{float(found['loss']):.2f}", int(found["accuracy"])


found = {}
for floatx, policy in (("float32", "float32"), ("float32", "mixed_bfloat16"), ("bfloat16", "bfloat16")):
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)
    rows = {label: scores(label) for label in (256, 257, 259)}
    shown = "; ".join(f"label {label}: loss {loss}, accuracy {hit}" for label, (loss, hit) in rows.items())
    print(f"floatx {floatx}, policy {policy}: {shown}")
    found[policy] = [hit for _, hit in rows.values()], float(rows[257][0]) < 1
assert found == {
    "float32": ([0, 1, 0], True),
    "mixed_bfloat16": ([1, 1, 0], True),
    "bfloat16": ([1, 1, 0], False),
}
PYTHON
