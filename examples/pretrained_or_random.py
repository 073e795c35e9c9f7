"""Fine-tunes encoders on few labeled texts with several seeds: pretrained, adapted, or with random weights.

    python examples/pretrain_language_model.py --data-dir wikitext-2 --output lm
    python examples/pretrained_or_random.py --data-dir trec6 --model lm/model.keras --examples 100 500 0 --plot c.png
    python examples/pretrained_or_random.py --data-dir trec6 --model lm/model.keras --kinds pretrained \\
        --language-model-loss 0 0.5 annealed
    python examples/pretrained_or_random.py --data-dir trec6 --epochs 5 --learning-rate 1e-4  # all-MiniLM-L6-v2

It prints the accuracy on the test texts with its 95% t interval over the seeds, and the difference from the first row
of the same number of examples. 0 examples are all of them. With `--results`, each run adds a line of JSON to a file,
and the same command repeats no run.
"""

import argparse
import itertools
import json
import pathlib
import time

import keras
import numpy as np

import keras_transfer as kt
from keras_transfer.analysis import mean_interval

READERS = {"trec6": kt.datasets.load_trec6, "imdb": kt.datasets.load_imdb}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--dataset", choices=READERS, default="trec6")
parser.add_argument("--data-dir", help="folder of the official files; defaults to packaged questions")
parser.add_argument(
    "--model", nargs="+", default=["minilm-l6"], help="`.keras` files of language models, or checkpoints"
)
parser.add_argument("--kinds", nargs="+", choices=["pretrained", "random"], default=["random", "pretrained"])
parser.add_argument("--language-model-loss", nargs="+", default=["0"], help="its weights, or `annealed`, from 0.5 to 0")
parser.add_argument("--examples", type=int, nargs="+", default=[500])
parser.add_argument("--test-examples", type=int, help="a fixed sample of so many test texts; defaults to all")
parser.add_argument("--seeds", type=int, default=5)
parser.add_argument("--epochs", type=int, nargs="+", default=[15], help="one number, or one for each of `--examples`")
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--length", type=int, default=64, help="tokens of a text, for checkpoints")
parser.add_argument("--results", type=pathlib.Path, help="file of the runs")
parser.add_argument("--plot", help="file for a picture of the accuracies")
args = parser.parse_args()
epochs = dict(zip(args.examples, args.epochs * (len(args.examples) if len(args.epochs) == 1 else 1), strict=True))

data = READERS[args.dataset](args.data_dir) if args.data_dir else kt.datasets.load_demo_questions()
tested = np.random.default_rng(0).permutation(len(data.test.texts))[: args.test_examples]
test = [[column[row] for row in tested] for column in data.test]


def load(source):
    """Returns the encoder and the preprocessor of a language model in a `.keras` file, or of a checkpoint."""
    if source.endswith(".keras"):
        model = keras.saving.load_model(source)
        return model.encoder, model.preprocessor
    preprocessor = kt.checkpoints.load_preprocessor(source, sequence_length=args.length)
    return kt.encoders.Encoder.from_pretrained(source), preprocessor


def train(run, pretrained, preprocessor):
    """Fine-tunes the encoder or one with random weights, and returns its accuracy and the seconds that it took."""
    rows = np.random.default_rng(run["seed"]).permutation(len(data.train.texts))[: run["examples"] or None]
    texts, labels = ([column[row] for row in rows] for column in data.train)
    keras.utils.set_random_seed(run["seed"])
    encoder = type(pretrained).from_config(pretrained.get_config())
    if run["kind"] == "pretrained":
        encoder.set_weights(pretrained.get_weights())
    options = {"label_names": data.label_names, "pooling": "mean", "dropout": 0.1}
    classifier = kt.tasks.TextClassifier(encoder, preprocessor, **options)
    names = ("epochs", "batch_size", "learning_rate")
    recipe = kt.adaptation.get_recipe("bert", **{name: run[name] for name in names})
    if run["language_model_loss"] == "annealed":  # from 0.5 to a hundredth of it at the end of the run
        steps = run["epochs"] * -(-len(texts) // run["batch_size"])
        weight = keras.optimizers.schedules.ExponentialDecay(0.5, steps, 0.01)
    else:
        weight = float(run["language_model_loss"])
    trained = kt.adaptation.with_language_model_loss(classifier, weight) if weight else classifier
    began = time.process_time()
    kt.adaptation.fine_tune(trained, texts, labels, recipe=recipe, verbose=0)
    seconds = time.process_time() - began
    return {"accuracy": trained.evaluate(*test, verbose=0, return_dict=True)["accuracy"], "cpu_seconds": seconds}


# === The runs ===
finished, loaded = [], {}
if args.results and args.results.exists():
    text = args.results.read_text()
    args.results.write_text(text[: text.rfind("\n") + 1])  # without a half-written line
    finished = [json.loads(line) for line in args.results.read_text().splitlines()]
rows = []
for count, source, kind, weight in itertools.product(args.examples, args.model, args.kinds, args.language_model_loss):
    lines = []
    for seed in range(args.seeds):
        run = {"dataset": args.dataset, "model": source, "kind": kind, "language_model_loss": weight, "seed": seed}
        run |= {"examples": count, "epochs": epochs[count], "test_examples": len(tested)}
        run |= {name: getattr(args, name) for name in ("batch_size", "learning_rate", "length")}
        found = [line for line in finished if run.items() <= line.items()]
        if not found:
            if source not in loaded:
                loaded[source] = load(source)
            found = [{**run, **train(run, *loaded[source])}]
            if args.results:
                with args.results.open("a") as file:
                    file.write(json.dumps(found[0]) + "\n")
        lines.append(found[0])
    values = np.array([100 * line["accuracy"] for line in lines])
    name = kind if len(args.model) == 1 else f"{source}, {kind}"
    name += "" if weight == "0" else f", language-model loss {weight}"
    rows.append((count, name, values))
    first = next(row[2] for row in rows if row[0] == count)
    mean, interval = mean_interval(values)
    shown = f"{name}, {count or len(data.train.texts)} examples: {mean:.1f}%"
    shown += "" if interval is None else f" ± {interval:.1f}"
    shown += f" ({', '.join(f'{value:.1f}' for value in values)})"
    if values is not first:
        mean, interval = mean_interval(values - first)
        shown += f", difference {mean:+.1f}" + ("" if interval is None else f" ± {interval:.1f}")
    print(f"{shown}, {np.mean([line['cpu_seconds'] for line in lines]):.0f} CPU s", flush=True)

# === The picture ===
if args.plot:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    styles = itertools.cycle(zip(["-", "--", ":", "-."], ["o", "s", "^", "D"], ["black", "0.45", "0.3", "0.6"]))
    for name, (line, marker, color) in zip(dict.fromkeys(row[1] for row in rows), styles):
        counts, means, intervals = zip(
            *((row[0] or len(data.train.texts), *mean_interval(row[2])) for row in rows if row[1] == name)
        )
        widths = [interval or 0.0 for interval in intervals]
        style = {"linestyle": line, "marker": marker, "color": color, "capsize": 3}
        axes.errorbar(counts, means, widths, label=name, **style)
    axes.set(xscale="log", xlabel="labeled examples", ylabel="test accuracy, %")
    axes.set_xticks(counts, [f"{count:,}" for count in counts], minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(args.plot, dpi=100)
