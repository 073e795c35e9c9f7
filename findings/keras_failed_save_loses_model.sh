#!/usr/bin/env bash
# keras 3.15.1, jax 0.10.2: model.save(path) opens the existing file for writing before it has serialized anything.
# If the new model cannot be serialized, here because a layer of one's own has an array as an argument and no
# `get_config`, the error comes after the old file has become empty. ModelCheckpoint calls this method, so that a failed
# save costs the best model that a run has written.
#
# Output seen:
#   first save: a model of 8 numbers can be loaded
#   second save: NotImplementedError
#   what is left: 0 bytes, ValueError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$folder/save.py" <<'PYTHON'
import pathlib
import sys

import keras
import numpy as np


class Scale(keras.layers.Layer):
    def __init__(self, factors, **kwargs):
        super().__init__(**kwargs)
        self.factors = factors

    def call(self, inputs):
        return inputs * self.factors


path = pathlib.Path(sys.argv[1]) / "model.keras"
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
model.save(path)
print("first save: a model of", keras.saving.load_model(path).count_params(), "numbers can be loaded")
try:
    keras.Sequential([keras.Input((3,)), Scale(np.ones(3, "float32"))]).save(path)
except NotImplementedError as error:
    print("second save:", type(error).__name__)
else:
    raise SystemExit("the behavior has changed: the second save worked")
try:
    keras.saving.load_model(path)
except Exception as error:
    print(f"what is left: {path.stat().st_size} bytes, {type(error).__name__}")
else:
    raise SystemExit("the behavior has changed: the old model is kept")
PYTHON
KERAS_BACKEND=jax PYTHONPATH="$folder/packages" python3 "$folder/save.py" "$folder"
