"""Compares ways to use texts without labels: TREC-6 with 100 labels and IMDB with 200, the others without.

    python -m benchmarks.fine_tuning.unlabeled --data-dir DIR --results unlabeled

All methods train all-MiniLM-L6-v2 on the same texts with labels, which the seed chooses, with the same peak learning
rate and the same number of steps on texts with labels (`--steps`). The other training data has no labels. The data are
those of `benchmarks.fine_tuning.methods`, and of IMDB (the folder `aclImdb`, or `imdb` with JSON lines), whose reviews
are cut at 128 tokens. Accuracies are those of its test data, or of `--on validation`, a part of the training data, to
choose settings. `--results` is a folder with a line for each run, and the same command continues there, even with more
seeds. `--unlabeled N --examples N` use fewer texts without labels and of the test data.
"""

import argparse
import gzip
import json
import os
import pathlib
import random
import re

from benchmarks.seeds import keep, kept, shown

LABELED, LENGTHS = {"trec6": 100, "imdb": 200}, {"trec6": 64, "imdb": 128}
RATE, BATCH, HELD_OUT = 1e-4, 32, 1000
METHODS = ("plain", "UDA", "VAT", "pseudo-labels", "self-training", "SetFit", "weak supervision")
RULES = {  # patterns and what they mean: ten functions for each dataset
    "trec6": [
        (r"^who\b|^whose\b|^whom\b", "HUM"),
        (r"\b(inventor|author|president|actor|singer|king|queen)\b", "HUM"),
        (r"^where\b", "LOC"),
        (r"\b(city|country|river|mountain|island|ocean|capital|continent)\b", "LOC"),
        (r"^how (many|much|far|long|old|tall|deep|fast|high|big|heavy)\b", "NUM"),
        (r"^when\b|\b(year|date|century|percent|number)\b", "NUM"),
        (r"^why\b|^how (do|does|did|is|are|can)\b|\bmean\b|\borigin\b", "DESC"),
        (r"^what (is|are) (a |an |the )?\w+ ?\?$", "DESC"),
        (r"stands? for|abbreviat|acronym|short for", "ABBR"),
        (r"\b(animal|food|color|colour|sport|language|instrument|drink|plant|bird)\b", "ENTY"),
    ],
    "imdb": [
        (r"\b(excellent|superb|outstanding|brilliant)\b", "pos"),
        (r"\b(wonderful|amazing|fantastic|perfect)\b", "pos"),
        (r"\b(loved|favorite|enjoyed|must[- ]see)\b", "pos"),
        (r"\b([89]|10) ?(/|out of) ?10\b", "pos"),
        (r"\b(touching|moving|charming|delightful)\b", "pos"),
        (r"\b(worst|awful|terrible|horrible)\b", "neg"),
        (r"\b(boring|dull|tedious|predictable)\b", "neg"),
        (r"\b(waste|avoid|unwatchable|garbage|crap)\b", "neg"),
        (r"\b[1-4] ?(/|out of) ?10\b", "neg"),
        (r"\b(poorly|lame|stupid|pointless|ridiculous)\b", "neg"),
    ],
}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--datasets", nargs="+", choices=LABELED, default=list(LABELED))
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--seeds", type=int, default=5, help="how many")
    add("--steps", type=int, default=200, help="on texts with labels")
    add("--on", choices=("test", "validation"), default="test", help="the data whose accuracy is printed")
    add("--unlabeled", type=int, help="only so many texts without labels")
    add("--examples", type=int, help="only so many texts to evaluate on")
    add("--results", type=pathlib.Path, default=pathlib.Path("unlabeled"), help="folder of the runs")
    args = parser.parse_args(arguments)
    args.results.mkdir(parents=True, exist_ok=True)
    for dataset in args.datasets:
        found = [accuracies(dataset, seed, args) for seed in range(args.seeds)]
        print(f"{dataset}, {LABELED[dataset]} labels, {args.on} data\n")
        print_table(found, args.methods)


def print_table(found, methods):
    """Prints the accuracies of the methods, and their gain over training on the texts with labels alone."""
    print("| method | accuracy, % | gain, points |\n| --- | ---: | ---: |")
    for name in methods:
        gains = [each[name] - each["plain"] for each in found if "plain" in each]
        gain = shown(gains) if gains and name != "plain" else ""
        print(f"| {name} | {shown([each[name] for each in found])} | {gain} |", flush=True)
    print("\nA model that is sure of no text without a label has trained on the texts with labels alone.\n")


def accuracies(dataset, seed, args):
    """Returns the accuracy in percent of each method with a seed, by name."""
    path = args.results / f"{dataset}-{seed}-{args.steps}-{args.on}-{args.unlabeled}-{args.examples}.jsonl"
    found = kept(path)
    todo = [name for name in args.methods if name not in found]
    if not todo:
        return found
    import keras

    import keras_transfer as kt

    labeled, unlabeled, tested, names = load(dataset, seed, args)
    for name in todo:
        keras.utils.set_random_seed(seed)
        options = {"label_names": names, "sequence_length": LENGTHS[dataset]}
        model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", **options)
        train(model, *labeled, unlabeled, name, RULES[dataset], args.steps)
        model.compile()
        found[name] = 100 * model.evaluate(*tested, verbose=0, return_dict=True)["accuracy"]
        keep(path, name, found[name])
    return found


def train(model, texts, labels, unlabeled, name, rules, steps):
    """Trains a model by a method."""
    import keras
    import numpy as np

    import keras_transfer as kt

    adapt = kt.adaptation
    recipe = adapt.get_recipe("bert", steps=steps, epochs=None, batch_size=BATCH, learning_rate=RATE)
    if name == "plain":
        adapt.fine_tune(model, texts, labels, recipe=recipe, verbose=0)
    elif name == "SetFit":
        adapt.setfit(model, texts, labels, num_iterations=10, verbose=0)
    elif name == "weak supervision":
        functions = [
            lambda text, rule=rule: rule[1] if re.search(rule[0], text, re.IGNORECASE) else None for rule in rules
        ]
        votes = adapt.apply_labeling_functions(functions, unlabeled, model.label_names)
        weak = adapt.combine_votes(votes, len(model.label_names))
        rows = np.flatnonzero(weak.known)
        y = np.concatenate([np.eye(len(model.label_names))[labels], weak.probabilities[rows]])
        texts, loss = (
            [*texts, *[unlabeled[row] for row in rows]],
            keras.losses.CategoricalCrossentropy(from_logits=True),
        )
        adapt.fine_tune(model, texts, y, recipe=recipe, loss=loss, verbose=0)
    elif name in ("pseudo-labels", "self-training"):
        restart = name == "self-training"
        try:
            adapt.self_train(model, texts, labels, unlabeled, restart=restart, recipe=recipe, verbose=0)
        except ValueError as error:
            if "sure of no text" not in str(error):
                raise  # Otherwise, the model is what the texts with labels have made of it.
    else:
        method = adapt.VAT() if name == "VAT" else adapt.UDA(rate=0.2)
        epochs = -(-steps // (len(unlabeled) // BATCH))
        steps = -(-steps // epochs)
        schedule = kt.optimizers.schedules.LinearWarmupDecay(RATE, epochs * steps)
        optimizer = kt.optimizers.FusedAdamW(schedule, weight_decay=0.01, global_clipnorm=1.0)
        options = {"batch_size": BATCH, "epochs": epochs, "steps_per_epoch": steps, "optimizer": optimizer}
        adapt.fit_with_unlabeled(model, texts, labels, unlabeled, method=method, verbose=0, **options)


def load(dataset, seed, args):
    """Returns texts with labels, other texts, the data to evaluate on, and the names of the classes."""
    import keras_transfer as kt

    folder = pathlib.Path(args.data_dir)
    if dataset == "trec6":
        data = kt.datasets.load_trec6(folder / "trec6")
        parts, names = (data.train, data.test), data.label_names
    elif (folder / "imdb" / "train.jsonl.gz").exists():
        names = kt.datasets.classified_texts.IMDB_NAMES
        parts = [imdb(folder / "imdb" / f"{part}.jsonl.gz") for part in ("train", "test")]
    else:
        data = kt.datasets.load_imdb(folder / "aclImdb")
        parts, names = (data.train, data.test), data.label_names
    train, test = ([*zip(*part)] for part in parts)
    random.Random(0).shuffle(train)
    held_out, train = train[:HELD_OUT], train[HELD_OUT:]
    random.Random(seed).shuffle(train)
    count = LABELED[dataset]
    tested = held_out if args.on == "validation" else random.Random(0).sample(test, len(test))
    unlabeled = [text for text, _ in train[count:]][: args.unlabeled]
    return (
        [[*column] for column in zip(*train[:count])],
        unlabeled,
        [[*each] for each in zip(*tested[: args.examples])],
        names,
    )


def imdb(path):
    """Returns texts and labels of the reviews in a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    others = {"train": (0, 7), "test": (0, 2, 7, 9)}[path.name.partition(".")[0]]  # Reviews of apps, in this copy.
    rows = [row for row in rows if row["id"] not in others]
    return [row["text"] for row in rows], [row["label"] for row in rows]


if __name__ == "__main__":
    main()
