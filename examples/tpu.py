"""Fine-tunes all-MiniLM-L6-v2 on TREC-6 questions on a TPU, prints the test error and saves the model.

    python examples/tpu.py --data-dir DIR           # on a TPU VM
    python examples/tpu.py --data-dir DIR --cpu     # the same on two CPU devices instead of a TPU

This script has never run on a TPU. The tests run it with `--cpu`, and check that its steps have static shapes and no
strings.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

import keras_transfer as kt

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="folder with train_5500.label and TREC_10.label")
parser.add_argument("--tpu", default="local", help="the TPU's name; 'local' on a TPU VM")
parser.add_argument("--cpu", action="store_true", help="two CPU devices instead of a TPU")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=8, help="questions per core")
parser.add_argument("--sequence-length", type=int, default=64)
parser.add_argument("--output", default="trec6.keras")
args = parser.parse_args()

if args.cpu:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
else:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=args.tpu)
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    strategy = tf.distribute.TPUStrategy(resolver)

data = kt.datasets.load_trec6(args.data_dir)
keras.config.set_dtype_policy("mixed_bfloat16")
keras.utils.set_random_seed(0)
with strategy.scope():
    model = kt.tasks.TextClassifier.from_pretrained(
        "minilm-l6", num_classes=len(data.label_names), sequence_length=args.sequence_length
    )
    model.compile(
        keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0),
        metrics=None,
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        # Many steps per call from the host. Keras does not support it on several CPU devices (keras-team/keras#19246).
        steps_per_execution=1 if args.cpu else 32,
    )

# The host converts texts to ids of one length in full batches, so that only one step is compiled. (The batches of
# `text.batches` have an unknown number of rows.)
batch_size = args.batch_size * strategy.num_replicas_in_sync
texts, labels = data.train
train = tf.data.Dataset.from_tensor_slices((texts, labels)).shuffle(len(texts)).batch(batch_size, drop_remainder=True)
model.fit(train, epochs=args.epochs, shuffle=False, verbose=2)

# Evaluate all test questions: fill the last batch with questions of weight 0.
texts, labels = data.test
rows = -(-len(texts) // batch_size) * batch_size
weights = (np.arange(rows) < len(texts)).astype("float32")
filled = (texts + texts[: rows - len(texts)], np.resize(labels, rows), weights)
test = tf.data.Dataset.from_tensor_slices(filled).batch(batch_size, drop_remainder=True)
accuracy = model.evaluate(test, verbose=0, return_dict=True)["accuracy"]
print(f"test error {100 * (1 - accuracy):.2f}% of {len(texts)} questions")
model.save(args.output)
