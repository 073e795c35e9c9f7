"""Fine-tunes a pretrained encoder, and the same one with random weights, on few labeled questions and several seeds.

    python examples/pretrain_language_model.py --data-dir wikitext-2 --num-layers 4 --output lm
    python examples/pretrained_or_random.py --data-dir trec6 --model lm/model.keras --examples 100 500 0 --plot c.png
    python examples/pretrained_or_random.py --data-dir trec6 --epochs 5 --learning-rate 1e-4  # all-MiniLM-L6-v2

It prints the accuracy on the test questions. 0 examples are all of them.
"""

import argparse

import keras
import numpy as np

import keras_transfer as kt

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data-dir", help="folder with train_5500.label and TREC_10.label; defaults to packaged questions")
parser.add_argument("--model", help="`.keras` file of a language model; defaults to the encoder all-MiniLM-L6-v2")
parser.add_argument("--examples", type=int, nargs="+", default=[500])
parser.add_argument("--seeds", type=int, default=5)
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--plot", help="file for a picture of the accuracies")
args = parser.parse_args()

data = kt.datasets.load_trec6(args.data_dir) if args.data_dir else kt.datasets.load_demo_questions()
if args.model:
    model = keras.saving.load_model(args.model)
    pretrained, preprocessor = model.encoder, model.preprocessor
else:
    pretrained = kt.encoders.Encoder.from_pretrained("minilm-l6")
    preprocessor = kt.checkpoints.load_preprocessor("minilm-l6", sequence_length=64)


def accuracy(kind, texts, labels, seed):
    keras.utils.set_random_seed(seed)
    encoder = type(pretrained).from_config(pretrained.get_config())
    if kind == "pretrained":
        encoder.set_weights(pretrained.get_weights())
    options = {"label_names": data.label_names, "pooling": "mean", "dropout": 0.1}
    classifier = kt.tasks.TextClassifier(encoder, preprocessor, **options)
    options = {"epochs": args.epochs, "batch_size": 16, "learning_rate": args.learning_rate}
    kt.adaptation.fine_tune(classifier, texts, labels, recipe=kt.adaptation.get_recipe("bert", **options), verbose=0)
    return classifier.evaluate(*data.test, verbose=0, return_dict=True)["accuracy"]


found = {}
for count in args.examples:
    for kind in ("pretrained", "random"):
        values = []
        for seed in range(args.seeds):
            rows = np.random.default_rng(seed).permutation(len(data.train.texts))[: count or None]
            texts, labels = ([column[row] for row in rows] for column in data.train)
            values.append(accuracy(kind, texts, labels, seed))
        found.setdefault(kind, []).append((len(rows), np.mean(values), np.std(values)))
        each = ", ".join(f"{100 * value:.1f}" for value in values)
        print(f"{kind}, {len(rows)} examples: {100 * np.mean(values):.1f} % ({each})", flush=True)

if args.plot:
    import matplotlib.pyplot as plt

    for kind, points in found.items():
        counts, means, deviations = zip(*points)
        plt.errorbar(counts, means, deviations, label=kind, capsize=3, marker="o")
    plt.xscale("log")
    plt.xlabel("labeled examples")
    plt.ylabel("test accuracy")
    plt.legend()
    plt.savefig(args.plot, dpi=150, bbox_inches="tight")
