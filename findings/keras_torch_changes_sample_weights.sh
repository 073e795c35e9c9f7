#!/usr/bin/env bash
# keras 3.15.1, torch 2.13.0: on the torch backend, a Keras loss of outputs with a Keras mask changes the tensor that was
# passed as `sample_weight`. The mask is applied with an in-place product, and the masked weights are scaled by the
# number of all rows over the number of those that count. So the second call with the same arguments returns another
# value, and of two losses of one model that share the weights, such as those of two heads, the second one gets the
# scaled weights of the first. NumPy weights are converted first and stay as they are, and so do the tensors of JAX,
# which cannot change.
#
# Output seen, three calls of MeanSquaredError with the same arguments, and the weights afterwards:
#   torch tensor: 2.0 3.0 4.5, weights [3.375, 0.0, 10.125]
#   NumPy array: 2.0 2.0 2.0, weights [1.0, 2.0, 3.0]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" keras==3.15.1 torch==2.13.0 numpy
KERAS_BACKEND=torch PYTHONPATH="$folder/packages" python3 -W ignore - <<'PYTHON'
import keras
import numpy as np
import torch

inputs = keras.Input((3,), dtype="int32")
embedding = keras.layers.Embedding(5, 1, mask_zero=True, embeddings_initializer="ones")
model = keras.Model(inputs, embedding(inputs))
y_true, y_pred = torch.zeros(1, 3, 1), model(np.array([[1, 0, 2]]))
loss = keras.losses.MeanSquaredError()
found = {}
for name, weights in (("torch tensor", torch.tensor([[1.0, 2.0, 3.0]])), ("NumPy array", np.array([[1.0, 2.0, 3.0]]))):
    values = [float(loss(y_true, y_pred, sample_weight=weights)) for _ in range(3)]
    found[name] = values, weights.tolist()[0]
    print(f"{name}: {' '.join(map(str, values))}, weights {weights.tolist()[0]}")
assert found == {
    "torch tensor": ([2.0, 3.0, 4.5], [3.375, 0.0, 10.125]),
    "NumPy array": ([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]),
}
PYTHON
