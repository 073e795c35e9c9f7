"""Compares one model of several tasks with a model for each task: CoLA, RTE, STS-B and SST-2.

    python -m benchmarks.fine_tuning.several_tasks --data-dir DIR --results several_tasks

`DIR` has the folder glue with the original files. all-MiniLM-L6-v2 is trained on all rows of CoLA, RTE and STS-B and on
2,000 phrases of SST-2. The scores are those of GLUE on its dev sets, in percent: Matthews correlation (CoLA), accuracy
(RTE, SST-2), Spearman correlation (STS-B). Each method makes as many steps as the separate models together, in batches
of 32, with a linear warmup and decay. "PALs" train the shared encoder and projected attention layers for each task,
with four ways to draw the tasks. "Pfeiffer" trains adapters for each task on a frozen encoder, and "shared" has nothing
but the heads for each task. No setting was chosen on these data. `--results` is a folder with a line for each run, and
the same command continues there, even with more seeds or methods.
"""

import argparse
import gc
import json
import os
import pathlib
import random

from benchmarks.seeds import shown

TASKS = ("CoLA", "RTE", "STS-B", "SST-2")
# The name of adapters, whether the encoder trains, the sampling, and the peak learning rate.
PALS, PFEIFFER = "pals:size=96,num_heads=12", "pfeiffer:48"
METHODS = {
    "separate": (None, True, None, 1e-4),
    "PALs, annealed": (PALS, True, "annealed", 1e-4),
    "PALs, proportional": (PALS, True, "proportional", 1e-4),
    "PALs, square root": (PALS, True, "square_root", 1e-4),
    "PALs, equal": (PALS, True, "equal", 1e-4),
    "shared, annealed": (None, True, "annealed", 1e-4),
    "Pfeiffer, annealed": (PFEIFFER, False, "annealed", 1e-3),
}
LENGTH, BATCH, PHRASES = 128, 32, 2000


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD", help="; ".join(METHODS))
    add("--seeds", type=int, default=5, help="how many")
    add("--epochs", type=int, default=3)
    add("--examples", type=int, help="only so many rows of each part, to try the script")
    add("--results", type=pathlib.Path, default=pathlib.Path("several_tasks"), help="folder of the runs")
    args = parser.parse_args(arguments)
    args.results.mkdir(parents=True, exist_ok=True)
    path = args.results / f"runs-{args.epochs}-{args.examples}.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    done = {(line["method"], line["seed"]): line for line in lines}
    data = None
    for seed in range(args.seeds):
        for method in args.methods:
            if (method, seed) not in done:
                data = data or {task: load(task, args.data_dir, args.examples) for task in TASKS}
                done[method, seed] = {"method": method, "seed": seed, **run(method, seed, data, args.epochs)}
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[method, seed]) + "\n")
                print(json.dumps(done[method, seed]), flush=True)
    print_table([[done[method, seed] for seed in range(args.seeds)] for method in args.methods])


def print_table(methods):
    """Prints the mean scores of methods, their differences from the first one, and their numbers of weights."""

    def mean_of(run):
        return sum(run[task] for task in TASKS) / len(TASKS)

    print(f"| method | {' | '.join(TASKS)} | mean | difference | weights |")
    print(f"| --- | {' | '.join(['---:'] * len(TASKS))} | ---: | ---: | ---: |")
    first = [mean_of(run) for run in methods[0]]
    for runs in methods:
        means = [mean_of(run) for run in runs]
        scores = [shown([run[task] for run in runs], digits=1) for task in TASKS]
        gain = "" if runs is methods[0] else shown([one - other for one, other in zip(means, first)], "+", 1)
        cells = [runs[0]["method"], *scores, shown(means, digits=1), gain, f"{runs[0]['weights']:.2f}"]
        print(f"| {' | '.join(cells)} |")


def load(task, folder, examples=None):
    """Returns `{"train": (x, y), "dev": (x, y)}` and the label names, or None for numbers."""
    import keras_transfer as kt

    data = kt.datasets.load_glue(pathlib.Path(folder) / "glue", task)
    train, dev = ((split.texts, split.labels) for split in (data["train"], data["validation"]))
    if task == "STS-B":  # Numbers from 0 to 5 get a mean of about 0 and a variance of about 1, as the other losses.
        (train, dev) = ((texts, [(score - 2.5) / 1.5 for score in scores]) for texts, scores in (train, dev))
    if task == "SST-2":
        rows = random.Random(0).sample(range(len(train[1])), PHRASES)
        train = tuple([column[row] for row in rows] for column in train)
    return {name: first(part, examples) for name, part in (("train", train), ("dev", dev))}, data.label_names


def first(part, count):
    """Returns the first rows of a column, or of a tuple of columns."""
    return tuple(first(column, count) for column in part) if isinstance(part, tuple) else list(part)[:count]


def task_on(source, names):
    """Returns a task with another head on the encoder of a task, or on a new one if `source` is None."""
    import keras_transfer as kt

    if source is None:
        return kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=names, sequence_length=LENGTH)
    if names is None:
        return kt.tasks.TextRegressor(source.encoder, source.preprocessor, num_targets=1)
    return kt.tasks.TextClassifier(source.encoder, source.preprocessor, label_names=names)


def run(method, seed, data, epochs):
    """Trains a method, and returns the score of each task in percent and the weights relative to one model."""
    import keras

    import keras_transfer as kt

    adapters, trains_encoder, sampling, rate = METHODS[method]
    scores, weights, one = {}, 0, None
    for names in [[task] for task in TASKS] if method == "separate" else [TASKS]:
        keras.utils.set_random_seed(seed)
        source = task_on(None, ["no", "yes"])
        one = one or source.count_params()
        tasks = {name: task_on(source, data[name][1]) for name in names}
        model = kt.tasks.MultiTask(source.encoder, tasks, sampling=sampling) if sampling else tasks[names[0]]
        if adapters:
            kt.adaptation.add_adapters(model, adapters)
        if adapters and trains_encoder:
            kt.adaptation.unfreeze(model)
        train(model, {name: data[name][0]["train"] for name in names}, epochs, rate, seed)
        weights += model.count_params()
        for name, task in tasks.items():
            task.compile(metrics=kt.metrics.glue_metrics(name))
            found = task.evaluate(*data[name][0]["dev"], verbose=0, return_dict=True)
            [score] = [value for key, value in found.items() if key not in ("loss", "pearson_correlation")]
            scores[name] = 100 * float(score)
        del model, tasks, source
        gc.collect()  # Traced functions are in reference cycles.
    return {**scores, "weights": weights / one}


def train(model, parts, epochs, rate, seed):
    """Trains a task or a `MultiTask` for as many steps as its data has batches."""
    import keras

    import keras_transfer as kt

    steps = epochs * sum(-(-len(labels) // BATCH) for _, labels in parts.values())
    schedule = kt.optimizers.schedules.LinearWarmupDecay(rate, steps)
    model.compile(kt.optimizers.FusedAdamW(schedule, weight_decay=0.01, global_clipnorm=1.0))
    keras.utils.set_random_seed(seed)
    data = (parts,) if isinstance(model, kt.tasks.MultiTask) else next(iter(parts.values()))
    model.fit(*data, batch_size=BATCH, epochs=epochs, verbose=2)


if __name__ == "__main__":
    main()
