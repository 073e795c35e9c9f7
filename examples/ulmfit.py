"""ULMFiT: a language model of any text, adapted to the texts of the task, becomes a classifier, forward and backward.

    python examples/ulmfit.py --general wikipedia.txt --data-dir trec6 --examples 0 --epochs 10 15 50 \\
        --embedding-dim 400 --units 1150 --layers 3

Without arguments, it trains small models on packaged questions for a few seconds, which shows the stages, not their
accuracy.
"""

import argparse
import pathlib
import tempfile

import keras
import numpy as np

import keras_transfer as kt

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", help="folder with train_5500.label and TREC_10.label")
parser.add_argument("--general", nargs="+", type=pathlib.Path, help="files, with an empty line after each document")
parser.add_argument("--embedding-dim", type=int, default=16)
parser.add_argument("--units", type=int, default=24)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--vocabulary-size", type=int, default=800)
parser.add_argument("--window", type=int, default=70)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, nargs=3, default=[1, 1, 4], help="of the three stages")
parser.add_argument("--examples", type=int, default=96, help="0 for all")
args = parser.parse_args()

data = kt.datasets.load_trec6(args.data_dir) if args.data_dir else kt.datasets.load_demo_questions()
count = args.examples or None
texts, labels = data.train.texts[:count], data.train.labels[:count]
general = args.general or data.train.texts[:count]
tokenizer = kt.text.train_vocabulary(general, "wordpiece", args.vocabulary_size)
preprocessor = kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(end=["[SEP]"]))
sizes = {"embedding_dim": args.embedding_dim, "units": args.units, "num_layers": args.layers}


def make_encoder(**options):
    return kt.encoders.AWDLSTMEncoder(tokenizer.vocabulary_size, **sizes, **options)


def trained(folder, reverse):
    """The three stages in one direction."""
    # 1. A language model of any text.
    corpus = kt.text.Corpus.build(general, preprocessor, folder / "general", verbose=0)
    model = kt.tasks.CausalLM(make_encoder(), streams=args.batch_size)
    model.compile(kt.optimizers.FusedAdamW(1e-3, global_clipnorm=0.25))
    model.fit(corpus.streams(args.batch_size, args.window, reverse=reverse), epochs=args.epochs[0], verbose=2)

    # 2. The same on the texts of the task, without their labels.
    corpus = kt.text.Corpus.build(texts, preprocessor, folder / "task", verbose=0)
    recipe = kt.adaptation.get_recipe("ulmfit_lm", epochs=args.epochs[1])
    streams = corpus.streams(args.batch_size, args.window, reverse=reverse)
    kt.adaptation.fine_tune(model, streams, recipe=recipe, verbose=2)

    # 3. The classifier: the same weights, read by the head of the paper, unfrozen from the top.
    encoder = make_encoder(reverse=reverse, gradient_length=20 * args.window)
    encoder.set_weights(model.encoder.get_weights())
    classifier = kt.tasks.TextClassifier(
        encoder,
        preprocessor,
        label_names=data.label_names,
        pooling="concat_first" if reverse else "concat",
        hidden_activation="relu",
        hidden_dim=50,
        hidden_dropout=0.4,
        batch_norm=True,
    )
    options = {"learning_rate": 0.01, "batch_size": args.batch_size, "beta_1": 0.7, "beta_2": 0.99}
    recipe = kt.adaptation.get_recipe("ulmfit_classifier", epochs=args.epochs[2], **options)
    kt.adaptation.fine_tune(classifier, texts, labels, recipe=recipe, verbose=2)
    return classifier


keras.utils.set_random_seed(0)
models = {}
with tempfile.TemporaryDirectory() as folder:
    for name, reverse in (("forward", False), ("backward", True)):
        models[name] = trained(pathlib.Path(folder) / name, reverse)
models["both"] = kt.adaptation.Ensemble(list(models.values()))
for name, model in models.items():
    right = model.predict_proba(data.test.texts).argmax(axis=1) == np.array(data.test.labels)
    print(f"{name}: test error {100 * (1 - right.mean()):.1f}%", flush=True)
