"""Compares a few adaptation methods on TREC-6 with 50 and 500 labeled questions.

    python -m benchmarks.fine_tuning.few_labels --data-dir DIR --results few_labels

`benchmarks.fine_tuning.methods` has the same methods with all 4,362 questions. Each method trains all-MiniLM-L6-v2 at
the learning rate that was the best there, with three seeds, in batches of 32. Each seed draws other questions. All
methods make the same number of passes over the questions, except for heads on a frozen encoder, which make 100. There
are no dev data, as a user with 50 labels has none. `--results` is a folder with a line for each run, and the same
command continues there.
"""

import argparse
import functools
import os
import pathlib
import random

METHODS = {
    "full": 1e-4,
    "LP-FT": 1e-4,
    "lower 3 cached": 1e-4,
    "LoRA": 3e-3,
    "frozen, mean": 3e-2,
    "frozen, scalar mix": 1e-2,
}
EPOCHS = {50: 30, 500: 6}
FROZEN_EPOCHS = 100


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--numbers", nargs="+", type=int, choices=EPOCHS, default=list(EPOCHS), help="numbers of labeled questions")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--seeds", type=int, default=3, help="how many")
    add("--results", type=pathlib.Path, default=pathlib.Path("few_labels"), help="folder of the runs")
    args = parser.parse_args(arguments)
    args.results.mkdir(parents=True, exist_ok=True)
    from keras_transfer.analysis import mean_interval

    print("| labels | method | test error, % |\n| ---: | --- | ---: |")
    for number in args.numbers:
        for name in args.methods:
            mean, half = mean_interval([error(number, name, seed, args) for seed in range(args.seeds)])
            interval = "" if half is None else f" ± {half:.1f}"  # One seed has none.
            print(f"| {number} | {name} | {mean:.1f}{interval} |", flush=True)


def error(number, name, seed, args):
    """The test error in percent of a method that learns from `number` questions, which the seed chooses."""
    import keras_transfer as kt
    from benchmarks.fine_tuning import methods

    data = kt.datasets.load_trec6(pathlib.Path(args.data_dir) / "trec6")
    texts, labels = data.train
    rows = random.Random(seed).sample(range(len(texts)), number)
    parts = {"train": ([texts[row] for row in rows], [labels[row] for row in rows]), "validation": tuple(data.test)}
    epochs = FROZEN_EPOCHS if name.startswith("frozen") else EPOCHS[number]
    method = functools.partial(methods.METHODS[name], rate=METHODS[name], epochs=epochs)

    def make_model():
        return kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names, sequence_length=64)

    results = args.results / f"{number}-{seed}.jsonl"
    comparison = kt.experiments.compare(make_model, parts, {name: method}, seeds=[seed], results=results, verbose=0)
    return 100 * (1 - comparison.rows[0]["validation"])


if __name__ == "__main__":
    main()
