#!/usr/bin/env bash
# keras 3.15.1, tensorflow 2.21.0: under tf.distribute.MirroredStrategy, predict_on_batch gives the whole batch to each
# replica and joins their outputs, so that 16 rows come back for 8 with two replicas, 8 after 8. The first 8 are right,
# so that zip(rows, predictions) looks right, and a mean over the rows is right as well. `predict` splits each batch,
# and test_on_batch does: its count of true positives is 8.
#
# Output seen for a model that returns its input, with two logical CPU devices:
#   predict: [0, 1, 2, 3, 4, 5, 6, 7]
#   predict_on_batch: [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]
#   test_on_batch, 8 rows of ones: 8 true positives
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" keras==3.15.1 tensorflow==2.21.0
KERAS_BACKEND=tensorflow TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES= PYTHONPATH="$folder/packages" python3 - <<'PYTHON'
import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = keras.Sequential([keras.Input((1,)), dense])
    model.compile("sgd", "mse", metrics=[keras.metrics.TruePositives(name="count")])
rows = np.arange(8.0)[:, None]
whole = model.predict(rows, batch_size=8, verbose=0).ravel().astype(int).tolist()
batch = model.predict_on_batch(rows).ravel().astype(int).tolist()
count = int(model.test_on_batch(np.ones((8, 1)), np.ones((8, 1)), return_dict=True)["count"])
print("predict:", whole)
print("predict_on_batch:", batch)
print("test_on_batch, 8 rows of ones:", count, "true positives")
assert strategy.num_replicas_in_sync == 2
assert (whole, batch, count) == (list(range(8)), list(range(8)) * 2, 8)
PYTHON
