"""Measures Universal Sentence Encoder Lite, a TF Hub module, on STS-B, and fine-tunes it on SST-2.

    python examples/hub_module.py --module DIR --stsb-dir DIR --sst2-dir DIR

On STS-B it prints the correlation of the cosine similarity of two sentences' embeddings with human scores. On SST-2 it
trains a dense layer on 2,000 texts, first with a frozen module, then together with it, and prints both dev accuracies.
To choose hyper-parameters, pass `--held-out`, which evaluates on other training sentences instead of the dev set.
"""

import argparse
import csv
import time

import keras
import numpy as np
import tensorflow as tf

import keras_transfer as kt

parser = argparse.ArgumentParser()
parser.add_argument("--module", required=True, help="the module's folder, archive or URL: strings [n] to [n, dim]")
parser.add_argument("--stsb-dir", required=True, help="folder with dev.tsv of GLUE's STS-B")
parser.add_argument("--sst2-dir", required=True, help="folder with train.tsv and dev.tsv of GLUE's SST-2")
parser.add_argument("--train-examples", type=int, default=2000)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--held-out", action="store_true")
args = parser.parse_args()


def read(path):
    """Returns the columns of a GLUE file by their names."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def texts_and_labels(columns, rows):
    return tf.constant(columns["sentence"][rows]), columns["label"][rows].astype(int)


# Evaluate the embeddings without training.
pairs = read(f"{args.stsb_dir}/dev.tsv")
model = keras.Sequential(
    [keras.Input((), dtype="string"), kt.hub.HubLayer(args.module), keras.layers.UnitNormalization()]
)
first, second = (model.predict(tf.constant(pairs[name]), verbose=0) for name in ("sentence1", "sentence2"))
pearson = np.corrcoef((first * second).sum(axis=1), pairs["score"].astype(float))[0, 1]
print(f"STS-B dev: Pearson {pearson:.3f} over {len(first)} pairs", flush=True)

# Train a classifier: first only its dense layer, then all weights at a lower learning rate.
train, dev = read(f"{args.sst2_dir}/train.tsv"), read(f"{args.sst2_dir}/dev.tsv")
order = np.random.default_rng(0).permutation(len(train["label"]))
texts, labels = texts_and_labels(train, order[: args.train_examples])
if args.held_out:  # complete sentences, as in the dev set; most training texts are phrases
    others = [i for i in order[args.train_examples :] if train["sentence"][i].endswith(" . ")]
    dev = texts_and_labels(train, others[: len(dev["label"])])
else:
    dev = texts_and_labels(dev, slice(None))

keras.utils.set_random_seed(0)
layer = kt.hub.HubLayer(args.module)
model = keras.Sequential([keras.Input((), dtype="string"), layer, keras.layers.Dense(1)])
for name, trainable, rate in (("frozen", False, 3e-2), ("fine-tuned", True, 3e-5)):
    start = time.time()
    layer.trainable = trainable
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=[keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)])
    model.fit(texts, labels, batch_size=32, epochs=args.epochs, verbose=0)
    accuracy = model.evaluate(*dev, verbose=0, return_dict=True)["accuracy"]
    weights = sum(np.prod(weight.shape) for weight in model.trainable_weights)
    print(
        f"SST-2 dev, {name}: accuracy {100 * accuracy:.1f}%, {weights:,} weights trained on {len(texts):,} texts, "
        f"{time.time() - start:.0f} s",
        flush=True,
    )
