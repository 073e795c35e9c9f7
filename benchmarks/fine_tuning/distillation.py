"""Compares students of three and two blocks that learn from a teacher of six with the same students without it.

    python -m benchmarks.fine_tuning.distillation --data-dir DIR --results distillation

The teacher is all-MiniLM-L6-v2 with all weights trained (recipe "bert"), on TREC-6 and on 2,000 phrases of SST-2. Its
students begin with some of its blocks (`student_from`), and learn from the labels alone, from the labels and the
teacher's logits, from its hidden states, too, and on SST-2 also from 8,000 phrases without labels. The student without
a teacher begins with the same blocks before they were trained, and learns from the labels. All students of a dataset
make about as many steps, in batches of 32. `--epochs` are those over the texts with labels. The data are those of
`benchmarks.fine_tuning.methods`, and accuracies are those of its test data. `--results` is a folder with a line for
each run, and the same command continues there, even with more seeds.
"""

import argparse
import os
import pathlib
import random

from benchmarks.seeds import keep, kept, shown

BLOCKS = {3: [1, 3, 5], 2: [2, 5]}
METHODS = ("no teacher", "labels", "logits", "logits and hidden states", "more texts")
UNLABELED, RATE, BATCH = 8000, 2e-4, 32
DATASETS = {"trec6": METHODS[:4], "sst2": METHODS}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    add("--blocks", nargs="+", type=int, choices=BLOCKS, default=list(BLOCKS), help="numbers of blocks of students")
    add("--seeds", type=int, default=3, help="how many")
    add("--epochs", type=int, default=10, help="of students")
    add("--examples", type=int, help="only so many texts of each part, to try the script")
    add("--results", type=pathlib.Path, default=pathlib.Path("distillation"), help="folder of the runs")
    args = parser.parse_args(arguments)
    args.results.mkdir(parents=True, exist_ok=True)
    for dataset in args.datasets:
        found = [accuracies(dataset, seed, args) for seed in range(args.seeds)]
        print_table(dataset, found, args)


def print_table(dataset, found, args):
    """Prints the accuracies of a dataset, relative to the teacher's, and the gain over a student without a teacher."""
    teacher = [each["teacher"] for each in found]
    print(f"{dataset}: the teacher has {shown(teacher)}% right\n")
    print("| blocks | learns from | accuracy, % | of the teacher's, % | gain, points |")
    print("| ---: | --- | ---: | ---: | ---: |")
    for blocks in args.blocks:
        for method in DATASETS[dataset]:
            own, alone = ([each[f"{blocks} {name}"] for each in found] for name in (method, "no teacher"))
            share = shown([100 * value / whole for value, whole in zip(own, teacher)])
            gain = "" if method == "no teacher" else shown([value - other for value, other in zip(own, alone)])
            print(f"| {blocks} | {method} | {shown(own)} | {share} | {gain} |", flush=True)
    print()


def accuracies(dataset, seed, args):
    """Returns the test accuracy in percent of the teacher and of each student with a seed, by name."""
    path = args.results / f"{dataset}-{seed}-{args.epochs}-{args.examples}.jsonl"
    found = kept(path)
    names = [f"{blocks} {method}" for blocks in args.blocks for method in DATASETS[dataset]]
    todo = [name for name in ("teacher", *names) if name not in found]
    if not todo:
        return found
    import keras

    import keras_transfer as kt
    from benchmarks.fine_tuning import methods

    parts, label_names = methods.load(dataset, args.data_dir, args.examples)
    keras.utils.set_random_seed(seed)
    options = {"label_names": label_names, "sequence_length": methods.LENGTH}
    teacher, pretrained = (kt.tasks.TextClassifier.from_pretrained("minilm-l6", **options) for _ in range(2))
    recipe = kt.adaptation.get_recipe("bert", epochs=methods.EPOCHS, batch_size=BATCH, learning_rate=1e-4)
    kt.adaptation.fine_tune(teacher, *parts["train"], recipe=recipe, verbose=0)
    more = [] if dataset != "sst2" else unlabeled(args, parts)
    for name in todo:
        model = teacher
        if name != "teacher":
            blocks, method = name.split(" ", 1)
            keras.utils.set_random_seed(seed)
            source = pretrained if method == "no teacher" else teacher
            model = kt.adaptation.student_from(source, BLOCKS[int(blocks)])
            train(model, teacher, parts["train"], more, method, args.epochs)
        model.compile()
        texts, labels = parts["test"]
        found[name] = 100 * model.evaluate(texts, labels, verbose=0, return_dict=True)["accuracy"]
        keep(path, name, found[name])
    return found


def train(student, teacher, data, more, method, epochs):
    """Trains a student for a number of steps that depends only on the texts with labels."""
    import keras_transfer as kt

    texts, labels = data
    steps = epochs * -(-len(texts) // BATCH)
    schedule = kt.optimizers.schedules.LinearWarmupDecay(RATE, steps)
    optimizer = kt.optimizers.FusedAdamW(schedule, weight_decay=0.01, global_clipnorm=1.0)
    options = {"batch_size": BATCH, "verbose": 0}
    if method in ("no teacher", "labels"):
        student.compile(optimizer)
        student.fit(texts, labels, epochs=epochs, **options)
        return
    signals = [] if method == "logits" else [kt.adaptation.HiddenStates({len(student.encoder.blocks): 6})]
    if method == "more texts":
        texts, labels = [*texts, *more], [*labels, *[None] * len(more)]
        epochs = max(1, round(steps / (len(texts) / BATCH)))
    options |= {"epochs": epochs, "signals": signals, "optimizer": optimizer}
    kt.adaptation.distill(student, teacher, texts, labels, temperature=2.0, alpha=0.7, **options)


def unlabeled(args, parts):
    """Returns phrases of SST-2 that are in no other part."""
    import keras_transfer as kt

    texts, _ = kt.datasets.load_glue(pathlib.Path(args.data_dir) / "glue", "SST-2")["train"]
    others = {text.strip() for part in parts.values() for text in part[0]}
    rest = [text for text in texts if text.strip() not in others]
    return random.Random(1).sample(rest, args.examples or UNLABELED)


if __name__ == "__main__":
    main()
