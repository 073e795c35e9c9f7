"""Compares ensembles and soups of five seeds with the single models, on TREC-6 and RTE.

    python -m benchmarks.fine_tuning.ensembles --data-dir DIR --results ensembles

`DIR` has the folders trec6 and glue/RTE with the original files. all-MiniLM-L6-v2 is trained with the recipe "bert" for
three epochs. All seeds begin with the same head, so that their weights have a common origin, and differ in the order of
the rows and in dropout. The dev data are a fifth of the training data, with which members are weighted and chosen. The
test data are TREC's 500 test questions and the dev set of RTE. `--results` is a folder with the weights of each seed,
and the same command continues there.
"""

import argparse
import os
import pathlib

RATES = {"trec6": 1e-4, "rte": 1e-4}
LENGTHS = {"trec6": 64, "rte": 128}  # where texts are truncated; in tokens
EPOCHS, BATCH = 3, 32


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--datasets", nargs="+", choices=RATES, default=list(RATES))
    add("--seeds", type=int, default=5, help="how many")
    add("--examples", type=int, help="of each part, for a quick look. Defaults to all")
    add("--results", type=pathlib.Path, default=pathlib.Path("ensembles"), help="folder of the weights")
    args = parser.parse_args(arguments)
    args.results.mkdir(parents=True, exist_ok=True)
    print("| data | model | dev error, % | test error, % |\n| --- | --- | ---: | ---: |")
    for dataset in args.datasets:
        parts, names = load(dataset, pathlib.Path(args.data_dir), args.examples)
        models = [trained(dataset, parts, names, seed, args) for seed in range(args.seeds)]
        for name, cells in rows(dataset, models, names, parts):
            print(f"| {dataset} | {name} | {' | '.join(cells)} |", flush=True)


def load(dataset, folder, examples=None):
    """Returns `{"train": (x, labels), "dev": ..., "test": ...}` and the label names."""
    import keras_transfer as kt

    data = (
        kt.datasets.load_trec6(folder / "trec6")
        if dataset == "trec6"
        else kt.datasets.load_glue(folder / "glue", "RTE")
    )
    train, dev = kt.datasets.hold_out(data["train"])
    parts = {"train": train, "dev": dev, "test": data["test" if dataset == "trec6" else "validation"]}
    return {name: tuple(first(column, examples) for column in part) for name, part in parts.items()}, data.label_names


def first(column, count):
    """Returns the first rows of a column, or of a tuple of columns."""
    return tuple(first(each, count) for each in column) if isinstance(column, tuple) else list(column)[:count]


def untrained(dataset, names):
    """Returns a model that has not been trained, with the same head each time."""
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(0)
    model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=names, sequence_length=LENGTHS[dataset])
    model.compile()
    return model


def trained(dataset, parts, names, seed, args):
    """Returns the model of a seed, which is trained unless its weights are in the folder of results."""
    import keras

    import keras_transfer as kt

    model, path = untrained(dataset, names), args.results / f"{dataset}-{seed}.weights.h5"
    if not path.exists():
        keras.utils.set_random_seed(seed)
        recipe = kt.adaptation.get_recipe("bert", epochs=EPOCHS, batch_size=BATCH, learning_rate=RATES[dataset])
        kt.adaptation.fine_tune(model, *parts["train"], recipe=recipe, verbose=2)
        model.save_weights(path)
    model.load_weights(path)
    model.fitted_on = "pairs" if isinstance(parts["dev"][0], tuple) else "texts"
    model.compile()
    return model


def rows(dataset, models, names, parts):
    """Yields a name and the cells of each row of the table."""
    from keras_transfer import adaptation
    from keras_transfer.analysis import mean_interval

    def errors(model):
        found = (model.evaluate(*parts[name], verbose=0, return_dict=True) for name in ("dev", "test"))
        return [100 * (1 - each["accuracy"]) for each in found]

    def cells(values):
        return [f"{value:.2f}" for value in values]

    single = [errors(model) for model in models]
    yield (
        "one seed",
        [
            "{:.2f}{}".format(mean, "" if half is None else f" ± {half:.2f}")
            for mean, half in map(mean_interval, zip(*single))
        ],
    )
    yield "best seed on dev", cells(min(single))
    ensemble = adaptation.Ensemble(models)
    yield "ensemble", cells(errors(ensemble))
    yield "ensemble of logits", cells(errors(adaptation.Ensemble(models, average="logits")))
    weights = ", ".join(f"{weight:.2f}" for weight in ensemble.tune_weights(*parts["dev"]))
    yield f"ensemble, tuned weights {weights}", cells(errors(ensemble))
    soup = untrained(dataset, names)
    yield "soup of all seeds", cells(errors(adaptation.merge_models(soup, models)))
    used = adaptation.greedy_soup(soup, models, *parts["dev"]).used
    yield f"greedy soup of {len(used)} seeds", cells(errors(soup))
    yield "TIES", cells(errors(adaptation.merge_models(untrained(dataset, names), models, method="ties")))


if __name__ == "__main__":
    main()
