"""Which intermediate task helps which target, and what tasks one after the other forget: four tasks of GLUE and TREC-6.

    python -m benchmarks.fine_tuning.transfer --data-dir DIR --results transfer

`DIR` has the folders glue and trec6 with the original files. all-MiniLM-L6-v2 is trained by the recipe "bert" for three
epochs at a rate of 1e-4 (adapters: 1e-3), on all rows of RTE and TREC-6, and on 2,000 each of CoLA, STS-B and SST-2.
Scores are those of GLUE on its dev sets, Matthews correlation (CoLA), Spearman correlation (STS-B) and accuracy, and
the accuracy on the test questions of TREC-6. `--what` chooses the transfer matrix or the comparison of methods that
protect earlier tasks. `--results` is a folder, and the same command continues there, even with more seeds, tasks or
methods.
"""

import argparse
import os
import pathlib

TASKS = ("CoLA", "RTE", "STS-B", "SST-2", "TREC-6")
METRICS = {"CoLA": "matthews_correlation", "STS-B": "spearman_correlation"}
METHODS = {
    "plain": {"method": "plain"},
    **{f"ewc {strength:g}": {"method": "ewc", "strength": strength} for strength in (0.1, 1.0, 10.0)},
    "replay": {"method": "replay"},
    "adapters": {"method": "adapters"},
}
ROWS, EPOCHS, RATE = 2000, 3, 1e-4


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--what", nargs="+", choices=("matrix", "continual"), default=["matrix", "continual"])
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="in the order in which they train")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD", help="; ".join(METHODS))
    add("--seeds", type=int, default=5, help="how many")
    add("--examples", type=int, help="only so many rows of each part, to try the script")
    add("--results", type=pathlib.Path, default=pathlib.Path("transfer"), help="folder of the runs")
    args = parser.parse_args(arguments)
    import keras_transfer as kt
    from benchmarks.fine_tuning import several_tasks

    loaded = {task: load(task, args.data_dir, args.examples) for task in args.tasks}
    data = {part: {task: parts[part] for task, (parts, _) in loaded.items()} for part in ("train", "validation")}
    names = {task: label_names for task, (_, label_names) in loaded.items()}
    metrics = {task: metric for task, metric in METRICS.items() if task in names}
    recipe = kt.adaptation.get_recipe("bert", epochs=EPOCHS, learning_rate=RATE)
    options = {"metrics": metrics, "seeds": args.seeds}

    def make_tasks():
        source = several_tasks.task_on(None, ["no", "yes"])
        return {task: several_tasks.task_on(source, names[task]) for task in names}

    if "matrix" in args.what:
        results = args.results / "matrix"
        matrix = kt.experiments.transfer_matrix(make_tasks, data, recipe=recipe, results=results, **options)
        print(f"\n{matrix.to_markdown()}\n\n{matrix.helps}\n", flush=True)
    if "continual" in args.what:
        chosen = {name: METHODS[name] for name in args.methods}
        results = args.results / "continual.jsonl"
        found = kt.experiments.compare_continual(make_tasks, data, chosen, recipe=recipe, results=results, **options)
        print(f"\n{found.to_markdown()}\n")
        for name, matrices in found.matrices.items():
            print(f"{name}, mean scores after each task:\n{matrices.mean(0).round(3)}")


def load(task, folder, examples=None):
    """Returns `{"train": (x, y), "validation": (x, y)}` and the label names, or None for numbers."""
    import keras_transfer as kt
    from benchmarks.fine_tuning import several_tasks

    if task == "TREC-6":
        data = kt.datasets.load_trec6(pathlib.Path(folder) / "trec6")
        train, dev, names = tuple(data.train), tuple(data.test), data.label_names
    else:
        parts, names = several_tasks.load(task, folder)
        train, dev = parts["train"], parts["dev"]
    if task in ("CoLA", "STS-B"):
        _, train = kt.datasets.hold_out(train, ROWS / len(train[1]))
    return {"train": several_tasks.first(train, examples), "validation": several_tasks.first(dev, examples)}, names


if __name__ == "__main__":
    main()
