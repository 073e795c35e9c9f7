"""How far fine-tuning moves each layer of all-MiniLM-L6-v2: weights and states, over several seeds.

    python -m benchmarks.analysis.moved_layers --data-dir DIR --seeds 3

`DIR` contains `trec6` and `glue`. Each model is fine-tuned with one rate for all layers, since rates by layer would
decide the answer. The states are those of test texts. The lines below a table say whether the last block moved more
than the first in all seeds, with the interval of the difference.
"""

import argparse
import os

from benchmarks.analysis.subjects import texts_of
from benchmarks.seeds import shown


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--tasks", nargs="+", choices=["trec6", "sst2"], default=["trec6", "sst2"])
    add("--seeds", type=int, default=3, help="how many")
    add("--rows", type=int, default=4000, help="number of training texts")
    add("--texts", type=int, default=500, help="number of texts whose states are compared")
    add("--epochs", type=int, default=2)
    add("--rate", type=float, default=1e-4)
    args = parser.parse_args(arguments)
    for task in args.tasks:
        runs = [moved(task, seed, args) for seed in range(args.seeds)]
        accuracies = [accuracy for accuracy, _ in runs]
        print(f"\n{task}: accuracy {shown(accuracies, digits=4)}\n")
        print("| group | weights | states |\n| --- | ---: | ---: |")
        groups = [row["group"] for row in runs[0][1] if row["states"] is not None]
        for name in groups:
            columns = [[value(rows, name, key) for _, rows in runs] for key in ("weights", "states")]
            print(f"| {name} | {' | '.join(shown(column, digits=4) for column in columns)} |", flush=True)
        blocks = [name for name in groups if name.startswith("block_")]
        for key in ("weights", "states"):
            differences = [value(rows, blocks[-1], key) - value(rows, blocks[0], key) for _, rows in runs]
            most = "in all seeds" if min(differences) > 0 else "not in all seeds"
            print(f"{key}: {blocks[-1]} moved more than {blocks[0]} {most}, by {shown(differences, digits=4)}")


def value(rows, group, key):
    return next(row[key] for row in rows if row["group"] == group)


def moved(task, seed, args):
    """Returns the accuracy of a fine-tuned model, and the rows of how far its layers moved."""
    import keras

    import keras_transfer as kt

    names, train, test = texts_of(args.data_dir, task)
    keras.utils.set_random_seed(seed)
    before, after = (kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=names) for _ in range(2))
    after.compile(kt.optimizers.FusedAdamW(args.rate))
    after.fit(train.texts[: args.rows], train.labels[: args.rows], epochs=args.epochs, batch_size=32, verbose=2)
    accuracy = after.evaluate(*test, return_dict=True, verbose=0)["accuracy"]
    return accuracy, kt.analysis.moved_layers(before, after, test.texts[: args.texts], verbose=0).rows


if __name__ == "__main__":
    main()
