"""Measures Universal Sentence Encoder Lite, a TF Hub module, on STS-B, and fine-tunes it on SST-2.

    python examples/hub_module.py --module DIR --stsb-dir DIR --sst2-dir DIR

On STS-B it prints how the cosines of two sentences' embeddings correlate with people's scores; on SST-2 the dev accuracy
of a dense layer that learns from 2,000 sentences, over the module as it is, and over one that learns with it. With
`--held-out` a quarter of the 2,000 takes the place of the dev set: for choosing hyper-parameters.
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
    """Returns the columns of a file of GLUE's by their names."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


# The embeddings as they are.
pairs = read(f"{args.stsb_dir}/dev.tsv")
model = keras.Sequential(
    [keras.Input((), dtype="string"), kt.hub.HubLayer(args.module), keras.layers.UnitNormalization()]
)
first, second = (model.predict(tf.constant(pairs[name]), verbose=0) for name in ("sentence1", "sentence2"))
pearson = np.corrcoef((first * second).sum(axis=1), pairs["score"].astype(float))[0, 1]
print(f"STS-B dev: Pearson {pearson:.3f} over {len(first)} pairs", flush=True)

# A classifier on top of them.
train, dev = read(f"{args.sst2_dir}/train.tsv"), read(f"{args.sst2_dir}/dev.tsv")
chosen = np.random.default_rng(0).permutation(len(train["label"]))[: args.train_examples]
train = {name: column[chosen] for name, column in train.items()}
if args.held_out:
    quarter = len(chosen) // 4
    dev = {name: column[-quarter:] for name, column in train.items()}
    train = {name: column[:-quarter] for name, column in train.items()}

for name, trainable, rate in (("frozen", False, 3e-2), ("fine-tuned", True, 1e-4)):
    keras.utils.set_random_seed(0)
    start = time.time()
    layer = kt.hub.HubLayer(args.module, trainable=trainable)
    model = keras.Sequential([keras.Input((), dtype="string"), layer, keras.layers.Dense(1)])
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=[keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)])
    model.fit(tf.constant(train["sentence"]), train["label"].astype(int), batch_size=32, epochs=args.epochs, verbose=0)
    scores = model.evaluate(tf.constant(dev["sentence"]), dev["label"].astype(int), verbose=0, return_dict=True)
    weights = sum(np.prod(weight.shape) for weight in model.trainable_weights)
    print(
        f"SST-2 dev, {name}: accuracy {100 * scores['accuracy']:.1f} %, {weights:,} weights trained on "
        f"{len(train['label']):,} sentences, {time.time() - start:.0f} s",
        flush=True,
    )
